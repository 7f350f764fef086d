"""Mail on its way from the broker into the harness: by the door, or in the answers of hooks.

    waits at the broker ──take──▶ batch ──door──▶ posted ──its id in a prompt──▶ acknowledged
                                       └──hook──▶ shown ──the next hook──────▶ acknowledged

Laws: one batch at a time is under way through the door, whole and in order, and nothing is posted beside it; what has
no evidence is never acknowledged; what cannot be delivered goes back under its own id. A door that leaves no evidence
though the session was idle is not used any more. Refuses to know: which harness it is, what hooks are called.
"""

from __future__ import annotations

from time import monotonic

from xsessionctl.shim.door import DELIVERED, GONE, REFUSED, WRITTEN, Door
from xsessionctl.shim.supply import Supply
from xsessiond.core import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from xsessionctl.shim.broker_link import BrokerLink
    from xsessionctl.shim.identity import Identity
    from xsessionctl.shim.mail import Batch, Mailbag

RETRY_FIRST_S, RETRY_MOST_S = 1.0, 30.0
"""Pause before a door that said "not now" is tried again; it doubles."""
UNSEEN_S = limits.STALLED_AFTER_S + 5.0
"""An idle session that was given something and begins no turn for so long has not got it. Longer than the broker waits
before it says so to the sender."""
RUNNING = ("busy", "waiting")
"""States in which a turn runs."""
NEXT_STEP_ONLY = ("inject", "steer")
"""Modes that start no turn, ever: hooks carry them where the door might."""


