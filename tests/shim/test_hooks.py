"""What hooks tell, and what they are told: the machine alone, over a link that only notes what it is asked."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

import pytest

from tests.shim.fake_broker import make_message
from tests.shim.noted_link import NotedLink
from tests.shim.test_courier import FakeDoor, message_id
from xsessionctl.shim.courier import Courier
from xsessionctl.shim.dialects import DIALECTS
from xsessionctl.shim.hooks import ANSWER_S, LOOK_EVERY_S, LOOK_SOON_S, Hooks
from xsessionctl.shim.identity import Identity
from xsessionctl.shim.mail import Mailbag


class Answer:
    """How a hook is answered. said: the object, None before. done, dropped: what became of it."""

    def __init__(self) -> None:
        self.said: dict[str, Any] | None = None
        self.reply = self._reply

    def _reply(self, text: str, done: Any, dropped: Any) -> None:
        assert self.said is None, "answered twice"
        self.said = json.loads(text)
        self.done, self.dropped = done, dropped

    @property
    def context(self) -> str:
        assert self.said is not None
        text: str = self.said["hookSpecificOutput"]["additionalContext"]
        return text


class Rig:
    """The hooks of one session of a harness; the conversation is called c-1."""

    def __init__(
        self, harness: str = "claude", *, door: FakeDoor | None = None, argv: tuple[str, ...] = ("x",)
    ) -> None:
        environ = {"XSESSIOND_HARNESS": harness, "CLAUDE_CODE_SESSION_ID": "c-1"}
        self.identity = Identity(environ, "/", [(1, [harness, *argv])])
        self.link = NotedLink(self.identity)
        self.courier = Courier(self.identity, self.link, Mailbag())
        self.hooks = Hooks(self.identity, self.link, self.courier, DIALECTS[harness])
        self.door = door or FakeDoor(opened=False)
        self.courier.use_door(self.door)

    def hear(self, event: str, **fields: object) -> Answer:
        answer = Answer()
        self.hooks.hear({"hook_event_name": event, "session_id": "c-1", **fields}, answer.reply)
        return answer

    def quietly(self, event: str, **fields: object) -> None:
        assert self.hear(event, **fields).said == {}

    @property
    def turns(self) -> list[tuple[str, str | None]]:
        return [(params["phase"], params["by"]) for method, params, _ in self.link.asked if method == "turn"]

    def updates(self, key: str) -> list[Any]:
        return [params[key] for method, params in self.link.told if method == "update" and key in params]

    def mail(self, *numbers: int) -> None:
        """What the broker answers to the last `take`."""
        messages = [make_message(message_id(n), f"text {n}") for n in numbers]
        self.link.answer_to("take", {"messages": messages, "receipts": [], "left": 0})

    def acked(self) -> list[str]:
        return [one for method, params, _ in self.link.asked if method == "ack" for one in params["ids"]]


def test_a_turn_from_its_prompt_to_its_end() -> None:
    rig = Rig()
    rig.quietly("UserPromptSubmit", prompt="fix it", permission_mode="default")
    rig.quietly("PostToolUse")
    rig.quietly("PostToolUse")
    rig.quietly("Stop")
    assert rig.turns == [("started", "human"), ("ended", None)]


@pytest.mark.parametrize(
    "prompt, by",
    [
        ("fix it", "human"),
        ("<task-notification>\nAgent finished", "other"),
        (f'<cross-session-message nonce="a" id="{message_id(1)}" from="s-1">\n| x', "mail"),
        (f'<cross-session-notice nonce="a" id="n-{"0" * 32}">\n| x', "other"),
    ],
)
def test_what_began_a_turn(prompt: str, by: str) -> None:
    """10.2: no client can set where the hops begin, and what nobody typed does not set it either."""
    rig = Rig()
    rig.quietly("UserPromptSubmit", prompt=prompt)
    assert rig.turns == [("started", by)]


def test_a_prompt_with_our_id_is_the_evidence_and_comes_behind_its_turn() -> None:
    rig = Rig(door=FakeDoor())
    rig.quietly("Stop")
    rig.courier.hear("mail", {"queued": 1})
    rig.mail(1)
    rig.door.done("written")
    rig.quietly("UserPromptSubmit", prompt=rig.door.posted[0][0])
    methods = rig.link.methods()
    assert methods.index("turn", methods.index("take")) < methods.index("ack")
    assert rig.acked() == [message_id(1)]
    assert rig.turns[-1] == ("started", "mail")


def test_what_enters_a_running_turn_begins_none() -> None:
    rig = Rig()
    rig.quietly("UserPromptSubmit", prompt="fix it")
    rig.quietly("UserPromptSubmit", prompt=f'<cross-session-message nonce="a" id="{message_id(1)}" from="s-1">\n| x')
    rig.quietly("UserPromptSubmit", prompt="<task-notification> x")
    assert rig.turns == [("started", "human")]
    assert rig.acked() == [message_id(1)]
    rig.quietly("UserPromptSubmit", prompt="and do this too")
    assert rig.turns == [("started", "human"), ("started", "human")]


def test_a_turn_that_goes_on_after_its_end_is_a_turn() -> None:
    """As when another program's hook lets the session not stop."""
    rig = Rig()
    rig.quietly("UserPromptSubmit", prompt="x")
    rig.quietly("Stop")
    rig.quietly("PostToolUse")
    assert rig.turns == [("started", "human"), ("ended", None), ("started", "other")]


