"""The user's commands that resume conversations, as real programs: what they get, do, and end like."""

from __future__ import annotations

import gc
import json
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
from xsessiond.core.effects import ConversationStarted
from xsessiond.io import resumer
from xsessiond.io.resumer import SAID_BYTES, Resumer, clean_environment

PUT = """
import json, os, sys
def put(value):
    with open(sys.argv[1] + ".new", "w") as file:
        json.dump(value, file)
    os.rename(sys.argv[1] + ".new", sys.argv[1])
"""


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Resumer, list[ConversationStarted]]]:
    told: list[ConversationStarted] = []
    runner = Resumer(told.append)
    async with trio.open_nursery() as nursery:
        await nursery.start(runner.run)
        yield runner, told
        nursery.cancel_scope.cancel()


def python(script: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script, *arguments)


async def outcome(script: str, *arguments: str, cwd: str = "/") -> ConversationStarted:
    """What is told of a program that ends by itself."""
    async with running() as (runner, told):
        runner.start(7, python(script, *arguments), cwd)
        await wait_for(lambda: told)
        return told[0]


def processes(path: Path) -> list[psutil.Process]:
    """Those whose pids are written there."""
    return [psutil.Process(pid) for pid in json.loads(path.read_text())]


def read(path: Path) -> object:
    return json.loads(path.read_text())


# -- what it gets ------------------------------------------------------------------------------------------------------


async def test_it_is_apart_from_everything_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """11.1, 13.2: no terminal, nothing to read, a group of its own, its folder, and nobody's identity."""
    for name in ("NAME", "CLASS", "OFF", "SOCKET", "TOKEN_FILE", "ANYTHING"):
        monkeypatch.setenv(f"XSESSIOND_{name}", "x")
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("XSESSIOND_STATE_DIR", "/where/it/is")
    monkeypatch.setenv("GEMINI_API_KEY", "the user's own")
    path = tmp_path / "seen"
    script = PUT + (
        "put([sys.stdin.read(), os.getpgid(0) == os.getsid(0) == os.getpid(), os.getcwd(), dict(os.environ),"
        " [os.isatty(n) for n in (0, 1, 2)], sys.argv[2:]])"
    )
    found = await outcome(script, str(path), "a b;$(c)", "", cwd=str(tmp_path))
    assert found == ConversationStarted(7, None, "")
    stdin, apart, cwd, environ, terminals, arguments = read(path)  # type: ignore[misc]
    assert (stdin, apart, os.path.samefile(cwd, tmp_path), terminals) == ("", True, True, [False] * 3)  # noqa: ASYNC240
    assert arguments == ["a b;$(c)", ""], "a program with arguments, and no shell"
    ours = {name for name in environ if name.startswith("XSESSIOND_")}
    assert ours <= {"XSESSIOND_RUNTIME_DIR", "XSESSIOND_STATE_DIR", "XSESSIOND_CONFIG_DIR", "XSESSIOND_MANAGED_CONFIG"}
    assert environ["XSESSIOND_STATE_DIR"] == "/where/it/is"
    assert "CLAUDECODE" not in environ
    assert environ["GEMINI_API_KEY"] == "the user's own"


def test_what_says_whose_child_it_is_goes() -> None:
    kept = {"PATH": "/bin", "XSESSIOND_RUNTIME_DIR": "/r", "HOME": "/h"}
    assert clean_environment({**kept, "CODEX_THREAD_ID": "t", "XSESSIOND_SHIM": "1"}) == kept


# -- how it ends by itself ---------------------------------------------------------------------------------------------


async def test_a_status_and_the_last_words_are_told() -> None:
    """11.1: what it writes on either of its outputs."""
    script = "import sys; print('no such', flush=True); print('conversation', file=sys.stderr); sys.exit(3)"
    found = await outcome(script)
    assert (found.problem, found.said) == ("it ended with status 3", "no such\nconversation\n")


async def test_bytes_that_are_no_text_are_told_somehow() -> None:
    found = await outcome("import os; os.write(1, b'caf\\xe9'); os._exit(1)")
    assert found.said == "caf\ufffd"


@pytest.mark.parametrize("number, said", [(15, "it was ended by SIGTERM"), (35, "it was ended by signal 35")])
@pytest.mark.skipif(sys.platform == "darwin", reason="there signals have names, or are none")
async def test_a_signal_is_told(number: int, said: str) -> None:
    assert (await outcome(f"import os; os.kill(os.getpid(), {number})")).problem == said


