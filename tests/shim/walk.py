"""One session's hooks, courier and supply, between a broker and a harness that are plain models, on a random walk.

The model knows two things: whose each message is, and which conversation of the harness has it in its context. Nothing
is given to another's, and what is acknowledged must be there.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.shim.fake_broker import make_message
from tests.shim.noted_link import NotedLink
from tests.shim.test_courier import FakeDoor, message_id
from xsessionctl.shim.courier import Courier
from xsessionctl.shim.dialects import DIALECTS, DONE, PROMPT, START, STOP, marks_in
from xsessionctl.shim.door import GONE, REFUSED, WRITTEN
from xsessionctl.shim.hooks import Hooks
from xsessionctl.shim.identity import Identity
from xsessionctl.shim.mail import Mailbag

PAUSES_S = (0.0, 0.05, 0.2, 1.0, 40.0)
MODES = ("auto", "auto", "followup", "inject", "steer")
CONVERSATIONS = 3


@dataclass
class Box:
    """A conversation's mail at the broker."""

    queued: list[str] = field(default_factory=list)
    leased: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)

    def give_back(self, ids: list[str]) -> None:
        """What was leased and not read is queued again, in its place."""
        back = [one for one in ids if one in self.leased]
        self.leased = [one for one in self.leased if one not in back]
        self.queued = sorted(self.queued + back)


class WatchedDoor(FakeDoor):
    """Shows what it is given when it is."""

    def __init__(self, look: Callable[[str], None], *, opened: bool, busy_too: bool) -> None:
        super().__init__(opened=opened, busy_too=busy_too)
        self._look = look

    def post(self, text: str, *, busy: bool, mode: str, done: Callable[[str], None]) -> None:
        self._look(text)
        super().post(text, busy=busy, mode=mode, done=done)


class Link(NotedLink):
    """The end of a session goes behind what was asked before."""

    def renew(self) -> None:
        if not self.renewing:
            self.renewing = True
            self.ask("end", {}, 0.0, lambda result, error: None)


