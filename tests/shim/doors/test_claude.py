"""The inbox of a Claude Code session, played by a socket: what is written there, and what becomes of it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from tests.support.private_broker import remove_directory, short_temporary_directory
from xsessionctl.shim.door import GONE, REFUSED, WRITTEN, Door
from xsessionctl.shim.doors.claude import TAKEN_WITHIN_S, Inbox, find_look, open_door
from xsessionctl.shim.identity import Identity
from xsessionctl.shim.loop import wait


class Claude:
    """The other end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(1)

    def take(self, door: Inbox) -> list[dict[str, object]]:
        """Reads one post whole and hangs up, as Claude Code does."""
        link, _ = self.listener.accept()
        with link:
            link.setblocking(False)
            data = b""
            while True:
                try:
                    more = link.recv(1 << 16)
                except BlockingIOError:
                    wait([door], due=[monotonic() + 0.05])
                    continue
                if not more:
                    break
                data += more
        return [json.loads(line) for line in data.splitlines()]

    def close(self) -> None:
        self.listener.close()
        self.path.unlink(missing_ok=True)


@pytest.fixture
def claude() -> Iterator[Claude]:
    folder = short_temporary_directory()
    claude = Claude(folder / "1.sock")
    yield claude
    claude.close()
    remove_directory(folder)


def post(door: Door, text: str = "hello") -> list[str]:
    """Posts; the outcomes come into the list."""
    outcomes: list[str] = []
    door.post(text, busy=False, mode="auto", done=outcomes.append)
    return outcomes


def run(door: Inbox) -> None:
    """The loop until the post is over."""
    while door.fileno() is not None:
        wait([door])


@pytest.mark.parametrize("token", [None, "secret"])
def test_a_post_is_one_line_of_the_shape_that_claude_code_takes(claude: Claude, token: str | None) -> None:
    """W21: the shape is not documented, so it is pinned here, and against the real program in the harness tier."""
    door = Inbox(str(claude.path), token)
    text = "Grüße\n| \u2028 '\"\\ </x>"
    outcomes = post(door, text)
    lines = claude.take(door)
    run(door)
    user = {"type": "user", "message": {"role": "user", "content": text}}
    assert lines == ([{"type": "auth", "token": token}, user] if token else [user])
    assert outcomes == [WRITTEN]
    assert door.due is None


def test_a_megabyte_goes_whole_and_waits_for_nobody(claude: Claude) -> None:
    door = Inbox(str(claude.path), None)
    outcomes = post(door, "x" * (1 << 20))
    assert door.wants_write
    [line] = claude.take(door)
    run(door)
    assert line["message"] == {"role": "user", "content": "x" * (1 << 20)}
    assert outcomes == [WRITTEN]


def test_one_at_a_time(claude: Claude) -> None:
    door = Inbox(str(claude.path), None)
    first = post(door)
    assert post(door) == [REFUSED]
    claude.take(door)
    run(door)
    assert first == [WRITTEN]
    second = post(door)
    claude.take(door)
    run(door)
    assert second == [WRITTEN]


def test_a_session_that_does_not_read_is_tried_again_later(claude: Claude) -> None:
    door = Inbox(str(claude.path), None)
    outcomes = post(door, "x" * (4 << 20))
    assert door.due is not None
    door.tick(door.due - TAKEN_WITHIN_S / 2)
    assert outcomes == []
    door.tick(door.due)
    assert outcomes == [REFUSED]
    assert door.is_open


def test_what_was_written_whole_is_written_though_it_is_not_read_yet(claude: Claude) -> None:
    """A stopped process has it in its socket, and may read it when it goes on."""
    door = Inbox(str(claude.path), None)
    outcomes = post(door)
    assert door.due is not None
    door.tick(door.due)
    assert outcomes == [WRITTEN]


def test_a_session_that_hangs_up_in_the_middle_has_not_got_it(claude: Claude) -> None:
    door = Inbox(str(claude.path), None)
    outcomes = post(door, "x" * (4 << 20))
    link, _ = claude.listener.accept()
    link.close()
    run(door)
    assert outcomes == [REFUSED]


def test_too_many_at_the_door_is_not_now(claude: Claude) -> None:
    waiting = []
    try:
        while True:
            link = socket.socket(socket.AF_UNIX)
            waiting.append(link)
            link.setblocking(False)
            link.connect(str(claude.path))
    except BlockingIOError:
        pass
    door = Inbox(str(claude.path), None)
    assert post(door) == [REFUSED]
    assert door.is_open
    for link in waiting:
        link.close()


