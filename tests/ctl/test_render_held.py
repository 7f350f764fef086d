"""xsessionctl.render_held: what a person sees before deciding, and nothing in it that acts on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.ctl.test_render import NASTY, SINK, ago, nasty
from xsessionctl import render, render_failure, render_held
from xsessiond.core.admission import CAUSES, Cause

WEB = {"id": "s-1", "ref": "1a2b3c", "name": "web", "harness": "claude", "cwd": "/src/web", "class": "bypass"}
API = {"id": "s-2", "ref": "4d5e6f", "name": "api", "harness": "codex", "cwd": "/src/api", "class": "prompting"}


def hold(**changes: Any) -> dict[str, Any]:
    return {
        "id": "m-5f0c" + "0" * 28,
        "from": WEB,
        "to": API,
        "cause": "mode-mismatch",
        "rule": "parity: from a session that acts without asking",
        "held_at": ago(minutes=4),
        "expires_at": ago(minutes=-56),
        "bytes": 12,
        "preview": "please\nstop",
        "text": "please\nstop",
        "sha256": "ab" * 32,
        "summary": None,
        "sender_class": "bypass",
        "receiver_class": "prompting",
        "flags": [],
        "subagent": False,
        **changes,
    }


def test_the_queue_says_who_for_whom_why_and_how_long() -> None:
    lines = render_held.queue({"held": [hold()]}, SINK)
    assert lines[0].split() == ["ID", "FROM", "TO", "CAUSE", "AGE", "EXPIRES", "BYTES"]
    cells = ["m-5f0c00", "web", "[1a2b3c]", "api", "[4d5e6f]", "mode-mismatch", "4m", "56m", "12"]
    assert lines[1].split() == cells
    assert lines[2] == "    please\\nstop"
    assert "approve ID" in lines[-1]


def test_an_empty_queue_says_so() -> None:
    assert render_held.queue({"held": []}, SINK) == ["Nothing is held."]
    assert render_held.queue({}, SINK) == ["Nothing is held."]


def test_the_queue_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_held, "line_width", lambda: 80)
    long = {**WEB, "name": "a-rather-long-name-for-a-session"}
    lines = render_held.queue({"held": [hold(**{"from": long, "preview": "word " * 40})]}, SINK)
    assert max(map(len, lines)) <= 80


def test_what_should_be_looked_at_first_is_marked() -> None:
    """S5: a body that carries a harness's own markup is flagged."""
    lines = render_held.queue({"held": [hold(flags=["<system-reminder"])], "left_out": 2}, SINK)
    assert any(line.startswith("! ") and "m-5f0c00" in line for line in lines)
    assert any(line.startswith("2 more do not fit") for line in lines)
    shown = "\n".join(render_held.details(hold(flags=["<system-reminder"]), SINK))
    assert "! It has markup that a harness takes for its own: <system-reminder" in shown


def test_everything_is_there_before_deciding() -> None:
    """H9: sender id, folder, harness, class, cause, rule, full body and size."""
    shown = "\n".join(render_held.details(hold(), SINK))
    for words in (
        "m-5f0c" + "0" * 28, "web [1a2b3c]", "s-1", "claude", "/src/web", "bypass: it acts without asking",
        "api [4d5e6f]", "s-2", "/src/api", "prompting: it asks before it acts", "mode-mismatch", "parity: from",
        "12 bytes", "ab" * 32, "(4m ago)", "(in 56m)", "    please\n    stop", "xsessionctl approve m-5f0c00",
    ):  # fmt: skip
        assert words in shown, words


def test_who_decides_is_told_that_a_subagent_wrote_it() -> None:
    """1.9."""
    assert any(
        line.split() == ["written", "by", "a", "subagent", "of", "it"]
        for line in render_held.details(hold(subagent=True), SINK)
    )
    assert "subagent" not in "\n".join(render_held.details(hold(), SINK))


def test_a_hold_that_waits_for_ever_says_so() -> None:
    assert "never: it waits until you decide" in "\n".join(render_held.details(hold(expires_at=None), SINK))
    assert "never" in render_held.queue({"held": [hold(expires_at=None)]}, SINK)[1]


