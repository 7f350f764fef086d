"""What only a human may do: every reason for a no, what is said of it, and what a setting or a passphrase changes."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.support.core_house import Guest, House, Refused, peer
from xsessiond.core.callers import find_caller
from xsessiond.core.effects import Peer
from xsessiond.core.permission import find_obstacle
from xsessiond.core.policy import CoreSettings

PERSON = peer(90, 80, terminal=True)
SCRIPT = peer(70, 60)
NOBODY = Peer(None, (), terminal=False, user="ann", complete=False)

BELOW = "It runs below the session api [{ref}]."
INSTEAD = "Where the system or the broker's own sandbox hides that, a passphrase stands in for it."
UNSEEN = f"Not all programs above it can be seen, so it may run below an agent. {INSTEAD}"
NO_TERMINAL = "It was not started from a terminal, so nobody knows whose it is."
GONE = "Its process has ended, or is in another container, so nobody knows whose it is."
UNREADABLE = f"The environment of cat (pid 7) cannot be read, so it may be an agent's. {INSTEAD}"


def marked(who: Peer, *marks: str) -> Peer:
    return structs.replace(who, marks=frozenset(marks))


def obstacle_of(house: House, who: Peer, *, without_terminal: bool = False, proven: bool = False) -> str | None:
    line = house.connect(who)
    caller = find_caller(house.broker.core, house.broker.core.wires[line.link])
    return find_obstacle(caller, who, without_terminal=without_terminal, proven=proven)


# Who asks; what is against them; the same where the user allows what has no terminal; the same with a passphrase.
TABLE: dict[str, tuple[Peer, str | None, str | None, str | None]] = {
    "a person": (PERSON, None, None, None),
    "a shell of a session": (peer(5, 1000), BELOW, BELOW, BELOW),
    "a terminal of a session": (peer(6, 5, 1000, terminal=True), BELOW, BELOW, BELOW),
    "a detached process with a mark": (
        marked(PERSON, "CLAUDECODE"),
        "It was started by a coding agent: CLAUDECODE is in its environment or above it.",
        "It was started by a coding agent: CLAUDECODE is in its environment or above it.",
        "It was started by a coding agent: CLAUDECODE is in its environment or above it.",
    ),
    "many marks": (
        marked(SCRIPT, *"GFEDCBA"),
        "It was started by a coding agent: A, B, C, D, E and 2 more is in its environment or above it.",
        "It was started by a coding agent: A, B, C, D, E and 2 more is in its environment or above it.",
        "It was started by a coding agent: A, B, C, D, E and 2 more is in its environment or above it.",
    ),
    "a script": (SCRIPT, NO_TERMINAL, None, NO_TERMINAL),
    "hidden ancestors": (structs.replace(PERSON, complete=False), UNSEEN, UNSEEN, None),
    "hidden ancestors, no terminal": (structs.replace(SCRIPT, complete=False), UNSEEN, UNSEEN, NO_TERMINAL),
    "unreadable": (structs.replace(PERSON, unseen="cat (pid 7)"), UNREADABLE, UNREADABLE, None),
    "nobody": (NOBODY, GONE, GONE, GONE),
}


def test_what_comes_from_a_container_is_no_human() -> None:
    """13.4: whatever the kernel says of it, and with a passphrase too."""
    house = House()
    given = house.human().ask("grant", name="box", directory="/d", cwd="/")
    core = house.broker.core
    line = house.connect(PERSON, given["session"]["id"])
    caller = find_caller(core, core.wires[line.link])
    for proven in (False, True):
        obstacle = find_obstacle(caller, PERSON, without_terminal=True, proven=proven)
        assert obstacle == "It came through the socket of a container."


@pytest.mark.parametrize("name", TABLE)
def test_why_not(name: str) -> None:
    """5.2, H11."""
    house = House()
    api = house.join("api", pid=1000)
    who, plain, without_terminal, proven = TABLE[name]

    def text(expected: str | None) -> str | None:
        return expected and expected.format(ref=api.session.ref)

    assert obstacle_of(house, who) == text(plain)
    assert obstacle_of(house, who, without_terminal=True) == text(without_terminal)
    assert obstacle_of(house, who, proven=True) == text(proven)


def test_nobody_with_a_passphrase_where_no_terminal_is_asked_for() -> None:
    """Both settings together: the passphrase alone decides, whoever brings it."""
    assert obstacle_of(House(), NOBODY, without_terminal=True, proven=True) is None


def test_several_sessions_in_one_harness() -> None:
    house = House()
    guests = []
    for number in range(7):
        guests.append(house.join(f"s{number}", pid=1000, harness_session_id=str(number)))
        house.pass_time(1)
    told = obstacle_of(house, peer(5, 1000, terminal=True), without_terminal=True, proven=True)
    names = ", ".join(f"{guest.name} [{guest.session.ref}]" for guest in guests[:5])
    assert told == f"It runs below the harness of several sessions ({names} and 2 more)."


# -- the acts ----------------------------------------------------------------------------------------------------------

HUMAN_ONLY: dict[str, tuple[str, dict[str, object]]] = {
    "decide about held messages": ("decide", {"verdict": "approve", "ids": ["m-1"]}),
    "revoke trust": ("revoke_trust", {"id": "t-1"}),
    "rename another session": ("rename", {"of": "web", "name": "other"}),
    "change the settings": ("config", {"to_change": True}),
}


@pytest.mark.parametrize("act", HUMAN_ONLY)
@pytest.mark.parametrize("who", ["session", "marks", "script"])
def test_what_is_for_humans_only(act: str, who: str) -> None:
    """5.2, S14: refused with the reason, logged and shown; nothing is changed."""
    house = House()
    api, _ = house.join("api", pid=1000), house.join("web")
    asking = {"session": peer(5, 1000, terminal=True), "marks": marked(PERSON, "GEMINI_CLI"), "script": SCRIPT}[who]
    method, params = HUMAN_ONLY[act]
    before = house.state()
    with pytest.raises(Refused) as refused:
        house.connect(asking).ask(method, **params)
    assert refused.value.code == "not_permitted"
    obstacle = obstacle_of(house, asking)
    assert refused.value.text == f"Only a human may {act}. {obstacle}"
    assert refused.value.hint == "Do it in a terminal of your own that no agent started."
    assert house.state() == before
    (warning,) = house.broker.core.warnings
    shown = f"The session api [{api.session.ref}]" if who == "session" else "A process that is not known to be yours"
    pid = asking.ancestors[0].pid
    assert warning == f"{shown} tried to {act} and was refused (process {pid}). {obstacle}"
    (line,) = [entry for entry in house.logs if entry.what == "refused: not a human"]
    assert (line.level, line.facts["act"], line.facts["pid"]) == ("warning", act, pid)
    assert line.facts["session"] == (api.id if who == "session" else None)
    assert line.facts["marks"] == ("GEMINI_CLI" if who == "marks" else None)


def test_a_session_may_rename_itself() -> None:
    house = House()
    house.join("api", pid=1000)
    assert house.connect(peer(5, 1000)).ask("rename", name="billing")["self"]["name"] == "billing"


def test_a_repeated_attempt_is_shown_once() -> None:
    house = House()
    house.join("api", pid=1000)
    house.broker.core.warn("something else")
    for pid in range(5, 40):
        with pytest.raises(Refused):
            house.connect(peer(pid, 1000)).ask("revoke_trust", id="t-1")
    other, attempt = house.broker.core.warnings
    assert other == "something else"
    assert "(process 39)" in attempt
    assert len([line for line in house.logs if line.what == "refused: not a human"]) == 35


def test_a_session_that_renames_itself_does_not_push_out_other_warnings() -> None:
    """Nor does it fill the history of the message that it tries to approve."""
    house = House()
    house.broker.core.warn("something else")
    web = house.join("web")
    sent = house.join("api", **{"class": "bypass"}).send(web)
    for number in range(25):
        web.line.ask("rename", name=f"web-{number}")
        with pytest.raises(Refused):
            web.shell().ask("decide", verdict="approve", ids=[sent["id"]])
    other, attempt = house.broker.core.warnings
    assert other == "something else"
    assert attempt.startswith(f"The session web-24 [{web.ref}] tried to ")
    (entry,) = house.human().ask("log")["entries"]
    assert [step["by"] for step in entry["decisions"]] == [None, f"session web-0 [{web.ref}]"]


def test_an_agent_that_switches_its_session_off_is_an_agent_still() -> None:
    """5.2: its project's file is its own to write."""
    house = House()
    api, web = house.join("api", **{"class": "bypass"}), house.join("web", cwd="/web")
    sent = api.send(web)
    house.change_project(web, off=True)
    escaped = house.connect(peer(web.pid + 9, web.pid, 2, terminal=True))
    assert escaped.ask("whoami")["kind"] == "script"
    assert escaped.ask("hold_queue")["held"] == []
    for method, params in (*HUMAN_ONLY.values(), ("stop", {})):
        with pytest.raises(Refused, match="switched off"):
            escaped.ask(method, **params)
    assert api.check(sent)["state"] == "held"
    house.change_settings(off=True)
    assert escaped.ask("whoami")["kind"] == "human", "the user's own file forgets what was claimed"


