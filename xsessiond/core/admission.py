"""Whether a message may reach its receiver: one pure function over what is known of both sides.

The order, first that applies:

    1  the receiver is the user's own box                        Admit
    2  the receiver's settings say refuse                        Refuse
    3  the sender is the receiver's own human                    Admit
    4  the sender's own [outbound] says refuse, or hold          Refuse, Hold(outbound)
    5  the receiver's setting cannot be read                     Hold(invalid-setting)
    6  the administrator's settings say hold                     Hold(managed-setting)
    7  a decision of the user covers this pair (trust)           Admit
    8  the receiver's settings say hold                          Hold(explicit-setting, project-setting)
    9  the receiver takes its own project only, and this is not  Hold(scope)
    10 the receiver's settings say accept                        Admit
    11 parity of permission classes                              Admit, Hold

Laws: the sender has no say; every verdict names its rule and where that was written; what is unclear holds.
Refuses to know: messages, time, who asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from xsessiond.core.records import Kind

Source = Literal["managed", "launch", "user", "project"]
_OUTBOUND = "outbound"
"""The first word of a rule that is the sender's own setting."""
Cause = Literal[
    "outbound",
    "explicit-setting",
    "managed-setting",
    "project-setting",
    "invalid-setting",
    "mode-mismatch",
    "no-mode-asserted",
    "bypass-default",
    "mode-unknown",
    "scope",
]
SEVERITY = {"accept": 0, "machine": 0, "hold": 1, "project": 1, "refuse": 2}
"""How tight a value is: of policies, and of scopes."""
CAUSES: dict[Source, Cause] = {
    "managed": "managed-setting",
    "launch": "explicit-setting",
    "user": "explicit-setting",
    "project": "project-setting",
}


class Setting(Struct, frozen=True):
    """One value as somebody wrote it. value None: it is there and cannot be read. where: `file:line`, or a variable."""

    value: str | None
    source: Source
    where: str


class Policy(Struct, frozen=True):
    """What is in force for one session; None where nothing is set. project_root: a folder."""

    inbound: Setting | None = None
    outbound: Setting | None = None
    scope: Setting | None = None
    project_root: str | None = None


class Party(Struct, frozen=True):
    """One side of a message. perm_class: bypass, prompting or unknown, as a human's and a script's is; of a program
    that may speak for any of several sessions it is theirs, or `several` where these differ."""

    kind: Kind
    perm_class: str
    policy: Policy


class Admit(Struct, frozen=True):
    """It may go. rule: why, as a person reads it."""

    rule: str


class Hold(Struct, frozen=True):
    """A human must decide. expires: whether it waits for the expiry time only (parity), or for ever (a setting)."""

    cause: Cause
    rule: str
    expires: bool


class Refuse(Struct, frozen=True):
    """It may not go."""

    rule: str


Verdict = Admit | Hold | Refuse


def merge_settings(layers: Sequence[Setting], project: Sequence[Setting]) -> Setting | None:
    """The setting in force. layers: managed, launch, user, of which the first wins. project: may only tighten, also the
    administrator's; a looser one does nothing. An unreadable value is as tight as `hold`.
    """
    chosen = layers[0] if layers else None
    for setting in project:
        if _severity(setting) > (0 if chosen is None else _severity(chosen)):
            chosen = setting
    return chosen


def _severity(setting: Setting) -> int:
    return 1 if setting.value is None else SEVERITY.get(setting.value, 1)


def decide(sender: Party, receiver: Party, trusted: str | None = None) -> Verdict:
    """The verdict. trusted: the decision of the user that covers this pair, for the rule, or None."""
    if receiver.kind != "session":
        return Admit("the user's own box")
    inbound = receiver.policy.inbound
    if inbound is not None and inbound.value == "refuse":
        return Refuse(_rule("inbound", inbound))
    if sender.kind == "human":
        return Admit("the user's own send")
    outbound = sender.policy.outbound
    if outbound is not None and outbound.value == "refuse":
        return Refuse(_rule(_OUTBOUND, outbound))
    if outbound is not None and outbound.value != "accept":
        return Hold("outbound" if outbound.value else "invalid-setting", _rule(_OUTBOUND, outbound), expires=False)
    if inbound is not None and inbound.value is None:
        return Hold("invalid-setting", _rule("inbound", inbound), expires=False)
    held = inbound if inbound is not None and inbound.value != "accept" else None
    if held is not None and held.source == "managed":
        return Hold("managed-setting", _rule("inbound", held), expires=False)
    if trusted is not None:
        return Admit(f"trust {trusted}")
    if held is not None:
        return Hold(CAUSES[held.source], _rule("inbound", held), expires=False)
    scope = receiver.policy.scope
    if scope is not None and scope.value != "machine" and _from_elsewhere(sender, receiver):
        return Hold("scope" if scope.value else "invalid-setting", _rule("scope", scope), expires=False)
    if inbound is not None:
        return Admit(_rule("inbound", inbound))
    return _parity(sender, receiver)


def _rule(key: str, setting: Setting) -> str:
    value = "unreadable" if setting.value is None else setting.value
    return f"{key} = {value} ({setting.source}: {setting.where})"


def is_senders_own(cause: str, rule: str) -> bool:
    """Whether the sender's own settings held a message, as `Hold` has it, and not the receiver's."""
    return cause == "outbound" or rule.startswith(_OUTBOUND)


def _from_elsewhere(sender: Party, receiver: Party) -> bool:
    roots = sender.policy.project_root, receiver.policy.project_root
    return sender.kind != "session" or None in roots or roots[0] != roots[1]


def _parity(sender: Party, receiver: Party) -> Verdict:
    """Where nobody set anything: whoever asks before acting takes what comes from another that asks."""
    match receiver.perm_class, sender.perm_class:
        case "prompting", "bypass":
            return Hold("mode-mismatch", "parity: from a session that acts without asking", expires=True)
        case "prompting", "several":
            return Hold("mode-mismatch", "parity: perhaps from a session that acts without asking", expires=True)
        case "prompting", _:
            return Admit("parity: the receiver asks before it acts")
        case "bypass", "bypass":
            return Admit("parity: both act without asking")
        case "bypass", "prompting":
            return Hold("bypass-default", "parity: the receiver acts without asking, the sender asks", expires=True)
        case "bypass", _:
            return Hold(
                "no-mode-asserted", "parity: the receiver acts without asking, the sender states no class", expires=True
            )
        case _:
            return Hold(
                "mode-unknown", "parity: it is not known whether the receiver asks before it acts", expires=True
            )
