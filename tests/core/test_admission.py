"""Who may reach whom: every row of the tables, each with its cause, its rule, and where that was written."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsessiond.core.admission import (
    CAUSES,
    SEVERITY,
    Admit,
    Cause,
    Hold,
    Party,
    Policy,
    Refuse,
    Setting,
    Source,
    Verdict,
    decide,
    is_senders_own,
    merge_settings,
)
from xsessiond.core.policy import CoreSettings, ProjectSettings, launch_setting, policy_of

CLASSES = ("bypass", "prompting", "unknown")
HUMAN, SCRIPT = Party("human", "unknown", Policy()), Party("script", "unknown", Policy())
WHERE: dict[Source, str] = {
    "managed": "/etc/xsessiond/config.toml:2",
    "launch": "XSESSIOND_INBOUND",
    "user": "~/.config/xsessiond/config.toml:5",
    "project": "/src/app/.xsessiond.toml:1",
}


def setting(value: str | None, source: Source = "user") -> Setting:
    return Setting(value, source, WHERE[source])


def session(perm_class: str = "prompting", **policy: object) -> Party:
    return Party("session", perm_class, Policy(**policy))  # type: ignore[arg-type]


def short(verdict: Verdict) -> str:
    """`admit`, `refuse`, or the cause of a hold, with `…` if that expires."""
    match verdict:
        case Hold():
            return verdict.cause + ("…" if verdict.expires else "")
        case _:
            return type(verdict).__name__.lower()


# -- parity ------------------------------------------------------------------------------------------------------------

#                receiver:    bypass              prompting         unknown
PARITY = {
    "bypass":                ("admit",            "mode-mismatch…", "mode-unknown…"),
    "prompting":             ("bypass-default…",  "admit",          "mode-unknown…"),
    "unknown":               ("no-mode-asserted…", "admit",          "mode-unknown…"),
    "several":               ("no-mode-asserted…", "mode-mismatch…", "mode-unknown…"),
    "a script":              ("no-mode-asserted…", "admit",          "mode-unknown…"),
    "a human":               ("admit",            "admit",          "admit"),
}  # fmt: skip


@pytest.mark.parametrize("sender, receiver", list(itertools.product(PARITY, CLASSES)))
def test_parity(sender: str, receiver: str) -> None:
    """4.2, 4.4: where nobody set anything."""
    party = {"a human": HUMAN, "a script": SCRIPT}.get(sender) or session(sender)
    verdict = decide(party, session(receiver))
    assert short(verdict) == PARITY[sender][CLASSES.index(receiver)]
    assert verdict.rule.startswith("the user's own send" if sender == "a human" else "parity: ")


def test_each_rule_of_parity_says_what_it_is_about() -> None:
    """4.5, H6: no two reasons have one text."""
    verdicts = {decide(session(one), session(other)) for one in (*CLASSES, "several") for other in CLASSES}
    assert len({verdict.rule for verdict in verdicts}) == len(verdicts)


# -- settings ----------------------------------------------------------------------------------------------------------

SETTINGS: list[tuple[Source, str | None, str]] = [
    ("managed", "accept", "admit"),
    ("managed", "hold", "managed-setting"),
    ("managed", "refuse", "refuse"),
    ("managed", None, "invalid-setting"),
    ("launch", "accept", "admit"),
    ("launch", "hold", "explicit-setting"),
    ("launch", "refuse", "refuse"),
    ("launch", None, "invalid-setting"),
    ("user", "accept", "admit"),
    ("user", "hold", "explicit-setting"),
    ("user", "refuse", "refuse"),
    ("user", None, "invalid-setting"),
    ("project", "hold", "project-setting"),
    ("project", "refuse", "refuse"),
    ("project", None, "invalid-setting"),
]


def named(source: Source, value: str | None, key: str = "inbound") -> str:
    return f"{key} = {value or 'unreadable'} ({source}: {WHERE[source]})"


@pytest.mark.parametrize("source, value, expected", SETTINGS)
@pytest.mark.parametrize("sender", [session("bypass"), session("prompting"), session("unknown"), SCRIPT])
@pytest.mark.parametrize("receiver", CLASSES)
def test_what_the_receiver_says_counts_before_parity(
    sender: Party, receiver: str, source: Source, value: str | None, expected: str
) -> None:
    """4.1, C4: for every class and kind; a hold by a setting does not expire, and the rule names the place."""
    verdict = decide(sender, session(receiver, inbound=setting(value, source)))
    assert short(verdict) == expected
    assert verdict.rule == named(source, value)


@pytest.mark.parametrize("source, value, expected", SETTINGS)
def test_a_human_is_admitted_unless_the_receiver_refuses(source: Source, value: str | None, expected: str) -> None:
    """4.4"""
    verdict = decide(HUMAN, session("bypass", inbound=setting(value, source), scope=setting("project")))
    assert short(verdict) == ("refuse" if expected == "refuse" else "admit")


@pytest.mark.parametrize("source, value, expected", SETTINGS)
def test_trust_lets_through_what_the_user_holds_and_nothing_else(
    source: Source, value: str | None, expected: str
) -> None:
    """4.6, H7: not what the administrator holds, what cannot be read, or what is refused."""
    receiver = session("prompting", inbound=setting(value, source))
    verdict = decide(session("bypass"), receiver, "t-1")
    if expected in ("managed-setting", "invalid-setting", "refuse"):
        assert verdict == decide(session("bypass"), receiver)
    else:
        assert verdict == Admit("trust t-1")


@pytest.mark.parametrize("perm_class", CLASSES)
def test_trust_lets_through_what_parity_holds(perm_class: str) -> None:
    """4.6, H7"""
    for sender in CLASSES:
        assert decide(session(sender), session(perm_class), "t-1") == Admit("trust t-1")


# -- what goes out -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, expected", [("accept", "admit"), ("hold", "outbound"), ("refuse", "refuse"), (None, "invalid-setting")]
)
def test_what_the_sender_may_send_is_its_own_users_matter(value: str | None, expected: str) -> None:
    """4.9, H13: whatever the receiver accepts and whoever is trusted."""
    sender = session("prompting", outbound=setting(value))
    for receiver in (session("prompting"), session("bypass", inbound=setting("accept"))):
        for trusted in (None, "t-1"):
            verdict = decide(sender, receiver, trusted)
            if expected == "admit":
                assert verdict == decide(session("prompting"), receiver, trusted)
            else:
                assert short(verdict) == expected
                assert verdict.rule == named("user", value, "outbound")


@pytest.mark.parametrize("value", ["hold", None])
def test_whose_setting_held_it_is_known_again(value: str | None) -> None:
    """14.2: what cannot be read has one cause, whoever wrote it."""
    for sender, receiver, own in (
        (session(outbound=setting(value)), session("prompting"), True),
        (session("prompting"), session("prompting", inbound=setting(value)), False),
    ):
        verdict = decide(sender, receiver)
        assert isinstance(verdict, Hold)
        assert is_senders_own(verdict.cause, verdict.rule) == own


def test_a_receiver_that_refuses_is_not_asked_about_what_goes_out() -> None:
    verdict = decide(session(outbound=setting("hold")), session(inbound=setting("refuse")))
    assert verdict == Refuse(named("user", "refuse"))


@pytest.mark.parametrize("kind", ["human", "script"])
def test_the_users_own_box_takes_everything(kind: str) -> None:
    """Nobody has to approve what is for themselves."""
    box = Party(kind, "unknown", Policy())  # type: ignore[arg-type]
    for outbound in ("accept", "hold", "refuse", None):
        assert decide(session("bypass", outbound=setting(outbound)), box) == Admit("the user's own box")


# -- scope -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scope, sender_root, receiver_root, expected",
    [
        (None, "/a", "/b", "admit"),
        ("machine", "/a", "/b", "admit"),
        ("project", "/a", "/a", "admit"),
        ("project", "/a", "/b", "scope"),
        ("project", None, "/b", "scope"),
        ("project", "/a", None, "scope"),
        ("project", None, None, "scope"),
        (..., "/a", "/b", "invalid-setting"),
        (..., "/a", "/a", "admit"),
    ],
)
@pytest.mark.parametrize("inbound", [None, "accept"])
def test_a_project_of_its_own(
    scope: object, sender_root: str | None, receiver_root: str | None, expected: str, inbound: str | None
) -> None:
    """4.7, S8: also before what accepts. (`...`: it cannot be read.)"""
    written = None if scope is None else setting(None if scope is ... else str(scope))
    receiver = session(scope=written, project_root=receiver_root, inbound=None if inbound is None else setting(inbound))
    verdict = decide(session(project_root=sender_root), receiver)
    assert short(verdict) == expected
    if expected in ("scope", "invalid-setting"):
        assert verdict.rule == named("user", None if scope is ... else "project", "scope")
        assert decide(session(project_root=sender_root), receiver, "t-1") == Admit("trust t-1")


def test_a_script_is_of_no_project() -> None:
    receiver = session(scope=setting("project"), project_root="/a")
    assert short(decide(Party("script", "unknown", Policy(project_root="/a")), receiver)) == "scope"


# -- layers ------------------------------------------------------------------------------------------------------------

VALUES = ("accept", "hold", "refuse", None)
maybe = st.none() | st.sampled_from(VALUES).map(lambda value: (value,))


@given(maybe, maybe, maybe, st.lists(st.sampled_from(VALUES), max_size=3))
def test_the_first_layer_wins_and_a_project_tightens(
    managed: tuple[str | None] | None,
    launch: tuple[str | None] | None,
    user: tuple[str | None] | None,
    project: list[str | None],
) -> None:
    """14.1, H10: managed, launch, user; then the project's files, of which the tightest counts, even over managed."""
    layers: list[Setting] = []
    for source, layer in (("managed", managed), ("launch", launch), ("user", user)):
        layers += [setting(value, source) for value in layer or ()]  # type: ignore[arg-type]
    files = [setting(value, "project") for value in project]
    found = merge_settings(layers, files)
    weight = {"accept": 0, "hold": 1, None: 1, "refuse": 2}
    first = weight[layers[0].value] if layers else 0
    tightest = max([first, *(weight[value] for value in project)])
    if found is None:
        assert not layers
        assert tightest == 0, "a project that accepts does nothing"
    else:
        assert weight[found.value] == tightest
        assert (found == layers[0]) if layers and tightest == first else found in files


