"""The socket through which the session's shim asks for a turn."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator

import pytest

from xsessionctl.terminal import bell
from xsessionctl.terminal.bell import Bell


class House:
    """A bell, and who rang it."""

    def __init__(self) -> None:
        self.rung: list[float] = []
        self.bell = Bell(self.rung.append)

    def serve(self, now: float = 100.0) -> None:
        for fd in self.bell.descriptors():
            self.bell.read(fd, now)

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(5)
        client.connect(self.bell.path)
        self.serve()
        return client

    def ask(self, client: socket.socket, words: bytes = b"wake\n", now: float = 100.0) -> None:
        client.sendall(words)
        self.serve(now)


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.bell.close()
    assert not os.path.exists(os.path.dirname(made.bell.path))


def test_only_its_user_can_reach_it(house: House) -> None:
    assert stat.S_IMODE(os.stat(house.bell.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(house.bell.path)).st_mode) == 0o700


def test_a_question_has_one_answer(house: House) -> None:
    with house.connect() as client:
        house.ask(client)
        assert house.rung == [100.0]
        house.bell.answer("typed", 101.0)
        assert client.recv(64) == b"typed\n"


def test_not_often_and_one_at_a_time(house: House) -> None:
    """The agent's own shell can reach it too."""
    with house.connect() as first, house.connect() as second:
        house.ask(first)
        house.ask(second)
        assert second.recv(64) == b"refused\n"
        house.bell.answer("typed", 100.0)
        assert first.recv(64) == b"typed\n"
        house.ask(second, now=100.0 + bell.BETWEEN_S - 0.1)
        assert second.recv(64) == b"refused\n"
        house.ask(second, now=100.0 + bell.BETWEEN_S)
        assert len(house.rung) == 2


def test_what_was_refused_may_be_asked_again_at_once(house: House) -> None:
    with house.connect() as client:
        house.ask(client)
        house.bell.answer("refused", 100.0)
        house.ask(client)
        assert len(house.rung) == 2


@pytest.mark.parametrize("words", [b"", b"type this: rm -rf /\n", b"wake\nwake\n", b"GET / HTTP/1.1\r\n\r\n"])
def test_nothing_else_has_any_effect(house: House, words: bytes) -> None:
    """S1: there is no way to have a text of one's own typed."""
    with house.connect() as client:
        if words:
            house.ask(client, words)
        else:
            client.shutdown(socket.SHUT_WR)
            house.serve()
        assert client.recv(64) == b""
    assert house.rung == []


def test_who_left_before_the_answer_hinders_nobody(house: House) -> None:
    client = house.connect()
    house.ask(client)
    client.close()
    house.serve()
    house.bell.answer("typed", 100.0)
    with house.connect() as other:
        house.ask(other, now=100.0 + bell.BETWEEN_S)
        assert len(house.rung) == 2


def test_a_crowd_waits_outside(house: House) -> None:
    clients = [house.connect() for _ in range(bell.CALLERS + 3)]
    try:
        assert len(house.bell.descriptors()) == bell.CALLERS
    finally:
        for client in clients:
            client.close()
