"""How sessions come, prove who they are, change and say goodbye."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.core_house import Guest, House, is_sentence, peer, refused
from xsessiond.core import limits
from xsessiond.core.limits import (
    GRACE_S,
    INTRODUCED_MOST,
    LINKS_PER_SESSION,
    MAX_BODY,
    MAX_HARNESS,
    MAX_KEY,
    MAX_LABEL,
    MAX_PATH,
)
from xsessiond.core.tokens import hash_token

# -- coming ------------------------------------------------------------------------------------------------------------


def test_a_session_comes_with_an_id_a_name_a_socket_and_a_token(house: House) -> None:
    """1.2, S15: the token is shown once; what is kept is its hash."""
    api = house.join("api", title="ignored", label="x" * 500, **{"class": "prompting"})
    registered = api.registered
    session = registered["session"]
    assert (session["name"], session["class"], session["label"]) == ("api", "prompting", "x" * MAX_LABEL)
    assert (session["pid"], session["harness"], session["cwd"], session["state"]) == (
        api.pid,
        "codex",
        "/src/app",
        "unknown",
    )
    assert registered["socket"] == f"/run/x/s/{api.ref}.sock"
    assert (registered["resumed"], registered["notice"]) == (False, None)
    token = registered["token"]
    assert len(token) == 64
    assert api.session.token_hash == hash_token(token)
    stored = repr(house.state()["store"])
    assert token not in stored
    assert token not in repr(house.logs)
    assert house.doors == {api.id: api.ref}


@pytest.mark.parametrize(
    "name, title, folder, called",
    [
        (None, "Fix the build", "/src/app", "Fix-the-build"),
        (None, None, "/src/app", "app"),
        (None, None, "/src/app/", "app"),
        (None, "", "/", "session"),
        ("mine", "Fix the build", "/src/app", "mine"),
    ],
)
def test_the_first_name(house: House, name: str | None, title: str | None, folder: str, called: str) -> None:
    """2.2: what was wished, else from the title, else from the folder."""
    assert house.join(name, title=title, cwd=folder).name == called


@pytest.mark.parametrize("name, why", [("app", "has that name"), ("\u0430pp", "looks like it")])
def test_a_taken_first_name_gets_two_words_and_the_session_is_told(house: House, name: str, why: str) -> None:
    """2.2, N16: never silently."""
    first = house.join("app")
    second = house.join(name)
    assert second.name != first.name
    assert second.name.count("-") == 2
    notice = second.registered["notice"]
    assert is_sentence(notice)
    assert f'"{second.name}"' in notice
    assert f"{first.name} [{first.ref}]" in notice
    assert why in notice
    assert house.names() == [first.name, second.name]


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "a\u202eb", "x" * 65, "human", "deadbeef", "-x"])
def test_a_bad_name_is_refused_and_nobody_comes(house: House, name: str) -> None:
    """2.1, S3, S10."""
    before = house.state()
    refusal = refused(lambda: house.join(name))
    assert refusal.code == "bad_name"
    assert house.state() == before
    assert house.doors == {}


def test_what_a_harness_reports_is_bounded(house: House) -> None:
    """A header always leaves room for a body."""
    api = house.join("api", harness="h" * 1000, cwd="/" + "\x01" * 10_000, title="t" * 10_000)
    session = api.registered["session"]
    assert len(session["harness"]) == MAX_HARNESS
    assert 0 < 6 * len(session["cwd"]) <= MAX_PATH + 6
    web = house.join("web")
    assert refused(lambda: api.send(web, "x" * (MAX_BODY + 1))).code == "too_large"
    api.send(web, "x" * MAX_BODY, summary="\x01" * MAX_LABEL)
    assert len(web.take()[0]["text"]) == MAX_BODY


@pytest.mark.parametrize("talk, code", [("x" * MAX_KEY, None), ("x" * (MAX_KEY + 1), "usage"), ("", "usage")])
def test_a_conversation_id_is_kept_whole_or_refused(house: House, talk: str, code: str | None) -> None:
    before = house.state()
    if code is None:
        assert house.join("api", harness_session_id=talk).registered["session"]["harness_session_id"] == talk
        return
    assert refused(lambda: house.join("api", harness_session_id=talk)).code == code
    assert house.state() == before
    api = house.join("other")
    row = api.session.to_row("", "")
    assert refused(lambda: api.line.ask("update", state="busy", harness_session_id=talk)).code == code
    assert (api.session.to_row("", ""), api.session.state) == (row, "unknown")


def test_a_pid_that_is_no_ancestor_is_not_believed(house: House) -> None:
    """1.3: pid only corroborates; two pid namespaces have nothing in common."""
    assert house.join("api", pid=5000).registered["session"]["pid"] == 5000
    liar = Guest(house, 6000, {"name": "liar", "pid": 5000})
    liar.register()
    assert liar.registered["session"]["pid"] is None
    foreign = Guest(house, 0, {"name": "foreign", "pid": 5000})
    foreign.register()
    assert foreign.registered["session"]["pid"] is None


# -- coming back -------------------------------------------------------------------------------------------------------


def test_a_session_cannot_take_what_is_above_it_for_its_harness(house: House) -> None:
    """13.2: else the user's shell, and every agent started there, would speak as that session."""
    terminal, agent = 500, house.join("agent", pid=600)
    inside = peer(603, 602, 600, terminal, 1)
    for pid in (terminal, 1):
        thief = Guest(house, pid, {"name": f"thief-{pid}", "pid": pid})
        line = house.connect(inside)
        assert line.ask("register", **thief.params)["session"]["pid"] is None
    assert house.connect(peer(700, terminal, 1, terminal=True)).ask("whoami")["kind"] == "human"
    assert house.connect(inside).ask("whoami")["name"] == agent.name
    # What is at or below the session it is in may be a harness of its own: one agent starts another.
    for pid in (600, 602):
        assert house.connect(inside).ask("register", name=f"inner-{pid}", pid=pid)["session"]["pid"] == pid


