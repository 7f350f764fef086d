"""No answer overtakes its commit, effects keep their order, and a store in trouble costs only those it concerns."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from tests.io.rig import ScriptedBroker, is_silent, lines, running_engine, say, store_something, wait_for
from tests.support.service_rig import TroubledStore
from xsessiond.core.effects import (
    CloseDoor,
    CloseLink,
    Effect,
    Event,
    FindSent,
    FrameReceived,
    LinkClosed,
    LookedUp,
    LookUp,
    NotStored,
    Persist,
    ProcessExited,
    ProcessId,
    SendFrame,
    Stop,
    StopAsked,
    StoreReported,
    TimePassed,
    WatchProcess,
    WriteLog,
)
from xsessiond.core.limits import FRAME_WEIGHT, LOOKUPS_PER_LINK, OUTBOX_PAUSE
from xsessiond.core.records import DropPins, MessageRow
from xsessiond.core.wire import Request
from xsessiond.store.contract import StoreError

FULL = StoreError("The disk is full.", transient=True)
PROCESS = ProcessId(4711, 1)


def ask(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"whoami"}\n' % number


class Requests:
    """A script: the effects of each request by its id, and of any other event by its type."""

    def __init__(self, requests: dict[int, list[Effect]], **others: list[Effect]) -> None:
        self.requests, self.others = requests, others

    def __call__(self, event: Event) -> list[Effect]:
        if isinstance(event, FrameReceived):
            assert isinstance(event.frame, Request)
            assert isinstance(event.frame.id, int)
            return self.requests[event.frame.id]
        return self.others.get(type(event).__name__, [])


# -- the order of things -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", [False, True])
async def test_no_frame_leaves_before_its_commit(slow: bool) -> None:  # noqa: FBT001
    """3.3: what stands behind something to be stored waits for it, and so does all that was decided later."""
    store = TroubledStore()
    broker = ScriptedBroker(Requests({1: [store_something(), say(1, "stored")], 2: [say(2, "later")]}))
    async with running_engine(broker, store) as rig:
        first, second = rig.connect(), rig.connect()
        rig.slow_disk()  # in a thread; a quick disk is committed to on the spot, with nothing in between
        if slow:
            store.gate.clear()
        await first.send_all(ask(1))
        if slow:
            await trio.to_thread.run_sync(store.begun.acquire)
            await second.send_all(ask(2))
            assert await is_silent(first)
            assert await is_silent(second)
            store.gate.set()
        else:
            await second.send_all(ask(2))
        assert await lines(first, 1) == [b"stored"]
        assert await lines(second, 1) == [b"later"]
        assert store.batches == [(DropPins("x"),)]


async def test_an_urgent_frame_does_not_wait() -> None:
    """`status` and `stop` answer also when the disk hangs."""
    store = TroubledStore()
    script = Requests({1: [store_something(), say(1, "stored")], 2: [say(1, "urgent", urgent=True)]})
    async with running_engine(ScriptedBroker(script), store) as rig:
        client = rig.connect()
        rig.slow_disk()
        store.gate.clear()
        await client.send_all(ask(1))
        await trio.to_thread.run_sync(store.begun.acquire)
        await client.send_all(ask(2))
        assert await lines(client, 1) == [b"urgent"]
        store.gate.set()
        assert await lines(client, 1) == [b"stored"]


async def test_what_comes_during_a_commit_goes_with_the_next_one_together() -> None:
    store = TroubledStore()
    script = Requests({number: [store_something(str(number)), say(1, str(number))] for number in range(1, 6)})
    async with running_engine(ScriptedBroker(script), store) as rig:
        client = rig.connect()
        rig.slow_disk()
        store.gate.clear()
        await client.send_all(ask(1))
        await trio.to_thread.run_sync(store.begun.acquire)
        for number in range(2, 6):
            await client.send_all(ask(number))
            await trio.testing.wait_all_tasks_blocked()
        store.gate.set()
        assert await lines(client, 5) == [b"1", b"2", b"3", b"4", b"5"]
        assert [len(batch) for batch in store.batches] == [1, 4]


async def test_the_end_of_a_link_is_handled_after_what_caused_it() -> None:
    """A frame that is decided because a link was closed comes after those that were decided before."""
    script = Requests({1: [CloseLink(1), say(2, "before")]}, LinkClosed=[say(2, "after")])
    async with running_engine(ScriptedBroker(script), TroubledStore()) as rig:
        first, second = rig.connect(), rig.connect()
        await first.send_all(ask(1))
        assert await lines(second, 2) == [b"before", b"after"]
        assert await first.receive_some() == b""


async def test_the_end_of_a_link_during_a_commit_is_handled_after_it() -> None:
    store = TroubledStore()
    script = Requests({1: [store_something(), CloseLink(1), say(2, "before")]}, LinkClosed=[say(2, "after")])
    async with running_engine(ScriptedBroker(script), store) as rig:
        first, second = rig.connect(), rig.connect()
        rig.slow_disk()
        await first.send_all(ask(1))
        assert await lines(second, 2) == [b"before", b"after"]


async def test_an_event_that_an_effect_brings_about_comes_after_that_event() -> None:
    """Closing a private socket takes in who still waits there: that is an event of its own."""
    script = Requests({1: [CloseDoor("s"), store_something("1"), say(1, "first")]}, StopAsked=[say(1, "second")])
    store = TroubledStore()
    async with running_engine(ScriptedBroker(script), store) as rig:
        client = rig.connect()
        rig.around.on_close = lambda: rig.engine.submit(StopAsked("in between"))
        await client.send_all(ask(1))
        assert await lines(client, 2) == [b"first", b"second"]
        assert store.batches == [(DropPins("1"),)]


async def test_frames_of_one_link_keep_their_order_among_other_effects() -> None:
    effects: list[Effect] = [say(1, "a"), say(2, "x"), WriteLog("info", "told", {}), say(1, "b"), Stop("enough")]
    broker = ScriptedBroker(Requests({1: effects}))
    async with running_engine(broker, TroubledStore()) as rig:
        first, second = rig.connect(), rig.connect()
        await first.send_all(ask(1))
        assert await lines(first, 2) == [b"a", b"b"]
        assert await lines(second, 1) == [b"x"]
        assert rig.around.log == [("info", "told", {})]
        assert rig.around.stopped.is_set()


# -- a store in trouble ------------------------------------------------------------------------------------------------


async def test_one_event_that_cannot_be_stored_does_not_fail_the_others() -> None:
    store = TroubledStore()
    answers_of = {n: say(1, f'{{"jsonrpc":"2.0","id":{n},"result":{{}}}}') for n in (1, 2, 3)}
    told = say(1, '{"jsonrpc":"2.0","method":"entry","params":{}}')
    script = Requests({n: [store_something(str(n)), told, answers_of[n]] for n in (1, 2, 3)}, NotStored=[])
    broker = ScriptedBroker(script)
    async with running_engine(broker, store) as rig:
        client = rig.connect()
        store.problem, store.failing = FULL, lambda ops: DropPins("2") in ops
        await client.send_all(ask(1) + ask(2) + ask(3))
        _, first, instead, _, third = await lines(client, 5)
        assert (first + b"\n", third + b"\n") == (answers_of[1].frame, answers_of[3].frame)
        assert b'"id":2,"error":{"code":-32000' in instead
        assert b'"code":"internal"' in instead
        assert b"The disk is full." in instead
        assert NotStored((DropPins("2"),), str(FULL)) in broker.events
        assert [level for level, _, _ in rig.around.log] == ["error"]


@pytest.mark.parametrize("transient, failures, tries", [(True, 3, 4), (False, 3, 3), (True, 99, 8)])
async def test_what_may_pass_by_itself_is_waited_for_a_moment(transient: bool, failures: int, tries: int) -> None:  # noqa: FBT001
    """15.5: another program's lock costs a sender a moment and no refusal; once not well, the store is not waited for.
    The first try is on the loop; the last but one of those that fail to the end is that of the event by itself."""
    store = TroubledStore()
    store.problem = StoreError("Locked.", transient=transient)
    tried: list[Sequence[object]] = []

    def fails(ops: Sequence[object]) -> bool:
        tried.append(ops)
        return len(tried) <= failures

    store.failing = fails
    answer = say(1, '{"jsonrpc":"2.0","id":1,"result":{}}')
    script = Requests({1: [store_something("1"), answer]}, NotStored=[])
    async with running_engine(ScriptedBroker(script), store) as rig:
        client = rig.connect()
        await client.send_all(ask(1))
        (line,) = await lines(client, 1)
        assert len(tried) == tries
        assert (b'"result"' in line) == (transient and failures < 99)
        assert (b'"retry_after_s":null' in line) == (not transient)
        if failures == 99:
            await client.send_all(ask(1))
            await lines(client, 1)
            assert len(tried) == tries + 2


async def test_what_cannot_be_undone_is_stored_when_the_store_works_again() -> None:
    """The broker says what is still true of what was not stored."""
    store = TroubledStore()
    answer = say(1, '{"jsonrpc":"2.0","id":1,"result":{}}')
    requests: dict[int, list[Effect]] = {1: [store_something("1"), answer], 2: [store_something("2"), say(1, "done")]}
    script = Requests(requests, NotStored=[store_something("still true")])
    broker = ScriptedBroker(script)
    async with running_engine(broker, store) as rig:
        client = rig.connect()
        store.problem = FULL
        await client.send_all(ask(1))
        assert b"internal" in (await lines(client, 1))[0]
        store.problem = None
        await client.send_all(ask(2))
        assert await lines(client, 1) == [b"done"]
        assert [op for batch in store.batches for op in batch] == [DropPins("still true"), DropPins("2")]
        assert isinstance(broker.events[-1], StoreReported)


async def test_a_link_that_was_told_of_what_is_not_stored_is_cut_before_it_hears_of_it() -> None:
    store = TroubledStore()
    script = Requests({1: [store_something("1")], 2: [say(2, "of 1")]}, NotStored=[CloseLink(2)])
    async with running_engine(ScriptedBroker(script), store) as rig:
        first, second = rig.connect(), rig.connect()
        rig.slow_disk()
        store.problem = FULL
        await first.send_all(ask(1))
        await second.send_all(ask(2))
        assert await second.receive_some() == b""


async def test_a_lookup_sees_what_nobody_waited_for() -> None:
    store = TroubledStore()
    lazy = Persist(DropPins("x"), lazy=True)
    async with running_engine(ScriptedBroker(Requests({1: [lazy], 2: [LookUp(7, FindSent("s", 1), 1)]})), store) as rig:
        client = rig.connect()
        await client.send_all(ask(1))
        await client.send_all(ask(2))
        await wait_for(lambda: store.batches)
        assert store.batches == [(DropPins("x"),)]


async def test_a_notification_that_cannot_be_stored_is_answered_by_nothing() -> None:
    store = TroubledStore()
    broker = ScriptedBroker(lambda event: [store_something()] if isinstance(event, FrameReceived) else [])
    async with running_engine(broker, store) as rig:
        client = rig.connect()
        store.problem = FULL
        await client.send_all(b'{"jsonrpc":"2.0","method":"ack","params":{"ids":[]}}\n')
        await wait_for(lambda: any(isinstance(event, NotStored) for event in broker.events))
        assert await is_silent(client)


async def test_a_lookup_that_fails_is_told_with_its_sentence() -> None:
    class Unreadable(TroubledStore):
        def sent_by(self, sender_id: str, limit: int) -> Sequence[object]:  # type: ignore[override]
            raise FULL

    broker = ScriptedBroker(Requests({1: [LookUp(7, FindSent("s", 1), 1)]}))
    async with running_engine(broker, Unreadable()) as rig:
        client = rig.connect()
        await client.send_all(ask(1))
        await wait_for(lambda: any(isinstance(event, LookedUp) for event in broker.events))
        assert broker.events[-1] == LookedUp(7, None, str(FULL))


async def test_a_lookup_sees_what_was_stored_before_it() -> None:
    store = TroubledStore()
    broker = ScriptedBroker(Requests({1: [store_something(), LookUp(7, FindSent("s", 1), 1)]}))
    async with running_engine(broker, store) as rig:
        client = rig.connect()
        rig.slow_disk()
        store.gate.clear()
        await client.send_all(ask(1))
        await trio.to_thread.run_sync(store.begun.acquire)
        await trio.testing.wait_all_tasks_blocked()
        assert not any(isinstance(event, LookedUp) for event in broker.events)
        store.gate.set()
        await wait_for(lambda: any(isinstance(event, LookedUp) for event in broker.events))


async def test_what_nobody_waits_for_is_stored_soon_all_the_same(autojump_clock: trio.testing.MockClock) -> None:
    store = TroubledStore()
    lazy = Persist(DropPins("x"), lazy=True)
    async with running_engine(ScriptedBroker(Requests({}, StopAsked=[lazy, say(1, "now")])), store) as rig:
        client = rig.connect()
        rig.engine.submit(StopAsked("x"))
        assert store.batches == []
        assert await lines(client, 1) == [b"now"]
        await trio.sleep(1)
        assert store.batches == [(DropPins("x"),)]


async def test_the_end_waits_for_what_is_being_stored_and_sent() -> None:
    store = TroubledStore()
    broker = ScriptedBroker(Requests({1: [store_something(), say(1, "stored")]}))
    async with running_engine(broker, store) as rig:
        client = rig.connect()
        rig.slow_disk()
        store.gate.clear()
        await client.send_all(ask(1))
        await trio.to_thread.run_sync(store.begun.acquire)
        finished = trio.Event()

        async def finish() -> None:
            await rig.engine.finish()
            finished.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(finish)
            await trio.sleep(0.05)
            assert not finished.is_set()
            store.gate.set()
        assert await lines(client, 1) == [b"stored"]


# -- time and processes ------------------------------------------------------------------------------------------------


async def test_time_is_told_when_it_is_due_and_not_before(autojump_clock: trio.testing.MockClock) -> None:
    broker = ScriptedBroker(lambda _: [])
    async with running_engine(broker, TroubledStore()) as rig:
        broker.due = trio.current_time() + 3600
        rig.engine.submit(StopAsked("something changed"))
        await trio.sleep(3599)
        assert TimePassed() not in broker.events
        broker.due = None
        rig.engine.submit(StopAsked("something changed"))
        await trio.sleep(80_000)
        assert TimePassed() not in broker.events
        broker.due = trio.current_time() + 1
        rig.engine.submit(StopAsked("something changed"))
        await trio.sleep(0.5)
        broker.script = lambda event: [] if not isinstance(event, TimePassed) else no_longer_due(broker)
        await trio.sleep(1)
        assert broker.events.count(TimePassed()) == 1


def no_longer_due(broker: ScriptedBroker) -> list[Effect]:
    broker.due = None
    return []


async def test_a_process_that_has_ended_already_is_reported_after_the_event_that_asked() -> None:
    broker = ScriptedBroker(Requests({1: [WatchProcess(PROCESS), say(1, "first")]}, ProcessExited=[say(1, "second")]))
    async with running_engine(broker, TroubledStore()) as rig:
        client = rig.connect()
        rig.around.alive = False
        await client.send_all(ask(1))
        assert await lines(client, 2) == [b"first", b"second"]
        assert broker.events[-1] == ProcessExited(PROCESS)


async def test_a_frame_for_a_link_that_is_gone_is_dropped() -> None:
    broker = ScriptedBroker(Requests({1: [say(7, "nobody"), CloseLink(7), say(1, "somebody")]}))
    async with running_engine(broker, TroubledStore()) as rig:
        client = rig.connect()
        await client.send_all(ask(1))
        assert await lines(client, 1) == [b"somebody"]
        await client.aclose()
        await wait_for(lambda: LinkClosed(1) in broker.events)


# -- one that asks for too much ----------------------------------------------------------------------------------------


async def test_large_answers_are_not_gathered_for_one_who_does_not_read_them() -> None:
    """13.3: what was asked for in one breath is answered as the answers are taken."""
    asked = 12
    answers: dict[int, list[Effect]] = {n: [SendFrame(1, b"x" * 2 * OUTBOX_PAUSE + b"\n")] for n in range(asked)}
    broker = ScriptedBroker(Requests(answers))
    async with running_engine(broker, TroubledStore()) as rig:
        client = rig.connect()
        await client.send_all(b"".join(map(ask, range(asked))))
        await trio.testing.wait_all_tasks_blocked()
        assert sum(isinstance(event, FrameReceived) for event in broker.events) <= 2
        assert len(await lines(client, asked)) == asked


async def test_while_a_commit_hangs_a_peer_cannot_pile_up_requests() -> None:
    store = TroubledStore()
    broker = ScriptedBroker(lambda event: [store_something()] if isinstance(event, FrameReceived) else [])
    note = b'{"jsonrpc":"2.0","method":"whoami"}\n'
    async with running_engine(broker, store) as rig:
        client = rig.connect()
        rig.slow_disk()
        store.close_gate()
        await client.send_all(note)
        await trio.to_thread.run_sync(store.begun.acquire)
        await client.send_all(note * 2000)
        await trio.testing.wait_all_tasks_blocked()
        heard = sum(isinstance(event, FrameReceived) for event in broker.events)
        assert heard <= OUTBOX_PAUSE // FRAME_WEIGHT + 2
        store.gate.set()
        await wait_for(lambda: sum(len(batch) for batch in store.batches) == 2001)


async def test_questions_to_the_store_are_asked_a_few_at_a_time() -> None:
    gate, most = threading.Event(), 0
    running: list[int] = []

    class Slow(TroubledStore):
        def sent_by(self, sender_id: str, limit: int) -> Sequence[MessageRow]:
            nonlocal most
            running.append(limit)
            most = max(most, len(running))
            assert gate.wait(20)
            running.pop()
            return []

    asked = 100
    broker = ScriptedBroker(Requests({n: [LookUp(n, FindSent("s", n), 1)] for n in range(asked)}))
    async with running_engine(broker, Slow()) as rig:
        client = rig.connect()
        await client.send_all(b"".join(map(ask, range(asked))))
        await wait_for(lambda: running)
        await trio.testing.wait_all_tasks_blocked()
        assert sum(isinstance(event, FrameReceived) for event in broker.events) == LOOKUPS_PER_LINK
        gate.set()
        await wait_for(lambda: sum(isinstance(event, LookedUp) for event in broker.events) == asked)
        assert most == 1
