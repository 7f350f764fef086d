"""Populations of sessions that do not think about when to stop, on the real core and a clock that is a number.

    world = World(seed=1, reports=True)
    ann, bob = world.join("ann", answer_in_other_words), world.join("bob", answer_in_other_words)
    ann.prompt(bob)
    world.run(3600)
    assert world.delivered == 17

A session is a shim and a mind: what it says to what it reads. One that `reports` tells of its turns, has a door and is
woken; a plain one reads its mail a while after it was told that some waits, as a client does that only has our tools.
Whoever is refused gives up, or waits as long as it was told and tries again.

`POPULATIONS` are those of docs/pace.md, whose table `python -m tests.support.populations` makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any

from tests.support.core_house import Answer, Guest, House, Refused
from tests.support.marked_table import MarkedTable

HOUR = 3600.0
PHRASES = ("Thanks, that is clear.", "You are welcome!", "Got it, all good here.", "Happy to help.", "Perfect, noted.")

Say = tuple["Actor | str", str]
"""To whom, and what."""
Mind = Callable[["Actor", list[Answer]], Iterable[Say]]


class Actor:
    """One session. think: the shortest and longest time from mail to what it says. stubborn: a refusal that names a
    time is tried again then, in other words. told: the receipts that it was shown."""

    on_news: Callable[[], Iterable[Say]] | None = None
    """What it says when it is told something that it asked to be woken for."""

    def __init__(self, world: World, name: str, mind: Mind, think: tuple[float, float], *, stubborn: bool) -> None:
        self.world, self.name, self.mind, self.think, self.stubborn = world, name, mind, think, stubborn
        self.guest: Guest = world.house.join(
            name, push=world.reports, delivery="push" if world.reports else "pull", modes=["auto", "followup"]
        )
        self._busy = self._in_turn = False
        self._seen = 0
        self.told: list[Answer] = []
        self._turn("ended")

    # -- what makes it act -----------------------------------------------------------------------

    def prompt(self, *to: Actor) -> None:
        """Its human asks it to write to these."""
        self._turn("started", "human")
        self.say([(other, self.in_other_words()) for other in to])
        self._turn("ended")

    def every(self, seconds: float, make: Callable[[], Iterable[Say]]) -> None:
        """A timer of its own."""

        def ring() -> None:
            self._turn("started", "other")
            self.say(make())
            self._turn("ended")
            self.world.after(seconds, ring)

        self.world.after(seconds, ring)

    def look(self) -> None:
        """Whether something came since it looked last. If it has nothing else to do, it takes it up."""
        came = len(self.guest.line.pushes) if self.world.reports else self._notes()
        if came > self._seen and not self._busy:
            self._busy = True
            self.world.after(1.0 if self.world.reports else self._thinking(), self._take_up)
        if self.on_news is not None and self.world.reports and not self._busy and self._has_news():
            self._busy = True
            self.world.after(self._thinking(), self._take_up_news)

    def come_back(self) -> None:
        """The broker was started anew. What waits for a plain one it is not told: it looks."""
        self.guest.come_back(push=self.world.reports)
        self._seen = 0 if self.world.reports else -1
        self._turn("started" if self._in_turn else "ended", "other")

    # -- what it does ----------------------------------------------------------------------------

    def _take_up(self) -> None:
        line = self.guest.line
        if not self.world.reports:
            self._seen = self._notes()
            messages = self._take()
            self._acknowledge(messages)
            self.say(self.mind(self, messages))
            self._busy = False
            return
        messages = [push["message"] for push in line.pushes[self._seen :]]
        self._seen = len(line.pushes)
        self._turn("started", "mail")
        self._acknowledge(messages)

        def finish() -> None:
            self.say(self.mind(self, messages))
            self._turn("ended")
            self._busy = False

        self.world.after(self._thinking(), finish)

    def _take_up_news(self) -> None:
        """A door wakes it with them."""
        assert self.on_news is not None
        self._turn("started", "other")
        self.read_receipts()
        self.say(self.on_news())
        self.read_receipts()
        self._turn("ended")
        self._busy = False

    def _has_news(self) -> bool:
        waiting = self.world.house.broker.core.receipts.get(self.guest.id, [])
        return any(receipt.wake for receipt in waiting)

    def _acknowledge(self, messages: list[Answer]) -> None:
        self.guest.ack(*messages)
        self.world.note_delivered(messages)
        self.read_receipts()

    def _take(self, most: int | None = None) -> list[Answer]:
        answer = self.guest.line.ask("take", max=most)
        self.told += [receipt for receipt in answer["receipts"] if receipt not in self.told]
        messages: list[Answer] = answer["messages"]
        return messages

    def read_receipts(self) -> None:
        """They come with its next step."""
        self._take(0)

    def say(self, what: Iterable[Say], **params: Any) -> None:
        """Sends these."""
        for to, text in what:
            try:
                self.guest.send(to.guest if isinstance(to, Actor) else to, text, **params)
            except Refused as refusal:
                self.world.note_refused(refusal)
                wait = refusal.data["retry_after_s"]
                if self.stubborn and wait is not None:
                    again = [(to, self.in_other_words())]
                    self.world.after(wait, lambda again=again: self.say(again))  # type: ignore[misc]

    def in_other_words(self) -> str:
        """Something polite that nobody has said before."""
        return f"{self.world.random.choice(PHRASES)} ({next(self.world.numbers)})"

    # -- its shim --------------------------------------------------------------------------------

    def _turn(self, phase: str, by: str | None = None) -> None:
        self._in_turn = phase == "started"
        if self.world.reports:
            self.guest.line.ask("turn", phase=phase, by=by)

    def _thinking(self) -> float:
        return self.world.random.uniform(*self.think)

    def _notes(self) -> int:
        return sum(method == "mail" for method, _ in self.guest.line.notes)


class World:
    """A broker, its sessions, and time. delivered: messages that were read, but for news from outside. refused: how
    often, by code. ended_s: when the last was delivered. steps: things that happened."""

    def __init__(self, *, seed: int, reports: bool) -> None:
        self.house, self.random, self.reports = House(), Random(seed), reports
        self.numbers = count(1)
        self.actors: list[Actor] = []
        self.outside: list[Actor] = []
        self.delivered = 0
        self.hops: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()
        self.ended_s = 0.0
        self.steps = 0
        self._began = self.house.mono
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def join(self, name: str, mind: Mind, think: tuple[float, float] = (2.0, 8.0), *, stubborn: bool = False) -> Actor:
        """Another session."""
        self.actors.append(Actor(self, name, mind, think, stubborn=stubborn))
        return self.actors[-1]

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Something happens then."""
        heappush(self._agenda, (self.house.mono + seconds, next(self._order), act))

    def run(self, seconds: float) -> None:
        """All that happens in this time."""
        until = self.house.mono + seconds
        self._look()
        while (due := self._next_due()) <= until:
            self.house.pass_time(max(due - self.house.mono, 0.0))
            if self._agenda and self._agenda[0][0] <= self.house.mono:
                heappop(self._agenda)[2]()
            self.steps += 1
            self._look()
        self.house.pass_time(until - self.house.mono)

    def _next_due(self) -> float:
        """When something happens next, of itself or in the broker."""
        brokers = self.house.broker.next_due()
        return min(self._agenda[0][0] if self._agenda else inf, inf if brokers is None else brokers)

    def _look(self) -> None:
        for actor in (*self.actors, *self.outside):
            actor.look()

    def restart_broker(self) -> None:
        """It is killed, and another takes up its store."""
        self.house.restart()
        for actor in (*self.actors, *self.outside):
            actor.come_back()

    def note_delivered(self, messages: list[Answer]) -> None:
        """Somebody read these."""
        outside = {actor.guest.id for actor in self.outside}
        counted = [message for message in messages if message["from"]["id"] not in outside]
        self.delivered += len(counted)
        self.hops.update(message["hop"] for message in counted)
        if counted:
            self.ended_s = self.house.mono - self._began

    def keep_restarting(self, seconds: float) -> None:
        """The broker is killed again and again."""

        def restart() -> None:
            self.restart_broker()
            self.after(seconds, restart)

        self.after(seconds, restart)

    def note_refused(self, refusal: Refused) -> None:
        """Somebody was turned away."""
        self.refused[refusal.code] += 1