def test_sessions_that_never_attach_are_bounded_and_those_that_did_are_not_touched(house: House) -> None:
    """13.3: each costs a socket and a row; the oldest go, and may still come back with their token."""
    api = house.join("api")

    def introduce(name: str) -> Guest:
        guest = Guest(house, 7, {"name": name, "harness": "codex", "cwd": "/src/app"})
        guest.register()
        return guest

    dormant = [introduce(f"dormant-{number}") for number in range(INTRODUCED_MOST)]
    assert len(house.names()) == INTRODUCED_MOST + 1
    web = house.join("web")
    assert set(house.names()) == {"api", "web", *(guest.name for guest in dormant[1:])}  # who came a moment ago stays
    introduce("one-more")
    assert len(house.doors) == INTRODUCED_MOST + 2
    dormant[0].come_back()
    assert "dormant-0" in house.names()
    api.send("web")
    assert web.read() == ["hello"]


def test_a_broken_link_comes_back_with_its_token(house: House) -> None:
    """D3, 1.5: same id, name and mail, and nobody saw it leave."""
    api, web = house.join("api"), house.join("web")
    api.send(web, "one")
    token = web.token
    web.line.drop()
    house.pass_time(10)
    assert house.names() == ["api", "web"]
    api.send(web, "two")
    web.come_back()
    assert (web.registered["resumed"], web.registered["token"], web.token) == (True, None, token)
    assert web.read() == ["one", "two"]
    assert house.names() == ["api", "web"]


def test_a_session_whose_first_link_still_lives_may_come_back_too(house: House) -> None:
    """A shim whose old connection the broker has not seen end."""
    api = house.join("api")
    old = api.line
    api.come_back()
    house.pass_time(GRACE_S * 2)
    old.drop()
    house.pass_time(GRACE_S * 2)
    assert house.names() == ["api"]


