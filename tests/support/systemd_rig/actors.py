"""Programs that run inside the world, as the user, with the tests' own client: `python -m …actors NAME`.

Each prints one JSON document a line, and ends when its standard input does.
"""

from __future__ import annotations

import json
import mmap
import os
import pty
import select
import signal
import sys
import threading
import time

from tests.support.wire_client import LinkLost, Member, Refused, Wire, ask_once

RENDEZVOUS = os.environ.get("XDG_RUNTIME_DIR", "/nowhere") + "/xsessiond/broker.sock"
SENDERS = 4
PATIENCE_S = 30.0
"""How long a broken request is tried again."""


def say(document: object) -> None:
    """One line for the test."""
    print(json.dumps(document), flush=True)


class Load:
    """Senders that connect anew for each message, and a receiver that takes all of them, across every restart."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.refused: list[str] = []
        self.broken = 0
        self.longest_s = 0.0
        self.accepted: list[str] = []
        self.received: list[str] = []
        self.seen: set[str] = set()

    def send_all(self, sender: int) -> None:
        """Send numbered messages until told to stop; each until it is accepted, under one key."""
        number = 0
        while not self.over.is_set():
            number += 1
            self._send(f"sender {sender} number {number}")

    def _send(self, text: str) -> None:
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE_S:
            try:
                wire = Wire(RENDEZVOUS)
            except LinkLost as problem:  # nobody listens: what must not happen
                self.refused.append(str(problem))
                continue
            try:
                with wire:
                    wire.call("hello", protocol=1, client="test/1")
                    wire.call("send", to="inbox", message=text, key=text)
            except LinkLost:
                self.broken += 1
                continue
            except Refused as refusal:
                if refusal.code == "no_broker":  # it was read too late: nothing was done
                    self.broken += 1
                    continue
                self.refused.append(f"{refusal.code}: {refusal}")
                return
            self.accepted.append(text)
            self.longest_s = max(self.longest_s, time.monotonic() - begun)
            return
        self.refused.append(f"{text}: never accepted")

    def take_all(self, member: Member) -> None:
        """Take until everything that was accepted is there."""
        while not (self.over.is_set() and set(self.accepted) <= set(self.received) and not self.sending):
            try:
                messages = member.take()
                # What was leased by a broker that ends comes again under its id, if the acknowledgement was too late.
                new = {message["id"]: message["text"] for message in messages if message["id"] not in self.seen}
                self.seen.update(new)
                self.received += new.values()
                if messages:
                    member.ack(*[message["id"] for message in messages])
                else:
                    time.sleep(0.01)
            except (LinkLost, Refused) as problem:
                _come_back(member, problem)

    @property
    def sending(self) -> bool:
        """Whether a sender has not come to its end."""
        return any(thread.is_alive() for thread in self.senders)

    def run(self) -> None:
        """Say when it goes, and at the end what became of all of it."""
        member = Member(RENDEZVOUS, "inbox", cwd="/src/inbox")
        self.senders = [threading.Thread(target=self.send_all, args=(number,)) for number in range(SENDERS)]
        receiver = threading.Thread(target=self.take_all, args=(member,))
        for thread in (*self.senders, receiver):
            thread.start()
        say({"going": True, "session": member.id})
        sys.stdin.read()
        self.over.set()
        for thread in (*self.senders, receiver):
            thread.join(PATIENCE_S * 2)
        say(
            {
                "refused": self.refused,
                "broken": self.broken,
                "longest_s": round(self.longest_s, 3),
                "accepted": sorted(self.accepted),
                "received": sorted(self.received),
                "session": member.id,
            }
        )


def _come_back(member: Member, problem: LinkLost | Refused) -> bool:
    """Joins again, if it was a broker that ends which gave up on us. Whether it worked; the next turn tries again."""
    if isinstance(problem, Refused) and problem.code != "no_broker":
        raise problem
    try:
        member.rejoin()
    except LinkLost:
        return False
    except Refused as refusal:
        if refusal.code != "no_broker":
            raise
        return False
    return True


def member() -> None:
    """A session that takes its mail, and comes back whenever its link is lost."""
    one = Member(RENDEZVOUS, "api", cwd="/src/api")
    say({"id": one.id, "token": one.token})
    ended = threading.Event()

    def await_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    while not ended.wait(0.02):
        try:
            for message in one.take():
                one.ack(message["id"])
                say({"message": message["id"], "text": message["text"]})
        except (LinkLost, Refused) as problem:
            if _come_back(one, problem):
                say({"back": one.id})


def send() -> None:
    """One message of each of the words that follow, to api."""
    for text in sys.argv[2:]:
        say(ask_once(RENDEZVOUS, "send", to="api", message=text))


def harness() -> None:
    """A session whose harness is this very process; it says its id and waits to be killed. With a word: that
    conversation, which ends properly."""
    conversation = sys.argv[2] if sys.argv[2:] else None
    with Member(RENDEZVOUS, "web", cwd="/src/web", pid=os.getpid(), harness_session_id=conversation) as one:
        say({"id": one.id, "pid": os.getpid()})
        sys.stdin.read()
        one.call("end")


def resumed() -> None:
    """A conversation that is started for a message: leaves a note about itself, joins, and stays."""
    conversation, *words = sys.argv[2:]
    with open("/proc/self/status", encoding="ascii") as file:
        status = dict(line.rstrip().split(":\t", 1) for line in file if ":\t" in line)
    with open("/proc/self/cgroup", encoding="ascii") as file:
        group = file.read().strip()
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
        compiles = True  # as a just-in-time compiler does
    except OSError:
        compiles = False
    note = {
        "pid": os.getpid(), "words": words, "cwd": os.getcwd(), "group": group, "seccomp": status["Seccomp"],
        "new_privileges": status["NoNewPrivs"] == "0", "compiles": compiles,
        "ours": sorted(name for name in os.environ if name.startswith(("XSESSIOND_", "NOTIFY_", "LISTEN_"))),
    }  # fmt: skip
    with open(os.environ["HOME"] + "/resumed", "w", encoding="utf-8") as file:
        json.dump(note, file)
    with Member(RENDEZVOUS, "talk", cwd="/src/talk", harness_session_id=conversation):
        signal.pause()


def person() -> None:
    """Somebody at a terminal of their own: types the replies (JSON: what is waited for, and what is typed then) into
    the command that follows; says its exit code and all that was shown."""
    replies = json.loads(sys.argv[2])
    pid, terminal = pty.fork()
    if not pid:
        os.execvp("sh", ["sh", "-c", '"$@"; exit $?', "sh", *sys.argv[3:]])
    shown, looked = b"", 0
    while select.select([terminal], [], [], PATIENCE_S)[0]:
        try:
            shown += os.read(terminal, 1 << 16)
        except OSError:  # how Linux says that nobody has the other side any more
            break
        while replies and (at := shown.find(replies[0][0].encode(), looked)) >= 0:
            looked = at + len(replies[0][0].encode())
            os.write(terminal, replies.pop(0)[1].encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    say({"code": code, "shown": shown.decode(errors="replace"), "unasked": replies})


if __name__ == "__main__":
    actors = (member, send, harness, resumed, person)
    {"load": Load().run, **{actor.__name__: actor for actor in actors}}[sys.argv[1]]()