def test_an_inbox_that_is_gone_is_gone_until_it_is_there_again(claude: Claude) -> None:
    """W17."""
    door = Inbox(str(claude.path), None)
    changes = []
    door.on_change = lambda: changes.append(door.is_open)
    claude.close()
    assert post(door) == [GONE]
    assert not door.is_open
    door.reopen()
    assert not door.is_open
    again = Claude(claude.path)
    door.reopen()
    assert (door.is_open, changes) == (True, [True])
    outcomes = post(door)
    again.take(door)
    run(door)
    assert outcomes == [WRITTEN]
    again.close()


def test_another_user_s_socket_gets_nothing(claude: Claude, monkeypatch: pytest.MonkeyPatch) -> None:
    """S17: whoever was first in a shared directory must not read it."""
    monkeypatch.setattr("xsessionctl.shim.peer.peer_uid", lambda _: 12345)
    door = Inbox(str(claude.path), "secret")
    assert post(door) == [GONE]
    link, _ = claude.listener.accept()
    with link:
        assert link.recv(1) == b""


def test_the_inbox_of_an_outer_session_gets_nothing(claude: Claude) -> None:
    """N11: its path is in the environment of whatever is started inside, a Claude Code without an inbox too."""
    door = Inbox(str(claude.path), None, owner=os.getppid())
    assert post(door) == [GONE]
    link, _ = claude.listener.accept()
    with link:
        assert link.recv(1) == b""
    own = Inbox(str(claude.path), None, owner=os.getpid())
    outcomes = post(own)
    claude.take(own)
    run(own)
    assert outcomes == [WRITTEN]


def test_closing_tells_nobody_anything(claude: Claude) -> None:
    door = Inbox(str(claude.path), None)
    outcomes = post(door)
    door.close()
    assert outcomes == []
    assert door.fileno() is None


@pytest.mark.parametrize(
    "environ, opened", [({}, False), ({"CLAUDE_CODE_MESSAGING_SOCKET": "/run/cc-socks/1.sock"}, True)]
)
def test_the_environment_names_it(environ: dict[str, str], opened: object) -> None:
    """The path follows no rule, and versions before 2.1.224 have none."""
    door = open_door(Identity(environ, "/", [(1, ["claude"])]), None)
    assert door.is_open is opened


class TestLook:
    """What Claude Code writes down about its session."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        (tmp_path / ".claude" / "sessions").mkdir(parents=True)
        return tmp_path / ".claude" / "sessions" / "77.json"

    def look(self, tmp_path: Path, **environ: str) -> tuple[str | None, str | None]:
        look = find_look(Identity({"HOME": str(tmp_path), **environ}, "/", [(77, ["claude"])]))
        assert look is not None
        return look()

    @pytest.mark.parametrize("status", ["idle", "busy", "waiting"])
    def test_it_says_which_conversation_and_which_state(self, file: Path, tmp_path: Path, status: str) -> None:
        file.write_text(json.dumps({"pid": 77, "sessionId": "c-1", "status": status, "name": "x"}))
        assert self.look(tmp_path) == ("c-1", status)
        moved = {"CLAUDE_CONFIG_DIR": str(tmp_path / ".claude")}
        assert self.look(tmp_path, **moved) == ("c-1", status)

    @pytest.mark.parametrize(
        "text",
        ["", "{", "[]", '{"pid": 78, "sessionId": "c-1", "status": "idle"}', '{"pid": 77}',
         '{"pid": 77, "sessionId": 5, "status": "new-word"}'],
    )  # fmt: skip
    def test_what_it_does_not_say_is_not_known(self, file: Path, tmp_path: Path, text: str) -> None:
        file.write_text(text)
        assert self.look(tmp_path) == (None, None)

    def test_no_file_says_nothing(self, tmp_path: Path) -> None:
        assert self.look(tmp_path) == (None, None)

    def test_without_a_process_or_a_home_there_is_none(self) -> None:
        assert find_look(Identity({"HOME": "/x"}, "/", [])) is None
        assert find_look(Identity({}, "/", [(77, ["claude"])])) is None


def test_a_text_with_half_a_pair_is_still_a_line(claude: Claude) -> None:
    door = Inbox(str(claude.path), None)
    outcomes = post(door, "x\ud800y")
    [line] = claude.take(door)
    run(door)
    assert (line["message"], outcomes) == ({"role": "user", "content": "x?y"}, [WRITTEN])
    assert os.path.exists(claude.path)