def test_the_token_still_works_after_a_restart_of_the_broker(house: House) -> None:
    """W22, D3."""
    api = house.join("api")
    before = api.session.to_row(house.boot, "box")
    house.restart()
    assert house.names() == ["api"]
    api.come_back()
    after = api.session.to_row(house.boot, "box")
    assert after == before


@pytest.mark.parametrize("where", ["register", "attach"])
def test_a_wrong_token_is_refused_and_logged_without_it(house: House, where: str) -> None:
    """13.2"""
    api = house.join("api")
    api.line.drop()
    api.token = "0" * 64
    before = house.state()
    call = (lambda: api.register(resume=True)) if where == "register" else api.attach
    assert refused(call).code == "bad_token"
    assert house.state() == before
    assert house.logs[-1].what == "wrong token"
    assert "0" * 64 not in repr(house.logs)


@pytest.mark.parametrize("where", ["register", "attach"])
def test_a_token_used_from_elsewhere_is_refused_logged_and_shown(house: House, where: str) -> None:
    """S14: the right token, from a process that is not below the session's harness."""
    api = house.join("api")
    thief = Guest(house, 7000, {})
    thief.id, thief.token = api.id, api.token
    before = house.state()
    call = (lambda: thief.register(resume=True)) if where == "register" else thief.attach
    refusal = refused(call)
    assert refusal.code == "bad_token"
    assert is_sentence(refusal.text)
    assert house.state() == before
    assert house.logs[-1].what == "token used from elsewhere"
    (warning,) = house.human().ask("status")["warnings"]
    assert f"api [{api.ref}]" in warning
    assert "7001" in warning
    assert api.token is not None
    assert api.token not in warning


def test_without_a_harness_the_first_user_of_a_token_keeps_it(house: House) -> None:
    api = house.join("api", pid=0)
    other = Guest(house, 7000, {})
    other.id, other.token = api.id, api.token
    other.attach()
    assert refused(lambda: house.connect(peer(9000), door=api.id).ask("attach", token=api.token)).code == "bad_token"
    house.connect(peer(7500, 7001), door=api.id).ask("attach", token=api.token)


def test_a_session_that_was_lost_comes_back_with_its_token(house: House) -> None:
    """D4, P17: an eviction costs neither its id nor its mail, also where its conversation has no id."""
    api, web = house.join("api"), house.join("web", pid=0)
    api.send(web, "one")
    web.line.drop()
    house.pass_time(GRACE_S)
    assert house.names() == ["api"]
    old, token = web.id, web.token
    web.come_back()
    assert (web.id, web.registered["resumed"]) == (old, True)
    assert web.token not in (None, token), "its token is a new one"
    assert house.names() == ["api", "web"]
    assert web.read() == ["one"]


def test_a_session_that_was_lost_gets_another_name_if_its_own_is_taken(house: House) -> None:
    web = house.join("web", pid=0)
    web.line.drop()
    house.pass_time(GRACE_S)
    house.join("web")
    web.params["name"] = None
    web.come_back()
    assert web.name.startswith("web-")
    assert "has that name" in web.registered["notice"]


def test_a_conversation_that_is_over_does_not_come_back_with_a_token(house: House) -> None:
    for end in ("end", "kill"):
        api = house.join("api")
        old = api.id
        if end == "end":
            api.line.ask("end")
        else:
            house.kill(api)
        api.register(resume=True)
        assert (api.id != old, api.registered["resumed"]) == (True, False)
        api.attach()
        api.line.ask("end")


def test_the_same_conversation_resumed_is_the_same_session(house: House) -> None:
    """N2, 2.2, P17: id, name and mail; by another process, with another token, after a reboot of the machine."""
    api, web = house.join("api"), house.join("web", harness_session_id="talk")
    api.send(web, "one")
    house.kill(web)
    api.send("web", "two", when_offline="queue")
    house.restart(boot="boot-2")
    assert house.names() == []
    human = house.human()
    assert [one["state"] for one in human.ask("list", all=True)["sessions"]] == ["offline"]
    again = house.join(harness_session_id="talk", cwd="/elsewhere")
    assert (again.id, again.name, again.registered["resumed"]) == (web.id, "web", True)
    assert again.token != web.token
    assert again.read() == ["one", "two"]
    assert refused(lambda: web.attach()).code == "bad_token"


