"""One connection: whole frames whatever the pieces, back-pressure both ways, and an end that leaves nothing behind."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from tests.io.rig import wait_for
from xsessiond.core.limits import FRAMES_PER_TURN, MAX_FRAME, OUTBOX_BYTES, OUTBOX_PAUSE, READ_SIZE
from xsessiond.core.link import Frame
from xsessiond.core.wire import BadFrame, Whoami
from xsessiond.io.peer import Peer
from xsessiond.io.readiness import FdSet

WHOAMI = b'{"jsonrpc":"2.0","id":1,"method":"whoami"}\n'


class Ground:
    """Peers over socket pairs, and what was heard of them, in order."""

    def __init__(self, fds: FdSet, nursery: trio.Nursery) -> None:
        self.fds, self.nursery = fds, nursery
        self.heard: list[tuple[int, Frame]] = []
        self.most: int | None = None  # frames after which a peer is held
        self.gone: list[int] = []
        self.sockets: list[socket.socket] = []
        self.peers: list[Peer] = []

    def connect(self, *, kept: int = 4096) -> tuple[Peer, socket.socket]:
        """Return a peer and the client's end, which blocks. kept: bytes that the kernel may keep on the way."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, kept)
        theirs.settimeout(20)
        self.sockets.append(theirs)
        peer = Peer(
            ours, len(self.sockets), self.fds, self.nursery, self.hear, lambda peer: self.gone.append(peer.link)
        )
        self.peers.append(peer)
        peer.start()
        return peer, theirs

    def hear(self, link: int, frames: Sequence[Frame]) -> int:
        """Write down what came, all of it."""
        taken = frames[: self.most]
        self.heard += [(link, frame) for frame in taken]
        if self.most is not None:
            self.peers[link - 1].hold()
        return len(taken)


@asynccontextmanager
async def running() -> AsyncIterator[Ground]:
    fds = FdSet()
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(fds.run)
            ground = Ground(fds, nursery)
            try:
                yield ground
            finally:
                for peer in ground.peers:
                    peer.cut()
                for client in ground.sockets:
                    client.close()
                await trio.testing.wait_all_tasks_blocked()
                assert len(nursery.child_tasks) == 1  # nobody waits for a socket that is closed
                assert len(fds) == 0
                nursery.cancel_scope.cancel()
    finally:
        fds.close()


