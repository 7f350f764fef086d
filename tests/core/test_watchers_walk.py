"""Random walks over notices of idleness, against a model that one would draw on paper.

The model knows of each session since when it is calm: it has said that it is idle, has a link and no mail. Whoever
asked is told `idle` as soon as that has lasted for the time to settle, `exited` when it ends, `expired` after half a
day, and nothing else; each once, whatever happens to links and to the broker meanwhile.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.support.core_house import Guest, House
from xsessiond.core.limits import GRACE_S, IDLE_SETTLE_S, WATCH_MS
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings

NO_PACE = PaceSettings(target_burst=0, sender_burst=0, duplicate_window=0, max_hops=10_000, exchange_per_minute=10_000)


class Watched:
    """A session as the model sees it. mail: ids of what it has not read. calm_since: on the monotonic clock, or
    None."""

    def __init__(self, house: House, name: str) -> None:
        self.house, self.name = house, name
        self.guest: Guest
        self.join()

    def join(self) -> None:
        self.guest = self.house.join(self.name, delivery="push", harness_session_id=f"talk-{self.name}")
        self.state, self.linked, self.running = "unknown", True, True
        self.mail: list[str] = (self.guest.session.box.waiting and [m.id for m in self.guest.session.box]) or []
        self.calm_since: float | None = None
        self.changed()

    def changed(self) -> None:
        """Something that its calm depends on."""
        calm = self.running and self.linked and self.state == "idle" and not self.mail
        self.calm_since = self.house.mono if calm else None


class Walk:
    """One walk. wishes: (asker, target) → until, in milliseconds."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.house = House(CoreSettings(pacing=NO_PACE))
        self.askers = [self.house.join(name) for name in ("ann", "bob")]
        self.targets = [Watched(self.house, name) for name in ("one", "two", "three")]
        self.wishes: dict[tuple[str, str], int] = {}
        self.told: dict[str, int] = {}
        self.texts = 0

    def step(self) -> None:
        for target in self.targets:
            target.guest.line.pong()
        weights = {
            self.ask: 4, self.turn: 6, self.mail: 1, self.read: 6, self.lose_link: 1, self.end: 1, self.crash: 1,
            self.pass_time: 6,
        }  # fmt: skip
        (what,) = self.random.choices(list(weights), list(weights.values()))
        what()
        self.compare()

    def ask(self) -> None:
        asker, target = self.random.choice(self.askers), self.random.choice(self.targets)
        if not target.running:
            return
        if self.random.random() < 0.5:
            calm = target.calm_since is not None and self.house.mono - target.guest.session.seen >= IDLE_SETTLE_S
            answer = asker.watch(target.guest)["watch"]
            assert answer["state"] == ("idle" if calm else "watching")
            if calm:
                self.wishes.pop((asker.id, target.guest.id), None)
                return
        else:
            self.texts += 1
            sent = asker.send(target.guest, f"text {self.texts}", notify_when_idle=True)
            target.mail.append(sent["id"])
            answer = sent["watch"]
            if target.calm_since is not None:
                target.changed()
        self.wishes[asker.id, target.guest.id] = self.house.ms + WATCH_MS

    def turn(self) -> None:
        target = self.random.choice(self.targets)
        if target.running and target.linked:
            target.state = self.random.choice(["busy", "idle", "idle"])
            target.guest.line.ask("turn", phase="started" if target.state == "busy" else "ended")
            target.changed()

    def mail(self) -> None:
        target = self.random.choice(self.targets)
        self.texts += 1
        if target.running and len(target.mail) < 40:
            target.mail.append(self.askers[0].send(target.guest, f"text {self.texts}")["id"])
            target.changed()

    def read(self) -> None:
        target = self.random.choice(self.targets)
        if target.running and target.linked and target.mail:
            target.guest.take()
            target.guest.ack(*target.mail)
            target.mail.clear()
            target.changed()

    def lose_link(self) -> None:
        target = self.random.choice(self.targets)
        if not target.running:
            target.join()
        elif target.linked:
            target.guest.line.drop()
            target.linked = False
            target.changed()
        else:
            target.guest.come_back()
            target.linked = True
            target.changed()

    def end(self) -> None:
        target = self.random.choice(self.targets)
        if target.running:
            self.house.kill(target.guest)
            target.running = target.linked = False
            target.changed()

    def crash(self) -> None:
        if self.random.random() < 0.5:
            return
        self.house.restart()
        for asker in self.askers:
            asker.come_back()
        for target in self.targets:
            if target.running:
                target.guest.come_back()
                target.linked, target.state = True, "unknown"
                target.changed()

    def pass_time(self) -> None:
        seconds = self.random.choice([0.5, 1.0, 1.9, 2.1, 5.0, GRACE_S - 1, 700.0, WATCH_MS / 1000 + 1])
        self.house.pass_time(seconds)

    def compare(self) -> None:
        """What was told is true and complete."""
        by_id = {target.guest.id: target for target in self.targets}
        for asker in self.askers:
            for notice in asker.notices():
                if not notice["id"].startswith("s-"):
                    continue
                until = self.wishes.pop((asker.id, notice["id"]), None)
                assert until is not None, f"nobody asked, or it was told before: {notice}"
                target, outcome = by_id[notice["id"]], notice["state"]
                self.told[outcome] = self.told.get(outcome, 0) + 1
                if outcome == "idle":
                    assert target.calm_since is not None
                    assert self.house.mono - target.calm_since >= IDLE_SETTLE_S
                elif outcome == "exited":
                    assert not target.running
                else:
                    assert outcome == "expired"
                    assert until <= self.house.ms
        for (_, target_id), until in self.wishes.items():
            target = by_id[target_id]
            assert target.running, "it has ended, and that was not told"
            assert until > self.house.ms, "the time is over, and that was not told"
            if target.calm_since is not None:
                # Told after it settled; a word of it begins that anew.
                assert self.house.mono - max(target.calm_since, target.guest.session.seen) < IDLE_SETTLE_S + 0.001
        stored = {(row.asker_id, row.target_id) for row in self.house.store.load().watches}
        assert stored == set(self.wishes)
        kept = {(asker, target) for target, askers in self.house.broker.core.watches.items() for asker in askers}
        assert kept == set(self.wishes)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_told_is_true_and_told_once(seed: int) -> None:
    """9.1, 9.2"""
    walk = Walk(seed)
    for _ in range(1500):
        walk.step()
    assert walk.told["idle"] > 5
    assert walk.told["exited"] > 0
