"""Every refusal of the broker is a sentence for people and models: what happened, why, and what to do next.

O5, architecture rule 7. Each row provokes one on the wire. Codes that nothing says yet stand in `LATER`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.core_house import Guest, House, Line, Refused, is_sentence, peer, refused
from xsessiond.core.effects import StopAsked
from xsessiond.core.errors import CODES, EXIT_CODES
from xsessiond.core.limits import LINKS_PER_SESSION, MAX_BODY, RESUMES_AT_ONCE
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.state import CoreSettings

LATER = {
    "hold_full", "hop_limit", "exchange_limit", "expired", "already_decided", "bad_config", "feature_off",
}  # fmt: skip
"""Admission, held messages, causality and settings say these."""

NOBODY = "m-" + "0" * 32


class Scene:
    """A small house: api and web run, gone ran, a human and a script are there."""

    def __init__(self) -> None:
        self.house = House(CoreSettings(pacing=PaceSettings(target_burst=3, queue_per_session=5)))
        self.api, self.web = self.house.join("api"), self.house.join("web", harness_session_id="talk")
        self.gone = self.house.join("gone", harness_session_id="talk-2")
        self.house.kill(self.gone)
        self.human, self.script = self.house.human(), self.house.script()

    def fresh(self) -> Line:
        """A connection that has said nothing."""
        return self.house.connect(peer(90), hello=False)

    def unproven(self) -> Line:
        """A connection to a private socket, without its token."""
        return self.house.connect(self.api.peer, door=self.api.id)


def moved(scene: Scene) -> object:
    scene.api.send("web")
    scene.house.kill(scene.web)
    scene.house.join("web")
    return scene.api.send("web", "again")


def repeated(scene: Scene) -> object:
    scene.api.send("web")
    return scene.api.send("web")


def reused(scene: Scene) -> object:
    scene.api.send("web", key="k")
    return scene.api.send("web", "another", key="k")


def too_fast(scene: Scene) -> object:
    return [scene.api.send("web", str(number)) for number in range(4)]


def too_many(scene: Scene) -> object:
    other = scene.house.join("other")
    return [sender.send("web", str(number)) for number in range(3) for sender in (scene.api, other)]


def stolen(scene: Scene) -> object:
    thief = Guest(scene.house, 7000, {})
    thief.id, thief.token = scene.api.id, scene.api.token
    return thief.attach()


def forged(scene: Scene) -> object:
    scene.api.token = "0" * 64
    return scene.api.attach()


def over(scene: Scene) -> object:
    scene.api.line.ask("end")
    return scene.api.attach()


def crowded(scene: Scene) -> object:
    return [scene.api.attach() for _ in range(LINKS_PER_SESSION)]


def full_disk(scene: Scene) -> object:
    scene.house.failing = lambda ops: True
    return scene.api.send("web")


def unreadable(scene: Scene) -> object:
    scene.house.broken_reads = "The disk is broken."
    return scene.api.line.ask("check")


def stopping(scene: Scene) -> object:
    scene.house.handle(StopAsked("x"))
    return scene.api.line.ask("list")


def not_resumed(scene: Scene) -> object:
    scene.house.change_settings(resume={"codex": ("codex", "resume", "{harness_session_id}")})
    asked = scene.api.begin_send("gone", when_offline="resume")
    scene.house.end_command("it ended with 3", "No such conversation.")
    return scene.api.line.answer(asked)


def too_many_resumed(scene: Scene) -> object:
    scene.house.change_settings(resume={"codex": ("codex", "resume", "{harness_session_id}")})
    for number in range(RESUMES_AT_ONCE + 1):
        guest = scene.house.join(f"n{number}", harness_session_id=f"t-{number}")
        scene.house.kill(guest)
        asked = scene.web.begin_send(guest, when_offline="resume")
    return scene.web.line.answer(asked)


def given_up(scene: Scene) -> object:
    scene.house.change_settings(resume={"codex": ("codex", "resume", "{harness_session_id}")})
    asked = scene.api.begin_send("gone", when_offline="resume")
    scene.api.line.ask("cancel", id=asked)
    return scene.api.line.answer(asked)


def ended_meanwhile(scene: Scene) -> object:
    scene.house.slow = True
    line = scene.api.shell()
    asked = line.begin("send", to="web", message="x", key="k")
    scene.house.kill(scene.api)
    scene.house.answer_questions()
    return line.answer(asked)


def answered_too_late(scene: Scene) -> object:
    scene.api.send("web", "which port?")
    (message,) = scene.web.take()
    scene.web.ack(message)
    scene.house.kill(scene.api)
    return scene.web.send(None, "8080", reply_to=message["id"])


Provoke = Callable[[Scene], object]
TABLE: list[tuple[str, Provoke]] = [
    ("not_found", lambda s: s.api.send("nobody")),
    ("not_found", lambda s: s.api.send("wbe")),
    ("not_found", lambda s: s.api.send("s-" + "0" * 32)),
    ("not_found", lambda s: s.api.send("x [abcdef]")),
    ("not_found", lambda s: s.api.send(None, reply_to=NOBODY)),
    ("not_found", lambda s: s.api.check(NOBODY)),
    ("not_found", lambda s: s.api.check("nonsense")),
    ("not_found", lambda s: s.human.ask("rename", name="x", of="nobody")),
    ("not_running", lambda s: s.api.send("gone")),
    ("not_running", ended_meanwhile),
    ("not_running", answered_too_late),
    ("ambiguous", lambda s: s.api.send("we")),
    ("name_moved", moved),
    ("self_target", lambda s: s.api.send("api")),
    ("refused", crowded),
    ("queue_full", too_many),
    ("rate_limited", too_fast),
    ("duplicate", repeated),
    ("too_large", lambda s: s.api.send("web", "x" * (MAX_BODY + 1))),
    ("too_large", lambda s: s.api.send("web", summary="x" * 201)),
    ("not_text", lambda s: s.api.send("web", "a\0b")),
    ("not_text", lambda s: s.api.line.ask("send", to="web", message={"type": "plan_approved"})),
    ("not_text", lambda s: s.api.send("web", '{"type":"shutdown_request"}')),
    ("empty", lambda s: s.api.send("web", " ")),
    ("unsupported_mode", lambda s: s.api.send("web", mode="steer")),
    ("unsupported_mode", lambda s: s.api.send("gone", when_offline="resume")),
    ("not_running", not_resumed),
    ("rate_limited", too_many_resumed),
    ("timeout", given_up),
    ("unsupported_mode", lambda s: s.api.send("web", notify_when_idle=True)),
    ("unsupported_mode", lambda s: s.api.watch("web")),
    ("not_permitted", lambda s: s.house.script().ask("send", to="web", notify_when_idle=True)),
    ("usage", lambda s: s.api.line.ask("send", to="web")),
    ("usage", lambda s: s.api.line.ask("send", to="web", notify_when_idle=True, wait_reply=1)),
    ("key_reused", reused),
    ("not_permitted", lambda s: s.api.line.ask("rename", name="x", of="web")),
    ("not_permitted", lambda s: s.script.ask("take")),
    ("not_permitted", lambda s: s.api.shell().ask("log", follow=True)),
    ("not_permitted", lambda s: s.unproven().ask("take")),
    ("not_permitted", lambda s: s.unproven().ask("update")),
    ("not_permitted", lambda s: s.unproven().ask("end")),
    ("no_broker", stopping),
    ("bad_token", stolen),
    ("bad_token", forged),
    ("bad_token", over),
    ("bad_name", lambda s: s.api.line.ask("rename", name="a b")),
    ("bad_name", lambda s: s.house.join("human")),
    ("name_taken", lambda s: s.api.line.ask("rename", name="WEB")),
    ("internal", full_disk),
    ("internal", unreadable),
    ("version_mismatch", lambda s: s.fresh().ask("hello", protocol=2)),
    ("usage", lambda s: s.fresh().ask("list")),
    ("usage", lambda s: s.human.ask("attach", token="x")),
    ("usage", lambda s: s.human.ask("rename", name="x")),
    ("usage", lambda s: s.human.ask("log", since="yesterday")),
    ("usage", lambda s: s.human.ask("nonsense")),
    ("usage", lambda s: s.human.ask("take", max="x")),
    ("usage", lambda s: s.api.send(None)),
    ("usage", lambda s: s.api.send("web", key="")),
    ("usage", lambda s: s.house.join("x", harness_session_id="")),
]


@pytest.mark.parametrize("row", range(len(TABLE)), ids=[f"{code}-{number}" for number, (code, _) in enumerate(TABLE)])
def test_a_refusal_says_what_happened_and_what_to_do_next(row: int) -> None:
    code, provoke = TABLE[row]
    scene = Scene()
    try:
        provoke(scene)
    except Refused as refusal:
        told = refusal.data
    else:
        raise AssertionError("it was not refused")
    assert told["code"] == code
    assert set(told) == {"code", "text", "hint", "candidates", "retry_after_s", "detail"}
    assert is_sentence(told["text"])
    assert told["hint"] is None or is_sentence(told["hint"])
    assert told["hint"] is not None or code == "not_running"
    assert len(told["text"]) < 400
    assert (told["retry_after_s"] is not None) == (code == "rate_limited")
    assert code in EXIT_CODES


@pytest.mark.parametrize("code", ["not_running", "not_found", "ambiguous", "name_moved", "self_target", "queue_full",
                                  "rate_limited", "too_large", "key_reused", "duplicate"])  # fmt: skip
def test_a_send_that_is_refused_says_that_nothing_was_sent(code: str) -> None:
    """W2, L4: so that nobody has to guess whether to send it again."""
    for number, (what, provoke) in enumerate(TABLE):
        if what == code and number not in (5, 6, 7):
            refusal = refused(lambda provoke=provoke: provoke(Scene()))  # type: ignore[misc]
            assert "Nothing was sent" in refusal.text + (refusal.hint or ""), refusal.text


def test_every_code_is_said_by_somebody_or_later() -> None:
    said = {code for code, _ in TABLE}
    assert said | LATER == set(CODES)
    assert said & LATER == set()
