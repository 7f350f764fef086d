"""The one owner of the broker: gives it events, does its effects, and lets no answer overtake its commit.

Laws: an event is handled and its effects are queued without an await between; what effects bring about is an event of
its own, after them; what stands behind a `Persist` leaves after that commit, and so does all that was decided later; a
commit takes everything that gathered meanwhile. Refuses to know: what events and effects mean.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import trio

from xsessiond.core.broker import Broker
from xsessiond.core.effects import (
    CloseLink,
    Effect,
    Event,
    FrameReceived,
    LookedUp,
    LookUp,
    NotStored,
    Persist,
    ProcessExited,
    ProcessId,
    Prune,
    SendFrame,
    Stop,
    StoreReported,
    TimePassed,
    WatchProcess,
)
from xsessiond.core.errors import not_stored
from xsessiond.core.jsonrpc import REFUSED
from xsessiond.core.limits import (
    COMMIT_PAUSES_S,
    FINISH_LOOK_S,
    FRAME_WEIGHT,
    LAZY_S,
    LOOKUPS_PER_LINK,
    OUTBOX_PAUSE,
    OWED_MOST,
    SLOW_COMMIT_S,
    STORE_RETRY_S,
)
from xsessiond.core.link import Frame
from xsessiond.core.outgoing import answered_request, encode_error
from xsessiond.core.records import Op
from xsessiond.core.times import Now
from xsessiond.io.lookups import Lookups
from xsessiond.io.peer import Peer
from xsessiond.io.surroundings import Surroundings, act_at_once
from xsessiond.io.upkeep import Upkeep
from xsessiond.store.contract import Store, StoreError


class Engine:
    """Runs one broker. `run` must run for commits, timers and reads to happen; `submit` may be called from any task of
    the loop."""

    def __init__(self, broker: Broker, store: Store, surroundings: Surroundings) -> None:
        self._broker, self._store, self._around = broker, store, surroundings
        self.peers: dict[int, Peer] = {}
        self._ops: list[Op] = []
        self._after: list[Effect] = []
        self._groups: list[tuple[int, int]] = []
        self._owed: list[Op] = []
        self._later: deque[Event] = deque()
        self._waiting: dict[int, int] = {}
        self._held: set[int] = set()
        self._lookups = Lookups(store, lambda link: link in self.peers, self._looked_up)
        self._acting = self._pressing = False
        self._committing = self._troubled = False
        self._commit_s = 0.0
        self._work, self._due_changed, self._rest = trio.Event(), trio.Event(), trio.Event()
        self._due: float | None = None
        self._nursery: trio.Nursery | None = None
        self.upkeep = Upkeep(store, surroundings)
        self._healthy = True

    # -- events ------------------------------------------------------------------------------------------------------

    def now(self) -> Now:
        """Both clocks."""
        return Now(trio.current_time(), time.time_ns() // 1_000_000)

    def submit(self, event: Event) -> None:
        """Handles one event and does what follows from it."""
        self._handle(event, self.now())
        self.settle()

    def receive(self, link: int, frames: Sequence[Frame]) -> int:
        """Handles what one read of a peer brought; returns how many of the frames. When answers of some size wait for
        it, or some questions to the store, the peer is held until they are through. `settle` follows when the turn's
        other peers were read too."""
        now = self.now()
        for number, frame in enumerate(frames, 1):
            self._handle(FrameReceived(link, frame), now)
            if self._committing:
                self._waiting[link] = self._waiting.get(link, 0) + FRAME_WEIGHT
            if self._is_busy(link):
                peer = self.peers.get(link)
                if peer is not None:
                    self._held.add(link)
                    peer.hold()
                return number
        return len(frames)

    def _is_busy(self, link: int) -> bool:
        return self._waiting.get(link, 0) > OUTBOX_PAUSE or self._lookups.waiting_for(link) >= LOOKUPS_PER_LINK

    def _resume_held(self) -> None:
        for link in [link for link in self._held if not self._is_busy(link)]:
            self._held.discard(link)
            if (peer := self.peers.get(link)) is not None:
                peer.resume()

    def _handle(self, event: Event, now: Now) -> None:
        if self._acting:  # an effect brought it about (a link that was cut has ended): it comes after what goes on
            self._later.append(event)
            return
        self._acting = True
        ops, after, waiting = self._ops, self._after, self._waiting
        for effect in self._broker.handle(event, now):
            if isinstance(effect, SendFrame):
                if effect.urgent:
                    self._send(effect)
                else:
                    after.append(effect)
                    waiting[effect.link] = waiting.get(effect.link, 0) + len(effect.frame)
            elif isinstance(effect, Persist):
                ops.append(effect.op)
                if not effect.lazy:
                    self._pressing = True
            else:
                self._do_or_queue(effect)
        self._groups.append((len(ops), len(after)))
        self._acting = False

    def _do_or_queue(self, effect: Effect) -> None:
        if isinstance(effect, WatchProcess):
            if not self._around.watch(effect.process):
                trio.lowlevel.spawn_system_task(self._report_exit, effect.process)
        elif not act_at_once(self._around, effect):
            self._after.append(effect)
            if isinstance(effect, LookUp):
                self._lookups.expect(effect)
                if self._ops:  # also those that nobody waits for: the answer must know of them
                    self._pressing = True

    async def _report_exit(self, process: ProcessId) -> None:
        """A process that was dead when it was to be watched: reported in a turn of its own, after the event that
        asked."""
        self.submit(ProcessExited(process))

    def settle(self) -> None:
        """The end of a turn: stores what gathered, while the disk is quick at once, and lets go of what waits for
        nothing."""
        if self._acting:
            return  # this is called again when that is done
        self._settle()
        while self._later:
            now = self.now()
            while self._later:
                self._handle(self._later.popleft(), now)
            self._settle()
        if self._held:
            self._resume_held()

    def _settle(self) -> None:
        due = self._broker.next_due()
        if due != self._due:
            self._due = due
            self._due_changed.set()
        if self._committing or self._troubled:
            return  # the committer goes on with it
        if not self._pressing:
            self._let_go()
            return
        if self._commit_s > SLOW_COMMIT_S or not self._healthy:
            self._work.set()
            return
        start = time.perf_counter()
        try:
            self._store.commit(self._ops)
        except StoreError:
            self._troubled = True  # all stays where it is; the committer tries again, with more patience
            self._work.set()
            return
        self._note_commit(start)
        _, after, _ = self._take()
        self._do(after)

    def _let_go(self) -> None:
        """Nothing waits for a commit: the frames go. Operations that nobody waits for are stored with the next, or
        soon."""
        after, self._after, self._waiting = self._after, [], {}
        self._groups = [(len(self._ops), 0)] if self._ops else []
        if self._ops:
            self._rest.set()
        if after:
            self._do(after)

    def _take(self) -> tuple[list[Op], list[Effect], list[tuple[int, int]]]:
        batch = self._ops, self._after, self._groups
        self._ops, self._after, self._groups, self._waiting = [], [], [], {}
        self._pressing = False
        return batch

    # -- effects -----------------------------------------------------------------------------------------------------

    def _do(self, effects: Sequence[Effect]) -> None:
        """Sends frames, those of one link together, and does what else was put behind a commit."""
        self._acting = True
        frames: dict[int, list[bytes]] = {}
        for effect in effects:
            if type(effect) is SendFrame:
                got = frames.get(effect.link)
                if got is None:
                    frames[effect.link] = [effect.frame]
                else:
                    got.append(effect.frame)
                continue
            self._send_all(frames)
            frames = {}
            self._do_one(effect)
        self._send_all(frames)
        self._acting = False

    def _send_all(self, frames: dict[int, list[bytes]]) -> None:
        peers = self.peers
        for link, parts in frames.items():
            peer = peers.get(link)
            if peer is not None:
                peer.send(parts[0] if len(parts) == 1 else b"".join(parts))

    def _send(self, effect: SendFrame) -> None:
        peer = self.peers.get(effect.link)
        if peer is not None:
            peer.send(effect.frame)

    def _do_one(self, effect: Effect) -> None:
        match effect:
            case CloseLink():
                if (peer := self.peers.get(effect.link)) is not None:
                    if effect.why is not None:
                        self._around.write_log("info", "link closed", {"why": effect.why})
                    peer.close()
            case LookUp():
                self._lookups.ask(effect)
            case Prune():
                assert self._nursery is not None
                self._nursery.start_soon(self.upkeep.prune, effect.older_than_ms)
            case Stop():
                self._around.stop(effect.reason, handover=effect.handover)
            case _:
                raise AssertionError(f"{effect} does not belong behind a commit")

    def _looked_up(self, event: LookedUp) -> None:
        self._handle(event, self.now())
        self.settle()

    # -- commits -----------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Commits, reads and keeps time until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._keep_time)
            self._nursery.start_soon(self._commit_forever)
            self._nursery.start_soon(self._lookups.run)
            self._nursery.start_soon(self._store_the_rest)
            task_status.started()

    async def _commit_forever(self) -> None:
        """Commits in a thread what `settle` left, for as long as that is needed."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._pressing:
                await self._commit_all()

    async def _store_the_rest(self) -> None:
        """Stores what nobody waits for, a moment after it came, unless it went with something else."""
        while True:
            await self._rest.wait()
            await trio.sleep(LAZY_S)
            self._rest = trio.Event()
            if self._ops:
                self._pressing = True
                self.settle()

    async def _commit_all(self) -> None:
        """Stores all that gathered, then sends what waited for it."""
        ops, after, groups = self._take()
        owed, self._owed = self._owed, []
        self._committing, self._troubled = True, False
        try:
            await self._commit_patiently([*owed, *ops])
        except StoreError as problem:
            self._owed = owed
            await self._commit_apart(ops, after, groups, problem)
        else:
            if not self._healthy:
                self._healthy = True
                self._handle(StoreReported(None), self.now())
            self._do(after)
        finally:
            self._committing = False
        self.settle()

    async def _commit_patiently(self, ops: Sequence[Op]) -> None:
        """Stores them. A store that was well until now gets a moment for what passes by itself: a lock that another
        program holds, a disk that is full for an instant. One that is not well is not waited for again each time."""
        patience = iter(COMMIT_PAUSES_S if self._healthy else ())
        while True:
            try:
                return await self._commit(ops)
            except StoreError as problem:
                pause = next(patience, None)
                if pause is None or not problem.transient:
                    raise
            await trio.sleep(pause)

    async def _commit(self, ops: Sequence[Op]) -> None:
        start = time.perf_counter()
        await trio.to_thread.run_sync(self._store.commit, ops)
        self._note_commit(start)

    def _note_commit(self, start: float) -> None:
        """Remembers how quick the disk is, and moves the store's log when it has grown."""
        self._commit_s += (time.perf_counter() - start - self._commit_s) / 8
        if self._nursery is not None and self.upkeep.is_due():
            self._nursery.start_soon(self.upkeep.checkpoint)

    async def _commit_apart(
        self, ops: list[Op], after: list[Effect], groups: list[tuple[int, int]], problem: StoreError
    ) -> None:
        """A batch failed: each event's operations by themselves, so that one cannot fail the others."""
        self._around.write_log("error", "commit failed", {"problem": str(problem), "operations": len(ops)})
        self._healthy = False
        cut: set[int] = set()
        ops_from = after_from = 0
        for ops_to, after_to in groups:
            mine, effects = ops[ops_from:ops_to], after[after_from:after_to]
            ops_from, after_from = ops_to, after_to
            try:
                if mine:
                    await self._commit(mine)
            except StoreError as error:
                self._give_up(mine, effects, error, cut)
            else:
                # What was decided after the lost event may speak of it: links that the broker then cut hear nothing.
                self._do([effect for effect in effects if not (isinstance(effect, SendFrame) and effect.link in cut)])

    def _give_up(self, ops: list[Op], effects: list[Effect], problem: StoreError, cut: set[int]) -> None:
        """One event could not be stored: who waits for its answer hears so, what is still true of it is stored later.
        cut: gains the links that the broker closes for it."""
        refusal = not_stored(str(problem), retry_after_s=STORE_RETRY_S if problem.transient else None)
        self._acting = True
        for effect in self._broker.handle(NotStored(tuple(ops), str(problem)), self.now()):
            if isinstance(effect, Persist):
                self._owed.append(effect.op)
            elif isinstance(effect, CloseLink):
                cut.add(effect.link)
                self._do_one(effect)
            else:
                self._do_or_queue(effect)
        self._acting = False
        del self._owed[:-OWED_MOST]
        instead: list[Effect] = []
        for effect in effects:
            if not isinstance(effect, SendFrame):
                instead.append(effect)
            elif effect.link not in cut and (request := answered_request(effect.frame)) is not None:
                frame = encode_error(request, REFUSED, refusal.text, refusal.to_json())
                instead.append(SendFrame(effect.link, frame))
        self._do(instead)

    async def finish(self) -> None:
        """Returns when all that was decided is stored and given to the sockets. The caller bounds it."""
        while self._ops or self._committing or self._troubled:
            self._pressing = True
            self.settle()
            await trio.sleep(FINISH_LOOK_S)
        for peer in list(self.peers.values()):
            await peer.drained()

    # -- time --------------------------------------------------------------------------------------------------------

    async def _keep_time(self) -> None:
        """Sleeps until something is due; for ever if nothing is."""
        while True:
            self._due_changed = changed = trio.Event()
            due = self._due
            with trio.move_on_at(due if due is not None else float("inf")):
                await changed.wait()
                continue
            self.submit(TimePassed())