# -- minds -------------------------------------------------------------------------------------------------------------


def stay_silent(me: Actor, messages: list[Answer]) -> Iterator[Say]:
    """Reads."""
    yield from ()


def echo(me: Actor, messages: list[Answer]) -> Iterator[Say]:
    """Sends back what it reads."""
    for message in messages:
        yield message["from"]["id"], message["text"]


def answer_in_other_words(me: Actor, messages: list[Answer]) -> Iterator[Say]:
    """Never leaves anything unanswered."""
    for message in messages:
        yield message["from"]["id"], me.in_other_words()


def pass_on(me: Actor, messages: list[Answer]) -> Iterator[Say]:
    """Tells the next in the row what it hears in the row."""
    others = me.world.actors
    members = {other.guest.id for other in others}
    for message in messages:
        if message["from"]["id"] in members:
            yield others[(others.index(me) + 1) % len(others)], me.in_other_words()


def tell_all_others(me: Actor, messages: list[Answer]) -> Iterator[Say]:
    """Tells everybody but the one it has it from."""
    for message in messages:
        for other in me.world.actors:
            if other is not me and other.guest.id != message["from"]["id"]:
                yield other, me.in_other_words()


# -- populations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Population:
    """Who there is. build: makes the world's sessions and starts them. hours: how long it is watched."""

    name: str
    build: Callable[[World], None]
    hours: float = 0.5