@pytest.mark.parametrize("how", ["token", "conversation"])
@pytest.mark.parametrize("taken, called", [(False, "renamed"), (True, "first")])
def test_what_comes_back_keeps_its_name_over_the_one_it_was_started_with(
    house: House,
    how: str,
    taken: bool,  # noqa: FBT001
    called: str,
) -> None:
    """N2, D3: which is only the next best where its name is taken."""
    web = house.join("first", pid=0, harness_session_id="talk")
    web.line.ask("rename", name="renamed")
    web.line.drop()
    house.pass_time(GRACE_S)
    if taken:
        house.join("renamed")
    if how == "token":
        web.come_back()
        assert web.registered["resumed"]
    else:
        web = house.join("first", harness_session_id="talk")
    assert web.name == called
    assert (web.registered["notice"] is not None) == taken


def test_a_resumed_conversation_whose_name_is_taken_gets_another(house: House) -> None:
    web = house.join("web", harness_session_id="talk")
    house.kill(web)
    house.join("web")
    again = house.join(harness_session_id="talk")
    assert again.id == web.id
    assert again.name.startswith("web-")
    assert is_sentence(again.registered["notice"])


def test_a_harness_that_starts_its_shim_again_has_the_same_session(house: House) -> None:
    """W11, W22: the shim crashed without its token; the harness lives, in the same folder."""
    api, web = house.join("api"), house.join("web")
    api.send(web, "one")
    for _ in range(20):
        web.line.drop()
        old, token = web.id, web.token
        web.params["name"] = None
        web.register()
        web.attach()
        assert (web.id, web.name, web.registered["resumed"]) == (old, "web", True)
        assert web.token != token
    assert web.read() == ["one"]
    assert house.watched[web.session.process] == 1  # type: ignore[index]


@pytest.mark.parametrize(
    "change", [{"harness": "claude"}, {"cwd": "/other"}, {"name": "other"}, {"harness_session_id": "another"}]
)
def test_another_session_of_the_same_harness_process_is_another(house: House, change: dict[str, str]) -> None:
    """N11: whatever tells the two apart."""
    web = house.join("web", harness_session_id="talk", pid=5000)
    web.line.drop()
    other = house.join(**{"name": None, "harness_session_id": None, "pid": 5000, **change})
    assert other.id != web.id


def test_a_live_session_is_never_taken_over(house: House) -> None:
    """The same conversation opened twice is two sessions; so are two shims of one process."""
    one = house.join("one", harness_session_id="talk", pid=5000)
    two = house.join("two", harness_session_id="talk", pid=6000)
    three = house.join(harness_session_id="talk", pid=5000)
    assert len({one.id, two.id, three.id}) == 3
    one.line.drop()
    four = house.join("four", harness_session_id="talk", pid=7000)
    assert four.id != one.id, "its harness is verified alive elsewhere"
    assert one.session.running


def test_a_conversation_without_a_harness_is_taken_up_when_nobody_has_it(house: House) -> None:
    """Its shim died without a word, and nothing could be watched."""
    one = house.join("one", harness_session_id="talk", pid=0)
    one.line.drop()
    two = house.join(harness_session_id="talk", pid=6000)
    assert (two.id, two.name) == (one.id, "one")
    assert two.registered["session"]["pid"] == 6000
    house.kill(two)
    assert house.names() == []


def test_of_several_that_may_be_meant_always_the_same_one_is(house: House) -> None:
    """One harness process, two sessions whose shims died: the same one in each run."""
    one = house.join("one", pid=5000)
    two = house.join("two", pid=5000)
    one.line.drop()
    two.line.drop()
    again = house.join(pid=5000)
    assert again.id == min(one.id, two.id)