@pytest.mark.parametrize(
    "managed, launch, user, project, expected",
    [
        (None, None, None, None, None),
        (None, None, "accept", None, ("accept", "user")),
        (None, "hold", "accept", None, ("hold", "launch")),
        ("accept", "hold", "refuse", None, ("accept", "managed")),
        ("accept", "hold", "refuse", "hold", ("hold", "project")),
        ("hold", None, None, "accept", ("hold", "managed")),
        ("hold", None, None, "refuse", ("refuse", "project")),
        (None, "allow", "accept", None, (None, "launch")),
        (None, None, None, "accept", None),
        (None, None, "hold", "accept", ("hold", "user")),
    ],
)
def test_what_is_in_force_for_a_session(
    managed: str | None,
    launch: str | None,
    user: str | None,
    project: str | None,
    expected: tuple[str | None, str] | None,
) -> None:
    """14.1, C4, H10: the launch setting stands between the administrator's and the user's."""
    both: list[tuple[Source, str | None]] = [("managed", managed), ("user", user)]
    settings = CoreSettings(inbound=tuple(setting(value, source) for source, value in both if value is not None))
    files = () if project is None else (setting(project, "project"),)
    found = policy_of(settings, launch_setting(launch), ProjectSettings(root="/src/app", inbound=files))
    assert (found.inbound and (found.inbound.value, found.inbound.source)) == expected
    assert found.project_root == "/src/app"


