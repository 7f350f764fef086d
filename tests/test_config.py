"""What is in force: layers by values by project, and that a file that cannot be read stands in its place and holds."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_settings_text import GARBAGE
from xsessiond.config import UNREADABLE, Config, Layer, as_shown, merge_layers, merge_project, to_core
from xsessiond.core.admission import Party, Policy, Refuse, Setting, decide
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.policy import CoreSettings, launch_setting, policy_of
from xsessiond.core.setting_keys import KEYS
from xsessiond.core.settings_text import FileSettings, broken_settings, read_settings

MANAGED, USER, PROJECT = "/etc/x.toml", "/u/c.toml", "/src/p/.xsessiond.toml"
TIGHTNESS = {"accept": 0, None: 0, "unclear": 1, "hold": 1, "refuse": 2}


def file_with(policy: str | None, path: str, *, key: str = "inbound.policy") -> FileSettings:
    """A file with this policy; "unclear": one that cannot be read."""
    text = "" if policy is None else "[" if policy == "unclear" else f"{key} = '{policy}'"
    return read_settings(text, path, project=path == PROJECT)


def config_of(managed: str | None = None, user: str | None = None) -> Config:
    """The settings of these texts."""
    layers = []
    if managed is not None:
        layers.append(Layer("managed", read_settings(managed, MANAGED)))
    if user is not None:
        layers.append(Layer("user", read_settings(user, USER)))
    return merge_layers(layers)


def shown(config: Config) -> dict[str, tuple[str | None, str, str | None]]:
    """What is shown, by key."""
    return {one.key: (one.value, one.source, one.where) for one in config.shown}


# -- which value is in force -------------------------------------------------------------------------------------------

VALUES = ("accept", "hold", "refuse", "unclear", None)


@pytest.mark.parametrize("managed, launch, user, project", list(product(VALUES, repeat=4)))
def test_the_first_value_wins_and_a_project_only_tightens(
    managed: str | None, launch: str | None, user: str | None, project: str | None
) -> None:
    """H10, C1, C4, 14.1: the whole table."""
    config = merge_layers([Layer("managed", file_with(managed, MANAGED)), Layer("user", file_with(user, USER))])
    settings = to_core(config, has_passphrase=False)
    policy = policy_of(
        settings,
        launch_setting("hodl" if launch == "unclear" else launch),
        merge_project([file_with(project, PROJECT)], "/src/p"),
    )
    first = next((value for value in (managed, launch, user) if value is not None), None)
    wanted = project if TIGHTNESS[project] > TIGHTNESS[first] else first
    found = policy.inbound
    if wanted is None:
        assert found is None
    else:
        assert found is not None
        assert found.value == (None if wanted == "unclear" else wanted)
        assert found.source == (
            "project" if wanted is not first else ("managed", "launch", "user")[[managed, launch, user].index(first)]
        )
        assert found.where == (
            "XSESSIOND_INBOUND"
            if found.source == "launch"
            else f"{ {'managed': MANAGED, 'user': USER, 'project': PROJECT}[found.source] }:1"
        )
    if TIGHTNESS[project] or TIGHTNESS[first]:
        sender = Party("session", "prompting", Policy())
        assert decide(sender, Party("session", "prompting", policy)).__class__.__name__ in ("Hold", "Refuse")


@pytest.mark.parametrize("managed, user, project", list(product(VALUES, repeat=3)))
def test_outbound_likewise(managed: str | None, user: str | None, project: str | None) -> None:
    key = "outbound.policy"
    layers = [Layer("managed", file_with(managed, MANAGED, key=key)), Layer("user", file_with(user, USER, key=key))]
    policy = policy_of(
        to_core(merge_layers(layers), has_passphrase=False),
        None,
        merge_project([file_with(project, PROJECT, key=key)], "/src/p"),
    )
    first = next((value for value in (managed, user) if value is not None), None)
    wanted = project if TIGHTNESS[project] > TIGHTNESS[first] else first
    assert (policy.outbound.value if policy.outbound else "unset") == {None: "unset", "unclear": None}.get(
        wanted, wanted
    )


def test_without_files_everything_is_as_documented() -> None:
    config = merge_layers([])
    assert (config.inbound, config.outbound, config.scope) == ((), (), ())
    assert (config.ok, config.problems, config.notify, config.resume) == (True, (), (), {})
    assert (config.durability, config.offline_default, config.passphrase) == ("full", "refuse", False)
    assert to_core(config, has_passphrase=True) == CoreSettings(shown=config.shown)
    defaults = {key.name: key.default for key in KEYS if "*" not in key.path}
    assert shown(config) == {
        name: (None if default is None else as_shown(default), "default", None) for name, default in defaults.items()
    }
    assert shown(config)["pacing.target_burst"][0] == "30"
    assert shown(config)["approvals.passphrase"][0] == "false"


def test_every_setting_reaches_its_place() -> None:
    config = config_of(
        user="""
        inbound = { policy = "hold", hold_expiry = "5m", scope = "project" }
        outbound.policy = "refuse"
        harness.gemini = { assume_class = "prompting", resume = ["gemini", "--resume", "{harness_session_id}"] }
        harness."my.cli".assume_class = "bypass"
        approvals = { without_terminal = true, passphrase = true, notify = ["n", "{title}"] }
        pacing = { target_burst = 1, target_per_second = 2, sender_burst = 3, sender_per_second = 4 }
        store = { durability = "normal" }
        offline = { default = "queue", keep = "1d" }
        sessions.off = true
        """
    )  # fmt: skip
    assert config.ok
    assert config.inbound == (Setting("hold", "user", f"{USER}:2"),)
    assert config.scope == (Setting("project", "user", f"{USER}:2"),)
    assert config.outbound == (Setting("refuse", "user", f"{USER}:3"),)
    assert config.hold_expiry_ms == 300_000
    assert config.assume_class == {"gemini": "prompting", "my.cli": "bypass"}
    assert config.resume == {"gemini": ("gemini", "--resume", "{harness_session_id}")}
    assert (config.without_terminal, config.passphrase, config.notify) == (True, True, ("n", "{title}"))
    assert config.pacing == PaceSettings(1, 2, 3, 4)
    assert config.keep_ms == 86_400_000
    assert (config.offline_default, config.durability, config.off) == ("queue", "normal", True)
    assert config.problems == ()
    core = to_core(config, has_passphrase=True)
    assert (core.inbound, core.outbound, core.scope) == (config.inbound, config.outbound, config.scope)
    assert (core.hold_expiry_ms, core.held_per_session, core.keep_ms, core.off) == (300_000, 100, 86_400_000, True)
    assert core.resume == config.resume
    assert (core.without_terminal, core.passphrase, core.config_ok) == (True, True, True)
    assert core.assume_class == config.assume_class
    assert core.config_problems == config.problems
    assert shown(config)['harness."my.cli".assume_class'] == ("bypass", "user", f"{USER}:5")
    assert shown(config)["approvals.notify"] == ('["n", "{title}"]', "user", f"{USER}:6")
    assert shown(config)["offline.keep"] == ("1d", "user", f"{USER}:9")


def test_the_limits_of_waiting_are_settings_too() -> None:
    more = "max_hops = 8\nexchange_per_minute = 9"
    config = config_of(user=f"[pacing]\nqueue_per_session = 6\nheld_per_session = 7\n{more}")
    assert (config.pacing.queue_per_session, config.held_per_session) == (6, 7)
    assert (config.pacing.max_hops, config.pacing.exchange_per_minute) == (8, 9)
    assert to_core(config, has_passphrase=False).held_per_session == 7
    assert config.problems == ()


def test_managed_goes_first_in_everything() -> None:
    config = config_of(
        managed="[pacing]\ntarget_burst = 1\n[approvals]\npassphrase = true\n[harness.x]\nassume_class = 'bypass'",
        user="pacing = { target_burst = 9, sender_burst = 2 }\napprovals.passphrase = false\n"
        "harness.x.assume_class = 'prompting'",
    )
    assert (config.pacing.target_burst, config.pacing.sender_burst, config.passphrase) == (1, 2, True)
    assert config.assume_class == {"x": "bypass"}
    assert shown(config)["pacing.target_burst"] == ("1", "managed", f"{MANAGED}:2")
    assert shown(config)["pacing.sender_burst"] == ("2", "user", f"{USER}:1")


# -- what cannot be read -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["[", "[inbound]\npolcy = 'accept'", "[inbound]\npolicy = 'accept'\nx = 1", "inbond = 1"]
)
def test_what_cannot_be_read_holds(text: str) -> None:
    """C1, C3, C4: also where a valid `accept` stands beside what is wrong."""
    config = config_of(user=text)
    assert not config.ok
    assert [setting.value for setting in config.inbound] == [None]
    assert config.hold_expiry_ms is None
    assert shown(config)["inbound.policy"][:2] == (UNREADABLE, "user")


def test_a_refusal_stays_one_beside_what_is_wrong() -> None:
    config = config_of(user="[inbound]\npolicy = 'refuse'\nx = 1")
    assert config.inbound == (Setting("refuse", "user", f"{USER}:2"),)
    policy = policy_of(to_core(config, has_passphrase=False), None, merge_project([], None))
    assert isinstance(decide(Party("human", "unknown", Policy()), Party("session", "prompting", policy)), Refuse)


def test_approvals_that_cannot_be_read_are_strict() -> None:
    config = config_of(user="[approvals]\nwithout_terminal = 'yes'\npassphrase = 'no'\nnotify = 'x'")
    assert (config.without_terminal, config.passphrase, config.notify) == (False, None, ())
    assert to_core(config, has_passphrase=True).passphrase
    assert not to_core(config, has_passphrase=False).passphrase
    assert shown(config)["approvals.passphrase"] == (UNREADABLE, "user", f"{USER}:2")


def test_an_unreadable_managed_file_lets_nothing_of_the_users_through() -> None:
    user = "inbound.policy = 'accept'\napprovals.without_terminal = true\ninbound.hold_expiry = '60s'"
    config = merge_layers(
        [
            Layer("managed", broken_settings(MANAGED, "cannot be read: Permission denied.")),
            Layer("user", read_settings(user, USER)),
        ]
    )
    assert [setting.value for setting in config.inbound] == [None, "accept"]
    assert (
        policy_of(to_core(config, has_passphrase=False), launch_setting("accept"), merge_project([], None)).inbound
        == config.inbound[0]
    )
    assert not config.without_terminal
    assert config.hold_expiry_ms is None


def test_errors_come_before_warnings() -> None:
    config = config_of(managed="pacing.x = 1", user="inbound.x = 1")
    assert [problem.split(": ")[1] for problem in config.problems] == ["error", "warning"]


def test_projects_files_add_up() -> None:
    """H10, 14.4."""
    files = [
        read_settings(text, f"/p/{number}", project=True)
        for number, text in enumerate(
            ["inbound.policy = 'hold'", "inbound.policy = 'accept'", "[", "sessions.off = true"]
        )
    ]
    project = merge_project(files, "/p")
    assert project.root == "/p"
    assert [(setting.value, setting.where) for setting in project.inbound] == [("hold", "/p/0:1"), (None, "/p/2:1")]
    assert {setting.source for setting in project.inbound} == {"project"}
    assert project.off
    assert len(project.problems) == 2


@given(GARBAGE, st.sampled_from(["accept", "hold", "refuse"]), GARBAGE)
def test_garbage_never_loosens(garbage: str, policy: str, other: str) -> None:
    """C1, C3, C4: whatever stands in a project's file, and whatever is added to the user's below a policy."""
    before = policy_of(
        to_core(config_of(user=f"inbound.policy = '{policy}'"), has_passphrase=False), None, merge_project([], None)
    )
    after = policy_of(
        to_core(config_of(user=f"inbound.policy = '{policy}'\n{garbage}"), has_passphrase=False),
        None,
        merge_project([read_settings(other, PROJECT, project=True)], "/src/p"),
    )
    order = {"accept": 0, None: 1, "hold": 1, "refuse": 2}
    assert before.inbound is not None
    assert after.inbound is not None
    assert min(order[after.inbound.value], 1) >= min(order[before.inbound.value], 1)