def test_a_text_that_is_kept_back_is_not_taken_for_an_empty_one() -> None:
    assert "Its text is not shown" in "\n".join(render_held.details(hold(text=None), SINK))
    assert "Its text is not shown" not in "\n".join(render_held.details(hold(text=""), SINK))


def test_a_sender_that_is_no_session_is_called_what_it_is() -> None:
    script = {"kind": "script", "id": None, "name": "script", "cwd": None}
    assert "  script " in render_held.queue({"held": [hold(**{"from": script})]}, SINK)[1]
    gone = {"kind": "session", "id": "s-9", "name": "gone", "cwd": "/src/gone"}
    assert "gone  /src/gone" in "\n".join(render_held.details(hold(**{"from": gone}), SINK))
    other = {"kind": "human", "id": None, "name": "ann"}
    assert "ann (human)" in render_held.queue({"held": [hold(**{"from": other})]}, SINK)[1]


def test_an_unknown_class_comes_with_what_would_make_it_known() -> None:
    """H6: for everybody whose harness cannot tell, this is why the first message did not arrive."""
    hint = "xsessionctl config set harness.codex.assume_class prompting"
    unknown = hold(cause="mode-unknown", receiver_class="unknown")
    assert hint in "\n".join(render_held.details(unknown, SINK))
    assert hint not in "\n".join(render_held.details(hold(), SINK))
    told = {**PARTIES, "verdict": "hold", "cause": "mode-unknown", "expires": True}
    told["receiver"] = {**PARTIES["receiver"], "class": "unknown", "harness": "codex"}
    assert hint in "\n".join(render_held.explanation(told, SINK))
    assert hint not in "\n".join(render_held.explanation({**told, "cause": "explicit-setting"}, SINK))
    for strange in ('my "cli', "a b", "$(id)", "", None):  # nothing to be pasted into a shell
        told["receiver"]["harness"] = strange
        assert "harness.NAME.assume_class prompting" in "\n".join(render_held.explanation(told, SINK))


def test_every_cause_is_said_in_words() -> None:
    """5.3: why. The causes are those of the admission."""
    assert set(render_held.CAUSES) == set(Cause.__args__)  # type: ignore[attr-defined]
    assert set(CAUSES.values()) <= set(render_held.CAUSES)


# -- decisions ---------------------------------------------------------------------------------------------------------


def test_a_decision_says_what_became_of_each() -> None:
    one = hold()
    document = {
        "decided": [
            {"id": one["id"], "state": "queued", "error": None, "trust": "t-1a2b"},
            {"id": "m-2", "state": "denied", "error": None},
            {"id": "m-3", "state": "delivered", "error": {"code": "already_decided"}},
        ]
    }
    lines = render_held.decided(document, {one["id"]: one}, SINK)
    assert lines[:2] == [f"approved  {one['id']}  web [1a2b3c] → api [4d5e6f]  queued now", "denied  m-2"]
    assert "t-1a2b" in lines[2]
    assert len(lines) == 3, "what could not be decided is a failure and stands elsewhere"


def test_what_is_trusted_says_until_when() -> None:
    """H7: list."""
    row = {"from": WEB, "to": API, "by": "human ann", "at": ago(minutes=1), "until": None}
    until = ago(minutes=-60)
    rows = [{"scope": "pair"}, {"scope": "session"}, {"scope": "pair", "until": until}]
    trusts = [{**row, "id": f"t-{number}a2b" + "0" * 12, **more} for number, more in enumerate(rows, 1)]
    lines = render_held.trusts({"trusts": trusts}, SINK)
    assert lines[1].split()[:7] == ["t-1a2b00", "web", "[1a2b3c]", "api", "[4d5e6f]", "pair", "revoked"]
    assert "session  one ends" in lines[2]
    assert render.clock(until, "%H:%M") in lines[3]
    assert render_held.trusts({"trusts": []}, SINK)[0].startswith("Nothing is trusted.")