def test_the_settings_decide_what_counts() -> None:
    """5.2: approvals.without_terminal and approvals.passphrase, as they are now."""
    house = House(CoreSettings(without_terminal=True))
    with pytest.raises(Refused) as refused:
        house.script().ask("revoke_trust", id="t-1")
    assert refused.value.code == "not_found"
    house = House(CoreSettings(passphrase=True))
    with pytest.raises(Refused) as refused:
        house.connect(structs.replace(PERSON, complete=False)).ask("revoke_trust", id="t-1")
    assert refused.value.data["detail"] == {"passphrase": True}


def test_settings_are_changed_with_the_passphrase() -> None:
    """5.2: else a change of the settings could switch it off."""
    house = House(CoreSettings(passphrase=True))
    house.passphrase = "correct horse"
    assert house.human().ask("config")["ok"]
    for passphrase in (None, "wrong"):
        with pytest.raises(Refused) as refused:
            house.human().ask("config", to_change=True, passphrase=passphrase)
        assert refused.value.data["detail"] == {"passphrase": True}
    assert house.human().ask("config", to_change=True, passphrase="correct horse")["ok"]


def test_where_a_passphrase_is_wanted_and_none_is_set_nobody_decides() -> None:
    """5.2, 14.2: said plainly, and without asking for one. Who may change the settings can mend it; what could not be
    seen of a process is not made up for by a passphrase that nobody has."""
    house = House(CoreSettings(passphrase=True, passphrase_is_set=False))
    for passphrase in (None, "correct horse"):
        with pytest.raises(Refused) as refused:
            house.human().ask("decide", verdict="approve", all=True, passphrase=passphrase)
        assert refused.value.code == "not_permitted"
        assert "none is set, so nobody can do that" in refused.value.text
        assert refused.value.data["detail"] is None
    assert house.human().ask("config", to_change=True)["ok"]
    with pytest.raises(Refused) as refused:
        house.connect(structs.replace(PERSON, complete=False)).ask("config", to_change=True)
    assert UNSEEN in refused.value.text


