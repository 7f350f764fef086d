"""A store whose process is killed, again and again: `python -m tests.store.killed DIRECTORY ROUNDS SEED DURABILITY`.

Each round forks a child that commits batches, printing the number of each once `commit` has returned, while a thread
of it moves the log. After a random number of them the child gets SIGKILL. Then the store is opened and must hold
exactly what a store in memory holds after the last batch that was printed, or after one more, which was committed and
not yet printed. Prints the number of batches at the end.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from pathlib import Path
from typing import NoReturn

from tests.store.rows import mark, put, put_session
from xsessiond.store.contract import Op, PutPin, PutReceipt
from xsessiond.store.memory import MemoryStore
from xsessiond.store.sqlite import Durability, SqliteStore

STATES = ("handed", "delivered", "queued", "expired")


def batch(number: int, seed: int) -> list[Op]:
    """Return the same operations for the same number: three new messages and what happens to older ones."""
    chance = random.Random(f"{seed} {number}")
    first = number * 3 + 1
    ops: list[Op] = [put(first + n, body="x" * chance.choice((0, 300, 9000)), pair_seq=number) for n in range(3)]
    for _ in range(chance.randrange(12)):
        ops.append(mark(chance.randrange(max(1, first - 60), first + 3), chance.choice(STATES), number))
    # Nothing waits for ever, so that the comparison stays quick.
    ops += [mark(seq, "expired", number) for seq in range(first - 63, first - 60) if seq > 0]
    ops.append(PutPin("s-a", f"name {number % 5}", f"s-{number}"))
    if number % 7 == 0:
        ops.append(PutReceipt("s-a", f"m-{number}", "expired", number, "text"))
    return ops


def work(path: Path, durability: Durability, number: int, seed: int, out: int) -> NoReturn:
    """Commit until killed."""
    store = SqliteStore(path, durability)

    def move_the_log() -> None:
        while True:
            store.checkpoint()

    threading.Thread(target=move_the_log, daemon=True).start()
    while True:
        store.commit(batch(number, seed))
        os.write(out, b"%d\n" % number)
        number += 1


def kill_after(path: Path, durability: Durability, number: int, seed: int, chance: random.Random) -> int:
    """Run a child and kill it; return the number of batches, of all rounds, that were printed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(path, durability, number, seed, writing)
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as printed:
        for _ in range(chance.randrange(1, 25)):
            if not printed.readline():
                break
        for _ in range(chance.randrange(20_000)):
            pass
        os.kill(child, signal.SIGKILL)
        rest = printed.read().split(b"\n")
        _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the child ended by itself: {status}"
    whole = [int(line) for line in rest[:-1]]
    return whole[-1] + 1 if whole else -1


def main(directory: str, rounds: int, seed: int, durability: Durability) -> None:
    """Kill that many times."""
    path, chance, model = Path(directory) / "store.db", random.Random(seed), MemoryStore()
    store = SqliteStore(path, durability)
    for place in (store, model):
        place.commit([put_session("s-a"), put_session("s-b")])
    store.close()
    number = 0
    for turn in range(rounds):
        printed = kill_after(path, durability, number, seed, chance)
        store = SqliteStore(path, durability)
        found = store.load()
        stored = (found.next_seq - 1) // 3
        assert printed in (-1, stored, stored - 1), f"round {turn}: {printed} batches were printed, {stored} are stored"
        for missing in range(number, stored):
            model.commit(batch(missing, seed))
        assert found == model.load(), f"round {turn}: half a batch"
        soundness = store.check()
        assert soundness.ok, soundness.detail
        store.close()
        number = stored
    store = SqliteStore(path, durability)
    for seq in range(1, number * 3 + 1, max(1, number // 100)):
        name = f"m-{seq:032x}"
        assert store.find_message(name) == model.find_message(name), name
    store.close()
    print(number)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])  # type: ignore[arg-type]