# -- explanations ------------------------------------------------------------------------------------------------------

PARTIES: dict[str, Any] = {
    "sender": {"kind": "session", "name": "web", "ref": "1a2b3c", "class": "bypass"},
    "receiver": {
        "name": "api",
        "ref": "4d5e6f",
        "class": "prompting",
        "policy": {
            "inbound": {"value": "hold", "source": "user", "where": "/c/config.toml:2"},
            "outbound": None,
            "scope": None,
        },
    },
}


@pytest.mark.parametrize(
    "verdict, words",
    [
        ({"verdict": "admit", "rule": "parity: both"}, "web [1a2b3c] to api [4d5e6f] goes through."),
        ({"verdict": "hold", "cause": "explicit-setting", "expires": False}, "would be held: the receiver's settings"),
        ({"verdict": "refuse", "rule": "inbound = refuse"}, "would be refused, and nothing of it stored."),
        ({"verdict": "something-new"}, "api [4d5e6f] something-new."),
    ],
)
def test_a_verdict_is_a_plain_sentence_with_its_rule(verdict: dict[str, Any], words: str) -> None:
    """4.5, H6: with the rule and the file and line."""
    lines = render_held.explanation({**PARTIES, **verdict}, SINK)
    assert words in lines[0]
    assert "hold (user: /c/config.toml:2)" in "\n".join(lines)
    assert ("rule" in "\n".join(lines)) == ("rule" in verdict)
    assert lines[-1] == "Nothing was sent."


def test_a_hold_that_expires_says_so() -> None:
    told = {"verdict": "hold", "cause": "mode-mismatch", "expires": True}
    assert "inbound.hold_expiry" in "\n".join(render_held.explanation({**PARTIES, **told}, SINK))
    assert "never" in "\n".join(render_held.explanation({**PARTIES, **told, "expires": False}, SINK))


@pytest.mark.parametrize("kind, who", [("human", "you"), ("script", "a script outside every session")])
def test_a_verdict_about_somebody_who_is_no_session(kind: str, who: str) -> None:
    told = {**PARTIES, "sender": {"kind": kind, "name": kind, "ref": None, "class": "unknown"}, "verdict": "admit"}
    lines = render_held.explanation(told, SINK)
    assert f"from {who} to" in lines[0]
    assert not any(line.startswith("  sender") for line in lines)


# -- what was already there --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step, words",
    [
        ({"state": "held", "rule": "parity: x"}, "held (parity: x)"),
        ({"state": "queued", "by": "human ann (pts/3)", "rule": "approved"}, "approved by human ann (pts/3)"),
        ({"state": "queued", "by": None, "rule": "inbound = accept"}, "released (inbound = accept)"),
        ({"state": "denied", "by": "human ann", "rule": "not now"}, "denied by human ann (not now)"),
        ({"state": "expired", "by": None, "rule": "inbound.hold_expiry"}, "expired (inbound.hold_expiry)"),
        ({"state": "held", "by": "no human", "rule": "tried to approve, refused"}, "tried to approve, refused"),
    ],
)
def test_a_decision_in_the_log_says_who_when_and_by_which_rule(step: dict[str, Any], words: str) -> None:
    """5.7, H9."""
    assert render.decision({"at": ago(), **step}).split("  ", 1)[1] == words


def test_a_held_send_says_that_a_human_must_decide_why_and_until_when() -> None:
    """5.3, H5."""
    until = ago(minutes=-60)
    document = {"id": "m-1", "state": "held", "to": API, "rule": "parity: x", "expires_at": until, "notice": "Look."}
    time = render.clock(until, "%H:%M")
    first = f"held for api [4d5e6f]: a human must decide (parity: x), until {time} · m-1"
    assert render.sent(document, SINK) == [first, "  Look."]
    forever = {**document, "expires_at": None, "notice": None}
    assert render.sent(forever, SINK) == ["held for api [4d5e6f]: a human must decide (parity: x) · m-1"]


