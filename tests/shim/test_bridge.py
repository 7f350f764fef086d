"""The bridge of opencode's plugin as a real process, with a real broker, and the plugin's part played by the test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.shim.bridge_process import BridgeProcess
from tests.shim.process import ended_within
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, ask_once, poll
from xsessionctl.shim.bridge import CONVERSATIONS_MOST, find_resumed
from xsessionctl.shim.tools import list_tools
from xsessiond.core.limits import SHIM_HANDSHAKE_S


@pytest.fixture
def place(broker: PrivateBroker) -> PrivateBroker:
    broker.start()
    return broker


@pytest.fixture
def bridge(place: PrivateBroker) -> BridgeProcess:
    return BridgeProcess(place)


@pytest.fixture
def ann(place: PrivateBroker) -> Iterator[Member]:
    with Member(place.rendezvous, "ann") as member:
        yield member


def rows(place: PrivateBroker) -> dict[str, dict[str, Any]]:
    """The listing, by opencode's ids."""
    sessions = ask_once(place.rendezvous, "list")["sessions"]
    return {row["harness_session_id"]: row for row in sessions if row["harness"] == "opencode"}


def await_rows(place: PrivateBroker, count: int) -> dict[str, dict[str, Any]]:
    return poll(lambda: rows(place), lambda found: len(found) == count)


def await_state(sender: Member, message_id: str, state: str) -> list[str]:
    """The history of a message, once it is in this state."""
    report = poll(lambda: sender.call("check", message_id=message_id), lambda found: found["state"] == state)
    return [entry["state"] for entry in report["history"]]


def check(sender: Member, message_id: str) -> str:
    return str(sender.call("check", message_id=message_id)["state"])


def begin_idle(place: PrivateBroker, bridge: BridgeProcess, session: str = "ses_a") -> str:
    """Opens one conversation; returns its name once it is known to be idle."""
    bridge.open(session)
    known = poll(lambda: rows(place).get(session), lambda row: row is not None and row["state"] == "idle")
    assert known is not None
    return str(known["name"])


def begin_turn(bridge: BridgeProcess, session: str = "ses_a") -> str:
    """Its user prompts it; returns the id of the prompt."""
    message = bridge.prompt(session)
    bridge.state(session, "busy")
    bridge.step(session, message)
    return message


def begin_busy(place: PrivateBroker, bridge: BridgeProcess) -> tuple[str, str]:
    """Opens one conversation whose turn runs; returns its name and the id of the prompt that began it."""
    name = begin_idle(place, bridge)
    first = begin_turn(bridge)
    poll(lambda: rows(place)["ses_a"]["state"], lambda state: state == "busy")
    return name, first


def undo(place: PrivateBroker, bridge: BridgeProcess) -> None:
    """Its user undoes a part of it, and the broker knows that it cannot be reached."""
    bridge.notify("undone", {"session": "ses_a", "undone": True})
    poll(lambda: rows(place)["ses_a"]["delivery"], lambda delivery: delivery == "turn")


# -- who is there ------------------------------------------------------------------------------------------------------


def test_the_greeting_has_the_tools_as_an_mcp_client_gets_them(bridge: BridgeProcess) -> None:
    wanted = {f"xsession_{tool['name']}": tool["inputSchema"] for tool in list_tools("2025-03-26")}
    assert {tool["name"]: tool["inputSchema"] for tool in bridge.greeting["tools"]} == wanted
    [sends] = [tool for tool in bridge.greeting["tools"] if tool["name"] == "xsession_send_message"]
    assert "never poll" in sends["description"]
    assert bridge.greeting["resume"] is None


