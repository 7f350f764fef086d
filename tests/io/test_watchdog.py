"""The word to the service manager's watchdog: given by a broker that could store something, at the manager's pace."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from xsessiond.core.records import DropPins
from xsessiond.io.sdnotify import ServiceManager
from xsessiond.io.upkeep import Upkeep
from xsessiond.io.watchdog import feed_watchdog
from xsessiond.store.contract import StoreError
from xsessiond.store.memory import MemoryStore
from xsessiond.store.sqlite import SqliteStore


class Manager(ServiceManager):
    """Writes down when it was told."""

    def __init__(self, watchdog_s: float | None) -> None:
        super().__init__(None, watchdog_s)
        self.told: list[float] = []

    def watchdog(self) -> bool:
        """See `ServiceManager.watchdog`."""
        self.told.append(trio.current_time())
        return True


async def test_it_is_fed_twice_an_interval(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    """F1: with the unit's 60 s there is one turn in 30 s, and nothing else."""
    proofs = 0

    async def prove() -> None:
        nonlocal proofs
        proofs += 1

    manager = Manager(60.0)
    start = trio.current_time()
    nursery.start_soon(feed_watchdog, manager, prove)
    await trio.sleep(100)
    nursery.cancel_scope.cancel()
    assert [moment - start for moment in manager.told] == [0, 30, 60, 90]
    assert proofs == 4


async def test_nothing_runs_where_nobody_asked_for_it() -> None:
    """F1."""

    async def prove() -> None:
        raise AssertionError("the store was asked for nothing")

    manager = Manager(None)
    await feed_watchdog(manager, prove)
    assert manager.told == []


async def test_a_writer_that_hangs_starves_it(nursery: trio.Nursery) -> None:
    """The loop runs all the while; once the writer comes back, so does the word."""

    class Hanging(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.begun, self.gate = threading.Event(), threading.Event()

        def prove_writer(self) -> None:
            self.begun.set()
            assert self.gate.wait(20)

    store, manager = Hanging(), Manager(0.001)
    nursery.start_soon(feed_watchdog, manager, Upkeep(store, None).prove_writer)  # type: ignore[arg-type]
    await trio.to_thread.run_sync(store.begun.wait)
    with trio.move_on_after(0.05):
        await trio.sleep_forever()
    assert manager.told == []
    store.gate.set()
    with trio.fail_after(20):
        while not manager.told:  # noqa: ASYNC110 - a thread gives no event
            await trio.sleep(0.001)
    nursery.cancel_scope.cancel()


async def test_a_store_that_refuses_is_alive(nursery: trio.Nursery) -> None:
    """15.5: a full disk is no reason to be killed: a new broker would find it as full."""

    class Full(MemoryStore):
        def prove_writer(self) -> None:
            raise StoreError("The disk is full.", transient=True)

    await Upkeep(Full(), None).prove_writer()  # type: ignore[arg-type]


@pytest.mark.parametrize("held", [False, True])
def test_the_proof_takes_the_writer_s_own_way(tmp_path, held: bool) -> None:  # noqa: FBT001
    """While a commit is stuck, which holds the writer, the proof is stuck behind it; it changes nothing by itself."""
    store = SqliteStore(tmp_path / "store.db", "normal")
    before = store.log_bytes()
    proven = threading.Event()

    def prove() -> None:
        store.prove_writer()
        proven.set()

    if held:
        store._writing.acquire()
    thread = threading.Thread(target=prove)
    thread.start()
    if held:
        assert not proven.wait(0.05)
        store._writing.release()
    assert proven.wait(20)
    thread.join(20)
    assert store.log_bytes() == before
    store.commit([DropPins("s-1")])
    store.close()
    with pytest.raises(StoreError):
        store.prove_writer()