def test_the_other_verbs_say_where_held_mail_waits() -> None:
    roster = {"sessions": [{**API, "queued": 0, "held": 2}, {**WEB, "queued": 1, "held": 0}]}
    shown = render.roster(roster, SINK)
    assert "0+2 held" in shown[2 + 1]
    assert shown[-1] == "2 held until a human decides: `xsessionctl hold-queue`."
    assert "held  3 (xsessionctl hold-queue)" in "\n".join(render.broker_state({"held": 3}, SINK))
    assert "held  0" in "\n".join(render.broker_state({"held": 0}, SINK))
    state = render.message_state({"id": "m-1", "state": "held", "to": API, "expires_at": ago(minutes=-60)}, SINK)
    assert state[1].startswith("A human must decide, until ")


@pytest.mark.parametrize(
    "state, words",
    [
        ("unknown", "runs; its harness cannot tell whether it is busy."),
        ("offline", "does not run now."),
        ("busy", "is busy now."),
    ],
)
def test_a_harness_that_cannot_tell_does_not_make_its_session_unknown(state: str, words: str) -> None:
    """1.7: `unknown` is what a harness can tell."""
    assert render.message_state({"to": API, "target_state": state}, SINK)[-1] == f"api {words}"


@pytest.mark.parametrize(
    "value, words",
    [
        (None, "parity"),
        ("accept", "accept"),
        ({"value": "hold", "source": "user", "where": "/c/x.toml:3"}, "hold (user: /c/x.toml:3)"),
        ({"value": None, "source": "project", "where": "x"}, "unreadable, so that it holds (project: x)"),
    ],
)
def test_whoami_tells_the_policy_in_force_and_where_it_was_written(value: object, words: str) -> None:
    """D9, 4.5."""
    shown = render.identity({"kind": "session", "session": API, "policy": value}, SINK)
    assert any("inbound mail" in line and words in line for line in shown)


@pytest.mark.parametrize(
    "show",
    [
        lambda: render_held.queue({"held": [wild()]}, SINK),
        lambda: render_held.details(wild(), SINK),
        lambda: render_held.decided({"decided": [{**nasty(), "trust": NASTY}]}, {NASTY: wild()}, SINK),
        lambda: render_held.trusts({"trusts": [{**wild(), "until": NASTY, "scope": NASTY}]}, SINK),
        lambda: render_held.explanation({"sender": nasty(), "receiver": {**nasty(), "policy": policy()}}, SINK),
        lambda: render_held.explanation({"verdict": "hold", "cause": NASTY, "rule": NASTY}, SINK),
        lambda: render.held_for({**nasty(), "to": nasty(), "expires_at": NASTY}).split("\n"),
        lambda: [render.decision(nasty())],
        lambda: render_failure.failure(render_error(), SINK),
    ],
)
def test_what_others_wrote_cannot_act_on_a_terminal(show: Callable[[], list[str]]) -> None:
    """Behaviour 12.5: everything that is shown before deciding is inert."""
    text = "\n".join(show())
    assert "x\\x1b[2J" in text
    assert not set(text) & set("\x1b\x9b\r\u202e\u2028")


def policy() -> dict[str, object]:
    return {"inbound": {"value": NASTY, "source": NASTY, "where": NASTY}, "scope": NASTY}


def wild() -> dict[str, Any]:
    keys = "cause preview sha256 sender_class receiver_class held_at expires_at"
    return {**nasty(), **dict.fromkeys(keys.split(), NASTY), "from": nasty(), "to": nasty(), "flags": [NASTY]}


def render_error() -> Any:
    from xsessionctl.client import ClientError

    return ClientError("ambiguous", "Two.", candidates=[{"id": NASTY, "from": nasty(), "to": nasty()}])


def test_a_document_of_another_version_is_shown_as_far_as_it_goes() -> None:
    for show in (render_held.queue, render_held.details, render_held.trusts, render_held.explanation):
        assert isinstance(show({}, SINK), list)
        assert isinstance(show({"held": 5, "trusts": None, "from": "", "sender": []}, SINK), list)
    assert render_held.decided({}, {}, SINK) == []
