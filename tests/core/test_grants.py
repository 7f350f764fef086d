"""Sessions that a human makes for a container: who may, what they can do, how they come and go."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from tests.support.core_house import Answer, House, Line, peer, refused
from xsessiond.core import grants
from xsessiond.core.admission import Setting
from xsessiond.core.effects import Peer, ProjectRead
from xsessiond.core.limits import GRACE_S, KEEP_MS
from xsessiond.core.policy import ProjectSettings

DIRECTORY = "/state/xsessiond/grants/1"
DAY = 24 * 3600


def grant(house: House, name: str = "box", **params: Any) -> Answer:
    return house.human().ask("grant", **{"name": name, "directory": DIRECTORY, "cwd": "/src", **params})


def inside(*pids: int, place: int | None = 7) -> Peer:
    """A process in a container. Without pids: one whose pid means nothing here."""
    return structs.replace(peer(*pids), place=place)


def come(house: House, given: Answer, who: Peer | None = None) -> Line:
    """The container's shim attaches."""
    line = house.connect(who or inside(501, 500), given["session"]["id"])
    line.ask("attach", token=given["token"])
    return line


def row(house: House, given: Answer) -> Answer:
    rows: list[Answer] = house.human().ask("list", all=True)["sessions"]
    (found,) = [one for one in rows if one["id"] == given["session"]["id"]]
    return found


# -- granting ----------------------------------------------------------------------------------------------------------


def test_a_granted_session_is_there_and_offline_until_its_container_comes(house: House) -> None:
    """13.4, 1.7: its socket is open from the start; it is listed with those that may come back."""
    given = grant(house, **{"class": "prompting"})
    session = given["session"]
    assert (session["name"], session["harness"], session["cwd"]) == ("box", "container", "/src")
    assert (session["state"], session["class"], session["pid"]) == ("offline", "prompting", None)
    assert (given["socket"], given["expires_at"], given["replaced"]) == (f"{DIRECTORY}/session.sock", None, False)
    assert len(given["token"]) == 64
    assert house.doors == {session["id"]: f"{DIRECTORY}/session.sock"}
    assert house.names() == []
    assert row(house, given)["state"] == "offline"
    shown = house.human().ask("grants")["grants"]
    assert [(one["directory"], one["by"], one["expires_at"]) for one in shown] == [(DIRECTORY, "human ann", None)]
    assert given["token"] not in str(shown)


@pytest.mark.parametrize("method", ["grant", "revoke_grant"])
@pytest.mark.parametrize("who", ["a session's shell", "an agent", "a script"])
def test_only_a_human_grants_and_revokes(house: House, method: str, who: str) -> None:
    """13.4, 5.2"""
    grant(house)
    match who:
        case "a session's shell":
            line = house.join("api").shell()
        case "an agent":
            line = house.connect(structs.replace(peer(90, 80, terminal=True), marks=frozenset({"CLAUDECODE"})))
        case _:
            line = house.script()
    before = house.state()
    params = {"of": "box"} if method == "revoke_grant" else {"name": "x", "directory": DIRECTORY, "cwd": "/"}
    assert refused(lambda: line.ask(method, **params)).code == "not_permitted"
    assert house.state() == before


def test_it_takes_the_passphrase_where_the_user_wants_one(house: House) -> None:
    house.passphrase = "open"
    house.change_settings(passphrase=True, passphrase_is_set=True)
    asked = {"name": "box", "directory": DIRECTORY, "cwd": "/"}
    refusal = refused(lambda: house.human().ask("grant", **asked))
    assert refusal.data["detail"] == {"passphrase": True}
    assert house.human().ask("grant", **asked, passphrase=house.passphrase)["session"]["name"] == "box"
    assert refused(lambda: house.human().ask("revoke_grant", of="box")).code == "not_permitted"
    assert house.human().ask("revoke_grant", of="box", passphrase=house.passphrase)["directory"] == DIRECTORY


@pytest.mark.parametrize("path", ["relative", "", "/a\0b", "/" + "x" * 5000])
@pytest.mark.parametrize("which", ["directory", "cwd"])
def test_paths_are_absolute(house: House, which: str, path: str) -> None:
    assert refused(lambda: grant(house, **{which: path})).code == "usage"


def test_a_name_is_a_name(house: House) -> None:
    """2.1, 2.2"""
    house.join("api")
    assert refused(lambda: grant(house, "two words")).code == "bad_name"
    refusal = refused(lambda: grant(house, "api"))
    assert refusal.code == "name_taken"
    assert grant(house, str(refusal.data["detail"]["suggestion"]))


