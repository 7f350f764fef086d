"""The command line in poor surroundings: bare environment, a broken locale, closed streams, no home, fifty together."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, read_status
from xsessionctl.cli import VERBS

pytestmark = pytest.mark.slow

COMMAND = str(Path(sys.executable).parent / "xsessionctl")
"""The installed command, as a shell finds it."""
WORDS = {
    "send": ["api", "hello"],
    "check": ["m-00000000000000000000000000000000"],
    "rename": ["other"],
    "completion": ["bash"],
    "mcp": ["--help"],
    "install": ["claude", "--dry-run"],
    "uninstall": ["claude", "--dry-run"],
    "service": ["--help"],
    "store": ["--help"],
    "bridge": ["--help"],
    "run": ["--help"],
    "grant": ["--list"],
    "show": ["m-00000000000000000000000000000000"],
    "approve": ["m-0"],
    "deny": ["m-0"],
    "trust": ["list"],
    "config": ["show"],
    "passphrase": ["--help"],
    "explain": ["--from", "script", "--to", "api"],
}
EXPECTED = {"check": 3, "show": 3, "rename": 2, "approve": 2, "deny": 2, "hook": 2}
"""Exit codes that are not 0: an unknown message; a name of its own for somebody who is no session; an id that is too
short."""
ORDER = [*(name for name in VERBS if name not in ("demo", "stop")), "stop"]


def run(
    place: PrivateBroker, *words: str, env: dict[str, str] | None = None, stdin: bytes = b"", within_s: float = 30.0
) -> subprocess.CompletedProcess[bytes]:
    """Run the installed command with exactly the environment `env`."""
    return subprocess.run(
        [COMMAND, *words],
        input=stdin,
        capture_output=True,
        cwd="/",
        env=place.directories() if env is None else env,
        timeout=within_s,
        check=False,
    )


def test_every_verb_works_in_an_empty_environment(broker: PrivateBroker) -> None:
    """I1: works by hand and fails from cron. `env -i`, but for what keeps this away from the user's own."""
    broker.start()
    with Member(broker.rendezvous, "api"):
        for name in ORDER:
            done = run(broker, name, *WORDS.get(name, []))
            assert done.returncode == EXPECTED.get(name, 0), (name, done.stderr)
            assert b"Traceback" not in done.stderr
            assert (done.stdout != b"") == (done.returncode == 0), name


def test_a_broker_is_started_from_an_empty_environment(broker: PrivateBroker) -> None:
    """I1: also the start."""
    assert run(broker, "start").returncode == 0
    assert run(broker, "list").returncode == 0


def test_without_a_home_and_without_our_variables_the_user_database_says_where(broker: PrivateBroker) -> None:
    """I1: no HOME. Nothing is made: only the verbs that look are run."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        pytest.skip("the user that runs this has no entry")
    for words in (["--version"], ["paths", "--json"], ["status"], ["completion", "bash"], ["list", "--help"]):
        done = run(broker, *words, env={"XSESSIOND_RUNTIME_DIR": str(broker.runtime_dir)})
        assert done.returncode == (9 if words == ["status"] else 0), (words, done.stderr)
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_every_verb_works_in_the_c_locale(broker: PrivateBroker, locale: dict[str, str]) -> None:
    """Bad input, LANG=C: names in other scripts are shown as far as the locale can, never as a traceback."""
    broker.start()
    env = {**broker.directories(), **locale}
    with Member(broker.rendezvous, "café-日本", cwd="/src/日本") as member:
        sent = run(broker, "send", "café-日本", "grüße", env=env)
        assert sent.returncode == 0, sent.stderr
        assert [message["text"] for message in member.take()] == ["grüße"]
        assert json.loads(run(broker, "list", "--json", env=env).stdout)["sessions"][0]["name"] == "café-日本"
        for name in ORDER:
            done = run(broker, name, *WORDS.get(name, []), env=env)
            assert b"Traceback" not in done.stderr, name
            assert done.returncode in (0, *EXPECTED.values())
            if "PYTHONUTF8" in locale:
                assert done.stdout.isascii() or name == "log", name


CLOSINGS = [">&-", "2>&-", "<&-", ">&- 2>&- <&-", "| true", "| head -c1"]


@pytest.mark.parametrize("closing", CLOSINGS)
def test_every_verb_survives_closed_streams(broker: PrivateBroker, closing: str) -> None:
    """O7: EPIPE trouble; bad input, closed stdout: no traceback, and the exit code is that of what was done."""
    broker.start()
    env = {**broker.directories(), "PATH": os.defpath}
    ended = broker.root / "ended"
    with Member(broker.rendezvous, "api"):
        for name in ORDER:
            words = " ".join([name, *WORDS.get(name, [])])
            script = f"{{ {COMMAND} {words}; echo $? >{ended}; }} {closing}"
            if not closing.startswith("|"):
                script = f"{COMMAND} {words} {closing}; echo $? >{ended}"
            done = subprocess.run(
                ["/bin/sh", "-c", script],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                env=env,
                timeout=30,
                check=False,
            )
            assert b"Traceback" not in done.stderr, name
            assert b"Exception ignored" not in done.stderr, name
            assert ended.read_text() == f"{EXPECTED.get(name, 0)}\n", (name, done.stderr)


def test_output_through_a_slow_pipe_is_complete(broker: PrivateBroker) -> None:
    """All of a large document arrives, though the reader takes its time and the pipe is small."""
    broker.start()
    with Member(broker.rendezvous, "api") as api:
        for number in range(8):
            assert run(broker, "send", "api", stdin=b"%d" % number + b"x" * 100_000).returncode == 0
        process = subprocess.Popen(
            [COMMAND, "log", "--json"], stdout=subprocess.PIPE, env=broker.directories(), cwd="/", bufsize=0
        )
        assert process.stdout is not None
        parts: list[bytes] = []
        while part := process.stdout.read(1000):
            parts.append(part)
        process.stdout.close()
        assert process.wait(20) == 0
        assert len(json.loads(b"".join(parts))["entries"]) == 8
        assert len(api.take()) == 8


def test_fifty_clients_at_once_start_one_broker(broker: PrivateBroker) -> None:
    """15.1, P2: fifty racing auto-starts, from several verbs, give one broker; every client gets its answer from it."""
    verbs: Sequence[list[str]] = [["list", "--json"], ["start", "--json"], ["whoami", "--json"], ["check", "--json"]]
    env = broker.environ()
    clients = [
        subprocess.Popen(
            [COMMAND, *verbs[number % len(verbs)], *(["--timeout", "50"] if number % 2 else [])],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )
        for number in range(50)
    ]
    broker.started.extend(clients)
    ends = [(client.communicate(timeout=55), client.returncode) for client in clients]
    assert [code for _, code in ends] == [0] * 50, [output for output, code in ends if code]
    pid = read_status(broker.rendezvous)["broker"]["pid"]
    started = [json.loads(output[0]) for output, _ in ends if b'"started"' in output[0]]
    assert {document["broker"]["pid"] for document in started} == {pid}
    assert sum(document["started"] for document in started) <= 1
    brokers = [process.pid for process in broker.processes() if "xsessiond" in process.cmdline()]
    assert brokers == [pid]