class Courier:
    """One session's deliveries.

    state: of the turn, as the hooks tell it. supply: what the broker has. hooked: hooks run, and their answers can
    carry text. ringing: the door was asked for a turn that has not begun.
    """

    __slots__ = (
        "_bag", "_door", "_doubted", "_handed_over", "_heard", "_hold_for_hooks", "_identity", "_kept", "_link",
        "_posted", "_retry_at", "_retry_s", "_shown", "_told", "_unseen_since", "hooked", "ringing", "state", "supply",
    )  # fmt: skip

    def __init__(self, identity: Identity, link: BrokerLink, bag: Mailbag) -> None:
        self._identity, self._link, self._bag = identity, link, bag
        self.supply = Supply(link, bag)
        self._door = Door()
        self._posted: Batch | None = None
        self._handed_over = self._heard = False
        self._unseen_since: float | None = None
        self._kept: Batch | None = None
        self._retry_at: float | None = None
        self._retry_s = RETRY_FIRST_S
        self._hold_for_hooks = False
        self.ringing = False
        self._shown: list[str] = []
        self._told = False
        self._doubted = False
        self.state = "unknown"
        self.hooked = False

    # -- what others ask -----------------------------------------------------------------------------------------------

    @property
    def under_way(self) -> bool:
        """Whether messages are on their way by the door or a hook, so that later ones must not overtake them."""
        return self.supply.taking or self._posted is not None or self._kept is not None or bool(self._shown)

    @property
    def _is_open(self) -> bool:
        """Whether the door may be used: not if nothing would tell what became of a text."""
        return self._door.is_open and (self.hooked or self._door.proves)

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        lost = None if self._unseen_since is None else self._unseen_since + UNSEEN_S
        return min((time for time in (self._retry_at, lost) if time is not None), default=None)

    # -- what happens --------------------------------------------------------------------------------------------------

    def use_door(self, door: Door) -> None:
        """From now on this is the way in."""
        self._door.close()
        self._door = door
        door.on_change = self.door_changed
        self.door_changed()

    def door_changed(self) -> None:
        """It opened or closed, or hooks turned out to run: what the listing says follows."""
        if self._is_open or (self.hooked and self._door.returns and self.state in RUNNING):
            delivery, modes = self._door.delivery, (*self._door.modes, *NEXT_STEP_ONLY)
        elif self.hooked:
            delivery, modes = "turn", ("auto", *NEXT_STEP_ONLY)
        else:
            delivery, modes = "pull", ("auto",)
        modes = tuple(dict.fromkeys(modes))
        if (delivery, modes) != (self._identity.delivery, self._identity.modes):
            self._identity.delivery, self._identity.modes = delivery, modes
            self._link.tell("update", {"delivery": delivery, "modes": list(modes)})
        self.consider()

    def hooks_run(self) -> None:
        """There is evidence to be had, and another way in: its user's installation says so, or the first hook came."""
        if not self.hooked:
            self.hooked = True
            if self._doubted:
                self._doubted = False
                self._door.reopen()
            self.door_changed()

    def link_is_up(self, queued: int) -> None:
        """The session is attached; so many messages wait for it. Leases of an earlier link are void."""
        known = self._link.session or {}
        if known.get("delivery") not in (None, self._identity.delivery):
            # The door opened while the session introduced itself.
            self._link.tell("update", {"delivery": self._identity.delivery, "modes": list(self._identity.modes)})
        self._kept = None
        self.supply.begin(queued)
        self.consider()

    def hear(self, method: str, params: dict[str, object]) -> None:
        """The broker says something by itself."""
        if self.supply.hear(method, params):
            self.consider()

    def turn_is(self, state: str) -> None:
        """The hooks say what the session does now."""
        self.state = state
        if state == "idle":
            self._hold_for_hooks = False
            if not self._door.is_open and not self._doubted:
                self._door.reopen()
        if self._posted is not None and self._handed_over:
            self._await_evidence()
        if self.ringing and state in RUNNING:
            self.ringing, self._unseen_since = False, None
        if self._kept is not None:
            self._post(self._kept)
        self.door_changed()

    def saw(self, marks: list[str]) -> None:
        """These ids stand in a prompt that goes to the model."""
        if not marks:
            return
        batch = self._posted
        if batch is not None and self._door.proves and self._door.is_open:
            return  # the door is about to say the same, and is not free for the next text before
        if batch is not None and (batch.mark in marks or (batch.ids and set(batch.ids).issubset(marks))):
            # One text, so one evidence. One that has some of them only was posted earlier.
            self._arrived(batch, [mark for mark in marks if mark not in batch.ids])
        else:
            # From a post that is not remembered: of an earlier process of this session, or given up too early.
            late = [mark for mark in marks if mark.startswith("m-")]
            self._bag.note_written(late)
            self.supply.acknowledge(late)
            if self._doubted:
                self._doubted = False
                self._door.reopen()
                self.door_changed()

    def step(self) -> None:
        """The harness went on after a hook: what its answer carried is in the context."""
        self._heard = True
        if self._shown or self._told:
            shown, self._shown, self._told = self._shown, [], False
            self._bag.note_written(shown)
            self.supply.confirm(shown)
            self.consider()

    def forget_conversation(self) -> None:
        """Another one begins: what this one has not taken is not for it."""
        self._posted = self._kept = self._unseen_since = self._retry_at = None
        self._shown, self._told, self._hold_for_hooks, self.ringing = [], False, False, False
        self.supply.forget()
        self._bag.forget()

    def tick(self, now: float) -> None:
        """Does what is due."""
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None
            if self._kept is not None:
                self._post(self._kept)
            else:
                self.consider()
        if self._unseen_since is not None and now >= self._unseen_since + UNSEEN_S:
            self._doubted, self.ringing = True, False
            self.hooked = self._heard  # or the installation says what is not so
            self._door.shut()
            self._give_up()

    # -- by the door ---------------------------------------------------------------------------------------------------

    def consider(self) -> None:
        """Takes what waits, if the door can be used for it now."""
        running = self.state in RUNNING
        if self._link.state != "up" or self.supply.taking or self.under_way or not self._is_open:
            return
        if running and (self._hold_for_hooks or not self._door.busy_too):
            return
        if not (self.supply.waiting or self.supply.wake):
            return
        if self._door.announces:
            self._ring()
        else:
            self.supply.take(limits.TAKE_MAX if self.supply.waiting else 0, self._door.most, self._taken)

    def _ring(self) -> None:
        """Has a turn begin; what waits comes with its hooks."""
        if not self.ringing and self._retry_at is None:
            self.ringing = True
            self._door.post("", busy=False, mode="auto", done=self._rung)

    def _rung(self, outcome: str) -> None:
        if not self.ringing:
            return  # the turn was quicker
        if outcome == WRITTEN:
            self._retry_s = RETRY_FIRST_S
            self._await_evidence()
            return
        self.ringing = False
        if outcome == REFUSED:
            self._retry_at = monotonic() + self._retry_s
            self._retry_s = min(self._retry_s * 2, RETRY_MOST_S)
        else:
            self._give_up()

    def _taken(self, batch: Batch) -> None:
        if self.state in RUNNING and not set(NEXT_STEP_ONLY).intersection(batch.modes) <= set(self._door.modes):
            # All of it, since none may overtake another; it waits for a hook of this turn.
            self._hold_for_hooks = True
            self.put_away(batch)
        elif batch.ids or batch.news:
            self._post(batch)

    def _post(self, batch: Batch) -> None:
        self._kept, self._posted, self._handed_over = None, batch, False
        mode = batch.modes[0] if len(set(batch.modes)) == 1 else "auto"
        self._door.post(
            batch.text, busy=self.state in RUNNING, mode=mode, done=lambda outcome: self._outcome(batch, outcome)
        )

    def _outcome(self, batch: Batch, outcome: str) -> None:
        if self._posted is not batch:
            return  # another conversation meanwhile, or the evidence was quicker
        if outcome == WRITTEN:
            self._retry_s = RETRY_FIRST_S
            self._handed_over = True
            self._await_evidence()
            self.supply.hand(batch.ids)
        elif outcome == DELIVERED:
            self._arrived(batch, [])
        elif outcome == REFUSED and self.state not in RUNNING and not set(NEXT_STEP_ONLY).isdisjoint(batch.modes):
            self._posted = None
            self.put_away(batch)  # the turn that it should join has ended; the broker knows when there is another
        elif outcome == REFUSED:
            self._posted, self._kept = None, batch
            self._retry_at = monotonic() + self._retry_s
            self._retry_s = min(self._retry_s * 2, RETRY_MOST_S)
        elif outcome == GONE:
            self._give_up()

    def _await_evidence(self) -> None:
        """What was handed over is missed once an idle session has not begun a turn with it for long."""
        self._unseen_since = None if self.state in RUNNING or self._door.keeps else monotonic()

    def _arrived(self, batch: Batch, others: list[str]) -> None:
        self._posted = self._unseen_since = None
        self._bag.note_written(batch.ids)
        self.supply.confirm(batch.ids + [mark for mark in others if mark.startswith("m-")])
        self.consider()

    def _give_up(self) -> None:
        """The door is of no use now: what was under way waits again, for a hook or for the model's own call."""
        batch, self._posted, self._unseen_since = self._posted, None, None
        if batch is not None:
            self.put_away(batch)
        self.door_changed()

    # -- by a hook -----------------------------------------------------------------------------------------------------

    def wants_hook(self, *, stopping: bool) -> bool:
        """Whether the answer to a hook should carry what waits. stopping: it would make the turn go on."""
        if self._link.state != "up" or self.supply.taking:
            return False
        if not self._mail_for_hooks and (stopping or not self.supply.news):
            return False
        return not (stopping and self._is_open)

    @property
    def _mail_for_hooks(self) -> bool:
        if not self.supply.waiting or self.under_way:
            return False
        return self._hold_for_hooks or not self._is_open or (self.state in RUNNING and not self._door.busy_too)

    def fetch(self, most: int, done: Callable[[Batch], None]) -> None:
        """What the answer to a hook carries, at most so many characters. Call `show` or `put_away` with it."""
        self.supply.take(limits.TAKE_MAX if self._mail_for_hooks else 0, most, done)

    def show(self, batch: Batch) -> None:
        """The answer has been written."""
        self._shown += batch.ids
        self._told = self._told or bool(batch.news)
        self.supply.hand(batch.ids)

    def put_away(self, batch: Batch) -> None:
        """It will not be shown after all."""
        self.supply.put_back(batch)