def test_words_that_are_not_known_are_as_tight_as_hold() -> None:
    """C4: they are never taken for the loosest."""
    odd = setting("auto", "project")
    assert merge_settings([setting("accept")], [odd]) == odd
    assert merge_settings([setting("refuse")], [odd]) == setting("refuse")
    assert short(decide(session(), session(inbound=setting("auto")))) == "explicit-setting"


def test_every_cause_of_the_contract_has_its_row() -> None:
    found: set[str] = set(CAUSES.values())
    found |= {"outbound", "invalid-setting", "mode-mismatch", "no-mode-asserted", "bypass-default", "mode-unknown"}
    assert found | {"scope"} == set(get_args(Cause))
    assert SEVERITY == {"accept": 0, "machine": 0, "hold": 1, "project": 1, "refuse": 2}


@given(
    st.sampled_from([session(one) for one in CLASSES] + [SCRIPT, HUMAN]),
    st.sampled_from(CLASSES),
    maybe,
    maybe,
    st.none() | st.sampled_from(["machine", "project", None]).map(lambda value: (value,)),
    st.none() | st.just("t-1"),
)
def test_tightening_never_lets_more_through(
    sender: Party,
    receiver: str,
    inbound: tuple[str | None] | None,
    tighter: tuple[str | None] | None,
    scope: tuple[str | None] | None,
    trusted: str | None,
) -> None:
    """H10: whatever a project adds, what was held or refused stays so."""
    order = {Admit: 0, Hold: 1, Refuse: 2}
    layers = [setting(value) for value in inbound or ()]
    scopes = [setting(value) for value in scope or ()]

    def verdict(files: list[Setting]) -> Verdict:
        merged = merge_settings(layers, files)
        return decide(sender, session(receiver, inbound=merged, scope=scopes[0] if scopes else None), trusted)

    loose, tight = verdict([]), verdict([setting(value, "project") for value in tighter or ()])
    assert order[type(tight)] >= order[type(loose)]