def test_there_is_room_for_so_many(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "GRANTS_MOST", 2)
    grant(house, "one", directory="/1")
    grant(house, "two", directory="/2")
    assert "granted already" in refused(lambda: grant(house, "three", directory="/3")).text
    assert grant(house, "two", directory="/2")["replaced"]


def test_a_directory_is_of_one_grant(house: House) -> None:
    """S20: the socket in it would be one session's, and the token another's."""
    given = grant(house)
    refusal = refused(lambda: grant(house, "crate"))
    assert refusal.code == "refused"
    assert "is granted to box" in refusal.text
    assert house.doors == {given["session"]["id"]: f"{DIRECTORY}/session.sock"}
    assert grant(house)["replaced"]
    house.human().ask("revoke_grant", of="box")
    assert grant(house, "crate")["session"]["name"] == "crate"


# -- its container -----------------------------------------------------------------------------------------------------


def test_it_acts_as_its_session(house: House) -> None:
    """13.4: it lists, sends, reads, answers, and is answered, as any session does."""
    api = house.join("api")
    given = grant(house, **{"class": "prompting"})
    box = come(house, given)
    assert house.names() == ["api", "box"]
    assert box.ask("whoami")["session"]["id"] == given["session"]["id"]
    sent = box.ask("send", to="api", message="from inside")
    assert api.read() == ["from inside"]
    api.send(None, "seen", reply_to=sent["id"])
    (message,) = box.ask("take")["messages"]
    assert message["text"] == "seen"
    assert box.ask("ack", ids=[message["id"]]) == {"acked": 1}
    assert box.ask("rename", name="crate")["self"]["name"] == "crate"
    assert box.ask("list")["self"]["name"] == "crate"
    assert row(house, given)["pid"] is None


NOTHING_ELSE = {
    "stop": {},
    "restart": {},
    "register": {"name": "other", "cwd": "/"},
    "decide": {"verdict": "approve", "all": True},
    "hold_queue": {},
    "trusts": {},
    "revoke_trust": {"id": "t-1"},
    "grant": {"name": "x", "directory": "/x", "cwd": "/"},
    "grants": {},
    "revoke_grant": {"of": "box"},
    "explain": {"sender": "human", "receiver": "box"},
    "config": {"to_change": True},
    "reload": {},
    "log": {},
}


@pytest.mark.parametrize("attached", [True, False])
@pytest.mark.parametrize("method", NOTHING_ELSE)
def test_it_acts_as_nothing_else(house: House, method: str, attached: bool) -> None:  # noqa: FBT001
    """13.4, S20: also where its process looks like a person at a terminal, and before it has shown its token."""
    given = grant(house)
    person = structs.replace(peer(90, 80, terminal=True), place=7)
    line = come(house, given, person) if attached else house.connect(person, given["session"]["id"])
    before = house.state()
    assert refused(lambda: line.ask(method, **NOTHING_ELSE[method])).code == "not_permitted"
    assert house.state() == before
    assert house.stopped is None
    assert line.open


@pytest.mark.parametrize("method", ["list", "whoami", "send", "check", "inbox", "take", "rename", "update", "end"])
def test_before_the_token_there_is_nothing_but_status(house: House, method: str) -> None:
    """13.4: a process of another session does not become that session here either."""
    api = house.join("api")
    given = grant(house)
    params = {"send": {"to": "api", "message": "x"}, "rename": {"name": "x"}}.get(method, {})
    for who in (inside(501, 500), inside(), api.shell().peer):
        line = house.connect(who, given["session"]["id"])
        assert refused(lambda line=line: line.ask(method, **params)).code == "not_permitted"  # type: ignore[misc]
        assert line.ask("status")["sessions"] == 1


def test_another_sessions_name_is_not_its_to_change(house: House) -> None:
    house.join("api")
    box = come(house, grant(house))
    assert refused(lambda: box.ask("rename", of="api", name="mine")).code == "not_permitted"


def test_what_it_says_of_itself_changes_nothing(house: House) -> None:
    """4.3: its class, its harness and its conversation are what its human said."""
    talk = house.join("web", harness="claude", harness_session_id="talk")
    talk.line.ask("end")
    given = grant(house, **{"class": "bypass"})
    box = come(house, given)
    said = {"class": "prompting", "harness": "claude", "harness_session_id": "talk", "state": "busy"}
    told = box.ask("update", **said)
    assert (told["session"]["class"], told["session"]["harness"]) == ("bypass", "container")
    assert (told["session"]["harness_session_id"], told["session"]["state"]) == (None, "busy")
    again = house.join("web", harness="claude", harness_session_id="talk")
    assert again.id == talk.id


