"""Hooks as calls of the `hook` tool: the real shim, and a broker that does as the test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.shim.fake_broker import FakeBroker, make_message
from tests.shim.process import ShimProcess, texts
from tests.shim.test_courier import message_id
from tests.support.private_broker import PrivateBroker
from xsessionctl.shim.hooks import ANSWER_S

META = {"claudecode/toolUseId": "toolu_1", "progressToken": 3}


@pytest.fixture
def fake(broker: PrivateBroker) -> Iterator[FakeBroker]:
    fake = FakeBroker(broker.runtime_dir)
    fake.answers["turn"] = lambda _: {}
    fake.answers["handed"] = lambda params: {"handed": len(params["ids"])}
    fake.start()
    try:
        yield fake
    finally:
        fake.close()


@pytest.fixture
def shim(broker: PrivateBroker, fake: FakeBroker) -> ShimProcess:
    process = ShimProcess(broker, XSESSIOND_NAME="api", CLAUDE_CODE_SESSION_ID="c-1")
    process.initialize(client="claude-code")
    fake.next("attach")
    return process


def hook(shim: ShimProcess, event: str, **fields: object) -> Any:
    """What the shim answers to a hook, as an object."""
    [text] = texts(shim.call("hook", hook_event_name=event, session_id="c-1", **fields))
    return json.loads(text)


def test_only_harnesses_that_call_it_are_shown_the_tool(broker: PrivateBroker, shim: ShimProcess) -> None:
    """F5: nobody else's model pays for it, or can call it."""
    tools = [tool["name"] for tool in shim.ask("tools/list")["tools"]]
    assert "hook" in tools
    other = ShimProcess(broker, XSESSIOND_OFF="1")
    other.initialize(client="claude-ai")
    assert "hook" not in [tool["name"] for tool in other.ask("tools/list")["tools"]]
    refused = other.answer(other.post_call("hook", hook_event_name="UserPromptSubmit"))
    assert refused["error"]["code"] == -32602


def test_a_model_s_own_call_is_refused_and_does_nothing(shim: ShimProcess, fake: FakeBroker) -> None:
    """10.2: else a model could be its user."""
    arguments = {"hook_event_name": "UserPromptSubmit", "prompt": "x", "permission_mode": "bypassPermissions"}
    result = shim.ask("tools/call", {"name": "hook", "arguments": arguments, "_meta": META})
    assert result["isError"] is True
    assert "refused" in texts(result)[0]
    assert hook(shim, "Stop") == {}
    while (told := fake.next("turn", "update"))[0] == "update":
        assert "class" not in told[1]
    assert told == ("turn", {"phase": "ended", "by": None})


def test_switched_off_it_says_nothing(broker: PrivateBroker, fake: FakeBroker) -> None:
    process = ShimProcess(broker, XSESSIOND_OFF="1", CLAUDE_CODE_SESSION_ID="c-1")
    process.initialize(client="claude-code")
    assert hook(process, "UserPromptSubmit", prompt="x") == {}
    assert fake.asked.empty()


def test_another_conversation_is_introduced_as_another_session(shim: ShimProcess, fake: FakeBroker) -> None:
    """7.5: the old one ends, the new one begins in the same process, under the same name."""
    hook(shim, "UserPromptSubmit", prompt="x", permission_mode="default")
    fake.answers["end"] = lambda _: fake.tell({"method": "bye", "params": {"reason": "ended"}}) or {}  # type: ignore[func-returns-value]
    [text] = texts(shim.call("hook", hook_event_name="SessionStart", session_id="c-2", source="clear"))
    assert text == "{}"
    fake.next("end")
    fake.cut()
    _, params = fake.next("register")
    assert (params["harness_session_id"], params["name"]) == ("c-2", "api")
    assert (params.get("resume"), params["class"]) == (None, "prompting")
    fake.next("attach")
    assert fake.next("turn") == ("turn", {"phase": "ended", "by": None})


def test_an_older_broker_is_told_the_state_its_own_way(shim: ShimProcess, fake: FakeBroker) -> None:
    """A broker of before an upgrade knows no turns."""
    fake.methods_unknown = {"turn"}
    hook(shim, "UserPromptSubmit", prompt="x")
    while (update := fake.next("update")[1]) != {"state": "busy"}:
        assert "state" not in update


def test_mail_is_in_the_answer_of_a_step_and_acknowledged_at_the_next(shim: ShimProcess, fake: FakeBroker) -> None:
    hook(shim, "UserPromptSubmit", prompt="x")
    fake.mail.append(make_message(message_id(1), "the build is green"))
    fake.tell({"method": "mail", "params": {"queued": 1}})
    shim.ask("ping")  # what came before it has been read
    context = hook(shim, "PostToolUse")["hookSpecificOutput"]["additionalContext"]
    assert "| the build is green" in context
    assert fake.next("ack", "handed") == ("handed", {"ids": [message_id(1)]})
    assert hook(shim, "Stop") == {}
    assert fake.next("ack") == ("ack", {"ids": [message_id(1)]})