def test_a_subagent_s_events_are_not_the_session_s() -> None:
    rig = Rig()
    rig.quietly("Stop")
    rig.quietly("PostToolUse", agent_id="a1", permission_mode="bypassPermissions", session_id="c-9")
    rig.quietly("PermissionRequest", agent_id="a1")
    assert rig.turns == [("ended", None)]
    assert rig.updates("class") == []
    assert rig.link.renewed == 0
    rig.quietly("PostToolUse", agent_id="")
    assert rig.turns[-1] == ("started", "other")


@pytest.mark.parametrize(
    "event, fields",
    [
        ("PermissionRequest", {"permission_mode": "default"}),
        ("Notification", {"notification_type": "permission_prompt"}),
        ("Notification", {"notification_type": "elicitation_dialog"}),
    ],
)
def test_it_waits_while_its_user_is_asked(event: str, fields: dict[str, str]) -> None:
    """1.7."""
    rig = Rig()
    rig.quietly("UserPromptSubmit", prompt="x")
    rig.quietly(event, **fields)
    rig.quietly(event, **fields)
    assert rig.updates("state") == ["waiting"]
    rig.quietly("PostToolUse")
    assert rig.updates("state") == ["waiting", "busy"]
    assert rig.turns == [("started", "human")]


def test_a_notice_that_the_session_is_idle_ends_its_turn() -> None:
    """Whoever presses Escape ends a turn without any Stop."""
    rig = Rig()
    rig.quietly("UserPromptSubmit", prompt="x")
    rig.quietly("Notification", notification_type="idle_prompt")
    rig.quietly("Notification", notification_type="idle_prompt")
    assert rig.turns == [("started", "human"), ("ended", None)]


@pytest.mark.parametrize("event", ["Stop", "StopFailure"])
def test_an_end_is_told_once(event: str) -> None:
    rig = Rig()
    rig.quietly("UserPromptSubmit", prompt="x")
    rig.quietly(event)
    rig.quietly(event)
    assert rig.turns == [("started", "human"), ("ended", None)]


def test_the_class_follows_the_mode() -> None:
    """4.3: at once, and from the harness alone."""
    rig = Rig()
    for mode in ("default", "plan", "bypassPermissions", "plan", "auto"):
        rig.quietly("PostToolUse", permission_mode=mode)
    assert rig.updates("class") == ["prompting", "bypass", "prompting"]
    assert rig.identity.as_params()["class"] == "prompting"


@pytest.mark.parametrize("flag", ["--dangerously-skip-permissions", "--allow-dangerously-skip-permissions"])
def test_a_plan_of_a_session_that_may_bypass_is_bypass(flag: str) -> None:
    rig = Rig(argv=(flag,))
    rig.quietly("PostToolUse", permission_mode="plan")
    assert rig.updates("class") == ["bypass"]