def test_a_harness_that_cannot_be_watched_any_more_is_left_alone(house: House) -> None:
    """A shim that is started again without saying its harness."""
    one = house.join("one", harness_session_id="talk", pid=5000)
    one.line.drop()
    again = Guest(house, 5000, {"harness": "codex", "cwd": "/src/app", "harness_session_id": "talk"})
    again.register()
    assert again.id != one.id
    again = Guest(house, 5000, {"harness": "codex", "cwd": "/src/app", "harness_session_id": "talk", "pid": 5000})
    again.register()
    assert again.id == one.id
    assert sum(house.watched.values()) == 1


# -- attaching ---------------------------------------------------------------------------------------------------------


def test_a_session_has_at_most_so_many_links(house: House) -> None:
    api = house.join("api")
    for _ in range(LINKS_PER_SESSION - 1):
        last = api.attach()
    refusal = refused(api.attach)
    assert refusal.code == "refused"
    assert is_sentence(refusal.text)
    assert last.ask("attach", token=api.token, push=True)["queued"] == 0, "a link may attach again"
    last.drop()
    api.attach()


def test_attaching_needs_a_session_that_runs(house: House) -> None:
    api = house.join("api")
    api.line.ask("end")
    assert refused(api.attach).code == "bad_token"
    line = house.connect(api.peer, door="s-" + "0" * 32)
    assert refused(lambda: line.ask("attach", token="x")).code == "bad_token"


def test_attaching_says_how_much_waits(house: House) -> None:
    api, web = house.join("api"), house.join("web")
    for number in range(3):
        api.send(web, str(number))
    line = house.connect(web.peer, door=web.id)
    assert line.ask("attach", token=web.token)["queued"] == 3


# -- changing ----------------------------------------------------------------------------------------------------------


def test_a_session_renames_itself(house: House) -> None:
    api = house.join("api")
    assert api.line.ask("rename", name="billing")["self"]["name"] == "billing"
    assert api.shell().ask("rename", name="invoices")["self"]["id"] == api.id
    house.restart()
    assert house.names() == ["invoices"]


@pytest.mark.parametrize("name", ["web", "WEB", "w\u0435b"])
def test_a_taken_name_is_refused_with_one_that_is_free(house: House, name: str) -> None:
    """2.2, N16: nothing is assigned silently, and the refusal tells no secret (S15)."""
    api, web = house.join("api"), house.join("web")
    before = house.state()
    refusal = refused(lambda: api.line.ask("rename", name=name))
    assert refusal.code == "name_taken"
    assert house.state() == before
    suggestion = refusal.data["detail"]["suggestion"]
    assert suggestion in (refusal.hint or "")
    assert [candidate["id"] for candidate in refusal.data["candidates"]] == [web.id]
    assert web.token not in repr(refusal.data)
    api.line.ask("rename", name=suggestion)


def test_a_session_may_write_its_own_name_differently(house: House) -> None:
    api = house.join("api")
    assert api.line.ask("rename", name="API")["self"]["name"] == "API"
    ops = len(house.logs)
    api.line.ask("rename", name="API")
    assert len(house.logs) == ops, "nothing changed"


@pytest.mark.parametrize("name", ["", "a b", "x\u200by", "system"])
def test_a_bad_name_is_refused(house: House, name: str) -> None:
    api = house.join("api")
    assert refused(lambda: api.line.ask("rename", name=name)).code == "bad_name"
    assert house.names() == ["api"]


def test_only_a_human_renames_others(house: House) -> None:
    api, web = house.join("api"), house.join("web")
    for line in (api.line, api.shell(), house.script()):
        refusal = refused(lambda line=line: line.ask("rename", name="x", of="web"))  # type: ignore[misc]
        assert refusal.code == "not_permitted"
        assert is_sentence(refusal.text)
    human = house.human()
    assert human.ask("rename", name="shop", of=f"web [{web.ref}]")["self"]["name"] == "shop"
    assert refused(lambda: human.ask("rename", name="x", of="web")).code == "not_found"
    assert refused(lambda: human.ask("rename", name="x")).code == "usage"


