"""A plain model of the broker, and a random walk in which both must agree after every step.

The model knows sessions, names, pins and messages as one would explain them on paper. What the broker may choose (which
of two links is pushed to, which free name is suggested) it takes from the broker and holds against the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from tests.support.core_house import Guest, House, Line, refused
from xsessiond.core.effects import ProcessId
from xsessiond.core.limits import GRACE_S, KEEP_MS
from xsessiond.core.mailbox import TRANSITIONS
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings
from xsessiond.core.records import PutMessage

NAMES = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen")
QUEUE = 12
DAY_MS = 24 * 3600 * 1000
SETTINGS = CoreSettings(
    pacing=PaceSettings(
        target_burst=0,
        sender_burst=0,
        duplicate_window=0,
        max_hops=1_000_000,
        exchange_per_minute=1_000_000,
        queue_per_session=QUEUE,
    )
)
LEGAL = {(state, after) for (state, _), after in TRANSITIONS.items()}


@dataclass(eq=False)
class Mail:
    """One accepted message. holder: the line that has it. done: it has left its box. number: among those of its
    pair."""

    id: str
    seq: int
    sender: str
    target: str
    text: str
    number: int
    sent_ms: int
    state: str = "queued"
    holder: Line | None = None
    done: bool = False
    reads: int = 0


@dataclass(eq=False)
class Mate:
    """One session. guest: its client now. lines: its open ones. lost_at: since when it has none, on the monotonic
    clock. ended_ms: since when it does not run. long_gone: it once was so for so long that pruning may have taken
    it."""

    guest: Guest
    id: str
    name: str
    talk: str | None
    watched: bool
    lines: list[Line] = field(default_factory=list)
    lost_at: float = 0.0
    ended_ms: int | None = None
    token_good: bool = True
    long_gone: bool = False
    pins: dict[str, str] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return self.ended_ms is None


class Walk:
    """A walk of one seed. `step` does one thing and compares."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.house = House(SETTINGS)
        self.mates: dict[str, Mate] = {}
        self.mail: dict[str, Mail] = {}
        self.keys: dict[tuple[str, str], Mail] = {}
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.waits: dict[str, tuple[Line, int, float]] = {}
        self.people: list[Line] = []
        self.done_what: list[str] = []
        self.counts: Counter[str] = Counter()
        self._texts = 0
        self._talks = 0

    # -- choosing ----------------------------------------------------------------------------------

    def step(self) -> None:
        """One random thing, and what must be true after it."""
        weights: dict[Callable[[], None], int] = {
            self.join: 6, self.drop: 5, self.come_back: 8, self.restart_shim: 2, self.rename: 4, self.send: 40,
            self.send_as_human: 4, self.reply: 12, self.take: 14, self.take_as_human: 3, self.ack: 14, self.hand: 4,
            self.release: 4, self.end: 1, self.kill: 2, self.crash: 2, self.reboot: 1, self.pass_time: 6,
            self.leave_terminal: 2,
        }  # fmt: skip
        (what,) = self.random.choices(list(weights), list(weights.values()))
        self.done_what.append(what.__name__)
        self.counts[what.__name__] += 1
        what()
        self.settle()
        self.compare()

    def running(self) -> list[Mate]:
        """Those on the roster."""
        return [mate for mate in self.mates.values() if mate.running]

    def some(self, mates: list[Mate]) -> Mate | None:
        """One of them."""
        return self.random.choice(mates) if mates else None

    def speaker(self) -> Mate | None:
        """One that has a line."""
        return self.some([mate for mate in self.running() if mate.lines])

    def chance(self, share: float) -> bool:
        """Now and then."""
        return self.random.random() < share

    def say(self, *words: object) -> None:
        """For the story of a walk that fails."""
        self.done_what[-1] += " " + " ".join(map(str, words))

    # -- coming and going --------------------------------------------------------------------------

    def join(self) -> None:
        """A harness starts: a new conversation, or one that ended resumes."""
        if len(self.running()) >= 6:
            return
        old = self.some([m for m in self.mates.values() if not m.running and m.talk]) if self.chance(0.5) else None
        pid = 0 if old is None and self.chance(0.2) else None
        talk = old.talk if old else None
        if old is None and self.chance(0.6):
            self._talks += 1
            talk = f"talk-{self._talks}"
        wanted = None if old else self.random.choice(NAMES)
        free = wanted not in [mate.name for mate in self.running()]
        push = self.chance(0.4)
        params: dict[str, Any] = {"harness_session_id": talk}
        guest = self.house.join(wanted, push=push, pid=pid, **params)
        self.say(guest.name, guest.id)
        assert guest.registered["resumed"] == (old is not None)
        if old is None:
            assert guest.id not in self.mates
            assert (guest.name == wanted) == free == (guest.registered["notice"] is None)
            self.mates[guest.id] = Mate(guest, guest.id, guest.name, talk, pid is None)
        else:
            assert guest.id == old.id
            old.guest, old.watched = guest, True
        self.enrol(self.mates[guest.id])

    def enrol(self, mate: Mate) -> None:
        """It runs (again), with the line that it just attached."""
        guest = mate.guest
        if not mate.running:
            taken = {other.name for other in self.running()}
            assert guest.name not in taken
            assert (guest.name == mate.name) == (mate.name not in taken)
        mate.name, mate.ended_ms, mate.token_good = guest.name, None, True
        mate.lines.append(guest.line)

    def drop(self) -> None:
        """A line breaks."""
        mate = self.speaker()
        if mate:
            line = self.random.choice(mate.lines)
            self.say(mate.name)
            line.drop()
            self.lose(mate, line)

    def lose(self, mate: Mate, line: Line) -> None:
        """What a line had waits again."""
        mate.lines.remove(line)
        self.give_back(line)
        if not mate.lines:
            mate.lost_at = self.house.mono

    def give_back(self, line: Line) -> None:
        """The leases of a line end, and so do its waits."""
        for mail in self.mail.values():
            if mail.holder is line:
                mail.holder, mail.state = None, "queued"
        self.waits = {key: wait for key, wait in self.waits.items() if wait[0] is not line}

    def come_back(self) -> None:
        """A shim connects again, with its token: to a session that runs, or one that was lost."""
        mate = self.some([m for m in self.mates.values() if m.token_good and len(m.lines) < 3 and self.can_connect(m)])
        if mate:
            self.say(mate.name)
            mate.guest.come_back(push=self.chance(0.4))
            assert (mate.guest.id, mate.guest.registered["resumed"]) == (mate.id, True)
            self.enrol(mate)

    def can_connect(self, mate: Mate) -> bool:
        """Whether its process is there to do so."""
        return not mate.watched or mate.running

    def restart_shim(self) -> None:
        """A harness starts its shim again, which knows nothing of before."""
        mate = self.some([m for m in self.running() if not m.lines and m.watched])
        if mate:
            self.say(mate.name)
            mate.guest.params["name"] = None
            mate.guest.register()
            mate.guest.attach()
            assert (mate.guest.id, mate.guest.name) == (mate.id, mate.name)
            self.enrol(mate)

    def end(self) -> None:
        """A conversation is over."""
        mate = self.speaker()
        if mate:
            self.say(mate.name)
            self.random.choice(mate.lines).ask("end")
            self.leave(mate, good=False)

    def kill(self) -> None:
        """A harness dies."""
        mate = self.some([m for m in self.running() if m.watched])
        if mate:
            self.say(mate.name)
            self.house.kill(mate.guest)
            self.leave(mate, good=False)

    def leave(self, mate: Mate, *, good: bool) -> None:
        """It is off the roster; its mail stays."""
        for line in list(mate.lines):
            assert not line.open
            self.lose(mate, line)
        mate.ended_ms, mate.token_good, mate.pins = self.house.ms, good, {}

    def rename(self) -> None:
        """A session wants another name."""
        mate = self.speaker()
        if not mate:
            return
        name = self.random.choice(NAMES)
        taken = name in [other.name for other in self.running() if other is not mate]
        self.say(mate.name, name)
        line = self.random.choice(mate.lines)
        request = line.begin("rename", name=name)
        if taken:
            self.refused(line, request, {"name_taken"})
        else:
            mate.name = line.answer(request)["self"]["name"]
            assert mate.name == name

    # -- the world ---------------------------------------------------------------------------------

    def crash(self) -> None:
        """The broker is killed and started."""
        self.house.restart()
        for mate in self.running():
            for line in list(mate.lines):
                self.lose(mate, line)
            mate.lost_at = self.house.mono
        self.close_terminals()
        self.forget()

    def reboot(self) -> None:
        """The machine is."""
        self.house.restart(boot=f"boot-{len(self.done_what)}")
        for mate in self.running():
            self.leave(mate, good=not mate.watched)
        self.close_terminals()
        self.forget()

    def forget(self) -> None:
        """Pruning took those who ended long ago and have no mail."""
        for gone in [mate for mate in self.mates.values() if mate.id not in self.house.broker.core.roster.known]:
            assert gone.ended_ms is not None
            assert self.house.ms - gone.ended_ms > KEEP_MS
            assert not self.boxed(gone.id)
            del self.mates[gone.id]

    def close_terminals(self) -> None:
        for line in self.people:
            self.give_back(line)
        self.people.clear()
        self.waits.clear()

    def pass_time(self) -> None:
        """Seconds, an hour, a day, more than a week."""
        seconds = self.random.choice((1, 2, 7, 31, 61, 3607, 90_001, 700_001))
        before = self.house.mono
        self.say(seconds)
        self.house.pass_time(seconds)
        for mate in self.running():
            gone = mate.lost_at + GRACE_S
            if not mate.lines and not mate.watched and gone <= self.house.mono:
                self.leave(mate, good=True)
                mate.ended_ms = self.house.ms - round((self.house.mono - max(gone, before)) * 1000)
        for mate in self.mates.values():
            mate.long_gone |= mate.ended_ms is not None and self.house.ms - mate.ended_ms > KEEP_MS
        for mail in self.mail.values():
            owner = self.mates.get(mail.target)
            if not mail.done and owner and owner.ended_ms is not None:
                if self.house.ms >= max(owner.ended_ms, mail.sent_ms) + KEEP_MS:
                    mail.done, mail.state = True, "expired"

    # -- mail --------------------------------------------------------------------------------------

    def boxed(self, owner: str) -> list[Mail]:
        """What an owner has not taken, in order."""
        return [mail for mail in self.mail.values() if mail.target == owner and not mail.done]

    def waiting(self, owner: str) -> list[Mail]:
        """What of it nobody has."""
        return [mail for mail in self.boxed(owner) if mail.holder is None]

    def text(self) -> str:
        """One that was never sent before."""
        self._texts += 1
        return f"text {self._texts}"

    def send(self) -> None:
        """A session writes, in any of the ways to say to whom; sometimes with a key, sometimes on a full disk."""
        sender = self.speaker()
        if not sender:
            return
        to, codes, targets, pin = self.address(sender)
        params: dict[str, Any] = {"to": to, "message": self.text()}
        able = [one for one in targets if one in self.mates and self.mates[one].talk]
        if self.chance(0.3) and len(able) in (0, len(targets)):  # of several of one name it is not ours to say which
            params["when_offline"] = "queue"
            if codes == {"not_running"} and able:
                codes = set()
        if self.chance(0.3):
            params["key"] = f"k{self.random.randrange(40)}"
        if self.chance(0.15):
            params["wait_reply"] = 60
        self.post(sender.id, self.random.choice(sender.lines), params, codes, targets, pin)

    def address(self, sender: Mate) -> tuple[str, set[str], list[str], str | None]:
        """Something to write to, what refusals that may meet, whom it may mean, and the name that it pins."""
        mate = self.random.choice(list(self.mates.values()))
        form = self.random.choice(("id", "ref", "name", "name", "name", "name [ref]", "nobody"))
        code = set() if mate.running else {"not_running"}
        if form in ("id", "ref"):
            return mate.id if form == "id" else mate.guest.ref, code, [mate.id], None
        if form == "name [ref]":
            return f"{mate.name} [{mate.guest.ref}]", code, [mate.id], mate.name if mate.running else None
        name = mate.name if form == "name" else "unheard-of"
        holder = next((other for other in self.running() if other.name == name), None)
        pinned = sender.pins.get(name)
        if pinned is not None and (holder is None or holder.id != pinned):
            if holder is not None:
                return name, {"name_moved"}, [], None
            if pinned not in self.mates:
                return name, {"not_running", "not_found"}, [], None
            return name, set() if self.mates[pinned].running else {"not_running"}, [pinned], None
        if holder is not None:
            return name, set(), [holder.id], name
        gone = [other for other in self.mates.values() if other.name == name and not other.running]
        last = max((other.ended_ms or 0 for other in gone), default=0)
        return name, {"not_running" if gone else "not_found"}, [m.id for m in gone if m.ended_ms == last], None

    def send_as_human(self) -> None:
        """A person writes, from a new terminal."""
        mate = self.some(self.running())
        if mate:
            line = self.house.human()
            self.people.append(line)
            self.post("human", line, {"to": mate.id, "message": self.text()}, set(), [mate.id], None)

    def post(
        self, sender: str, line: Line, params: dict[str, Any], codes: set[str], targets: list[str], pin: str | None
    ) -> None:
        """Sends, and notes what must have come of it."""
        known = self.keys.get((sender, params.get("key", "")))
        if known is not None and self.house.ms - known.sent_ms > DAY_MS:
            params["key"] = f"{params['key']}-{self._texts}"  # the store may have forgotten it
            known = None
        if known is not None and self.chance(0.5):
            params["message"] = known.text
        same = known is not None and params["message"] == known.text
        if known is not None:
            codes = set() if same else {"key_reused"}
        elif not codes:
            if targets == [sender]:
                codes = {"self_target"}
            elif len(self.boxed(targets[0])) >= QUEUE:
                codes = {"queue_full"}
        full_disk = not codes and known is None and self.chance(0.1)
        if full_disk:
            self.house.failing = lambda ops: any(isinstance(op, PutMessage) for op in ops)
        if codes:
            self.house.pay()  # what an earlier full disk left owing would come with the news of this one
        before = self.state_but_for_news() if codes else None
        self.say(sender, params, codes or "", "full disk" if full_disk else "")
        request = line.begin("send", **params)
        self.house.failing = lambda ops: False
        if full_disk:
            self.refused(line, request, {"internal"})
            self.close_cut_lines()
            return
        if codes:
            self.refused(line, request, codes)
            assert self.state_but_for_news() == before, "a refused send changed something"
            return
        if same:
            assert known is not None
            answer = line.answer(request)
            assert (answer["id"], answer["state"]) == (known.id, known.state)
            return
        self.accept(sender, line, request, params, targets, pin)

    def refused(self, line: Line, request: int, codes: set[str]) -> None:
        """It was, with one of these codes."""
        assert refused(lambda: line.answer(request)).code in codes

    def close_cut_lines(self) -> None:
        """The broker cuts lines that were given what the store refused."""
        for mate in self.running():
            for line in list(mate.lines):
                if not line.open:
                    self.lose(mate, line)

    def accept(
        self, sender: str, line: Line, request: int, params: dict[str, Any], targets: list[str], pin: str | None
    ) -> Mail:
        """A message is there now."""
        row = self.house.store.read_log(limit=1, since_ms=None, thread=None)[0]
        assert (row.body, row.sender_id) == (params["message"], sender)
        assert row.target_id in targets
        number = self.pairs[sender, row.target_id] + 1
        long_gone = any(self.mates[one].long_gone for one in (sender, row.target_id) if one in self.mates)
        assert row.pair_seq == number or long_gone
        self.pairs[sender, row.target_id] = number = row.pair_seq
        mail = Mail(row.id, row.seq, sender, row.target_id, row.body, number, self.house.ms)
        self.mail[mail.id] = mail
        if "key" in params:
            self.keys[sender, params["key"]] = mail
        if pin is not None and sender in self.mates:
            self.mates[sender].pins[pin] = row.target_id
        if params.get("wait_reply"):
            self.waits[mail.id] = line, request, self.house.mono + params["wait_reply"]
        else:
            answer = line.answer(request)
            assert (answer["id"], answer["state"]) == (mail.id, "queued")
        return mail

    def reply(self) -> None:
        """A session answers something that it has read, or is reading."""
        sender = self.speaker()
        if not sender:
            return
        read = [
            mail
            for mail in self.mail.values()
            if mail.target == sender.id
            and self.house.ms - mail.sent_ms < DAY_MS
            and (mail.holder in sender.lines or mail.state in ("delivered", "replied"))
        ]
        if not read:
            return
        original = self.random.choice(read)
        back_to = self.mates.get(original.sender)
        codes = set() if original.sender == "human" or (back_to and back_to.running) else {"not_running"}
        full = len(self.boxed(original.sender)) >= QUEUE
        if not codes and full:
            codes = {"queue_full"}
        full_disk = not codes and self.chance(0.1)
        line = self.random.choice(sender.lines)
        before = self.state_but_for_news() if codes else None
        text = self.text()
        self.say(sender.name, original.id, codes or "", "full disk" if full_disk else "")
        if full_disk:
            self.house.failing = lambda ops: any(isinstance(op, PutMessage) for op in ops)
        request = line.begin("send", message=text, reply_to=original.id)
        self.house.failing = lambda ops: False
        if codes:
            self.refused(line, request, codes)
            assert self.state_but_for_news() == before, "a refused reply changed something"
            return
        if not original.done:
            original.done, original.holder, original.state = True, None, "delivered"
            original.reads += 1
        if full_disk:
            self.refused(line, request, {"internal"})
            self.close_cut_lines()
            self.house.pay()
            return
        mail = self.accept(sender.id, line, request, {"message": text}, [original.sender], None)
        original.state = "replied"
        self.hand_to_waiter(original, mail)

    def hand_to_waiter(self, original: Mail, mail: Mail) -> None:
        """Whoever waits for this reply has it, unless earlier mail of the same sender waits."""
        wait = self.waits.pop(original.id, None)
        if wait is None:
            return
        line, request, _ = wait
        answer = line.answer(request)
        assert answer["state"] == "replied"
        if any(other.sender == mail.sender for other in self.waiting(mail.target) if other is not mail):
            assert answer["reply"] is None
            return
        assert answer["reply"]["id"] == mail.id
        self.show(line, answer["reply"]["message"])

    def show(self, line: Line, message: dict[str, Any]) -> None:
        """A line was given a message: one that waits, and that nobody has read."""
        mail = self.mail[message["id"]]
        assert not mail.done, "delivered twice"
        assert mail.holder is None, "leased twice"
        assert (message["text"], message["seq"]) == (mail.text, mail.number)
        mail.holder = line

    def take(self) -> None:
        """A session takes what waits."""
        mate = self.speaker()
        if mate:
            line, most = self.random.choice(mate.lines), self.random.randrange(1, 6)
            self.say(mate.name, most)
            expected = [mail.id for mail in self.waiting(mate.id)][:most]
            messages = line.ask("take", max=most)["messages"]
            assert [message["id"] for message in messages] == expected
            for message in messages:
                self.show(line, message)

    def take_as_human(self) -> None:
        """A person does, in an old terminal or a new one."""
        if not self.people or self.chance(0.3):
            self.people.append(self.house.human())
        line = self.random.choice(self.people)
        expected = [mail.id for mail in self.waiting("human")]
        messages = line.ask("take")["messages"]
        assert [message["id"] for message in messages] == expected
        for message in messages:
            self.show(line, message)

    def leave_terminal(self) -> None:
        """A terminal closes."""
        if self.people:
            line = self.people.pop(self.random.randrange(len(self.people)))
            line.drop()
            self.give_back(line)

    def ack(self) -> None:
        """A line acknowledges some of what it has, sometimes twice, sometimes what others have."""
        line, held = self.holding()
        if line is None:
            return
        chosen = [mail for mail in held if self.chance(0.7)]
        self.say(len(chosen))
        ids = [mail.id for mail in chosen]
        late = [mail.id for mail in self.mail.values() if mail.done][-2:]
        assert line.ask("ack", ids=ids + ids[:1] + late)["acked"] == len(chosen)
        for mail in chosen:
            mail.done, mail.holder, mail.state = True, None, "delivered"
            mail.reads += 1

    def holding(self) -> tuple[Line | None, list[Mail]]:
        """A line that has something, and what."""
        lines = {mail.holder.link: mail.holder for mail in self.mail.values() if mail.holder is not None}
        if not lines:
            return None, []
        line = lines[self.random.choice(sorted(lines))]
        return line, [mail for mail in self.mail.values() if mail.holder is line]

    def hand(self) -> None:
        """A line gives some to its harness."""
        line, held = self.holding()
        if line is not None and line.door is not None:
            chosen = [mail for mail in held if self.chance(0.5)]
            fresh = [mail for mail in chosen if mail.state == "queued"]
            assert line.ask("handed", ids=[mail.id for mail in chosen])["handed"] == len(fresh)
            for mail in fresh:
                mail.state = "handed"

    def release(self) -> None:
        """A line gives some back."""
        line, held = self.holding()
        if line is not None:
            chosen = [mail for mail in held if self.chance(0.5)]
            for mail in chosen:
                mail.holder, mail.state = None, "queued"
            assert line.ask("release", ids=[mail.id for mail in chosen])["released"] == len(chosen)

    # -- agreeing ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Takes in what the broker did by itself: pushes, and waits that are over."""
        for mate in self.running():
            for line in mate.lines:
                if line.pushes:
                    waiting = [mail.id for mail in self.waiting(mate.id)]
                    pushed = [push["message"]["id"] for push in line.pushes]
                    assert pushed == waiting[: len(pushed)], "pushed out of order"
                    for push in line.pushes:
                        self.show(line, push["message"])
                    line.pushes.clear()
                line.pong()
        for key, (line, request, until) in list(self.waits.items()):
            over = until <= self.house.mono or (self.mail[key].done and self.mail[key].state == "expired")
            assert line.is_answered(request) == over
            if over:
                del self.waits[key]
                assert line.answer(request)["state"] in ("queued", "handed", self.mail[key].state)

    def compare(self) -> None:
        """The broker and the model say the same."""
        core, running = self.house.broker.core, self.running()
        listed = {session["id"]: session["name"] for session in self.house.listed()}
        assert listed == {mate.id: mate.name for mate in running}, "the roster is not who is there"
        assert set(self.house.doors) == set(listed)
        watched = {ProcessId(mate.guest.pid, mate.guest.pid * 10): 1 for mate in running if mate.watched}
        assert {process: count for process, count in self.house.watched.items() if count} == watched
        for mate in running:
            session = core.roster.known[mate.id]
            assert session.links == {line.link for line in mate.lines}
            assert session.pins == mate.pins
            if any(core.wires[line.link].push and not core.wires[line.link].paused for line in mate.lines):
                assert not self.waiting(mate.id), "mail waits though somebody wants it pushed"
        undone = [mail for mail in self.mail.values() if not mail.done]
        assert set(core.messages) == {mail.id for mail in undone}
        places: dict[str, list[tuple[str, str, int | None]]] = {}
        for mail in undone:
            holder = None if mail.holder is None else mail.holder.link
            places.setdefault(mail.target, []).append((mail.id, mail.state, holder))
        for owner in (*core.roster.known.values(), core.human, core.script):
            box = [(message.id, message.state, message.lease) for message in owner.box]
            assert box == places.pop(owner.id, []), "mail is not where it must be"
        assert places == {}

    def state_but_for_news(self) -> dict[str, Any]:
        """The state of the house without receipts: who sends, even in vain, is at work, and whoever wrote to it long
        ago and was not read hears so."""
        state = self.house.state()
        del state["receipts"], state["store"]["receipts"]
        return state

    def finish(self) -> None:
        """Everybody reads all; then each message was read exactly once, or expired, or still waits for one who ended;
        and every history is legal."""
        self.done_what.append("finish")
        self.crash()
        self.settle()
        self.compare()
        for mate in self.running():
            mate.guest.come_back()
            self.enrol(mate)
            while messages := mate.guest.take():
                for message in messages:
                    self.show(mate.guest.line, message)
                    self.mail[message["id"]].done = True
                    self.mail[message["id"]].reads += 1
                mate.guest.ack(*messages)
        for mail in self.mail.values():
            owner = self.mates.get(mail.target)
            if mail.state == "expired" or (not mail.done and (owner is None or not owner.running)):
                assert mail.reads == 0
            else:
                assert mail.reads == 1, f"{mail.id} was read {mail.reads} times"
        for row in self.house.store.read_log(limit=100_000, since_ms=None, thread=None):
            assert row.id in self.mail, "a message that nobody accepted"
            self.check_history(row.id)

    def check_history(self, message_id: str) -> None:
        """Each step of it follows from the one before by the table."""
        line = self.house.human()
        states = [step["state"] for step in line.ask("check", message_id=message_id)["history"]]
        line.drop()
        assert states[0] == "queued"
        assert all(pair in LEGAL for pair in pairwise(states)), states
