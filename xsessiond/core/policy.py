"""What the core needs of the settings, and what is in force for one session.

Laws: values only; each knows where it was written. What was not read yet holds. Refuses to know: files, TOML.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from xsessiond.core import limits
from xsessiond.core.admission import Policy, Setting, merge_settings
from xsessiond.core.pacing import PaceSettings
from xsessiond.core.setting_keys import POLICIES


class ProjectSettings(msgspec.Struct, frozen=True):
    """What the files of a session's project say. root: the repository's folder, or the session's own. off: sessions of
    this project are not to be reached at all. problems: sentences."""

    root: str | None = None
    inbound: tuple[Setting, ...] = ()
    outbound: tuple[Setting, ...] = ()
    scope: tuple[Setting, ...] = ()
    off: bool = False
    problems: tuple[str, ...] = ()


_UNREAD = (Setting(None, "project", "not read yet"),)
NOT_READ = ProjectSettings(inbound=_UNREAD, outbound=_UNREAD)
"""Before the answer of the disk: it might say hold, of what comes in and of what goes out."""


class ShownValue(msgspec.Struct, frozen=True):
    """One setting as `config show` prints it. value: as text, or None where nothing is set. where: `file:line`."""

    key: str
    value: str | None
    source: str
    where: str | None


class CoreSettings(msgspec.Struct, frozen=True):
    """The settings of the user and the administrator.

    inbound, outbound, scope: as set by the managed and the user's file, in this order. hold_expiry_ms: None for never.
    assume_class, resume: by harness. passphrase: decisions need it; passphrase_is_set: there is one. notifies: the user
    is told of held messages by a command. shown: all of them, for people. config_ok, config_problems: for `status`.
    """

    pacing: PaceSettings = PaceSettings()
    keep_ms: int = limits.KEEP_MS
    offline_default: Literal["refuse", "queue"] = "refuse"
    inbound: tuple[Setting, ...] = ()
    outbound: tuple[Setting, ...] = ()
    scope: tuple[Setting, ...] = ()
    hold_expiry_ms: int | None = limits.HOLD_EXPIRY_MS
    held_per_session: int = limits.HELD_PER_SESSION
    assume_class: Mapping[str, str] = {}
    resume: Mapping[str, tuple[str, ...]] = {}
    without_terminal: bool = False
    passphrase: bool = False
    passphrase_is_set: bool = True
    notifies: bool = False
    off: bool = False
    shown: tuple[ShownValue, ...] = ()
    config_ok: bool = True
    config_problems: tuple[str, ...] = ()


def policy_of(settings: CoreSettings, launch: Setting | None, project: ProjectSettings) -> Policy:
    """What is in force for a session: managed, launch, user in this order, tightened by the project."""
    managed = [setting for setting in settings.inbound if setting.source == "managed"]
    user = [setting for setting in settings.inbound if setting.source != "managed"]
    launched = [launch] if launch is not None else []
    return Policy(
        inbound=merge_settings([*managed, *launched, *user], project.inbound),
        outbound=merge_settings(settings.outbound, project.outbound),
        scope=merge_settings(settings.scope, project.scope),
        project_root=project.root,
    )


def launch_setting(value: str | None) -> Setting | None:
    """What a session was launched with (`XSESSIOND_INBOUND`). A word that is no policy holds."""
    if value is None or value == "":
        return None
    return Setting(value if value in POLICIES else None, "launch", "XSESSIOND_INBOUND")