def test_another_conversation_is_another_session() -> None:
    """7.5: what the cleared one had not taken is not for this one."""
    rig = Rig()
    rig.quietly("UserPromptSubmit", prompt="x")
    rig.courier.supply.waiting = True
    rig.quietly("SessionStart", session_id="c-2", source="clear")
    assert rig.link.renewed == 1
    assert not rig.courier.supply.waiting
    assert rig.identity.harness_session_id == "c-2"
    rig.quietly("UserPromptSubmit", session_id="c-2", prompt="anew")
    assert rig.link.renewed == 1
    # The broker hears of the turn when it has the new session.
    assert rig.turns == [("started", "human")]
    rig.link.renewing = False
    rig.hooks.link_is_up()
    assert rig.turns == [("started", "human"), ("started", "human")]
    rig.hooks.link_is_up()
    assert rig.turns[-1] == ("started", "other")


def test_a_conversation_that_was_named_while_the_session_introduced_itself_is_named_again() -> None:
    """2.2, 7.5: else the broker would not know the session when its conversation is resumed."""
    rig = Rig("codex")
    rig.link.state = "introducing"
    rig.link.session = {"harness_session_id": None}
    rig.quietly("SessionStart", session_id="t-1")
    rig.link.told.clear()  # which a link that is not up does not pass on
    rig.link.state = "up"
    rig.hooks.link_is_up()
    assert rig.updates("harness_session_id") == ["t-1"]
    rig.link.session = {"harness_session_id": "t-1"}
    rig.hooks.link_is_up()
    assert rig.updates("harness_session_id") == ["t-1"]


def test_a_conversation_that_was_not_known_is_only_named() -> None:
    rig = Rig("codex")
    rig.quietly("SessionStart", session_id="t-1")
    assert rig.updates("harness_session_id") == ["t-1"]
    assert rig.link.renewed == 0


def test_a_session_from_outside_is_never_ended() -> None:
    rig = Rig()
    rig.identity.granted = ("/x.sock", "/token")
    rig.quietly("SessionStart", session_id="c-2")
    assert rig.updates("harness_session_id") == ["c-2"]
    assert rig.link.renewed == 0


def test_a_broker_that_knows_no_turns_is_told_the_state() -> None:
    rig = Rig()
    rig.quietly("UserPromptSubmit", prompt="x")
    rig.link.answer_to("turn", None, {"code": "version_mismatch", "text": "No."})
    rig.quietly("Stop")
    assert rig.updates("state") == ["busy", "idle"]
    assert rig.turns == [("started", "human")]


def test_a_broker_that_comes_back_is_told_what_it_missed() -> None:
    rig = Rig()
    rig.link.state = "trying"
    rig.quietly("UserPromptSubmit", prompt="x", permission_mode="auto")
    rig.quietly("PermissionRequest")
    rig.link.state = "up"
    assert rig.turns == []
    rig.hooks.link_is_up()
    assert rig.turns == [("started", "human")]
    assert rig.updates("class")[-1] == "prompting"
    assert rig.updates("state")[-1] == "waiting"


def test_before_the_first_prompt_a_session_is_idle() -> None:
    rig = Rig()
    rig.hooks.link_is_up()
    assert rig.turns == []
    rig.hooks.note_hooks_run()
    rig.hooks.link_is_up()
    assert rig.turns == [("ended", None)]