@pytest.mark.parametrize("who", [PERSON, SCRIPT, NOBODY, structs.replace(PERSON, complete=False)], ids=str)
def test_a_service_manager_may_stop_the_broker(who: Peer) -> None:
    """cron and systemd have no terminal, and none of them is an agent."""
    house = House()
    house.join("api", pid=1000)
    assert house.connect(who).ask("stop")["stopping"] is True


@pytest.mark.parametrize("who", ["session", "among", "marks"])
def test_an_agent_may_not_stop_the_broker(who: str) -> None:
    house = House()
    api: Guest = house.join("api", pid=1000, harness_session_id="1")
    if who == "among":
        house.join("web", pid=1000, harness_session_id="2")
    asking = marked(SCRIPT, "CODEX_CI") if who == "marks" else peer(5, 1000)
    with pytest.raises(Refused) as refused:
        house.connect(asking, hello=False).ask("stop")
    assert refused.value.code == "not_permitted"
    assert refused.value.text == f"An agent may not stop the broker. {obstacle_of(house, asking)}"
    assert house.stopped is None
    assert "stop the broker" in house.broker.core.warnings[0]
    with pytest.raises(Refused):
        api.line.ask("stop")  # nor over its own link


# -- settings that are made weaker -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before, after, told",
    [
        (CoreSettings(), CoreSettings(), []),
        (CoreSettings(), CoreSettings(passphrase=True), []),
        (CoreSettings(without_terminal=True), CoreSettings(), []),
        (CoreSettings(passphrase=True), CoreSettings(), ["Decisions need no passphrase any more"]),
        (CoreSettings(), CoreSettings(without_terminal=True), ["What has no terminal may decide now"]),
        (
            CoreSettings(passphrase=True),
            CoreSettings(without_terminal=True),
            ["Decisions need no passphrase any more", "What has no terminal may decide now"],
        ),
    ],
)
def test_the_user_hears_when_decisions_become_easier(
    before: CoreSettings, after: CoreSettings, told: list[str]
) -> None:
    """5.2, 14.3: a program that may write the file could do it; not unseen."""
    house = House(before)
    house.settings = after
    house.human().ask("reload")
    assert [notice.text.partition(" (")[0] for notice in house.notified] == told
    assert [
        text.removeprefix("The settings were changed: ").partition(" (")[0] for text in house.broker.core.warnings
    ] == told
    assert len([line for line in house.logs if line.what == "approvals were made easier"]) == len(told)
