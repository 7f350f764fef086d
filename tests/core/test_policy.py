"""What the core needs of the settings: before anything was read it holds."""

from __future__ import annotations

import pytest

from xsessiond.core import limits
from xsessiond.core.admission import Hold, Party, Policy, Setting, decide
from xsessiond.core.policy import NOT_READ, CoreSettings, ProjectSettings, launch_setting, policy_of
from xsessiond.core.setting_keys import POLICIES


@pytest.mark.parametrize("value", POLICIES)
def test_a_session_may_be_launched_with_a_policy(value: str) -> None:
    assert launch_setting(value) == Setting(value, "launch", "XSESSIOND_INBOUND")


@pytest.mark.parametrize("value", [None, ""])
def test_without_one_nothing_is_set(value: str | None) -> None:
    assert launch_setting(value) is None


@pytest.mark.parametrize("value", ["Accept", "auto", " hold", "0", "\0"])
def test_a_word_that_is_no_policy_holds(value: str) -> None:
    """C4: it cannot be read, so it stands there as that."""
    setting = launch_setting(value)
    assert setting == Setting(None, "launch", "XSESSIOND_INBOUND")


def test_a_project_that_is_not_read_yet_holds_both_ways() -> None:
    """It might say hold, of what comes in and of what goes out."""
    settings = CoreSettings(inbound=(Setting("accept", "user", "f:1"),), outbound=(Setting("accept", "user", "f:2"),))
    unread, read = policy_of(settings, None, NOT_READ), policy_of(settings, None, ProjectSettings())
    one, other = Party("session", "prompting", unread), Party("session", "prompting", read)
    for sender, receiver in ((one, other), (other, one)):
        verdict = decide(sender, receiver, "t-1")
        assert isinstance(verdict, Hold)
        assert (verdict.cause, verdict.expires) == ("invalid-setting", False)
        assert "not read yet" in verdict.rule


def test_what_the_administrator_refuses_stays_refused_before_the_project_is_read() -> None:
    refuse = Setting("refuse", "managed", "f:1")
    assert policy_of(CoreSettings(inbound=(refuse,)), None, NOT_READ).inbound == refuse


def test_outbound_and_scope_have_their_layers_too() -> None:
    settings = CoreSettings(
        outbound=(Setting("accept", "managed", "m:1"), Setting("refuse", "user", "u:1")),
        scope=(Setting("machine", "user", "u:2"),),
    )
    project = ProjectSettings("/src", (), (Setting("hold", "project", "p:1"),), (Setting("project", "project", "p:2"),))
    assert policy_of(settings, None, project) == Policy(
        None, Setting("hold", "project", "p:1"), Setting("project", "project", "p:2"), "/src"
    )


def test_the_defaults_are_those_of_the_limits() -> None:
    settings = CoreSettings()
    assert (settings.hold_expiry_ms, settings.held_per_session) == (limits.HOLD_EXPIRY_MS, limits.HELD_PER_SESSION)
    assert (settings.inbound, settings.outbound, settings.scope) == ((), (), ())
    assert (settings.without_terminal, settings.passphrase, settings.notifies, settings.off) == (False,) * 4