class TestAnswers:
    """Mail in the answer of a hook, where no door brings it."""

    def test_mail_comes_with_the_next_step_and_is_read_when_the_one_after_comes(self) -> None:
        rig = Rig()
        rig.courier.hear("mail", {"queued": 1})
        answer = rig.hear("PostToolUse")
        assert answer.said is None
        rig.mail(1)
        assert "| text 1" in answer.context
        answer.done()
        assert rig.link.told[-1] == ("handed", {"ids": [message_id(1)]})
        assert rig.acked() == []
        rig.quietly("Stop")
        assert rig.acked() == [message_id(1)]

    def test_with_nothing_waiting_nobody_is_asked(self) -> None:
        rig = Rig()
        rig.quietly("PostToolUse")
        assert "take" not in rig.link.methods()

    def test_a_turn_goes_on_with_what_waits_at_its_end(self) -> None:
        rig = Rig()
        rig.quietly("UserPromptSubmit", prompt="x")
        rig.courier.hear("mail", {"queued": 1})
        answer = rig.hear("Stop")
        rig.mail(1)
        assert "| text 1" in answer.context
        assert rig.turns == [("started", "human")]

    def test_a_turn_ends_for_news_alone_and_with_an_open_door(self) -> None:
        """R9: nothing that the broker itself says makes a turn."""
        rig = Rig()
        rig.courier.hear("news", {"receipts": 1, "wake": False})
        rig.quietly("Stop")
        rig = Rig(door=FakeDoor())
        rig.quietly("UserPromptSubmit", prompt="x")
        rig.courier.hear("mail", {"queued": 1})
        rig.quietly("Stop")

    def test_a_step_whose_mail_was_gone_is_answered_at_once(self) -> None:
        rig = Rig()
        rig.courier.hear("mail", {"queued": 1})
        answer = rig.hear("Stop")
        rig.mail()
        assert answer.said == {}
        assert rig.turns == [("ended", None)]

    def test_a_broker_that_hangs_costs_a_moment_and_no_message(self) -> None:
        """F4: out in time, silent, and what comes too late goes back."""
        rig = Rig()
        rig.courier.hear("mail", {"queued": 1})
        answer = rig.hear("Stop")
        due = rig.hooks.due
        assert due is not None
        assert due - monotonic() <= ANSWER_S
        rig.hooks.tick(due)
        assert answer.said == {}
        assert rig.turns == [("ended", None)]
        rig.quietly("PostToolUse")  # and nobody is asked again meanwhile
        rig.mail(1)
        assert ("release", {"ids": [message_id(1)]}) in rig.link.told

    def test_a_hook_that_was_given_up_gets_no_mail(self) -> None:
        """W9: its harness does not read the answer any more."""
        rig = Rig()
        rig.quietly("UserPromptSubmit", prompt="x")
        rig.courier.hear("mail", {"queued": 1})
        answer = rig.hear("Stop")
        rig.hooks.cancel(Answer().reply)
        rig.hooks.cancel(answer.reply)
        rig.mail(1)
        assert answer.said is None
        assert ("release", {"ids": [message_id(1)]}) in rig.link.told
        assert rig.turns[-1] == ("ended", None)

    def test_an_answer_that_could_not_be_written_goes_back(self) -> None:
        rig = Rig()
        rig.courier.hear("mail", {"queued": 1})
        answer = rig.hear("PostToolUse")
        rig.mail(1)
        answer.dropped()
        assert ("release", {"ids": [message_id(1)]}) in rig.link.told
        rig.quietly("SessionEnd")
        assert rig.acked() == []

    def test_a_long_text_stays_below_what_the_harness_takes(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
    ) -> None:
        """7.6."""
        monkeypatch.setenv("XSESSIOND_STATE_DIR", str(tmp_path))
        rig = Rig()
        rig.courier.hear("mail", {"queued": 1})
        answer = rig.hear("PostToolUse")
        body = "ü😀\n" * 20_000
        message = make_message(message_id(1), body)
        told = [{"id": "x", "state": "expired", "text": f"{n} " * 40} for n in range(60)]
        rig.link.answer_to("take", {"messages": [message], "receipts": told, "left": 0})
        assert len(answer.context.encode("utf-16-le")) // 2 <= 10_000
        assert (tmp_path / "bodies" / f"{message_id(1)}.txt").read_text() == body