def pair(mind: Mind, think: tuple[float, float], *, stubborn: bool = False) -> Callable[[World], None]:
    """Two that answer each other."""

    def build(world: World) -> None:
        one, other = (world.join(name, mind, think, stubborn=stubborn) for name in ("ann", "bob"))
        one.prompt(other)

    return build


def ring(size: int, *, chatter: bool = False, restart_s: float | None = None) -> Callable[[World], None]:
    """Each passes on to the next. chatter: somebody else tells each of them news all the time, which are nobody's
    answer. restart_s: so often the broker is killed."""

    def build(world: World) -> None:
        members = [world.join(f"member-{number}", pass_on) for number in range(size)]
        if chatter:
            reporter = world.join("reporter", stay_silent)
            world.outside.append(world.actors.pop())
            for member in members:
                reporter.every(10.0, lambda to=member: [(to, reporter.in_other_words())])  # type: ignore[misc]
        if restart_s is not None:
            world.keep_restarting(restart_s)
        members[0].prompt(members[1])

    return build


def star(hub_mind: Mind, spokes: int) -> Callable[[World], None]:
    """All that is around answers the one in the middle."""

    def build(world: World) -> None:
        hub = world.join("hub", hub_mind)
        around = [world.join(f"spoke-{number}", answer_in_other_words) for number in range(spokes)]
        hub.prompt(*around)

    return build


def human_every_hour(world: World) -> None:
    """Two that always answer, and whose human asks one of them again every hour."""
    one, other = world.join("ann", answer_in_other_words, SLOW), world.join("bob", answer_in_other_words, SLOW)
    for hour in range(8):
        world.after(hour * HOUR, lambda: one.prompt(other))


def speak_of_oneself(world: World) -> None:
    """In a text to another, by every name that it has."""
    one, other = world.join("ann", answer_in_other_words), world.join("bob", stay_silent)
    one.prompt()
    guest = one.guest
    one.say(
        [(other, f"@{one.name} {guest.id} [{guest.ref}] <@{one.name}>: {one.name} will see to it"), (one, "a note")]
    )


