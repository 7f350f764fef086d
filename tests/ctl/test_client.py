"""xsessionctl.client: one request, one answer, and a sentence for everything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ctl.faulty_broker import Script, faulty_broker, hang, say
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member
from xsessionctl.client import ClientError, Connection, connect, deadline_in
from xsessiond.core.limits import MAX_FRAME

HELLO = {"jsonrpc": "2.0", "id": 1, "result": {"protocol": 1}}
LIST = {"jsonrpc": "2.0", "id": 2, "result": {"sessions": []}}


def error(request: int, code: int, data: dict[str, object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": "No.", "data": data}}


def ask(path: Path, method: str = "list", *, within_s: float = 10.0) -> dict[str, object]:
    with connect(str(path), deadline_in(within_s)) as link:
        return link.call(method)


def test_the_greeting_travels_with_the_first_request(short_dir: Path) -> None:
    path = short_dir / "s"
    with faulty_broker(path, say(HELLO, LIST)) as came:
        assert ask(path) == {"sessions": []}
    assert [frame["method"] for frame in came[0]] == ["hello", "list"]


def test_status_and_stop_are_asked_without_a_greeting(short_dir: Path) -> None:
    """P9: the frozen part of the protocol works with a broker of any version."""
    path = short_dir / "s"
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"broker": {"pid": 7, "version": "0.0.1", "protocol": 0}}}
    with faulty_broker(path, say(answer), frames=1) as came:
        assert ask(path, "status") == answer["result"]
    assert [frame["method"] for frame in came[0]] == ["status"]


def test_one_link_asks_several_things(running: PrivateBroker, api: Member) -> None:
    with connect(str(running.rendezvous), deadline_in(10)) as link:
        assert [row["name"] for row in rows(link, "list")] == ["api"]
        assert [row["name"] for row in rows(link, "list")] == ["api"]
        assert link.call("status")["sessions"] == 1


def rows(link: Connection, method: str) -> list[dict[str, object]]:
    found = link.call(method)["sessions"]
    assert isinstance(found, list)
    return found


def test_a_refusal_has_all_its_parts(running: PrivateBroker, api: Member) -> None:
    """O5: each error has code, cause, next step."""
    with connect(str(running.rendezvous), deadline_in(10)) as link, pytest.raises(ClientError) as caught:
        link.call("send", {"to": "apu", "message": "hello"})
    assert caught.value.code == "not_found"
    assert '"apu"' in caught.value.text
    assert caught.value.hint
    assert [candidate["name"] for candidate in caught.value.candidates if isinstance(candidate, dict)] == ["api"]
    assert caught.value.exit_code == 3
    assert not caught.value.sent


@pytest.mark.parametrize(
    "script, code, words",
    [
        (say(), "no_broker", "closed the connection before it answered"),
        (say(HELLO), "no_broker", "closed the connection before it answered"),
        (say(b'{"jsonrpc":"2.0","id'), "no_broker", "closed the connection before it answered"),
        (say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "internal", "does not speak JSON-RPC"),
        (say(b"[1]\n"), "internal", "does not speak JSON-RPC"),
        (say(b"\xff\xfe\n"), "internal", "does not speak JSON-RPC"),
        (say({"jsonrpc": "2.0", "id": 1}), "internal", "neither result nor error"),
        (say(HELLO, {"jsonrpc": "2.0", "id": 2, "result": 5}), "internal", "neither result nor error"),
        (say(HELLO, {"jsonrpc": "2.0", "id": 2, "error": {}}), "internal", "refused"),
        (say(HELLO, error(2, -32601, {})), "version_mismatch", "No."),
        (say(error(1, -32000, {"code": "version_mismatch"})), "version_mismatch", "No."),
    ],
)
def test_a_broker_that_fails_is_told_in_a_sentence(short_dir: Path, script: Script, code: str, words: str) -> None:
    path = short_dir / "s"
    with faulty_broker(path, script), pytest.raises(ClientError) as caught:
        ask(path)
    assert caught.value.code == code
    assert words in caught.value.text


def test_a_broker_that_says_nothing_is_a_timeout(short_dir: Path) -> None:
    path = short_dir / "s"
    with faulty_broker(path, hang), pytest.raises(ClientError) as caught:
        ask(path, within_s=0.2)
    assert (caught.value.code, caught.value.exit_code, caught.value.sent) == ("timeout", 7, True)


def test_what_the_broker_says_by_itself_is_passed_over_while_an_answer_is_due(short_dir: Path) -> None:
    path = short_dir / "s"
    note = {"jsonrpc": "2.0", "method": "mail", "params": {"queued": 1}}
    stranger = {"jsonrpc": "2.0", "id": 99, "result": {}}
    with faulty_broker(path, say(note, HELLO, stranger, note, LIST)):
        assert ask(path) == {"sessions": []}


def test_notifications_are_told_in_order_until_the_link_ends(short_dir: Path) -> None:
    path = short_dir / "s"
    notes = [{"jsonrpc": "2.0", "method": "entry", "params": {"id": number}} for number in range(3)]
    with faulty_broker(path, say(HELLO, LIST, *notes)), connect(str(path), deadline_in(10)) as link:
        link.call("list")
        seen: list[object] = []
        with pytest.raises(ClientError):
            seen.extend(params["id"] for _, params in link.notifications())
    assert seen == [0, 1, 2]


def test_what_is_too_large_for_a_frame_is_not_sent(short_dir: Path) -> None:
    path = short_dir / "s"
    with (
        faulty_broker(path, hang, frames=0),
        connect(str(path), deadline_in(10)) as link,
        pytest.raises(ClientError) as caught,
    ):
        link.call("send", {"to": "x", "message": "ä" * (MAX_FRAME // 2)})
    assert (caught.value.code, caught.value.exit_code, caught.value.sent) == ("too_large", 2, False)
    assert str(MAX_FRAME) in caught.value.text


def test_half_a_character_is_not_sent(short_dir: Path) -> None:
    path = short_dir / "s"
    with (
        faulty_broker(path, hang, frames=0),
        connect(str(path), deadline_in(10)) as link,
        pytest.raises(ClientError) as caught,
    ):
        link.call("send", {"to": "x", "message": "\udc80"})
    assert (caught.value.code, caught.value.sent) == ("not_text", False)


def test_an_error_is_a_document_of_the_contract() -> None:
    error = ClientError("not_found", "No.", "Look.", candidates=[{"name": "a"}], retry_after_s=2.0, detail=1)
    assert json.loads(json.dumps(error.to_json())) == {
        "error": {
            "code": "not_found",
            "text": "No.",
            "hint": "Look.",
            "candidates": [{"name": "a"}],
            "retry_after_s": 2.0,
            "detail": 1,
        }
    }


def test_what_the_broker_says_before_it_answers_is_not_lost(short_dir: Path) -> None:
    """Who follows the log is told of what is accepted while the broker looks into its store."""
    path = short_dir / "s"
    news = [{"jsonrpc": "2.0", "method": "entry", "params": {"id": f"m-{number}"}} for number in range(3)]
    with faulty_broker(path, say(HELLO, news[0], news[1], LIST, news[2])), connect(str(path), deadline_in(10)) as link:
        assert link.call("list") == {"sessions": []}
        heard = link.notifications()
        assert [next(heard) for _ in news] == [("entry", {"id": f"m-{number}"}) for number in range(3)]