def test_conversations_of_one_process_are_sessions_of_their_own(place: PrivateBroker, ann: Member) -> None:
    """N11: two conversations of one opencode in one folder; what is sent to one is no business of the other."""
    bridge = BridgeProcess(place, XSESSIOND_NAME="first")
    bridge.open("ses_a")
    bridge.open("ses_b", title="The migration")
    found = await_rows(place, 2)
    assert (found["ses_a"]["name"], found["ses_b"]["name"]) == ("first", "The-migration")
    assert {row["pid"] for row in found.values()} == {bridge.process.pid}
    assert {row["delivery"] for row in found.values()} == {"push"}
    sent = ann.send("The-migration", "for b alone")
    post, params = bridge.next_post()
    assert params["session"] == "ses_b"
    assert "| for b alone" in params["text"]
    bridge.accept(post)
    await_state(ann, sent["id"], "handed")
    assert bridge.use("ses_a", "read_messages") == {"text": "No messages are waiting.", "isError": False}
    assert "You are not" not in bridge.use("ses_b", "list_agents")["text"]
    assert bridge.use("ses_a", "send_message", to="The-migration", message="from a")["isError"] is False


def test_a_conversation_that_is_closed_is_gone_and_the_others_stay(place: PrivateBroker, bridge: BridgeProcess) -> None:
    bridge.open("ses_a")
    bridge.open("ses_b")
    await_rows(place, 2)
    bridge.notify("closed", {"session": "ses_a"})
    assert list(await_rows(place, 1)) == ["ses_b"]


def test_a_conversation_that_comes_back_has_its_name_again(place: PrivateBroker, ann: Member) -> None:
    """N2: the same conversation in another opencode is the same session under the same name."""
    first = BridgeProcess(place)
    first.open("ses_a", title="The migration")
    [before] = await_rows(place, 1).values()
    first.finish()
    await_rows(place, 0)
    second = BridgeProcess(place)
    second.open("ses_a", title="Something else by now")
    [after] = await_rows(place, 1).values()
    assert (after["id"], after["name"]) == (before["id"], "The-migration")
    assert after["pid"] == second.process.pid


def test_the_oldest_of_too_many_makes_room(place: PrivateBroker, bridge: BridgeProcess) -> None:
    for number in range(CONVERSATIONS_MOST):
        bridge.open(f"ses_{number}")
    await_rows(place, CONVERSATIONS_MOST)
    bridge.state("ses_0", "busy")
    bridge.open("ses_new")
    found = poll(lambda: rows(place), lambda found: "ses_new" in found and "ses_1" not in found)
    assert len(found) == CONVERSATIONS_MOST
    assert "ses_0" in found


def test_a_process_that_is_switched_off_has_tools_that_say_so(place: PrivateBroker) -> None:
    bridge = BridgeProcess(place, XSESSIOND_OFF="1")
    bridge.open("ses_a")
    answer = bridge.use("ses_a", "list_agents")
    assert answer["isError"]
    assert "switched off" in answer["text"]
    assert rows(place) == {}


@pytest.mark.parametrize(
    "words, resumed",
    [
        ([], None),
        (["."], None),
        (["-s", "ses_1"], {"session": "ses_1"}),
        (["--session=ses_1", "--prompt", "x"], {"session": "ses_1"}),
        (["src", "--session", "ses_1"], {"session": "ses_1"}),
        (["-s"], None),
        (["-c"], {"session": None}),
        (["--continue"], {"session": None}),
        (["--continue", "--fork"], None),
        (["run", "--", "-c"], None),
    ],
)
def test_what_opencode_was_started_with(words: list[str], resumed: object) -> None:
    assert find_resumed(["/opt/bin/opencode", *words]) == resumed
    assert find_resumed(["node", "/opt/lib/opencode.js", *words]) == resumed
    assert find_resumed(["python3", *words]) is None


# -- a broker that is slow ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_broker_that_says_hello_too_late_is_asked_again(place: PrivateBroker) -> None:
    """1.5: without its model, and without its user."""
    bridge = BridgeProcess(place)
    with place.stalled(SHIM_HANDSHAKE_S + 1.0):
        bridge.open("ses_a")
    poll(lambda: rows(place).get("ses_a"), lambda row: row is not None and row["delivery"] == "push")


