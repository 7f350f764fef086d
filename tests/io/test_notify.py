"""The user's notification command: what it is given, how often, and what it cannot do to us."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
import trio
import trio.testing

from tests.io.rig import wait_for
from tests.support.private_broker import has_ended
from xsessiond.io import notify
from xsessiond.io.notify import Notifier, fill

WRITE = """
import os, sys
os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT), ascii(sys.argv[2:]).encode() + b"\\n")
"""
PUT = """
import os, sys
def put(*values):
    with open(sys.argv[1] + ".new", "w") as file:
        print(*values, file=file)
    os.rename(sys.argv[1] + ".new", sys.argv[1])
"""
TEMPLATE = ("{title}", "{text}")


@asynccontextmanager
async def running(*command: str) -> AsyncIterator[tuple[Notifier, list[str]]]:
    told: list[str] = []
    notifier = Notifier(command, told.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run)
        yield notifier, told
        nursery.cancel_scope.cancel()


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


# -- what is filled in -------------------------------------------------------------------------------------------------


def test_both_places_are_filled_wherever_they_are() -> None:
    """5.9."""
    assert fill(("say", "{title}: {text}", "--", "{text}"), "A", "B", 0) == ["say", "A: B", "--", "B"]


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    assert fill(TEMPLATE, "{text}{title}", "{title}", 0) == ["{text}{title}", "{title}"]


@pytest.mark.parametrize(
    "text, shown",
    [
        ('x" & (do shell script "reboot") & "', "x” ＆ (do shell script ”reboot”) ＆ ”"),
        ("$(reboot) `reboot` \\", "＄(reboot) ’reboot’ /"),
        ("<b>bold</b> 100%", "‹b›bold‹/b› 100％"),
        ("it's", "it’s"),
        ("a\nb\x1b[31m\u202e\0", "a/nb/x1b[31m/u202e/x00"),
        ("日本 grüße", "日本 grüße"),
    ],
)
def test_what_is_filled_in_means_nothing_to_anybody(text: str, shown: str) -> None:
    """12.5: whatever the user's template is a script in."""
    assert fill(("{text}",), "", text, 0) == [shown]


def test_it_is_short() -> None:
    title, text = fill(TEMPLATE, "t" * 1000, "x" * 1000, 7)
    assert title == "t" * 79 + "…"
    assert text == "x" * 199 + "… (7 more)"


# -- running it --------------------------------------------------------------------------------------------------------


async def test_it_is_run_with_arguments_and_without_a_shell(tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with running(sys.executable, "-c", WRITE, str(out), "{title}", "; reboot", "{text}") as (notifier, told):
        notifier.tell("A message for web is held", "From api: mode-mismatch.")
        await wait_for(lambda: lines(out))
        assert lines(out) == ["['A message for web is held', '; reboot', 'From api: mode-mismatch.']"]
        assert told == []


async def test_it_is_detached_from_us(tmp_path: Path) -> None:
    """A terminal of the broker's, its standard streams and its signals are not the command's."""
    program = PUT + "put(os.getsid(0), os.getpid(), os.fstat(0).st_rdev)"
    out = tmp_path / "out"
    async with running(sys.executable, "-c", program, str(out)) as (notifier, _):
        notifier.tell("", "")
        await wait_for(out.exists)
    session, pid, device = out.read_text().split()
    assert session == pid
    assert int(device) == os.stat(os.devnull).st_rdev


async def test_without_a_command_nothing_happens() -> None:
    async with running() as (notifier, told):
        notifier.tell("a", "b")
        await trio.testing.wait_all_tasks_blocked()
        assert notifier._waiting == []
        assert told == []


async def test_what_comes_at_once_is_folded_and_only_so_many_go_in_a_minute(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """5.9: a flood of held messages is no flood of dialogs."""
    ran: list[tuple[float, list[str]]] = []
    begun = trio.current_time()

    class Process:
        pid, returncode = 0, 0

        async def wait(self) -> int:
            await trio.sleep(0.1)
            return 0

    async def open_process(argv: list[str], **_: object) -> Process:
        ran.append((round(trio.current_time() - begun, 1), argv))
        return Process()

    monkeypatch.setattr(trio.lowlevel, "open_process", open_process)
    async with running("{text}") as (notifier, _):
        for number in range(1, 4):
            notifier.tell("t", f"{number}")
        await trio.sleep(1)
        for number in range(4, 24):
            notifier.tell("t", f"{number}")
            await trio.sleep(1)
        await trio.sleep(100)
        assert [argv for _, argv in ran] == [["3 (2 more)"], ["4"], ["5"], ["6"], ["7"], ["8"], ["23 (14 more)"]]
        assert [when for when, _ in ran[:6]] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert ran[6][0] == 60.0


@pytest.mark.parametrize(
    "command, what",
    [
        ((sys.executable, "-c", "raise SystemExit(3)"), "ended with 3"),
        (("/nowhere/at-all",), "cannot be started"),
        (("\0",), "cannot be started"),
    ],
)
async def test_a_command_that_fails_is_told_once(command: tuple[str, ...], what: str) -> None:
    async with running(*command) as (notifier, told):
        for number in range(3):
            notifier.tell("t", str(number))
            await wait_for(lambda: not notifier._waiting)
        await wait_for(lambda: told)
        (text,) = told
        assert text.startswith(f"The command of approvals.notify ({command[0]}) {what}")
        notifier.use(command)
        notifier.tell("t", "again")
        notifier.use(("/nowhere/else",))
        notifier.tell("t", "another")
        await wait_for(lambda: len(told) == 2)
        assert "/nowhere/else" in told[1]


async def test_one_that_hangs_is_ended_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot gather; the next is told all the same."""
    monkeypatch.setattr(notify, "ENDS_WITHIN_S", 0.5)
    out = tmp_path / "out"
    program = (
        PUT + "import subprocess\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "put(os.getpid(), child.pid)\n"
        "child.wait()\n"
    )
    async with running(sys.executable, "-c", program, str(out)) as (notifier, told):
        notifier.tell("t", "x")
        await wait_for(out.exists)
        processes = [psutil.Process(int(pid)) for pid in out.read_text().split()]
        await wait_for(lambda: all(has_ended(process) for process in processes))
        await wait_for(lambda: told)
        assert "did not end within 0.5 s" in told[0]
        out.unlink()
        notifier.tell("t", "y")
        await wait_for(out.exists)
        processes = [psutil.Process(int(pid)) for pid in out.read_text().split()]
    assert all(has_ended(process) for process in processes[:1])  # and the broker's end is its end
    await wait_for(lambda: all(has_ended(process) for process in processes))


async def test_one_that_is_switched_off_is_not_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with running(sys.executable, "-c", WRITE, str(out), "{text}") as (notifier, _):
        notifier.tell("t", "x")
        notifier.use(())
        await wait_for(lambda: not notifier._waiting)
        await trio.testing.wait_all_tasks_blocked()
    assert lines(out) == []