def drive(world: World) -> None:
    """One gives another its next task whenever it is told that that is idle."""
    boss, worker = world.join("boss", stay_silent), world.join("worker", stay_silent)

    def next_task() -> Iterator[Say]:
        boss.say([(worker, boss.in_other_words())], notify_when_idle=True)
        yield from ()

    boss.on_news = next_task
    boss.prompt()
    boss.say([(worker, boss.in_other_words())], notify_when_idle=True)


def broadcast(world: World) -> None:
    """One tells twenty others something every ten minutes; they read it."""
    speaker = world.join("speaker", stay_silent)
    others = [world.join(f"other-{number}", stay_silent) for number in range(20)]
    speaker.every(600.0, lambda: [(other, speaker.in_other_words()) for other in others])


def report(world: World) -> None:
    """One tells another something every minute."""
    reporter, reader = world.join("reporter", stay_silent), world.join("reader", stay_silent)
    reporter.every(60.0, lambda: [(reader, reporter.in_other_words())])


def burst(world: World) -> None:
    """One says twelve things at once."""
    one, other = world.join("ann", stay_silent), world.join("bob", stay_silent)
    one.prompt(*[other] * 12)


QUICK, SLOW = (1.0, 3.0), (20.0, 40.0)
POPULATIONS = (
    Population("two that send back what they read within seconds", pair(echo, QUICK)),
    Population("two that send back what they read after half a minute", pair(echo, SLOW)),
    Population("two that always answer, in other words, within seconds", pair(answer_in_other_words, QUICK)),
    Population("two that always answer, in other words, after half a minute", pair(answer_in_other_words, SLOW)),
    Population(
        "two that always answer, and try again when a refusal says so",
        pair(answer_in_other_words, QUICK, stubborn=True),
        8,
    ),
    Population("two that always answer, and whose human asks again every hour, eight times", human_every_hour, 8),
    Population("a ring of three that passes on", ring(3)),
    Population("a ring of nine that passes on", ring(9)),
    Population("a ring of three, each of which is told other news every ten seconds", ring(3, chatter=True)),
    Population("a ring of three, while the broker is killed every ten seconds", ring(3, restart_s=10.0)),
    Population("a star of eight, whose middle answers each", star(answer_in_other_words, 8)),
    Population("a star of eight, whose middle tells all others", star(tell_all_others, 8)),
    Population("one that gives another its next task whenever it is told that that is idle", drive),
    Population("one that speaks of itself, and writes to itself", speak_of_oneself),
    Population("one that tells twenty others something every ten minutes, for eight hours", broadcast, 8),
    Population("one that reports every minute, for eight hours", report, 8),
    Population("one that says twelve things at once", burst),
)


@cache
def watch(population: Population, *, reports: bool, seed: int = 1) -> World:
    """The world in which it was, when its time is over and everybody has taken another step."""
    world = World(seed=seed, reports=reports)
    population.build(world)
    world.run(population.hours * HOUR + 30)
    for actor in world.actors:
        actor.read_receipts()
    return world


# -- the table ---------------------------------------------------------------------------------------------------------

DOCUMENT = MarkedTable("pace.md", "<!-- made by `python -m tests.support.populations` -->")


def make_lines() -> list[str]:
    """What each population costs."""
    lines = [
        "| sessions | they tell of their turns | | plain clients | |",
        "| --- | --- | --- | --- | --- |",
        "| | messages delivered | stopped by | messages delivered | stopped by |",
    ]
    for population in POPULATIONS:
        cells = [population.name]
        for reports in (True, False):
            cells += _cells(watch(population, reports=reports))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cells(world: World) -> list[str]:
    minutes = round(world.ended_s / 60)
    when = "" if not world.refused or not world.delivered else f" in {minutes} min" if minutes else " within a minute"
    stops = ", ".join(f"`{code}`" for code, _ in world.refused.most_common())
    return [f"{world.delivered}{when}", stops or "nothing"]


if __name__ == "__main__":
    DOCUMENT.write(make_lines())