@pytest.mark.slow
def test_mail_that_is_given_too_late_is_not_lost_with_the_answer(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    """7.3: the broker has leased it by then to somebody who does not wait any more."""
    name = begin_idle(place, bridge)
    undo(place, bridge)
    sent = ann.send(name, "one")
    with place.stalled(SHIM_HANDSHAKE_S + 1.0):
        bridge.notify("undone", {"session": "ses_a", "undone": False})
    post, params = bridge.next_post()
    assert sent["id"] in params["text"]
    bridge.accept(post)
    bridge.step("ses_a", bridge.prompt("ses_a", post=post, by="mail"))
    await_state(ann, sent["id"], "delivered")


# -- mail into a conversation ------------------------------------------------------------------------------------------


def test_mail_starts_a_turn_and_is_delivered_with_its_first_step(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    """W1, W3: accepted by opencode is handed; delivered is what a step of a turn has."""
    name = begin_idle(place, bridge)
    sent = ann.send(name, "is it through?")
    post, params = bridge.next_post()
    assert params["quiet"] is False
    assert params["text"].startswith("<cross-session-message ")
    message = bridge.prompt("ses_a", post=post, by="mail")
    bridge.accept(post)
    await_state(ann, sent["id"], "handed")
    bridge.state("ses_a", "busy")
    assert check(ann, sent["id"]) == "handed"
    bridge.step("ses_a", message)
    assert await_state(ann, sent["id"], "delivered") == ["queued", "handed", "delivered"]
    assert rows(place)["ses_a"]["state"] == "busy"
    bridge.state("ses_a", "idle")
    poll(lambda: rows(place)["ses_a"]["state"], lambda state: state == "idle")


def test_a_busy_conversation_reads_it_with_its_next_step(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    name, first = begin_busy(place, bridge)
    sent = ann.send(name, "by the way")
    post, _ = bridge.next_post()
    bridge.accept(post)
    message = bridge.prompt("ses_a", post=post, by="mail")
    bridge.step("ses_a", first)  # one that had begun before
    await_state(ann, sent["id"], "handed")
    bridge.step("ses_a", message)
    await_state(ann, sent["id"], "delivered")


def test_what_waits_goes_as_one_text_and_one_at_a_time(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    """W15: what came meanwhile is one batch, in order, once the first has arrived."""
    name = begin_idle(place, bridge)
    ann.send(name, "one")
    post, params = bridge.next_post()
    ids = [ann.send(name, text)["id"] for text in ("two", "three", "four")]
    message = bridge.prompt("ses_a", post=post, by="mail")
    bridge.accept(post)
    bridge.state("ses_a", "busy")
    bridge.step("ses_a", message)
    _, params = bridge.next_post()
    assert [line for line in params["text"].split("\n") if line.startswith("| ")] == ["| two", "| three", "| four"]
    assert [params["text"].index(message_id) for message_id in ids] == sorted(map(params["text"].index, ids))


def test_what_came_as_the_turn_ended_is_pushed_once(place: PrivateBroker, bridge: BridgeProcess, ann: Member) -> None:
    """W14: opencode keeps a prompt that a turn which is just ending does not read, and starts none for it."""
    name = begin_idle(place, bridge)
    begin_turn(bridge)
    sent = ann.send(name, "just too late")
    post, _ = bridge.next_post()
    bridge.prompt("ses_a", post=post, by="mail")
    bridge.accept(post)
    bridge.state("ses_a", "idle")
    push, params = bridge.next_post()
    assert (params["session"], params["text"]) == ("ses_a", "")
    bridge.accept(push)
    message = bridge.prompt("ses_a", post=push, by="mail")
    bridge.state("ses_a", "busy")
    bridge.state("ses_a", "idle")  # no step: its model is out of order
    assert bridge.use("ses_a", "check_delivery")["text"] == "You have sent nothing yet."  # no second push came before
    assert check(ann, sent["id"]) == "handed"
    bridge.step("ses_a", message)
    await_state(ann, sent["id"], "delivered")


@pytest.mark.slow
def test_what_is_not_wanted_now_is_tried_again(place: PrivateBroker, bridge: BridgeProcess, ann: Member) -> None:
    name = begin_idle(place, bridge)
    sent = ann.send(name, "later, then")
    post, params = bridge.next_post()
    bridge.refuse(post, "refused")
    again, repeated = bridge.next_post()
    assert repeated["text"] == params["text"]
    bridge.accept(again)
    await_state(ann, sent["id"], "handed")


def test_what_its_user_has_undone_is_not_made_final_by_mail(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    name = begin_idle(place, bridge)
    undo(place, bridge)
    sent = ann.send(name, "no hurry")
    assert sent["state"] == "queued"
    bridge.notify("undone", {"session": "ses_a", "undone": False})
    _, params = bridge.next_post()
    assert sent["id"] in params["text"]
    poll(lambda: rows(place)["ses_a"]["delivery"], lambda delivery: delivery == "push")


def test_what_its_user_takes_away_before_it_was_read_comes_again(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    """6.1: what is not in the conversation any more is not delivered with the next step."""
    name, _ = begin_busy(place, bridge)
    sent = ann.send(name, "by the way", mode="inject")
    post, params = bridge.next_post()
    assert params["quiet"]
    lost = bridge.prompt("ses_a", post=post, by="mail")
    bridge.accept(post)
    await_state(ann, sent["id"], "handed")
    bridge.state("ses_a", "idle")  # its user breaks it off, undoes it, and prompts anew
    bridge.notify("undone", {"session": "ses_a", "undone": True})
    bridge.remove("ses_a", lost)
    bridge.notify("undone", {"session": "ses_a", "undone": False})
    await_state(ann, sent["id"], "queued")
    begin_turn(bridge)
    again, repeated = bridge.next_post()
    assert sent["id"] in repeated["text"]
    message = bridge.prompt("ses_a", post=again, by="mail")
    bridge.accept(again)
    bridge.step("ses_a", message)
    await_state(ann, sent["id"], "delivered")


@pytest.mark.slow
def test_what_is_taken_away_as_it_was_about_to_begin_a_turn_is_posted_again(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    name = begin_idle(place, bridge)
    sent = ann.send(name, "is it through?")
    post, params = bridge.next_post()
    bridge.remove("ses_a", bridge.prompt("ses_a", post=post, by="mail"))
    bridge.accept(post)
    bridge.step("ses_a", bridge.prompt("ses_a"))
    again, repeated = bridge.next_post()
    assert repeated["text"] == params["text"]
    bridge.step("ses_a", bridge.prompt("ses_a", post=again, by="mail"))
    await_state(ann, sent["id"], "delivered")


def test_what_joined_a_turn_that_was_undone_is_read_once_that_is_back(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    """7.4: the prompt that makes opencode look would be refused while its user may want back what was undone."""
    name, _ = begin_busy(place, bridge)
    ann.send(name, "by the way", mode="inject")
    post, _ = bridge.next_post()
    bridge.accept(post)
    bridge.prompt("ses_a", post=post, by="mail")
    bridge.state("ses_a", "idle")
    undo(place, bridge)
    ann.send(name, "and another")
    assert bridge.use("ses_a", "list_agents")["isError"] is False  # nothing was posted before
    bridge.notify("undone", {"session": "ses_a", "undone": False})
    _, params = bridge.next_post()
    assert params["text"] == ""


def test_what_opencode_does_not_take_waits_and_comes_again(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    """W17: while the way in is broken the listing says so; what was on it is not lost."""
    name = begin_idle(place, bridge)
    sent = ann.send(name, "hello?")
    post, _ = bridge.next_post()
    bridge.refuse(post, "gone")
    poll(lambda: rows(place)["ses_a"]["delivery"], lambda delivery: delivery == "turn")
    assert check(ann, sent["id"]) == "queued"
    begin_turn(bridge)
    _, params = bridge.next_post()
    assert sent["id"] in params["text"]
    poll(lambda: rows(place)["ses_a"]["delivery"], lambda delivery: delivery == "push")


def test_a_prompt_that_was_seen_is_there_whatever_else_is_said(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    name = begin_idle(place, bridge)
    sent = ann.send(name, "hello?")
    post, _ = bridge.next_post()
    message = bridge.prompt("ses_a", post=post, by="mail")
    bridge.refuse(post, "gone")
    bridge.state("ses_a", "busy")
    bridge.step("ses_a", message)
    assert await_state(ann, sent["id"], "delivered") == ["queued", "handed", "delivered"]


def test_a_text_is_posted_whole(place: PrivateBroker, bridge: BridgeProcess, ann: Member) -> None:
    """Nothing is cut and nothing put into a file, whose reading opencode would ask its user about."""
    name = begin_idle(place, bridge)
    body = "é@README.md /exit\n" * 40_000
    ann.send(name, body)
    _, params = bridge.next_post()
    lines = [line[2:] for line in params["text"].split("\n") if line.startswith("| ")]
    assert "\n".join(lines).rstrip("\n") == body.rstrip("\n")


def test_a_message_for_the_running_turn_alone_starts_none(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    name, _ = begin_busy(place, bridge)
    sent = ann.send(name, "stop that", mode="steer")
    post, params = bridge.next_post()
    assert params["quiet"] is True
    bridge.accept(post)
    message = bridge.prompt("ses_a", post=post, by="mail")
    bridge.state("ses_a", "idle")  # the turn ended first
    assert bridge.use("ses_a", "check_delivery")["text"] == "You have sent nothing yet."  # nothing was pushed
    assert check(ann, sent["id"]) == "handed"
    later = ann.send(name, "and this starts one")  # what waits behind it may
    push, params = bridge.next_post()
    assert params["text"] == ""
    bridge.prompt("ses_a", post=push, by="mail")
    bridge.state("ses_a", "busy")
    bridge.step("ses_a", "msg_999999")
    await_state(ann, sent["id"], "delivered")
    _, params = bridge.next_post()
    assert later["id"] in params["text"]
    assert message < "msg_999999"


def test_who_waits_for_the_user_says_so(place: PrivateBroker, bridge: BridgeProcess) -> None:
    begin_idle(place, bridge)
    begin_turn(bridge)
    for state in ("waiting", "busy", "idle"):
        bridge.state("ses_a", state)
        poll(lambda: rows(place)["ses_a"]["state"], lambda found, state=state: found == state)


@pytest.mark.slow
def test_news_that_was_asked_for_wakes(place: PrivateBroker, bridge: BridgeProcess, ann: Member) -> None:
    begin_idle(place, bridge)
    ann.call("turn", phase="started", by="human")
    assert bridge.use("ses_a", "send_message", to="ann", message="tell me", notify_when_idle=True)["isError"] is False
    [message] = poll(ann.take, bool)
    ann.ack(message["id"])
    ann.call("turn", phase="ended")
    _, params = bridge.next_post()
    assert params["text"].startswith("<cross-session-notice ")


# -- tools -------------------------------------------------------------------------------------------------------------


def test_the_tools_are_those_of_the_mcp_server(place: PrivateBroker, bridge: BridgeProcess, ann: Member) -> None:
    name = begin_idle(place, bridge)
    assert "- ann " in bridge.use("ses_a", "list_agents")["text"]
    told = bridge.use("ses_a", "send_message", to="ann", message="hello")
    assert told["isError"] is False
    [message] = poll(ann.take, bool)
    assert message["from"]["name"] == name
    assert message["id"] in told["text"]
    ann.ack(message["id"])
    assert "delivered" in bridge.use("ses_a", "check_delivery", message_id=message["id"])["text"]
    assert bridge.use("ses_a", "rename_session", name="api-2")["text"].startswith("Others call you api-2 ")
    assert bridge.use("ses_a", "send_message", message="to whom?")["isError"] is True
    assert bridge.use("ses_a", "no_such_tool")["isError"] is True


def test_a_subagent_sends_as_its_session_and_reads_nothing_of_it(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    name = begin_idle(place, bridge)
    told = bridge.use("ses_a", "send_message", to="ann", message="hello", subagent=True)
    [message] = poll(ann.take, bool)
    assert (message["from"]["name"], message["from"]["subagent"]) == (name, True)
    assert message["id"] in told["text"]
    for tool, arguments in (("read_messages", {}), ("rename_session", {"name": "mine"})):
        refused = bridge.use("ses_a", tool, subagent=True, **arguments)
        assert refused["isError"]
        assert "subagents" in refused["text"]


def test_a_call_may_wait_for_its_reply_and_be_cancelled(
    place: PrivateBroker, bridge: BridgeProcess, ann: Member
) -> None:
    begin_idle(place, bridge)
    waits = bridge.post_use("ses_a", "send_message", to="ann", message="well?", wait_reply=60)
    [question] = poll(ann.take, bool)
    ann.call("ack", ids=[question["id"]])
    ann.call("send", message="yes", reply_to=question["id"])
    told = bridge.answer(waits)
    assert "replied" in told["text"]
    assert "| yes" in told["text"]
    waits = bridge.post_use("ses_a", "send_message", to="ann", message="and now?", wait_reply=60)
    [question] = poll(ann.take, bool)
    bridge.notify("cancel", {"id": waits})
    ann.call("send", message="too late", reply_to=question["id"])
    _, params = bridge.next_post()  # the reply comes as mail; the call has no answer any more
    assert "| too late" in params["text"]


def test_a_call_from_nowhere_is_answered(bridge: BridgeProcess) -> None:
    assert bridge.use(None, "list_agents")["isError"]
    assert bridge.use("ses_never", "list_agents")["isError"]


# -- its life ----------------------------------------------------------------------------------------------------------


def test_it_ends_with_its_input_and_so_do_its_sessions(place: PrivateBroker, bridge: BridgeProcess) -> None:
    bridge.open("ses_a")
    bridge.open("ses_b")
    await_rows(place, 2)
    process = bridge.bridge()
    bridge.close()
    assert ended_within(process, 2.0)
    assert rows(place) == {}


def test_it_ends_with_opencode(place: PrivateBroker, bridge: BridgeProcess) -> None:
    """P11, D1: the end of the harness is the end of all its sessions, though pipes stay open."""
    begin_idle(place, bridge)
    process = bridge.bridge()
    bridge.kill_harness()
    assert ended_within(process, 2.0)
    await_rows(place, 0)


def test_a_broker_that_comes_back_has_the_same_sessions(place: PrivateBroker) -> None:
    bridge = BridgeProcess(place)
    bridge.open("ses_a", title="The migration")
    bridge.open("ses_b")
    before = await_rows(place, 2)
    ask_once(place.rendezvous, "stop")
    poll(place.rendezvous.exists, lambda there: not there)
    place.start()
    after = await_rows(place, 2)
    assert {key: row["id"] for key, row in after.items()} == {key: row["id"] for key, row in before.items()}


def test_a_granted_session_is_of_one_conversation(place: PrivateBroker, ann: Member) -> None:
    """13.4: a container has the one session that it was granted, and so has the opencode in it."""
    token = place.root / "token"
    token.write_text(ann.token)
    ann.close()
    bridge = BridgeProcess(place, XSESSIOND_SOCKET=ann.socket, XSESSIOND_TOKEN_FILE=str(token))
    bridge.open("ses_a")
    bridge.open("ses_b")
    assert bridge.use("ses_a", "list_agents")["text"].startswith("Others call you ann ")
    assert bridge.use("ses_b", "list_agents")["isError"]
    assert rows(place) == {}


def test_what_is_no_line_of_the_plugin_is_passed_over(place: PrivateBroker, bridge: BridgeProcess) -> None:
    for line in (b"\xff\n", b"[]\n", b"{}\n", b'{"method":7}\n', b'{"method":"opened"}\n', b'{"id":9,"result":{}}\n'):
        bridge.write(line)
    bridge.notify("state", {"session": "ses_never", "state": "busy"})
    bridge.notify("state", {"session": "ses_never", "state": "no state"})
    bridge.write(json.dumps({"jsonrpc": "2.0", "method": "prompted", "params": {"session": "ses_a"}}).encode() + b"\n")
    begin_idle(place, bridge)