@pytest.mark.parametrize("who", [inside(501, 500), inside(), inside(501, 500, place=None)])
def test_pids_mean_nothing(house: House, who: Peer) -> None:
    """M3: neither is its process looked for, nor does the end of one end it."""
    given = grant(house)
    line = come(house, given, who)
    assert not any(house.watched.values())
    for process in who.ancestors:
        house.kill_pid(process.pid)
    assert house.names() == ["box"]
    house.pass_time(DAY)
    assert house.names() == ["box"]
    assert line.ask("whoami")["name"] == "box"


def test_its_token_works_from_one_container_at_a_time_and_only_there(house: House) -> None:
    """S20, S14: with the sockets of others, at the rendezvous, or from elsewhere while it is in use, it is refused."""
    one, two = grant(house, "one"), grant(house, "two", directory="/g/2")
    come(house, one)
    at_two = house.connect(inside(601, 600, place=8), two["session"]["id"])
    assert refused(lambda: at_two.ask("attach", token=one["token"])).code == "bad_token"
    resume = {"id": one["session"]["id"], "token": one["token"]}
    shim = house.connect(inside(501, 500))
    assert refused(lambda: shim.ask("register", name="one", cwd="/", resume=resume)).code == "bad_token"
    elsewhere = house.connect(inside(701, 700, place=9), one["session"]["id"])
    assert refused(lambda: elsewhere.ask("attach", token=one["token"])).code == "bad_token"
    assert "was used by process 701" in house.human().ask("status")["warnings"][-1]
    same = house.connect(inside(801, 800), one["session"]["id"])
    assert same.ask("attach", token=one["token"])["session"]["name"] == "one"


# -- coming and going --------------------------------------------------------------------------------------------------


def test_a_container_that_ends_leaves_its_session_offline_and_a_new_one_has_it_again(house: House) -> None:
    """13.4, 7.5: same id, name and mail; from another container, and as often as one likes."""
    api = house.join("api")
    given = grant(house, **{"class": "prompting"})
    for place in (7, 8):
        box = come(house, given, inside(place * 100, place=place))
        assert row(house, given)["name"] == "box"
        if place == 8:
            assert [message["text"] for message in box.ask("take")["messages"]] == ["for later"]
            break
        box.drop()
        house.pass_time(GRACE_S)
        assert (house.names(), row(house, given)["state"]) == (["api"], "offline")
        assert refused(lambda: api.send("box", "now")).code == "not_running"
        assert api.send("box", "for later", when_offline="queue")["state"] == "queued"


def test_one_that_says_that_it_is_over_may_come_again(house: House) -> None:
    given = grant(house)
    box = come(house, given)
    box.ask("end")
    assert row(house, given)["state"] == "offline"
    assert house.doors
    come(house, given)
    assert house.names() == ["box"]


def test_a_name_that_somebody_took_meanwhile_is_not_taken_back(house: House) -> None:
    """2.2"""
    given = grant(house)
    house.join("box")
    box = come(house, given)
    assert box.ask("whoami")["name"] != "box"
    assert len(house.names()) == 2


def test_it_survives_the_broker_and_the_machine(house: House) -> None:
    """13.4, P17: running or offline; after a boot it is offline until its container comes."""
    given = grant(house)
    box = come(house, given)
    house.restart()
    assert house.names() == ["box"]
    assert house.doors == {given["session"]["id"]: f"{DIRECTORY}/session.sock"}
    box = come(house, given)
    house.restart(boot="another")
    assert (house.names(), row(house, given)["state"]) == ([], "offline")
    assert house.doors == {given["session"]["id"]: f"{DIRECTORY}/session.sock"}
    house.pass_time(KEEP_MS / 1000 * 2)
    house.restart()
    assert row(house, given)["state"] == "offline"
    box = come(house, given)
    assert box.ask("whoami")["name"] == "box"


def test_a_grant_again_is_a_new_token(house: House) -> None:
    """S15: the old one is of no use any more, and whoever used it is out."""
    first = grant(house)
    box = come(house, first)
    waiting = house.connect(inside(501, 500), first["session"]["id"])
    second = grant(house, **{"class": "bypass", "directory": "/elsewhere"})
    assert (second["replaced"], second["session"]["id"]) == (True, first["session"]["id"])
    assert (box.open, waiting.open) == (False, False)
    assert house.doors == {first["session"]["id"]: "/elsewhere/session.sock"}
    late = house.connect(inside(501, 500), first["session"]["id"])
    assert refused(lambda: late.ask("attach", token=first["token"])).code == "bad_token"
    come(house, second)
    third = grant(house, directory="/elsewhere")
    assert third["replaced"]
    assert house.doors == {first["session"]["id"]: "/elsewhere/session.sock"}
    assert grant(house, "BOX", directory="/elsewhere")["session"]["id"] == first["session"]["id"]