async def test_what_cannot_be_started_is_told(tmp_path: Path) -> None:
    """11.1: with what is missing."""
    (tmp_path / "plain").write_text("no program")
    cases = [
        (("no-such-program-here", "x"), "/", "no-such-program-here: No such file"),
        (python(""), str(tmp_path / "gone"), f"{tmp_path / 'gone'}: No such file"),
        (python(""), str(tmp_path / "plain"), f"{tmp_path / 'plain'}: Not a directory"),
        ((str(tmp_path / "plain"),), "/", f"{tmp_path / 'plain'}: Permission denied"),
        (("x\0y",), "/", "embedded null byte"),
    ]
    async with running() as (runner, told):
        for number, (argv, cwd, said) in enumerate(cases):
            runner.start(number, argv, cwd)
            await wait_for(lambda: len(told) > number)  # noqa: B023
            assert told[-1].ticket == number
            assert told[-1].problem is not None
            assert told[-1].problem.startswith(f"it cannot be started ({said}")


async def test_one_that_leaves_something_behind_has_ended_all_the_same(tmp_path: Path) -> None:
    """As `tmux new -d` and the like: what it started may have its output, and goes on."""
    path = tmp_path / "child"
    script = PUT + (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "put([child.pid]); print('started'); sys.stdout.flush(); os._exit(0)"
    )
    async with running() as (runner, told):
        runner.start(7, python(script, str(path)), "/")
        await wait_for(lambda: told)
        assert told == [ConversationStarted(7, None, "started\n")]
        (child,) = processes(path)
        runner.end(7, arrived=True)
    assert not has_ended(child)
    child.kill()


# -- how it is ended ---------------------------------------------------------------------------------------------------

HANGS = (
    PUT
    + """
import signal, subprocess
if len(sys.argv) > 2:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
put([os.getpid(), child.pid])
signal.pause()
"""
)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_what_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stubborn: bool
) -> None:
    """11.1: and nothing more is told of it."""
    monkeypatch.setattr(resumer, "TERM_S", 0.1)
    path = tmp_path / "pids"
    async with running() as (runner, told):
        runner.start(7, python(HANGS, str(path), *(["stubborn"] if stubborn else [])), "/")
        await wait_for(path.exists)
        both = processes(path)
        runner.end(7, arrived=False)
        await wait_for(lambda: all(map(has_ended, both)))
        assert told == []
        runner.end(7, arrived=False)  # a second word changes nothing


async def test_what_is_given_up_before_it_started_is_ended() -> None:
    async with running() as (runner, told):
        before = set(psutil.Process().children(recursive=True))
        runner.start(7, python("import signal; signal.pause()"), "/")
        runner.end(7, arrived=False)
        await wait_for(lambda: not set(psutil.Process().children(recursive=True)) - before)
        assert told == []


async def test_what_is_still_tried_ends_with_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    async with running() as (runner, _):
        runner.start(7, python(HANGS, str(path)), "/")
        await wait_for(path.exists)
        both = processes(path)
    await wait_for(lambda: all(map(has_ended, both)))


async def test_a_harness_that_is_there_is_left_alone(tmp_path: Path) -> None:
    """Whatever is said of it later; its end is nobody's business."""
    path = tmp_path / "pids"
    async with running() as (runner, told):
        runner.start(7, python(HANGS, str(path)), "/")
        await wait_for(path.exists)
        runner.end(7, arrived=True)
        harness, child = processes(path)
        runner.end(7, arrived=False)
        harness.kill()
        await wait_for(lambda: has_ended(harness))
        assert told == []
        assert not has_ended(child)
        child.kill()


async def test_what_the_broker_before_us_left_alone_is_reaped_when_it_ends() -> None:
    """It is a child of the process that both are; init, for one, is not."""
    ours, kept = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, ours, 0)]
    child = os.posix_spawn("/bin/cat", ["cat"], {}, file_actions=actions)  # noqa: ASYNC221 - trio must not know it
    os.close(ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(resumer.reap_inherited, [child, 1])
        await trio.testing.wait_all_tasks_blocked()
        os.close(kept)
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)  # noqa: ASYNC222 - it does not wait


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_it_outlives_the_broker(tmp_path: Path) -> None:
    """What is still open of it here goes with our process, and would be complained about."""
    path = tmp_path / "pids"
    async with running() as (runner, _):
        runner.start(7, python(HANGS, str(path)), "/")
        await wait_for(path.exists)
        runner.end(7, arrived=True)
        both = processes(path)
    assert not any(map(has_ended, both))
    for process in reversed(both):
        process.kill()
    del runner
    gc.collect()


async def test_what_writes_without_end_costs_little_and_is_ended() -> None:
    """11.1: it never waits for us long, and no more than the end of it is kept."""
    async with running() as (runner, told):
        runner.start(7, ("yes", "x" * 100), "/")
        run = runner._runs[7]
        await wait_for(lambda: len(run.said) == SAID_BYTES)
        assert set(run.said.decode()) == {"x", "\n"}
        runner.end(7, arrived=False)
    assert told == []


async def test_a_long_text_is_told_by_its_end() -> None:
    found = await outcome("import sys; print('x' * 3_000_000); print('the end'); sys.exit(1)")
    assert found.said.endswith("x\nthe end\n")
    assert len(found.said) == SAID_BYTES