def test_what_the_harness_reports_is_shown_at_once(house: House) -> None:
    """1.7, 4.3, W17: and it is stored when it must outlive the broker."""
    api = house.join("api")
    report = {"class": "bypass", "delivery": "turn", "modes": ["auto", "steer"]}
    session = api.line.ask("update", state="busy", **report)["session"]
    assert api.session.modes == ("auto", "steer")
    assert (session["state"], session["delivery"], session["class"]) == ("busy", "turn", "bypass")
    session = api.line.ask("update", harness="claude", harness_session_id="talk")["session"]
    assert (session["harness"], session["harness_session_id"], session["state"]) == ("claude", "talk", "busy")
    api.line.ask("update", harness_session_id="talk-2")
    api.line.ask("update", **{"class": None})
    before = house.state()
    api.line.ask("update")
    assert house.state() == before
    house.restart()
    (listed,) = house.listed()
    assert (listed["delivery"], listed["class"], listed["harness_session_id"]) == ("turn", "unknown", "talk-2")
    assert listed["state"] == "unknown", "what a harness does now, it must say again"


def test_that_nobody_looks_at_it_is_forgotten_when_it_comes_back(house: House) -> None:
    api = house.join("api", pid=1000)
    assert api.line.ask("update", attended=False)["session"]["attended"] is False
    assert "attended" not in api.line.ask("update", attended=True)["session"]
    api.line.ask("update", attended=False)
    api.line.drop()
    assert "attended" not in house.join("api", pid=1000).line.ask("update")["session"]


def test_only_a_session_reports_and_ends(house: House) -> None:
    api = house.join("api")
    line = house.connect(api.peer, door=api.id)
    for method in ("update", "end"):
        assert refused(lambda method=method: line.ask(method)).code == "not_permitted"  # type: ignore[misc]
    assert house.names() == ["api"]


# -- going -------------------------------------------------------------------------------------------------------------


def test_a_session_that_says_goodbye_is_gone(house: House) -> None:
    """1.2: its name is free, its socket is closed, its links are."""
    api = house.join("api")
    line, other = api.line, api.attach()
    assert line.ask("end") == {}
    assert house.names() == []
    assert house.doors == {}
    assert not line.open
    assert not other.open
    assert other.notes == [("bye", {"reason": "ended"})]
    house.join("api")


def test_who_it_is_inside_of_is_found_again_when_it_is_back(house: House) -> None:
    """A restart of the broker forgets it, and verdicts depend on it."""
    around = house.join("outer")
    inner = house.join("inner", inside=around)
    house.restart()
    around.come_back()
    assert inner.session.outer == frozenset()
    inner.come_back()
    assert inner.session.outer == {around.id}


def test_there_are_no_more_sessions_than_descriptors_for_them(house: House) -> None:
    """F1: where the system gives few; where it gives more than we want, our own number counts."""
    core = house.broker.core
    core.identity = msgspec.structs.replace(core.identity, open_files=2 * limits.FILES_PER_SESSION + 1)
    house.join("api")
    house.join("web")
    assert "2 sessions run already" in refused(lambda: house.join("third")).text
    core.identity = msgspec.structs.replace(core.identity, open_files=1 << 30)
    assert core.sessions_most == limits.SESSIONS_MOST
    house.join("third")


def test_sessions_are_bounded_and_nobody_is_evicted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """13.3: the newcomer is refused; who is there comes back."""
    monkeypatch.setattr(limits, "SESSIONS_MOST", 2)
    api = house.join("api")
    house.join("web")
    assert refused(lambda: house.join("third")).code == "refused"
    assert house.names() == ["api", "web"]
    api.line.drop()
    api.come_back()
    house.kill(api)
    assert isinstance(house.join("third"), Guest)
