"""xsessionctl.sockets: connecting within a deadline, and who is at the other end."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from time import monotonic

import pytest

from xsessionctl.sockets import connect_unix, limit_wait, peer_uid


def test_connecting_finds_out_who_listens(short_dir: Path) -> None:
    path = str(short_dir / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        link = connect_unix(path, monotonic() + 10)
        assert peer_uid(link) == os.geteuid()
        link.close()


def test_a_full_backlog_is_waited_for(short_dir: Path) -> None:
    path = str(short_dir / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = [connect_unix(path, monotonic() + 10)]  # as many as the kernel takes without an accept
        try:
            while True:
                waiting.append(connect_unix(path, monotonic() + 0.1))
        except TimeoutError:
            pass
        accepted: list[socket.socket] = []
        thread = threading.Thread(target=lambda: accepted.extend(listener.accept()[0] for _ in range(len(waiting) + 1)))
        thread.start()
        waiting.append(connect_unix(path, monotonic() + 10))
        thread.join(10)
        for link in (*waiting, *accepted):
            link.close()


def test_connecting_to_nobody_is_told_as_it_is(short_dir: Path) -> None:
    with pytest.raises(FileNotFoundError):
        connect_unix(str(short_dir / "s"), monotonic() + 10)


def test_a_deadline_that_is_over_is_a_timeout() -> None:
    first, second = socket.socketpair()
    with first, second, pytest.raises(TimeoutError):
        limit_wait(first, monotonic() - 1)
