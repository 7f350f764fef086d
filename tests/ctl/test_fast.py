"""xsessionctl.fast: the cheap forms say what the full command line says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ctl.faulty_broker import faulty_broker, hang, say
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member
from xsessionctl import client, fast
from xsessionctl.codec import encode_ascii
from xsessiond.core.limits import MAX_FRAME, PROTOCOL

SLOW = ["--color", "auto"]
"""An option that changes nothing and that only the full command line knows."""
VARYING = re.compile(r'"uptime_s":[\d.]+|"last_seen_at":"[^"]+"|"age_s":\d+|(?<=m-)[0-9a-f]{32}|\d+s\b')


def same_but_for_time(text: str) -> str:
    return VARYING.sub("?", text)


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["list", "--json"],
        ["whoami"],
        ["whoami", "--json"],
        ["check"],
        ["check", "--json"],
        ["check", "m-00000000000000000000000000000000"],
        ["check", "nonsense", "--json"],
        ["send", "nobody", "hello"],
        ["send", "--json", "nobody", "hello", "there"],
        ["send", "ap", "hello"],
    ],
)
def test_both_ways_say_the_same(shared: PrivateBroker, words: list[str]) -> None:
    """Fast and full form give the same bytes and the same exit code."""
    cheap, full = shared.ctl(*words), shared.ctl(*words, *SLOW)
    assert same_but_for_time(cheap.stdout) == same_but_for_time(full.stdout)
    assert same_but_for_time(cheap.stderr) == same_but_for_time(full.stderr)
    assert cheap.returncode == full.returncode


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_both_ways_send_the_same(running: PrivateBroker, api: Member, more: list[str]) -> None:
    cheap, full = running.ctl("send", "api", "one", *more), running.ctl("send", "api", "two", *more, *SLOW)
    assert (cheap.returncode, full.returncode) == (0, 0)
    if more:
        first, second = json.loads(cheap.stdout), json.loads(full.stdout)
        assert list(first) == list(second)
        assert first["to"] == second["to"]
    else:
        assert same_but_for_time(cheap.stdout) == same_but_for_time(full.stdout)
        assert cheap.stdout.startswith(f"queued for api [{api.session['ref']}]")
    assert [message["text"] for message in api.take()] == ["one", "two"]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["status"],
        ["--help"],
        ["list", "--all"],
        ["list", "--help"],
        ["list", "api"],
        ["send"],
        ["send", "api"],
        ["send", "api", "-"],
        ["send", "api", "--", "-x"],
        ["send", "api", "x", "--wait", "1"],
        ["send", "", "x"],
        ["check", "a", "b"],
        ["mcp"],
    ],
)
def test_what_it_does_not_know_is_left_alone(words: list[str]) -> None:
    assert fast.run(words) is None


def test_its_numbers_are_those_of_the_core() -> None:
    assert json.loads(fast.HELLO)["params"]["protocol"] == PROTOCOL
    assert fast.MOST == MAX_FRAME
    assert fast.CONVERSATION == client.CONVERSATION


def test_it_says_which_conversation_it_is_part_of() -> None:
    assert fast.greet(None) == fast.greet("") == fast.HELLO
    greeting = json.loads(fast.greet('t-"1"'))
    assert greeting["params"].pop("conversation") == 't-"1"'
    assert greeting == json.loads(fast.HELLO)


def test_a_missing_broker_is_started(broker: PrivateBroker) -> None:
    done = broker.ctl("list", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["sessions"] == []


HELLO = {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_question_whose_answer_was_lost_is_asked_again(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XSESSIOND_RUNTIME_DIR", str(short_dir))
    found: dict[str, object] = {"self": None, "sessions": []}
    answers = [say(), say(HELLO), say(HELLO, {"jsonrpc": "2.0", "id": 2, "result": found})]
    with faulty_broker(short_dir / "broker.sock", lambda link, frames: answers.pop(0)(link, frames)):
        assert fast.run(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found


def test_a_send_whose_answer_was_lost_is_not_sent_again(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """L4: "unconfirmed" is not "failed": the text says so, and what to do."""
    monkeypatch.setenv("XSESSIOND_RUNTIME_DIR", str(short_dir))
    with faulty_broker(short_dir / "broker.sock", say(HELLO)) as came:
        assert fast.run(["send", "api", "hello", "--json"]) == 9
    assert len(came) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert "not known whether the message was accepted" in error["text"]
    assert "xsessionctl check" in error["hint"]


def test_a_send_that_nobody_answers_in_time_says_that(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """L4: a broker that hangs is no broker that went away: another text, and another exit code."""
    monkeypatch.setenv("XSESSIOND_RUNTIME_DIR", str(short_dir))
    monkeypatch.setattr(fast, "TIMEOUT_S", 0.2)
    with faulty_broker(short_dir / "broker.sock", hang) as came:
        assert fast.run(["send", "api", "hello", "--json"]) == 7
    assert len(came) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "timeout"
    assert error["text"].startswith("The broker did not answer in time. It is not known whether")


def test_a_refusal_is_not_asked_for_twice(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XSESSIOND_RUNTIME_DIR", str(short_dir))
    problem: dict[str, object] = {
        "code": "queue_full",
        "text": "Full.",
        "hint": None,
        "candidates": [],
        "retry_after_s": 3,
        "detail": None,
    }
    answer = {"jsonrpc": "2.0", "id": 2, "error": {"code": -32000, "message": "Full.", "data": problem}}
    with faulty_broker(short_dir / "broker.sock", say(HELLO, answer)) as came:
        assert fast.run(["send", "api", "hello", "--json"]) == 8
    assert len(came) == 1
    assert json.loads(capsys.readouterr().out) == {"error": problem}


@pytest.mark.parametrize(
    "state, code", [("queued", 0), ("handed", 0), ("delivered", 0), ("replied", 0), ("held", 6), ("refused", 5)]
)
def test_the_exit_code_tells_the_state(short_dir: Path, monkeypatch: pytest.MonkeyPatch, state: str, code: int) -> None:
    """O4: 0 delivered or queued as asked, 5 refused, 6 held."""
    monkeypatch.setenv("XSESSIOND_RUNTIME_DIR", str(short_dir))
    sent = {"id": "m-1", "state": state, "to": {"name": "api", "ref": "1a2b3c"}, "notice": None}
    answers = say(HELLO, {"jsonrpc": "2.0", "id": 2, "result": sent})
    with faulty_broker(short_dir / "broker.sock", answers):
        assert fast.run(["send", "api", "hello"]) == code


def test_what_a_peer_wrote_is_shown_inert() -> None:
    """Behaviour 12.5."""
    target = {"name": "a\x1b[31m", "ref": "1"}
    lines = fast.sent_lines({"id": "m-\r", "state": "queued", "to": target, "notice": "x\u202e"})
    assert lines == ["queued for a\\x1b[31m [1] · m-\\r", "  x\\u202e"]


def test_a_person_has_no_ref() -> None:
    target = {"id": "human", "name": "ann", "ref": ""}
    lines = fast.sent_lines({"id": "m-1", "state": "queued", "to": target, "notice": None})
    assert lines == ["queued for ann (human) · m-1"]


@pytest.mark.parametrize("name", ["plain", "日本", 'with "quotes"', "back\\slash", "del\x7f", "\x1b[31m", "\u2028"])
def test_a_document_is_the_same_whether_it_is_taken_apart_or_not(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """What needs no change is passed on as it came; what does is what the full way makes of it."""
    monkeypatch.setenv("XSESSIOND_RUNTIME_DIR", str(short_dir))
    document = {"self": None, "sessions": [{"name": name, "uptime_s": 1.5}]}
    line = json.dumps({"jsonrpc": "2.0", "id": 2, "result": document}, ensure_ascii=False, separators=(",", ":"))
    with faulty_broker(short_dir / "broker.sock", say(HELLO, line.encode() + b"\n")):
        assert fast.run(["list", "--json"]) == 0
    assert capsys.readouterr().out == encode_ascii(document) + "\n"


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400\n", b"{}\n", b"[]\n", b'{"jsonrpc":"2.0","id":2,"result":{\n', b"\xff\n"]
)
def test_an_answer_that_is_none_is_a_fault(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: bytes
) -> None:
    monkeypatch.setenv("XSESSIOND_RUNTIME_DIR", str(short_dir))
    with faulty_broker(short_dir / "broker.sock", say(HELLO, answer)):
        assert fast.run(["list", "--json"]) != 0
    assert "error" in json.loads(capsys.readouterr().out)


def test_it_loads_next_to_nothing(running: PrivateBroker) -> None:
    """What a send costs is what it imports: none of the packages that cost more than the rest together."""

    def loaded(code: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; {code}; print(*sys.modules, file=sys.stderr)"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
            env=running.environ(),
            timeout=30,
        )
        return set(done.stderr.split())

    new = loaded("from xsessionctl import fast; fast.run(['list', '--json'])") - loaded("pass")
    ours = {name for name in new if name.startswith("xsession")}
    assert ours == {"xsessionctl", "xsessionctl.fast", "xsessionctl.sockets", "xsessiond", "xsessiond.paths"}
    assert new - ours <= {"_socket"}