def drain(client: socket.socket) -> bytes:
    """Read to the end of the connection, which is a reset when something of ours was not read."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while data := client.recv(1 << 20):
            parts.append(data)
    return b"".join(parts)


async def fill(peer: Peer, size: int) -> None:
    """Let so many bytes gather that the other end does not read."""
    while len(peer._outbox) < size:
        peer.send(b"x" * 4096)
        await trio.lowlevel.checkpoint()


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(WHOAMI), len(WHOAMI) + 1])
async def test_frames_come_whole_whatever_the_pieces(size: int) -> None:
    async with running() as ground:
        _, client = ground.connect()
        data = WHOAMI * 3
        for start in range(0, len(data), size):
            client.sendall(data[start : start + size])
            await trio.testing.wait_all_tasks_blocked()
        assert [type(frame) for _, frame in ground.heard] == [Whoami] * 3


async def test_a_frame_that_never_ends_is_not_heard() -> None:
    async with running() as ground:
        _, client = ground.connect()
        client.sendall(WHOAMI[:-1])
        await trio.testing.wait_all_tasks_blocked()
        assert ground.heard == []
        client.close()
        await wait_for(lambda: ground.gone == [1])
        assert ground.heard == []


async def test_a_frame_over_the_limit_is_skipped_and_the_next_is_heard() -> None:
    async with running() as ground:
        _, client = ground.connect()
        await trio.to_thread.run_sync(client.sendall, b"x" * MAX_FRAME + b"\n" + WHOAMI)
        await wait_for(lambda: len(ground.heard) == 2)
        bad, good = (frame for _, frame in ground.heard)
        assert isinstance(bad, BadFrame)
        assert (bad.refusal, bad.fatal) == ("too_large", False)
        assert isinstance(good, Whoami)


async def test_one_that_sends_much_leaves_the_others_their_turn() -> None:
    """13.3: a turn reads a bounded number of bytes from one peer."""
    async with running() as ground:
        _, loud = ground.connect()
        _, quiet = ground.connect()
        loud.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        loud.setblocking(False)
        wrote = loud.send(WHOAMI * 20_000)  # as much as the kernel takes, before anybody reads
        quiet.sendall(WHOAMI)
        assert wrote > 2 * READ_SIZE
        await wait_for(lambda: len(ground.heard) == wrote // len(WHOAMI) + 1)
        before = [link for link, _ in ground.heard].index(2)
        assert before <= READ_SIZE // len(WHOAMI) + 1


async def test_one_turn_handles_a_bounded_number_of_frames_and_the_rest_in_their_order() -> None:
    """13.3: 700 requests in one read are not one turn, and a peer that asks one thing comes between."""
    async with running() as ground:
        _, loud = ground.connect()
        _, quiet = ground.connect()
        count = READ_SIZE // len(WHOAMI)
        loud.sendall(b"".join(WHOAMI.replace(b'"id":1', b'"id":%d' % number) for number in range(1, count)))
        quiet.sendall(WHOAMI)
        await wait_for(lambda: len(ground.heard) == count)
        assert [link for link, _ in ground.heard].index(2) <= FRAMES_PER_TURN
        numbers = [frame.id for link, frame in ground.heard if link == 1 and isinstance(frame, Whoami)]
        assert numbers == list(range(1, count))


async def test_one_that_is_held_is_not_heard_until_it_goes_on() -> None:
    async with running() as ground:
        peer, client = ground.connect()
        ground.most = 3
        client.sendall(WHOAMI * 5)
        await wait_for(lambda: len(ground.heard) == 3)
        client.sendall(WHOAMI * 5)
        client.close()  # its end is noticed behind what it said
        await trio.testing.wait_all_tasks_blocked()
        assert len(ground.heard) == 3
        ground.most = None
        peer.resume()
        await wait_for(lambda: len(ground.heard) == 10 and ground.gone == [1])


async def test_one_that_is_cut_while_it_is_held_has_gone() -> None:
    async with running() as ground:
        peer, client = ground.connect()
        ground.most = 1
        client.sendall(WHOAMI * 5)
        await wait_for(lambda: ground.heard)
        peer.cut()
        peer.resume()
        await trio.testing.wait_all_tasks_blocked()
        assert (len(ground.heard), ground.gone) == (1, [1])


# -- writing -----------------------------------------------------------------------------------------------------------


async def test_what_the_socket_does_not_take_follows_in_order() -> None:
    async with running() as ground:
        peer, client = ground.connect()
        sent = [b"%d\n" % number * 500 for number in range(1000)]
        for part in sent:
            peer.send(part)
        assert len(peer._outbox) > 0
        peer.close()
        assert await trio.to_thread.run_sync(drain, client) == b"".join(sent)
        await wait_for(lambda: ground.gone == [1])


async def test_a_peer_that_reads_nothing_is_cut_and_the_others_are_not() -> None:
    """13.3: what gathers for one peer is bounded."""
    async with running() as ground:
        stuck, _ = ground.connect()
        fine, client = ground.connect()
        await fill(stuck, OUTBOX_BYTES - 8192)
        assert ground.gone == []
        for _ in range(4):
            stuck.send(b"x" * 4096)
        assert ground.gone == [1]
        await stuck.drained()
        stuck.send(b"after the end")
        fine.send(b"hello\n")
        assert client.recv(100) == b"hello\n"
        assert ground.gone == [1]


async def test_the_descriptor_of_a_peer_that_was_cut_can_be_used_again() -> None:
    """Nobody waits any more on what may be another connection's number by then."""
    async with running() as ground:
        for _ in range(3):
            stuck, _ = ground.connect()
            await fill(stuck, 8192)
            stuck.cut()
            fresh, client = ground.connect()
            await fill(fresh, 8192)
            fresh.close()
            assert len(await trio.to_thread.run_sync(drain, client)) > 8192
        await wait_for(lambda: ground.gone == [1, 2, 3, 4, 5, 6])


