"""Receivers that do not run: mail that is kept for them, and conversations that the user's command starts again.

Real processes: the broker, the MCP server, the commands. What must end at a deadline runs with the real service in the
test's own process, so that the deadline can be short.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from tests.ctl.terminal import at_terminal
from tests.shim.process import ShimProcess, finish_all, texts
from tests.support import resumed_harness
from tests.support.private_broker import PrivateBroker, has_ended
from tests.support.service_rig import in_thread, running_service
from tests.support.wire_client import Json, Member, Refused, ask_once, await_status, poll, read_status
from xsessiond.core import limits
from xsessiond.store.memory import MemoryStore

pytestmark = pytest.mark.slow

TALK = "0199d1f4-7c3e-7f60-8f2b-000000000001"
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def _no_shim_stays(broker: PrivateBroker) -> Iterator[None]:
    yield
    finish_all()


def set_command(place: PrivateBroker, *argv: str) -> None:
    """The user says how a conversation of Claude Code is resumed."""
    (place.config_dir / "config.toml").write_text(f"[harness.claude]\nresume = {json.dumps(argv)}\n")


def script(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text, "{harness_session_id}", "{cwd}")


def leave(place: PrivateBroker, name: str = "web") -> str:
    """A conversation that has ended, in a folder of its own; its session's id."""
    folder = place.home / name
    folder.mkdir()
    with Member(place.rendezvous, name, harness="claude", harness_session_id=TALK, cwd=str(folder)) as member:
        member.call("end")
        return member.id


def send(sender: Member, text: str = "hello", **more: Any) -> Json:
    return sender.send("web", text, when_offline="resume", **more)


def row_of(asker: Member, session_id: str) -> Json:
    """What the listing says of a session, running or not."""
    (row,) = [row for row in asker.call("list", all=True)["sessions"] if row["id"] == session_id]
    return row


def refuse(sender: Member, text: str = "hello") -> Json:
    """The refusal that a message to a conversation meets which cannot be resumed."""
    with pytest.raises(Refused) as refused:
        send(sender, text)
    return refused.value.data


# -- kept --------------------------------------------------------------------------------------------------------------


