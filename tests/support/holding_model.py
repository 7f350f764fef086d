"""A plain model of holding, and a random walk in which it and the broker must agree after every step.

The model knows the parity table, what the user set, whom they trust, and what became of each message, as one would
explain them on paper. `tests/support/core_model.py` is about everything else: there nothing is held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.support.core_house import Answer, Guest, House, refused
from xsessiond.core.admission import Setting
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings
from xsessiond.core.records import PutHold

CLASSES = ("bypass", "prompting", None)
EXPIRY_MS = 600_000
MOST = 6
SETTINGS = CoreSettings(
    pacing=PaceSettings(
        target_burst=0, sender_burst=0, duplicate_window=0, max_hops=1_000_000, exchange_per_minute=1_000_000
    ),
    hold_expiry_ms=EXPIRY_MS,
    held_per_session=MOST,
)
ADMITTED = {("bypass", "bypass"), ("prompting", "prompting"), (None, "prompting")}
"""By class of sender and receiver. All else is held."""


@dataclass(eq=False)
class Held:
    """One accepted message. perm_class: of its sender as it sent. until: when it expires while it is held. before:
    whether it was ever held."""

    id: str
    sender: str
    target: str
    perm_class: str | None
    state: str
    until: int | None = None
    before: bool = False


@dataclass(eq=False)
class Trusted:
    """One decision that covers what follows."""

    id: str
    pair: tuple[str, str]
    scope: str
    until: int | None


class HoldingWalk:
    """A walk of one seed. `step` does one thing and compares."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.house = House(SETTINGS)
        self.guests: dict[str, Guest] = {}
        self.classes: dict[str, str | None] = {}
        self.mail: dict[str, Held] = {}
        self.trusts: dict[tuple[str, str], Trusted] = {}
        self.inbound: str | None = None
        self.story: list[str] = []
        self.counts: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self._texts = 0
        for name in ("ant", "bee", "cat", "dog"):
            self.arrive(name, self.random.choice(CLASSES))

    def step(self) -> None:
        """One random thing, and what must be true after it."""
        weights: dict[Callable[[], None], int] = {
            self.send: 40, self.approve: 8, self.deny: 4, self.change_class: 6, self.change_setting: 3, self.read: 8,
            self.pass_time: 4, self.crash: 2, self.resume: 3, self.revoke: 1, self.fail_to_send: 2,
        }  # fmt: skip
        (what,) = self.random.choices(list(weights), list(weights.values()))
        self.story.append(what.__name__)
        self.counts[what.__name__] += 1
        what()
        self.compare()

    def say(self, *words: object) -> None:
        """For the story of a walk that fails."""
        self.story[-1] += " " + " ".join(map(str, words))

    def arrive(self, name: str, perm_class: str | None) -> Guest:
        """A conversation begins or resumes."""
        params: dict[str, Any] = {"harness_session_id": name, "class": perm_class}
        guest = self.house.join(name, **params)
        self.guests[guest.id], self.classes[guest.id] = guest, perm_class
        return guest

    def held(self) -> list[Held]:
        """What waits for a human, in order."""
        return [mail for mail in self.mail.values() if mail.state == "held"]

    # -- the rules ---------------------------------------------------------------------------------

    def judge(self, sender: str, perm_class: str | None, target: str) -> str:
        """admit, hold, hold for ever, or refuse."""
        if self.inbound == "refuse":
            return "refuse"
        trust = self.trusts.get((sender, target))
        if trust is not None and (trust.until is None or trust.until > self.house.ms):
            return "admit"
        if self.inbound is not None:
            return "admit" if self.inbound == "accept" else "hold for ever"
        return "admit" if (perm_class, self.classes[target]) in ADMITTED else "hold"

    def reconsider(self, *owners: str) -> None:
        """Something changed for these."""
        for mail in self.held():
            if not owners or mail.target in owners or mail.sender in owners:
                verdict = self.judge(mail.sender, mail.perm_class, mail.target)
                if verdict == "admit":
                    mail.state = "queued"
                elif verdict == "refuse":
                    self.finish(mail, "refused")

    def finish(self, mail: Held, state: str) -> None:
        """It never arrives."""
        mail.state = state
        self.ends[state] += 1

    # -- what happens ------------------------------------------------------------------------------

    def send(self) -> None:
        """One session writes to another."""
        sender, target = self.random.sample(sorted(self.guests), 2)
        self._texts += 1
        verdict = self.judge(sender, self.classes[sender], target)
        full = sum(mail.target == target for mail in self.held()) >= MOST
        self.say(self.guests[sender].name, self.guests[target].name, verdict)
        line = self.guests[sender].line
        request = line.begin("send", to=target, message=f"text {self._texts}")
        if verdict == "refuse" or (verdict.startswith("hold") and full):
            code = refused(lambda: line.answer(request)).code
            assert code == ("refused" if verdict == "refuse" else "hold_full")
            return
        answer = line.answer(request)
        mail = Held(answer["id"], sender, target, self.classes[sender], answer["state"])
        self.mail[mail.id] = mail
        assert mail.state == ("queued" if verdict == "admit" else "held")
        if mail.state == "held":
            mail.before, mail.until = True, self.house.ms + EXPIRY_MS if verdict == "hold" else None
            assert (answer["expires_at"] is None) == (mail.until is None)

    def fail_to_send(self) -> None:
        """The disk is full for what would be held."""
        sender, target = self.random.sample(sorted(self.guests), 2)
        if self.judge(sender, self.classes[sender], target).startswith("hold"):
            self.house.failing = lambda ops: any(isinstance(op, PutHold) for op in ops)
            refusal = refused(lambda: self.guests[sender].send(self.guests[target], "never stored"))
            assert refusal.code in ("internal", "hold_full")
            self.house.failing = lambda ops: False

    def some(self) -> list[Held]:
        """A few of those that are held, and one that is not."""
        held, others = self.held(), [mail for mail in self.mail.values() if mail.state != "held"]
        chosen = self.random.sample(held, min(len(held), self.random.randrange(1, 4)))
        return chosen + (self.random.sample(others, 1) if others and self.random.random() < 0.3 else [])

    def approve(self) -> None:
        """A person lets some through, and perhaps what follows."""
        chosen = self.some()
        if not chosen:
            return
        params: dict[str, Any] = {}
        if self.random.random() < 0.4:
            params["trust"] = self.random.choice(("once", "session", "pair"))
            if params["trust"] != "once" and self.random.random() < 0.4:
                params["for_s"] = 300
        self.say(len(chosen), params)
        decided = self.house.approve(*[mail.id for mail in chosen], **params)
        held = [mail for mail in chosen if mail.state == "held"]
        for mail in held:
            mail.state = "queued"
        self.hold_to(decided, chosen, held)
        if params.get("trust") in ("session", "pair"):
            until = self.house.ms + 300_000 if "for_s" in params else None
            for mail, one in zip(chosen, decided, strict=True):
                if mail in held:
                    pair = mail.sender, mail.target
                    self.trusts[pair] = Trusted(one["trust"], pair, params["trust"], until)
            self.reconsider(*{mail.target for mail in held})

    def deny(self) -> None:
        """A person turns some away."""
        chosen = self.some()
        if chosen:
            decided = self.house.deny(*[mail.id for mail in chosen])
            held = [mail for mail in chosen if mail.state == "held"]
            for mail in held:
                self.finish(mail, "denied")
            self.hold_to(decided, chosen, held)

    def hold_to(self, decided: list[Answer], chosen: list[Held], held: list[Held]) -> None:
        """Each has the answer that it must have."""
        assert [one["id"] for one in decided] == [mail.id for mail in chosen]
        for mail, one in zip(chosen, decided, strict=True):
            code = one["error"] and one["error"]["code"]
            late = "expired" if mail.state == "expired" else "already_decided"
            assert (one["state"], code) == (mail.state, None if mail in held else late)

    def revoke(self) -> None:
        """A person trusts no more."""
        if self.trusts:
            pair = self.random.choice(sorted(self.trusts))
            line = self.house.human()
            live = self.trusts.pop(pair)
            listed = {one["id"] for one in line.ask("trusts")["trusts"]}
            assert (live.id in listed) == (live.until is None or live.until > self.house.ms)
            line.ask("revoke_trust", id=live.id)
            line.drop()

    def change_class(self) -> None:
        """A harness asks from now on, or does not, or cannot tell."""
        owner, perm_class = self.random.choice(sorted(self.guests)), self.random.choice(CLASSES)
        self.say(self.guests[owner].name, perm_class)
        changed = self.classes[owner] != perm_class
        self.guests[owner].change_class(perm_class)
        self.classes[owner] = perm_class
        if changed:
            self.reconsider(owner)

    def change_setting(self) -> None:
        """The user writes another policy."""
        self.inbound = self.random.choice((None, None, "accept", "hold", "refuse"))
        self.say(self.inbound)
        written = () if self.inbound is None else (Setting(self.inbound, "user", "config.toml:2"),)
        self.house.change_settings(inbound=written)
        self.reconsider()

    def read(self) -> None:
        """A session takes all that is its own, and nothing else."""
        owner = self.random.choice(sorted(self.guests))
        mine = [mail for mail in self.mail.values() if mail.target == owner and mail.state == "queued"]
        taken = []
        while messages := self.guests[owner].take():
            self.guests[owner].ack(*messages)
            taken += messages
        assert [message["id"] for message in taken] == [mail.id for mail in mine], "not in the order of acceptance"
        for mail, message in zip(mine, taken, strict=True):
            assert (message["held"] is not None) == mail.before
            mail.state = "delivered"
            self.ends["delivered"] += 1

    def pass_time(self) -> None:
        """Seconds, or long enough for everything to expire."""
        seconds = self.random.choice((1, 200, 301, 601))
        self.say(seconds)
        self.house.pass_time(seconds)
        for mail in self.held():
            if mail.until is not None and mail.until <= self.house.ms:
                self.finish(mail, "expired")

    def crash(self) -> None:
        """The broker is killed and started; all come back."""
        self.house.restart()
        for guest in self.guests.values():
            guest.come_back()
        self.trusts = {pair: trust for pair, trust in self.trusts.items() if (trust.until or 1 << 60) > self.house.ms}
        self.reconsider()

    def resume(self) -> None:
        """A conversation ends and goes on, as another kind of session perhaps."""
        owner = self.random.choice(sorted(self.guests))
        old = self.guests[owner]
        self.house.kill(old)
        self.trusts = {pair: trust for pair, trust in self.trusts.items() if trust.scope == "pair" or owner not in pair}
        again = self.arrive(old.name, self.random.choice(CLASSES))
        assert again.id == owner
        self.reconsider(owner)

    # -- agreeing ----------------------------------------------------------------------------------

    def compare(self) -> None:
        """The broker and the model say the same."""
        queue = self.house.queue()
        assert [hold["id"] for hold in queue] == [mail.id for mail in self.held()]
        core = self.house.broker.core
        for owner in self.guests:
            box = core.roster.known[owner].box
            assert list(box.held) == [mail.id for mail in self.held() if mail.target == owner]
            assert len(box) == sum(mail.target == owner and mail.state == "queued" for mail in self.mail.values())
        assert set(core.trusts) == {trust.id for trust in self.trusts.values()}
        stored = {row.id: row.state for row in self.house.store.load().messages}
        assert stored == {mail.id: mail.state for mail in self.mail.values() if mail.state in ("held", "queued")}

    def finish_walk(self) -> None:
        """Each sender sees what became of each message."""
        for mail in self.mail.values():
            assert self.guests[mail.sender].check(mail.id)["state"] == mail.state
