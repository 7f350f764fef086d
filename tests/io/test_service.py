"""The whole shell on a store that hangs or fails: what leaves, what does not, and how it all ends."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.io.rig import wait_for
from tests.support.broker_files import read_broker_log
from tests.support.private_broker import PrivateBroker, accepts
from tests.support.service_rig import TroubledStore, in_thread, running_service
from tests.support.wire_client import Json, LinkLost, Member, Refused, Wire, greet, read_status
from xsessiond.core.errors import EXIT_CODES
from xsessiond.core.limits import DOOR_CONNECTIONS, LINKS_PER_SESSION, MAX_CONNECTIONS, STOP_WITHIN_S
from xsessiond.core.records import PutMessage
from xsessiond.io import arrivals
from xsessiond.store.contract import StoreError
from xsessiond.store.memory import MemoryStore

FULL = StoreError("The disk is full. Nothing was stored.", transient=True)


def join(broker: PrivateBroker, name: str, *, push: bool = False) -> Member:
    return Member(broker.rendezvous, name, push=push)


def send(member: Member, to: str, text: str, key: str | None = None) -> Json:
    return member.send(to, text, key=key)


def crowd(path: Path | str, count: int) -> list[Wire]:
    """So many connections that say hello and then nothing."""
    return [greet(path) for _ in range(count)]


async def test_a_crowd_at_the_rendezvous_keeps_nobody_out(broker: PrivateBroker) -> None:
    """13.3: connections that stay and say nothing are as many as there may be; who comes is served all the same."""
    async with running_service(broker, MemoryStore()):
        wires = await in_thread(crowd, broker.rendezvous, MAX_CONNECTIONS + 20)
        with await in_thread(join, broker, "api") as api:
            assert (await in_thread(api.call, "whoami"))["name"] == "api"
        assert wires[0].has_more(20)  # the oldest had to go
        assert not wires[-1].has_more()
        for wire in wires:
            wire.close()


async def test_a_crowd_at_a_private_socket_does_not_keep_its_session_out(broker: PrivateBroker) -> None:
    """A session's socket can be found by others of the same user. They cannot take its place, or its links."""
    async with running_service(broker, MemoryStore()):
        with await in_thread(join, broker, "api") as api:
            wires = await in_thread(crowd, api.socket, 2 * DOOR_CONNECTIONS)
            assert (await in_thread(api.call, "whoami"))["name"] == "api"  # its link is not one of those that go
            await in_thread(api.rejoin)
            assert (await in_thread(api.call, "whoami"))["name"] == "api"
            for wire in wires:
                wire.close()