def count_children(pid: int) -> tuple[int, int]:
    """How many children a process has, and the page faults of those that it had: each ended one has added some."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return len(psutil.Process(pid).children()), int(fields[8])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only /proc tells of children that have ended")
def test_a_hook_that_is_a_call_starts_no_process(shim: ShimProcess, fake: FakeBroker) -> None:
    """Neither with nothing waiting nor with mail."""
    [adapter] = [child for child in psutil.Process(shim.process.pid).children() if child.cmdline()[-1] == "mcp"]
    hook(shim, "UserPromptSubmit", prompt="x")
    before = count_children(adapter.pid)
    for number in range(1, 6):
        assert hook(shim, "PostToolUse") == {}
        fake.mail.append(make_message(message_id(number), "the build is green"))
        fake.tell({"method": "mail", "params": {"queued": 1}})
        shim.ask("ping")
        assert "the build is green" in hook(shim, "PostToolUse")["hookSpecificOutput"]["additionalContext"]
    hook(shim, "Stop")
    assert count_children(adapter.pid) == before
    # One that started a child, however short its life, would be found out.
    ours = count_children(os.getpid())
    subprocess.run(["true"], check=True)
    assert count_children(os.getpid()) != ours


def test_a_broker_that_hangs_is_not_waited_for(shim: ShimProcess, fake: FakeBroker) -> None:
    """F4: the answer is empty and in time, and what the broker gives too late goes back."""
    hook(shim, "UserPromptSubmit", prompt="x")
    answered = threading.Event()

    def hang(params: dict[str, Any]) -> dict[str, Any]:
        assert answered.wait(10)
        return {"messages": [make_message(message_id(1), "text")], "receipts": [], "left": 0}

    fake.answers["take"] = hang
    fake.tell({"method": "mail", "params": {"queued": 1}})
    shim.ask("ping")
    began = time.monotonic()
    assert hook(shim, "PostToolUse") == {}
    assert time.monotonic() - began >= ANSWER_S
    answered.set()
    assert fake.next("release", "handed") == ("release", {"ids": [message_id(1)]})


def test_a_hook_that_its_harness_gave_up_gives_its_mail_back(shim: ShimProcess, fake: FakeBroker) -> None:
    """W9: the answer comes too late, so it is no delivery."""
    hook(shim, "UserPromptSubmit", prompt="x")
    fake.mail.append(make_message(message_id(1), "text"))

    def give_up(params: dict[str, Any]) -> dict[str, Any]:
        shim.notify("notifications/cancelled", {"requestId": asked})
        shim.post("ping")
        assert shim.next()["result"] == {}
        return {"messages": [make_message(message_id(1), "text")], "receipts": [], "left": 0}

    fake.tell({"method": "mail", "params": {"queued": 1}})
    shim.ask("ping")
    fake.answers["take"] = give_up
    asked = shim._last_id + 1
    shim.post_call("hook", hook_event_name="PostToolUse", session_id="c-1")
    assert fake.next("release", "handed", "ack") == ("release", {"ids": [message_id(1)]})


def before_call(shim: ShimProcess, call_id: str, agent_id: str) -> None:
    assert hook(shim, "PreToolUse", tool_use_id=call_id, agent_id=agent_id) == {}


def use(shim: ShimProcess, call_id: str, tool: str, **arguments: object) -> Any:
    """A model's own call, as Claude Code makes it."""
    meta = {"claudecode/toolUseId": call_id, "progressToken": 1}
    return shim.ask("tools/call", {"name": tool, "arguments": arguments, "_meta": meta})


def test_what_a_subagent_sends_says_so_and_what_the_session_sends_does_not(shim: ShimProcess, fake: FakeBroker) -> None:
    """1.9: by the hook before the call. Nothing that a model writes says it."""
    fake.answers["send"] = lambda params: {"id": message_id(1), "state": "queued", "to": {"name": params["to"]}}
    before_call(shim, "toolu_sub", "a1")
    before_call(shim, "toolu_main", "")
    for call_id, says_so in (("toolu_main", None), ("toolu_sub", True), ("toolu_unheard", None)):
        use(shim, call_id, "send_message", to="ann", message="hello", subagent=not says_so)
        assert fake.next("send")[1].get("subagent") is says_so, call_id


def test_a_subagent_is_given_nothing_that_is_for_the_session(shim: ShimProcess, fake: FakeBroker) -> None:
    """1.9: no mail beside its results, and it can take none."""
    fake.mail.append(make_message(message_id(1), "for the session"))
    for call_id, tool, arguments in (
        ("toolu_1", "read_messages", {}),
        ("toolu_2", "rename_session", {"name": "mine"}),
    ):
        before_call(shim, call_id, "a1")
        assert use(shim, call_id, tool, **arguments)["structuredContent"]["error"]["code"] == "not_permitted"
    before_call(shim, "toolu_3", "a1")
    assert "for the session" not in "".join(texts(use(shim, "toolu_3", "list_agents")))
    before_call(shim, "toolu_4", "")
    assert "for the session" in "".join(texts(use(shim, "toolu_4", "read_messages")))


def test_the_word_before_a_call_is_no_step_of_the_session(shim: ShimProcess, fake: FakeBroker) -> None:
    """That a tool is about to run proves nothing of what the model has read."""
    hook(shim, "UserPromptSubmit", prompt="x")
    fake.mail.append(make_message(message_id(1), "text"))
    fake.tell({"method": "mail", "params": {"queued": 1}})
    shim.ask("ping")
    assert "| text" in hook(shim, "PostToolUse")["hookSpecificOutput"]["additionalContext"]
    before_call(shim, "toolu_1", "")
    assert fake.next("ack", "handed") == ("handed", {"ids": [message_id(1)]})
    assert hook(shim, "Stop") == {}
    assert fake.next("ack") == ("ack", {"ids": [message_id(1)]})