class Walk:
    """See the module. clock: the time, in one place for all that read it. steps: what was done. counts: how often."""

    def __init__(self, seed: int, clock: list[float]) -> None:
        self._random = Random(seed)
        self._clock = clock
        self.steps: list[str] = []
        self.counts: Counter[str] = Counter()
        dialect = DIALECTS[self._random.choice(sorted(DIALECTS))]
        self._events = sorted(dialect.events)
        self._named = {kind: event for event, kind in reversed(dialect.events.items())}
        identity = Identity({}, "/", [(1, ["x"])])
        self._link = Link(identity)
        self._link.session = {"harness_session_id": "c-0"}
        self._courier = Courier(identity, self._link, Mailbag())
        self._hooks = Hooks(identity, self._link, self._courier, dialect)
        identity.conversation = "c-0"
        self._owners: dict[str, str] = {}
        chance = self._random.random
        self._door = WatchedDoor(self._look, opened=chance() < 0.6, busy_too=chance() < 0.5)
        self._courier.use_door(self._door)
        self._courier.hooks_run()
        self.boxes: defaultdict[str, Box] = defaultdict(Box)
        self._context: defaultdict[str, set[str]] = defaultdict(set)
        self._conversation = self._session = "c-0"  # of the harness, and of the link as the broker has it
        self._sent = self._seen_posts = 0
        self._pending: list[tuple[str, dict[str, Any], Callable[..., None]]] = []
        self._inbox: list[str] = []  # texts that the harness was given by the door, and has not read
        self._answers: list[tuple[str, list[str]]] = []  # what answers to hooks carried, until the harness goes on
        self._callers: list[Callable[..., None]] = []
        self._all_is_well = False
        self._connect()

    def step(self) -> None:
        """Something happens."""
        self._clock[0] += self._random.choice(PAUSES_S)
        names = ("mail", "mail", "broker", "broker", "broker", "hook", "hook", "hook", "door_says", "door_says",
                 "inbox_is_read", "inbox_is_read", "tick", "line", "cancel", "cut", "clear")  # fmt: skip
        name = self._random.choice(names)
        self.steps.append(name)
        self.counts[name] += 1
        self._hear_told()
        getattr(self, f"_{name}")()

    def finish(self) -> None:
        """From now on all goes well, and the conversation that runs reads all that it has."""
        self._all_is_well = True
        for _ in range(20):
            self._settle()
            self._hook(PROMPT)
            self._settle()
            self._hook(DONE)
            self._settle()
            self._hook(STOP)
            self._settle()
            self._tick()
            box = self.boxes[self._session]
            if self._session == self._conversation and not (box.queued or box.leased):
                return
        raise AssertionError(f"{self._session} waits for {self.boxes[self._session]}")

    def _settle(self) -> None:
        """Broker and harness do all that they are asked."""
        self._hear_told()
        while self._pending or self._inbox or len(self._door.posted) > self._seen_posts:
            self._broker()
            self._door_says()
            self._inbox_is_read()
            self._hear_told()

    # -- the broker ----------------------------------------------------------------------------------------------------

    def _hear_told(self) -> None:
        for method, params in self._link.told:
            if method == "release":
                self.boxes[self._session].give_back(params["ids"])
        self._link.told.clear()
        self._pending += self._link.asked
        self._link.asked.clear()

    def _mail(self) -> None:
        self._sent += 1
        self._owners[message_id(self._sent)] = self._session
        self.boxes[self._session].queued.append(message_id(self._sent))
        self._courier.hear("mail", {"queued": 1})

    def _broker(self) -> None:
        if not self._pending:
            return
        method, params, done = self._pending.pop(0)
        box = self.boxes[self._session]
        if method == "end":
            self._connect()
        elif method == "take":
            taken, box.queued = box.queued[: params["max"]], box.queued[params["max"] :]
            box.leased = sorted(box.leased + taken)
            shown = [{**make_message(one, "text"), "mode": self._random.choice(MODES)} for one in taken]
            done({"messages": shown, "receipts": [], "left": len(box.queued)}, None)
        elif method == "ack":
            for one in [one for one in params["ids"] if one in (*box.queued, *box.leased)]:
                assert one in self._context[self._session], f"{one} was never read in {self._session}"
                (box.leased if one in box.leased else box.queued).remove(one)
                box.read.append(one)
            done({"acked": 1}, None)
        else:
            done({}, None)

    def _cut(self) -> None:
        self._connect()

    def _connect(self) -> None:
        """The link breaks, or ends, and is there again."""
        lost, self._pending = self._pending, []
        for method, _, done in lost:
            if method != "end":
                done(None, None)
        self._link.told.clear()
        self._link.asked.clear()
        self.boxes[self._session].give_back(self.boxes[self._session].leased)
        self._session, self._link.renewing = self._conversation, False
        self._link.session = {"harness_session_id": self._session}
        self._hooks.link_is_up()
        self._courier.link_is_up(len(self.boxes[self._session].queued))

    # -- the harness ---------------------------------------------------------------------------------------------------

    def _hook(self, kind: str | None = None, prompt: str = "typed") -> None:
        event = self._named[kind] if kind is not None else self._random.choice(self._events)
        conversation = self._conversation

        def reply(text: str, done: Callable[[], None], dropped: Callable[[], None]) -> None:
            if not self._all_is_well and self._random.random() < 0.15:
                dropped()
                return
            said = json.loads(text)
            carried = said.get("reason") or said.get("hookSpecificOutput", {}).get("additionalContext", "")
            assert all(self._owners[one] == conversation for one in messages_in(carried)), "it is another's"
            self._answers.append((conversation, messages_in(carried)))
            done()

        self._go_on()
        self._callers.append(reply)
        self._hooks.hear({"hook_event_name": event, "session_id": conversation, "prompt": prompt}, reply)

    def _look(self, text: str) -> None:
        assert all(self._owners[one] == self._conversation for one in messages_in(text)), "it is another's"

    def _line(self) -> None:
        """An event that wants no answer."""
        self._go_on()
        self._hooks.hear_line(self._random.choice(self._events), self._conversation)

    def _go_on(self) -> None:
        """What the last answers carried is in the context, if it is the same conversation still."""
        for conversation, ids in self._answers:
            if conversation == self._conversation:
                self._context[conversation].update(ids)
        self._answers.clear()

    def _cancel(self) -> None:
        """Nobody wants the answer to a hook any more."""
        if self._callers:
            self._hooks.cancel(self._random.choice(self._callers))

    def _door_says(self) -> None:
        """What becomes of the last post."""
        if len(self._door.posted) == self._seen_posts:
            return
        self._seen_posts = len(self._door.posted)
        outcome = WRITTEN if self._all_is_well else self._random.choice((WRITTEN, WRITTEN, REFUSED, GONE))
        if outcome == WRITTEN:
            self._inbox.append(self._door.posted[-1][0])
        self._door.done(outcome)

    def _inbox_is_read(self) -> None:
        if self._inbox:
            text = self._inbox.pop(0)
            self._context[self._conversation].update(messages_in(text))
            self._hook(PROMPT, text)

    def _tick(self) -> None:
        """Nothing happens until the next deadline."""
        self._go_on()
        for source in (self._courier, self._hooks):
            if source.due is not None:
                self._clock[0] = max(self._clock[0], source.due)
        self._courier.tick(self._clock[0])
        self._hooks.tick(self._clock[0])

    def _clear(self) -> None:
        """Another conversation, perhaps one that was there before. What lay in the inbox may come into it."""
        other = f"c-{self._random.randrange(CONVERSATIONS)}"
        if other != self._conversation:
            self._conversation = other
            if self._random.random() < 0.5:
                self._inbox.clear()
            self._hook(START)


def messages_in(text: str) -> list[str]:
    """The messages whose envelopes stand there."""
    return [mark for mark in marks_in(text) if mark.startswith("m-")]