FORKS = """
import os, socket, sys
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        link = socket.socket(socket.AF_UNIX)
        link.connect(sys.argv[1])
        link.settimeout(0.2)
        try:
            print("turned away" if b"rate_limited" in link.recv(4096) else "?", flush=True)
        except TimeoutError:
            print("let in", flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.slow
async def test_processes_of_one_tree_share_its_pace(broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """13.3: a new process for each connection buys nothing; each that is too much is told so, also by the command
    line. A session that was there goes on, and comes back through its private socket."""
    async with running_service(broker, MemoryStore()):
        with await in_thread(join, broker, "api") as api:
            monkeypatch.setattr(arrivals, "CONNECT_BURST", 4.0)
            monkeypatch.setattr(arrivals, "CONNECTS_PER_SECOND", 1e-6)
            forks = broker.spawn(sys.executable, "-c", FORKS, str(broker.rendezvous), "8")
            said, _ = await in_thread(forks.communicate)
            assert said.decode().split("\n") == ["let in"] * 4 + ["turned away"] * 4 + [""]
            for words in (["list"], ["status"], ["send", "api", "hello"]):
                done = await in_thread(lambda words=words: broker.ctl(*words))
                assert (done.returncode, done.stdout) == (EXIT_CODES["rate_limited"], "")
                assert done.stderr.startswith("xsessionctl: Too many connections:")
            assert (await in_thread(api.call, "whoami"))["name"] == "api"
            api.close()
            api.wire = await in_thread(api._attach)
            assert (await in_thread(api.take)) == []
            monkeypatch.setattr(arrivals, "CONNECTS_PER_SECOND", 1e6)
            assert (await in_thread(broker.ctl, "list")).returncode == 0


@pytest.mark.parametrize("push", [False, True])
async def test_an_answer_never_leaves_before_its_commit(broker: PrivateBroker, push: bool) -> None:  # noqa: FBT001
    """3.3: while the disk hangs neither sender nor receiver hears of the message; when it fails the sender hears that,
    and the receiver nothing; the same key sends it then, once."""
    store = TroubledStore()
    async with running_service(broker, store) as service:
        web = await in_thread(join, broker, "web")
        api = await in_thread(lambda: join(broker, "api", push=push))
        with web, api:
            service._engine._commit_s = 1.0  # it takes the disk for a slow one, and commits in a thread
            store.close_gate()
            asked = web.wire.ask("send", to="api", message="hello", key="k")
            await in_thread(store.begun.acquire)
            await trio.testing.wait_all_tasks_blocked()
            assert not web.wire.has_more()
            assert not api.wire.has_more()
            status = await in_thread(read_status, broker.rendezvous)  # it answers all the same
            assert status["broker"]["pid"] == os.getpid()
            store.problem = FULL
            store.gate.set()
            with pytest.raises(Refused) as refused:
                await in_thread(web.wire.answer, asked)
            assert refused.value.code == "internal"
            assert "The disk is full." in str(refused.value)
            if push:  # its link was to have the message: it begins anew
                assert await in_thread(api.wire.read_to_end) == b""
                store.problem = None
                await in_thread(api.rejoin)
            store.problem = None
            assert (await in_thread(api.call, "inbox"))["messages"] == []
            assert not api.wire.has_more()
            sent = await in_thread(send, web, "api", "hello", "k")
            assert (await in_thread(send, web, "api", "hello", "k"))["id"] == sent["id"]
            if push:
                note = await in_thread(api.wire.note, "message")
                assert (note["n"], note["message"]["id"], note["message"]["seq"]) == (1, sent["id"], 1)
                assert not api.wire.has_more()
            else:
                (message,) = await in_thread(api.take)
                assert (message["id"], message["seq"]) == (sent["id"], 1)
        stored = [op.row.id for batch in store.batches for op in batch if isinstance(op, PutMessage)]
        assert stored == [sent["id"]]


async def test_a_store_that_fails_for_one_does_not_fail_for_others(broker: PrivateBroker) -> None:
    store = TroubledStore()
    async with running_service(broker, store):
        web, api = await in_thread(join, broker, "web"), await in_thread(join, broker, "api")
        with web, api:
            store.problem = FULL
            store.failing = lambda ops: any(isinstance(op, PutMessage) and "bad" in op.row.body for op in ops)
            asked = [web.wire.ask("send", to="api", message=text) for text in ("good 1", "bad", "good 2")]
            assert (await in_thread(web.wire.answer, asked[0]))["state"] == "queued"
            with pytest.raises(Refused):
                await in_thread(web.wire.answer, asked[1])
            assert (await in_thread(web.wire.answer, asked[2]))["state"] == "queued"
            taken = await in_thread(api.take)
            assert [message["text"] for message in taken] == ["good 1", "good 2"]


async def test_the_end_is_bounded_though_the_store_fails(broker: PrivateBroker) -> None:
    """15.5: it is said what could not be stored, and then it is over."""
    store = TroubledStore()
    start = trio.current_time()
    async with running_service(broker, store):
        web, api = await in_thread(join, broker, "web"), await in_thread(join, broker, "api")
        with web, api:
            store.problem = FULL
            with pytest.raises(Refused):
                await in_thread(send, web, "api", "hello")
            web.wire.notify("ack", ids=["m-" + "0" * 32])
    assert trio.current_time() - start < STOP_WITHIN_S
    assert "commit failed" in read_broker_log(broker)


async def test_the_end_removes_the_sockets_and_closes_the_links(broker: PrivateBroker) -> None:
    async with running_service(broker, MemoryStore()) as service:
        web = await in_thread(join, broker, "web")
        service.stop("test", handover=False)
        with web, pytest.raises(LinkLost):
            await in_thread(web.wire.read_line)
    assert not broker.rendezvous.exists()
    assert list((broker.runtime_dir / "s").iterdir()) == []


async def test_a_private_socket_takes_so_many_links_and_no_more(broker: PrivateBroker) -> None:
    """13.3: the ninth that attaches is refused; those who only connect wait in the kernel, and nobody else suffers."""
    async with running_service(broker, MemoryStore()):
        web, api = await in_thread(join, broker, "web"), await in_thread(join, broker, "api")
        links = [await in_thread(attach, web) for _ in range(LINKS_PER_SESSION - 1)]
        with web, api:
            with pytest.raises(Refused) as refused:
                await in_thread(attach, web)
            assert refused.value.code == "refused"
            links += [await in_thread(Wire, web.socket) for _ in range(4 * LINKS_PER_SESSION)]
            assert (await in_thread(send, api, "web", "hello"))["state"] == "queued"
            assert len(await in_thread(web.take)) == 1
            for link in links:
                link.close()
            (await in_thread(attach, web)).close()


def attach(member: Member) -> Wire:
    wire = Wire(member.socket)
    try:
        wire.call("hello", protocol=1)
        wire.call("attach", token=member.token)
    except BaseException:
        wire.close()
        raise
    return wire


async def test_a_link_that_is_cut_gives_back_what_it_had(broker: PrivateBroker) -> None:
    """6.2: to another link of the session, at once."""
    async with running_service(broker, MemoryStore()):
        web, api = await in_thread(join, broker, "web"), await in_thread(join, broker, "api")
        with web, api:
            sent = await in_thread(send, api, "web", "hello")
            second = await in_thread(attach, web)
            with second:
                assert len(await in_thread(web.take)) == 1
                assert (await in_thread(second.call, "take"))["messages"] == []
                web.close()
                note = await in_thread(second.note, "mail")
                assert note["queued"] == 1
                (message,) = (await in_thread(second.call, "take"))["messages"]
                assert message["id"] == sent["id"]


async def test_a_connection_that_ends_before_it_is_taken_is_no_trouble(broker: PrivateBroker) -> None:
    async with running_service(broker, MemoryStore()) as service:
        for _ in range(50):
            with socket.socket(socket.AF_UNIX) as client:
                client.setblocking(False)
                client.connect(str(broker.rendezvous))
        await wait_for(lambda: not service._engine.peers)
        assert (await in_thread(read_status, broker.rendezvous))["sessions"] == 0


async def test_a_private_socket_that_cannot_be_bound_again_is_tried_until_it_can(broker: PrivateBroker) -> None:
    """15.3: something else lies in its place: told to the operator; the others are bound, and it when that is gone."""
    async with running_service(broker, MemoryStore()):
        web, api = await in_thread(join, broker, "web"), await in_thread(join, broker, "api")
        with web, api:
            for member in (web, api):
                os.unlink(member.socket)
            os.mkdir(web.socket)
            await wait_for(lambda: "cannot be made again yet" in read_broker_log(broker))
            await wait_for(lambda: accepts(Path(api.socket)))
            assert (await in_thread(read_status, broker.rendezvous))["sessions"] == 2
            assert (await in_thread(web.call, "whoami"))["name"] == "web"
            os.rmdir(web.socket)
            await wait_for(lambda: accepts(Path(web.socket)))


async def test_a_private_socket_that_cannot_be_bound_at_all_ends_nothing(broker: PrivateBroker) -> None:
    """The session is told where it would be; when it comes again, it is there."""
    async with running_service(broker, MemoryStore()):
        directory = str(broker.runtime_dir / "s")
        os.rename(directory, directory + "-away")
        await in_thread(Path(directory).write_bytes, b"")
        with pytest.raises(LinkLost):
            await in_thread(join, broker, "web")
        assert "a private socket cannot be opened" in read_broker_log(broker)
        os.unlink(directory)
        await wait_for(lambda: Path(directory).is_dir())
        with await in_thread(join, broker, "web") as web:
            assert accepts(Path(web.socket))