def test_mail_for_a_conversation_that_ended_comes_once_in_order_with_its_age(broker: PrivateBroker) -> None:
    """L7, L1, P17, 11.1: queued, kept over a killed broker, and delivered when the conversation resumes under the
    harness's own id. Its model reads how old each is."""
    process = broker.start()
    web = leave(broker)
    with Member(broker.rendezvous, "api") as api:
        with pytest.raises(Refused) as refused:
            api.send("web", "refused by default")
        assert refused.value.code == "not_running"
        sent = [api.send("web", f"number {number}", when_offline="queue")["id"] for number in range(3)]
        process.kill()
        process.wait(20)
        with closing(sqlite3.connect(broker.state_dir / "store.db")) as store:  # as if it had been two hours ago
            store.execute("UPDATE message SET sent_at = sent_at - ?", (2 * HOUR_MS,))
            store.commit()
        process = broker.start()
        api.rejoin()
        sent.append(api.send("web", "number 3", when_offline="queue")["id"])
        # Until what its project says was read, the last one may be held; it is let go then.
        row = poll(lambda: row_of(api, web), lambda row: row["queued"] == 4 and not row["held"])
        assert (row["state"], row["can_resume"]) == ("offline", False)
        shim = ShimProcess(broker, CLAUDE_CODE_SESSION_ID=TALK)
        shim.initialize(client="claude-code")
        result = shim.call("read_messages")
        found = result["structuredContent"]["messages"]
        assert [message["id"] for message in found] == sent
        assert [message["age_s"] // 3600 for message in found] == [2, 2, 2, 0]
        envelopes = texts(result)[1:]
        assert ["Written 2h ago" in envelope for envelope in envelopes] == [True, True, True, False]
        assert shim.call("list_agents")["structuredContent"]["self"]["id"] == web
        assert poll(lambda: api.call("check", message_id=sent[-1])["state"], lambda state: state == "delivered")
        process.kill()
        process.wait(20)
        broker.start()
        poll(lambda: shim.call("read_messages")["structuredContent"].get("messages"), lambda read: read == [])
        api.rejoin()
        assert {api.call("check", message_id=one)["state"] for one in sent} == {"delivered"}


# -- resumed -----------------------------------------------------------------------------------------------------------


def test_a_conversation_is_resumed_for_a_message(broker: PrivateBroker) -> None:
    """11.1: by the user's command, as a real MCP server below a harness of its own; everybody else waits for the same
    attempt. It is left alone when the broker dies, and comes back to the next."""
    set_command(broker, sys.executable, resumed_harness.__file__, "{harness_session_id}", "{cwd}")
    process = broker.start()
    web = leave(broker)
    with Member(broker.rendezvous, "api") as api, Member(broker.rendezvous, "eve") as eve:
        assert row_of(api, web)["can_resume"] is True
        asked = [
            (member, member.wire.ask("send", to="web", message=f"{member.name} {number}", when_offline="resume"))
            for number in range(2)
            for member in (api, eve)
        ]
        answers = [member.wire.answer(one) for member, one in asked]
        assert {answer["to"]["id"] for answer in answers} == {web}
        assert {answer["notice"] for answer in answers} == {"web was not running; it was resumed for this."}
        path = broker.home / "web" / "read"
        poll(lambda: read_texts(path), lambda read: sorted(read) == ["api 0", "api 1", "eve 0", "eve 1"])
        (harness,) = [one for one in broker.processes() if resumed_harness.__file__ in " ".join(one.cmdline()[:3])]
        assert harness.ppid() == process.pid
        assert harness.terminal() is None
        assert send(api, "more")["notice"] != "web was not running; it was resumed for this.", "it runs"
        process.kill()
        process.wait(20)
        broker.start()
        api.rejoin()
        await_status(broker.rendezvous, sessions=3)
        assert not has_ended(harness)
        assert api.send("web", "still there?")["to"]["id"] == web
        poll(lambda: read_texts(path), lambda read: read[-2:] == ["more", "still there?"])


def read_texts(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [message["text"] for line in path.read_text().splitlines() for message in json.loads(line)]


def test_a_command_that_fails_stores_nothing_and_is_told(broker: PrivateBroker) -> None:
    """11.1: with its status and its last line, made harmless; `status` tells the user."""
    set_command(broker, *script("import sys; print('\\x1b[2Jno conversation', sys.argv[1:]); sys.exit(3)"))
    broker.start()
    leave(broker)
    with Member(broker.rendezvous, "api") as api:
        error = refuse(api)
        assert error["code"] == "not_running"
        assert "it ended with status 3: \\x1b[2Jno conversation ['0199d1f4-" in error["text"]
        assert str(broker.home / "web") in error["text"]
        assert refuse(api)["retry_after_s"] > 0, "it is not tried again at once"
        assert api.call("check")["messages"] == []
        (warning,) = read_status(broker.rendezvous)["warnings"]
        assert warning.startswith("Resuming web with harness.claude.resume failed: ")


def test_a_command_that_does_not_exist_is_told(broker: PrivateBroker) -> None:
    set_command(broker, "no-such-harness", "{harness_session_id}")
    broker.start()
    leave(broker)
    with Member(broker.rendezvous, "api") as api:
        assert "it cannot be started (no-such-harness: No such file or directory)" in refuse(api)["text"]


def test_a_command_that_writes_a_lot_reaches_no_terminal(broker: PrivateBroker) -> None:
    """11.1: neither that of who sends nor any other; and it costs the broker no memory to speak of."""
    set_command(
        broker,
        *script(
            "import sys\n"
            "for _ in range(50): print('NOISE' * 20_000)\n"
            "try: open('/dev/tty', 'w').write('NOISE'); print('it has a terminal')\n"
            "except OSError: print('it has no terminal')\n"
            "sys.exit(1)"
        ),
    )
    process = broker.start()
    leave(broker)
    before = psutil.Process(process.pid).memory_info().rss
    code, seen = at_terminal(broker, "send", "web", "hello", "--when-offline", "resume", within_s=50)
    assert code == 3
    assert "it ended with status 1: it has no terminal" in " ".join(seen.split())
    assert "NOISE" not in seen
    assert psutil.Process(process.pid).memory_info().rss - before < 8 << 20
    assert "NOISE" not in "".join(path.read_text() for path in broker.root.glob("*.err"))


def test_a_project_cannot_set_a_command(broker: PrivateBroker) -> None:
    """11.1, H10: a repository's file starts no program."""
    broker.start()
    leave(broker)
    marker = broker.root / "started"
    for name in (".xsessiond.toml", ".xsessiond.local.toml"):
        command = json.dumps(["touch", str(marker), "{harness_session_id}"])
        (broker.home / "web" / name).write_text(f"[harness.claude]\nresume = {command}\n")
    with Member(broker.rendezvous, "api", cwd=str(broker.home / "web")) as api:
        assert refuse(api)["code"] == "unsupported_mode"
    assert not marker.exists()
    done = broker.ctl("config", "check", str(broker.home / "web" / ".xsessiond.toml"))
    assert "harness.claude.resume does nothing in a project's file." in done.stdout


@pytest.mark.parametrize("how", ["hangs", "hangs and will not end", "ends well and nobody comes"])
async def test_a_command_that_brings_nobody_is_ended_in_time(
    broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """11.1: with all that it started; whoever waited is told, and nothing was stored."""
    monkeypatch.setattr(limits, "RESUME_WITHIN_S", 0.5)
    pids = broker.root / "pids"
    hanging = (
        "import os, signal, subprocess, sys\n"
        f"{'signal.signal(signal.SIGTERM, signal.SIG_IGN)' if 'not' in how else ''}\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "signal.pause()"
    )
    set_command(broker, *script(f"open({str(pids)!r}, 'w')" if how.startswith("ends") else hanging))

    def speak() -> tuple[Json, list[psutil.Process]]:
        leave(broker)
        with Member(broker.rendezvous, "api") as api:
            request = api.wire.ask("send", to="web", message="hello", when_offline="resume")
            poll(pids.exists, bool)
            processes = [
                psutil.Process(int(pid)) for pid in poll(pids.read_text, lambda it: it or "ends" in how).split()
            ]
            with pytest.raises(Refused) as refused:
                api.wire.answer(request)
            poll(lambda: all(map(has_ended, processes)), bool)
            assert api.call("check")["messages"] == []
            return refused.value.data, processes

    with trio.fail_after(40):
        async with running_service(broker, MemoryStore()):
            error, processes = await in_thread(speak)
    assert error["code"] == "not_running"
    assert "the conversation did not come within 0.5 s" in error["text"]
    assert len(processes) == (0 if how.startswith("ends") else 2)


def test_a_tool_call_and_a_terminal_wait_for_it(broker: PrivateBroker) -> None:
    """The harness's command takes its time; both clients are patient, and one of them reads the reply."""
    set_command(
        broker,
        sys.executable,
        "-c",
        "import os, select, sys; select.select([], [], [], 1); os.execv(sys.argv[1], sys.argv[1:])",
        sys.executable,
        resumed_harness.__file__,
        "{harness_session_id}",
        "{cwd}",
    )
    broker.start()
    leave(broker)
    shim = ShimProcess(broker, XSESSIOND_NAME="asks")
    shim.initialize(client="codex-mcp-client")
    before = time.monotonic()
    call = shim.post_call("send_message", to="web", message="from a model", when_offline="resume")
    code, seen = at_terminal(broker, "send", "web", "from a person", "--when-offline", "resume", within_s=50)
    assert code == 0
    assert "it was resumed for this" in " ".join(seen.split())
    assert shim.answer(call)["structuredContent"]["state"] == "queued"
    assert time.monotonic() - before >= 1
    path = broker.home / "web" / "read"
    poll(lambda: read_texts(path), lambda read: sorted(read) == ["from a model", "from a person"])


def test_an_id_that_could_be_an_option_reaches_no_command(broker: PrivateBroker) -> None:
    """13: what a session says of itself chooses nothing."""
    marker = broker.root / "started"
    set_command(broker, "touch", str(marker), "{harness_session_id}")
    broker.start()
    options = {"harness": "claude", "harness_session_id": "--dangerously-skip-permissions"}
    with Member(broker.rendezvous, "web", **options) as web:
        web.call("end")
    with Member(broker.rendezvous, "api") as api:
        assert refuse(api)["code"] == "unsupported_mode"
    assert not marker.exists()


def test_the_broker_s_end_ends_an_attempt(broker: PrivateBroker) -> None:
    pids = broker.root / "pids"
    set_command(broker, *script(f"import os, signal; open({str(pids)!r}, 'w').write(str(os.getpid())); signal.pause()"))
    process = broker.start()
    leave(broker)
    with Member(broker.rendezvous, "api") as api:
        request = api.wire.ask("send", to="web", message="hello", when_offline="resume")
        command = psutil.Process(int(poll(lambda: pids.read_text() if pids.exists() else "", bool)))
        assert ask_once(broker.rendezvous, "status")["sessions"] == 1
        process.terminate()
        with pytest.raises(Refused) as refused:
            api.wire.answer(request)
        assert refused.value.code == "no_broker"
        assert process.wait(20) == 0
    poll(lambda: has_ended(command), bool)


def test_its_environment_is_nobody_s(broker: PrivateBroker) -> None:
    """13.2: an identity is not inherited from whoever started the broker."""
    path = broker.root / "environ"
    set_command(broker, *script(f"import json, os; json.dump(dict(os.environ), open({str(path)!r}, 'w')); os._exit(1)"))
    broker.start(XSESSIOND_NAME="somebody", XSESSIOND_CLASS="bypass", CLAUDECODE="1", CLAUDE_CODE_SESSION_ID="other")
    leave(broker)
    with Member(broker.rendezvous, "api") as api:
        refuse(api)
    environ = json.loads(path.read_text())
    assert not {"XSESSIOND_NAME", "XSESSIOND_CLASS", "CLAUDECODE", "CLAUDE_CODE_SESSION_ID"} & set(environ)
    assert environ["XSESSIOND_RUNTIME_DIR"] == str(broker.runtime_dir)
    assert os.path.samefile(environ["HOME"], broker.home)