class TestLooking:
    """Claude Code writes down what its session does; there a missed end is found, and an unproven event is checked."""

    def test_a_turn_that_ended_without_a_word_is_found(self) -> None:
        rig = Rig()
        rig.hooks.look = lambda: ("c-1", "idle")
        rig.quietly("UserPromptSubmit", prompt="x")
        due = rig.hooks.due
        assert due is not None
        assert LOOK_EVERY_S - 1 < due - monotonic() <= LOOK_EVERY_S
        rig.hooks.tick(due)
        assert rig.turns == [("started", "human"), ("ended", None)]
        assert rig.hooks.due is None

    def test_a_turn_that_goes_on_is_looked_at_again(self) -> None:
        rig = Rig()
        rig.hooks.look = lambda: ("c-1", "busy")
        rig.quietly("UserPromptSubmit", prompt="x")
        rig.quietly("PermissionRequest")
        rig.hooks.tick(monotonic() + LOOK_EVERY_S)
        assert rig.updates("state") == ["waiting", "busy"]
        assert rig.hooks.due is not None

    def test_a_call_that_was_cancelled_may_be_the_end(self) -> None:
        rig = Rig()
        rig.hooks.suspect_end()
        assert rig.hooks.due is None
        rig.hooks.look = lambda: (None, None)
        rig.quietly("UserPromptSubmit", prompt="x")
        rig.hooks.suspect_end()
        due = rig.hooks.due
        assert due is not None
        assert due - monotonic() <= LOOK_SOON_S
        rig.hooks.tick(due)
        assert rig.turns == [("started", "human")]

    def test_what_is_not_proven_only_makes_it_look(self) -> None:
        """A model can write into the pipe that its harness's hooks use."""
        rig = Rig()
        said: list[tuple[str | None, str | None]] = [("c-1", "idle"), ("c-2", "idle")]
        rig.hooks.look = lambda: said.pop(0)
        rig.hooks.hear_line("SessionStart", "c-of-another")
        assert rig.link.renewed == 0
        due = rig.hooks.due
        assert due is not None
        rig.hooks.tick(due)
        assert rig.link.renewed == 1
        assert rig.identity.harness_session_id == "c-2"


class TestWithoutProof:
    """A harness with command hooks alone."""

    def test_its_lines_are_believed(self) -> None:
        rig = Rig("gemini")
        rig.hooks.hear_line("SessionStart", "g-1")
        rig.hooks.hear_line("BeforeAgent", "g-1")
        rig.hooks.hear_line("AfterTool", "g-1")
        rig.hooks.hear_line("AfterAgent", "g-1")
        assert rig.updates("harness_session_id") == ["g-1"]
        assert rig.turns == [("started", "human"), ("ended", None)]
        assert rig.identity.delivery == "turn"

    def test_its_answers_carry_mail(self) -> None:
        rig = Rig("gemini")
        rig.courier.hear("mail", {"queued": 1})
        answer = Answer()
        rig.hooks.hear({"hook_event_name": "AfterAgent", "session_id": "g-1"}, answer.reply, proven=False)
        rig.mail(1)
        assert answer.said is not None
        assert answer.said["decision"] == "block"
        assert "| text 1" in answer.said["reason"]

    def test_where_proven_events_come_others_are_not_heard(self) -> None:
        """A model that runs our hook program cannot pass for its user."""
        rig = Rig()
        rig.quietly("Stop")
        answer = Answer()
        fields = {"hook_event_name": "UserPromptSubmit", "prompt": "x", "session_id": "c-9"}
        rig.hooks.hear(fields, answer.reply, proven=False)
        assert answer.said == {}
        assert rig.turns == [("ended", None)]
        assert rig.link.renewed == 0


def test_a_turn_that_was_rung_for_is_the_mail_s() -> None:
    """10.2: a line that we had typed is no person's, also where only the event is told."""
    rig = Rig("gemini", door=FakeDoor())
    rig.courier.hooked = rig.courier.ringing = True
    rig.hooks.hear_line("BeforeAgent", "c-1")
    assert rig.turns[-1] == ("started", "mail")


def test_a_conversation_that_only_hooks_name_is_told_to_whoever_waits_for_it() -> None:
    """2.2: a resumed one is known again by it."""
    rig = Rig("gemini")
    assert DIALECTS["gemini"].names_late
    named: list[str | None] = []
    rig.hooks.on_named = lambda: named.append(rig.identity.harness_session_id)
    rig.hooks.hear_line("SessionStart", "c-7")
    rig.hooks.hear_line("BeforeAgent", "c-7")
    assert named == ["c-7"]
