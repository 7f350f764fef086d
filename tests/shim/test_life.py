"""How the shim begins and ends, and what it makes of bad input. Real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.shim.fake_broker import FakeBroker
from tests.shim.process import HARNESS, SHIM, ShimProcess, ended_within, texts
from tests.support.private_broker import PrivateBroker
from xsessiond.core.limits import SHIM_END_S

ENDS_WITHIN_S = 2.0
PING = b'{"jsonrpc":"2.0","id":"p","method":"ping"}\n'


@pytest.fixture
def off(broker: PrivateBroker) -> ShimProcess:
    """A shim that needs no broker."""
    process = ShimProcess(broker, XSESSIOND_OFF="1")
    process.initialize()
    return process


def test_it_ends_with_its_input(off: ShimProcess) -> None:
    """P11: stdin closed."""
    shim = off.shim()
    off.close()
    assert ended_within(shim, ENDS_WITHIN_S)


def test_it_ends_with_its_harness(broker: PrivateBroker) -> None:
    """D1, P11: kill -9 of the harness alone, while its pipes stay open: the test holds them."""
    process = ShimProcess(broker, XSESSIOND_OFF="1")
    process.initialize()
    shim = process.shim()
    process.kill_harness()
    assert ended_within(shim, ENDS_WITHIN_S)


@pytest.mark.parametrize("shell", ["{shim}; true", "exec 3<&0; {shim} <&3 3<&- & wait"])
def test_it_ends_when_a_wrapper_stands_between(broker: PrivateBroker, shell: str) -> None:
    """P11: the harness is killed, the wrapper below it lives on and keeps everything open."""
    command = shell.format(shim=" ".join(SHIM))
    process = ShimProcess(broker, sys.executable, "-c", HARNESS, "sh", "-c", command, XSESSIOND_OFF="1")
    process.initialize()
    shim = process.shim()
    assert shim.ppid() != process.process.pid
    process.kill_harness()
    assert ended_within(shim, ENDS_WITHIN_S)


def test_it_ends_when_the_wrapper_is_killed(broker: PrivateBroker) -> None:
    """P11: an npx-style wrapper is killed and its harness lives."""
    process = ShimProcess(
        broker, sys.executable, "-c", HARNESS, "sh", "-c", f"{' '.join(SHIM)}; true", XSESSIOND_OFF="1"
    )
    process.initialize()
    shim = process.shim()
    os.kill(shim.ppid(), signal.SIGKILL)
    assert ended_within(shim, ENDS_WITHIN_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_ends_when_it_is_told_to(broker: PrivateBroker, off: ShimProcess, number: signal.Signals) -> None:
    shim = off.shim()
    shim.send_signal(number)
    assert off.process.wait(ENDS_WITHIN_S) == 0


def test_ctrl_c_in_the_harness_s_terminal_is_not_for_it(off: ShimProcess) -> None:
    off.shim().send_signal(signal.SIGINT)
    assert off.ask("ping") == {}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_it_hears_of_the_end_of_what_it_starts_whatever_it_inherits(broker: PrivateBroker) -> None:
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    process = ShimProcess(broker, sys.executable, "-c", ignoring, *SHIM, XSESSIOND_OFF="1")
    process.initialize()
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    (ignored,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn"))
    assert not ignored & 1 << (signal.SIGCHLD - 1)


def test_it_ends_when_nobody_reads_any_more(broker: PrivateBroker) -> None:
    with subprocess.Popen(
        SHIM,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=broker.environ(XSESSIOND_OFF="1"),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(PING)
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(ENDS_WITHIN_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize("closed", ["0", "1", "2", "0 1 2"])
def test_missing_streams_are_no_traceback(broker: PrivateBroker, closed: str) -> None:
    redirections = " ".join(f"{fd}{'<' if fd == '0' else '>'}&-" for fd in closed.split())
    done = subprocess.run(
        ["sh", "-c", f"{' '.join(SHIM)} {redirections}"],
        input=PING,
        capture_output=True,
        timeout=10,
        env=broker.environ(XSESSIOND_OFF="1"),
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == b""


def test_what_was_asked_before_the_end_of_input_is_answered(broker: PrivateBroker) -> None:
    """A transcript piped in: everything in it gets its answer."""
    fake = FakeBroker(broker.runtime_dir)
    fake.start()
    lines = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocolVersion": "2025-11-25", "capabilities": {}},
        },
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_agents", "arguments": {}}},
    ]
    try:
        done = subprocess.run(
            SHIM,
            input=b"".join(json.dumps(line).encode() + b"\n" for line in lines),
            capture_output=True,
            timeout=10,
            env=broker.environ(),
            check=True,
        )
    finally:
        fake.close()
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["isError"] is False


def test_it_answers_before_there_is_a_broker(broker: PrivateBroker) -> None:
    """I4: the tools are there at once, however long the broker takes."""
    fake = FakeBroker(broker.runtime_dir)
    fake.answers["hello"] = lambda _: None  # a broker that never gets anywhere
    fake.start()
    try:
        process = ShimProcess(broker)
        began = time.monotonic()
        process.initialize()
        assert len(process.ask("tools/list")["tools"]) == 5
        assert time.monotonic() - began < 5
    finally:
        fake.close()


@pytest.mark.slow
def test_it_costs_nothing_while_nothing_happens(broker: PrivateBroker) -> None:
    """P11: no turn of its loop without a cause; a broker is there, and quiet."""
    fake = FakeBroker(broker.runtime_dir)
    fake.start()
    try:
        process = ShimProcess(broker)
        process.initialize()
        process.call("list_agents")
        fake.next("ack", "take")
        shim = process.shim()
        before = shim.num_ctx_switches().voluntary
        with pytest.raises(subprocess.TimeoutExpired):
            process.process.wait(1.5)
        assert shim.num_ctx_switches().voluntary - before <= 2
    finally:
        fake.close()


def test_it_costs_nothing_while_its_broker_does_not_hear_that_it_ends(broker: PrivateBroker) -> None:
    """1.4, P11: what told it to end stays readable, and is not looked at again."""
    fake, over = FakeBroker(broker.runtime_dir), threading.Event()
    fake.answers["end"] = lambda _: {"ended": over.wait(10)}
    fake.start()
    try:
        process = ShimProcess(broker, *SHIM)
        process.initialize()
        process.call("list_agents")
        fake.next("ack", "take")
        shim = psutil.Process(process.process.pid)
        before = shim.cpu_times().user + shim.cpu_times().system
        shim.terminate()
        os.waitid(os.P_PID, shim.pid, os.WEXITED | os.WNOWAIT)
        assert shim.cpu_times().user + shim.cpu_times().system - before < SHIM_END_S / 2
    finally:
        over.set()
        fake.close()


def test_it_stays_small(off: ShimProcess) -> None:
    off.ask("tools/list")
    assert off.shim().memory_info().rss <= 16 << 20


@pytest.mark.parametrize("environ", [{}, {"LANG": "C", "LC_ALL": "C"}, {"PYTHONUTF8": "0", "LANG": "en_US.ISO-8859-1"}])
def test_a_bare_environment_will_do(broker: PrivateBroker, environ: dict[str, str]) -> None:
    """I1: no HOME, no PATH, no locale; what is said is UTF-8 all the same."""
    fake = FakeBroker(broker.runtime_dir)
    fake.start()
    name = "日本語"
    fake.session["name"] = name
    init = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "rename_session", "arguments": {"name": name}},
    }
    try:
        done = subprocess.run(
            SHIM,
            input=b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in (init, call)),
            capture_output=True,
            timeout=10,
            env={**broker.directories(), **environ},
            cwd="/",
            check=True,
        )
    finally:
        fake.close()
    assert done.stderr == b""
    result = json.loads(done.stdout.splitlines()[1])["result"]
    assert texts(result) == [f"Others call you {name} [aaaaaa] now."]


def test_a_folder_that_is_gone_is_no_reason_to_stay_away(broker: PrivateBroker, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    process = ShimProcess(
        broker, sys.executable, "-c", f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n{HARNESS}", *SHIM,
        XSESSIOND_OFF="1",
    )  # fmt: skip
    process.initialize()
    assert process.ask("ping") == {}


class TestBadInput:
    """Bytes that no client should send: each gets its error, and the next request its answer."""

    def test_a_line_that_comes_a_byte_at_a_time(self, off: ShimProcess) -> None:
        for byte in PING:
            off.write(bytes([byte]))
        assert off.next()["result"] == {}

    def test_two_lines_and_a_half(self, off: ShimProcess) -> None:
        off.write(PING + PING + PING[:10])
        assert [off.next()["id"], off.next()["id"]] == ["p", "p"]
        off.write(PING[10:])
        assert off.next()["id"] == "p"

    def test_binary(self, off: ShimProcess) -> None:
        off.write(bytes(range(256)).replace(b"\n", b"") + b"\n" + PING)
        assert off.next()["error"]["code"] == -32700
        assert off.next()["id"] == "p"

    def test_two_megabytes_without_meaning(self, off: ShimProcess) -> None:
        off.write(b"x" * (2 << 20) + b"\n" + PING)
        assert off.next()["error"]["code"] == -32700
        assert off.next()["id"] == "p"

    def test_more_than_it_reads(self, off: ShimProcess) -> None:
        for _ in range(9):
            off.write(b"x" * (1 << 20))
        off.write(b"\n" + PING)
        frame = off.next()
        assert frame["error"]["code"] == -32600
        assert str((9 << 20) + 1) in frame["error"]["message"]
        assert off.next()["id"] == "p"

    def test_a_two_megabyte_message_is_refused_with_both_sizes(self, broker: PrivateBroker) -> None:
        process = ShimProcess(broker, XSESSIOND_SOCKET="/nowhere.sock")
        process.initialize()
        error = process.call("send_message", to="web", message="x" * (2 << 20))["structuredContent"]["error"]
        assert error["code"] == "too_large"
        assert str(2 << 20) in error["text"]

    def test_a_client_that_does_not_read_is_not_read_either(self, off: ShimProcess) -> None:
        """Back-pressure: the queue for a client that asks and never listens stays small."""
        request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode() + b"\n"
        for _ in range(400):
            off.write(request)
        for _ in range(400):
            assert off.next()["id"] == 1
        assert off.shim().memory_info().rss <= 24 << 20


def test_switched_off_it_registers_nothing_and_says_so(broker: PrivateBroker) -> None:
    fake = FakeBroker(broker.runtime_dir)
    fake.start()
    try:
        process = ShimProcess(broker, XSESSIOND_OFF="1")
        process.initialize()
        for tool in ("list_agents", "send_message", "check_delivery", "read_messages", "rename_session"):
            result = process.call(tool)
            assert result["isError"] is True
            assert result["structuredContent"]["error"]["code"] == "feature_off"
        assert fake.asked.empty()
    finally:
        fake.close()


@pytest.mark.slow
def test_without_any_broker_a_call_says_so(broker: PrivateBroker) -> None:
    process = ShimProcess(
        broker, XSESSIOND_SOCKET=str(broker.runtime_dir / "none.sock"), XSESSIOND_TOKEN_FILE="/dev/null"
    )
    process.initialize()
    error = process.call("list_agents")["structuredContent"]["error"]
    assert error["code"] == "no_broker"
    assert "nothing was done" in error["text"]