async def test_what_was_not_taken_is_counted_until_it_is_taken_or_given_up() -> None:
    async with running() as ground:
        peer, client = ground.connect()
        peer.send(b"x")
        assert peer.protocol.unsent == 0
        await fill(peer, OUTBOX_PAUSE)
        assert peer.protocol.unsent == len(peer._outbox) > 0
        client.recv(8192)
        peer.send(b"x" * 4096)
        assert peer.protocol.unsent == len(peer._outbox)
        while peer.protocol.unsent:
            await trio.to_thread.run_sync(client.recv, 1 << 16)
            await trio.testing.wait_all_tasks_blocked()
            assert peer.protocol.unsent == len(peer._outbox)
        other, _ = ground.connect()
        await fill(other, 8192)
        other.cut()
        await trio.testing.wait_all_tasks_blocked()
        assert other.protocol.unsent == 0


async def test_a_peer_that_does_not_read_its_answers_is_not_read() -> None:
    """13.3: back-pressure: what it asks for next waits in its own socket, and is heard when it has read."""
    async with running() as ground:
        peer, client = ground.connect()
        await fill(peer, OUTBOX_PAUSE + 8192)
        client.sendall(WHOAMI)  # this one is read; then it is found that too much waits
        await wait_for(lambda: len(ground.heard) == 1)
        client.sendall(WHOAMI)
        await trio.testing.wait_all_tasks_blocked()
        assert len(ground.heard) == 1
        got = 0
        while got < OUTBOX_PAUSE // 2:
            got += len(await trio.to_thread.run_sync(client.recv, 8192))
        await wait_for(lambda: len(ground.heard) == 2)


async def test_many_small_frames_for_a_peer_that_reads_nothing_cost_the_others_no_time() -> None:
    """13.3: one that was stopped while it follows the log is an ordinary sight."""
    async with running() as ground:
        peer, _ = ground.connect()
        frame = b"x" * 299 + b"\n"
        start = time.perf_counter()
        for _ in range((OUTBOX_BYTES - 8192) // len(frame)):
            peer.send(frame)
        took = time.perf_counter() - start
        assert ground.gone == []
        assert took < 0.5  # 5 ms, were it not for the machine; to copy all that waits each time takes seconds


# -- the end -----------------------------------------------------------------------------------------------------------


async def test_closing_sends_what_was_given_before_and_reads_no_more() -> None:
    async with running() as ground:
        peer, client = ground.connect()
        await fill(peer, 65536)
        peer.send(b"the last\n")
        peer.close()
        client.sendall(WHOAMI)
        got = await trio.to_thread.run_sync(drain, client)
        assert got.endswith(b"the last\n")
        assert ground.heard == []
        await wait_for(lambda: ground.gone == [1])


async def test_closing_twice_and_cutting_after_is_told_once() -> None:
    async with running() as ground:
        peer, client = ground.connect()
        peer.close()
        peer.close()
        peer.cut()
        assert ground.gone == [1]
        assert client.recv(1) == b""


async def test_a_client_that_dies_with_answers_unread_is_gone() -> None:
    async with running() as ground:
        peer, client = ground.connect()
        await fill(peer, OUTBOX_PAUSE + 8192)
        client.close()
        await wait_for(lambda: ground.gone == [1])
        await peer.drained()


async def test_a_client_that_dies_while_it_is_not_read_is_gone() -> None:
    async with running() as ground:
        peer, client = ground.connect()
        await fill(peer, OUTBOX_PAUSE + 8192)
        client.sendall(WHOAMI)
        await wait_for(lambda: len(ground.heard) == 1)
        await trio.testing.wait_all_tasks_blocked()
        client.close()
        await wait_for(lambda: ground.gone == [1])