@pytest.mark.parametrize("by", ["name", "ref", "id"])
def test_a_grant_is_revoked(house: House, by: str) -> None:
    """13.4: at once, whoever is connected; its mail stays as that of any session that ended."""
    api = house.join("api")
    given = grant(house, **{"class": "prompting"})
    box = come(house, given)
    api.send("box", "unread")
    silent = house.connect(inside(501, 500), given["session"]["id"])
    told = house.human().ask("revoke_grant", of=given["session"][by])
    assert (told["revoked"]["id"], told["directory"]) == (given["session"]["id"], DIRECTORY)
    assert (box.open, silent.open) == (False, False)
    assert (house.names(), house.doors.get(given["session"]["id"])) == (["api"], None)
    assert house.human().ask("grants") == {"grants": []}
    late = house.connect(inside(501, 500), given["session"]["id"])
    assert refused(lambda: late.ask("attach", token=given["token"])).code == "bad_token"
    assert refused(lambda: house.human().ask("revoke_grant", of="box")).code == "not_found"
    house.restart()
    assert given["session"]["id"] not in house.doors
    assert house.human().ask("grants") == {"grants": []}


@pytest.mark.parametrize("restart", [True, False])
def test_a_grant_ends_by_itself_when_its_time_is_over(house: House, restart: bool) -> None:  # noqa: FBT001
    """13.4: by the wall clock, also over a restart; a clock that was set back gives it more time and no more."""
    given = grant(house, for_s=3600)
    assert given["expires_at"] is not None
    box = come(house, given)
    house.pass_time(1800)
    if restart:
        house.restart()
        box = come(house, given)
    house.pass_time(1799)
    assert house.names() == ["box"]
    house.pass_time(1)
    assert (house.names(), box.open) == ([], False)
    assert house.human().ask("status")["warnings"][-1].endswith("is over.")
    assert house.human().ask("grants") == {"grants": []}


def test_a_clock_that_was_set_back_is_waited_for(house: House) -> None:
    given = grant(house, for_s=60)
    house.ms -= 30_000
    house.pass_time(60)
    assert house.human().ask("grants")["grants"]
    house.pass_time(30)
    assert house.human().ask("grants")["grants"] == []
    assert given["session"]["id"] not in house.doors


def test_what_is_due_of_a_grant_that_is_gone_means_nothing(house: House) -> None:
    given = grant(house, for_s=60)
    house.human().ask("revoke_grant", of="box")
    house.broker.core.agenda.schedule(("granted", given["session"]["id"]), house.mono)
    house.pass_time(1)
    assert house.human().ask("grants") == {"grants": []}


# -- settings ----------------------------------------------------------------------------------------------------------


def test_what_its_folder_says_holds_for_it(house: House) -> None:
    """14.1, 14.4: the folder that its human named, on this side; it is known before the container comes."""
    house.projects["/src"] = ProjectSettings(off=True)
    given = grant(house)
    line = house.connect(inside(501, 500), given["session"]["id"])
    assert refused(lambda: line.ask("attach", token=given["token"])).code == "feature_off"
    assert house.names() == []
    house.handle(ProjectRead(given["session"]["id"], ProjectSettings(inbound=(Setting("hold", "project", "x"),))))
    assert line.ask("attach", token=given["token"])["session"]["name"] == "box"
    assert line.ask("whoami")["policy"]["value"] == "hold"
    house.handle(ProjectRead(given["session"]["id"], ProjectSettings(off=True)))
    assert not line.open
    assert given["session"]["id"] not in house.forgotten
    house.human().ask("revoke_grant", of="box")
    assert given["session"]["id"] in house.forgotten


def test_until_its_folder_was_read_everything_is_held(house: House) -> None:
    house.join("api")
    house.slow_projects = True
    box = come(house, grant(house))
    assert box.ask("send", to="api", message="x")["state"] == "held"


def test_switched_off_is_switched_off(house: House) -> None:
    """14.4"""
    given = grant(house)
    house.change_settings(off=True)
    line = house.connect(inside(501, 500), given["session"]["id"])
    assert refused(lambda: line.ask("attach", token=given["token"])).code == "feature_off"


def test_many_that_ended_do_not_push_it_out(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xsessiond.core.liveness.KNOWN_ENDED", 2)
    given = grant(house)
    for number in range(5):
        house.join(f"s{number}").line.ask("end")
    assert row(house, given)["name"] == "box"
