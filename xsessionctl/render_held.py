"""What is said about held messages: the queue, one of them with all that a person should see before deciding, what was
decided, what is trusted, and why a message would be held.

Laws: as `render`; a text that somebody sent is indented, so that no line of it can pass for one of ours. Refuses to
know: sockets, options, exit codes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from xsessionctl.held import shorten_ids
from xsessionctl.output import Sink, line_width
from xsessionctl.render import (
    age,
    called,
    clock,
    fact_lines,
    folder,
    one_line,
    part_of,
    rows_of,
    seconds_since,
    setting,
    timestamp,
)
from xsessionctl.table import GAP, lay_out, shorten
from xsessiond.core.inert import inert

Document = Mapping[str, object]

CAUSES = {
    "outbound": "the settings hold what the sender's session sends",
    "explicit-setting": "the receiver's settings hold its mail",
    "managed-setting": "the administrator's settings hold it",
    "project-setting": "the receiver's project holds its mail",
    "invalid-setting": "a setting cannot be read, and what is unclear holds",
    "mode-mismatch": "the sender acts without asking, and the receiver asks before it acts",
    "no-mode-asserted": "the receiver acts without asking, and the sender does not say whether it asks",
    "bypass-default": "the receiver acts without asking, and the sender asks before it acts",
    "mode-unknown": "it is not known whether the receiver asks before it acts",
    "scope": "the receiver takes mail from its own project only, and this comes from elsewhere",
}
"""The causes of a hold, as people say them."""
CLASSES = {
    "bypass": "bypass: it acts without asking",
    "prompting": "prompting: it asks before it acts",
    "unknown": "unknown: it does not say whether it asks before it acts",
}
ENDS = {"pair": "revoked", "session": "one ends"}
"""Until when a trust without a time covers something."""
HARNESS_NAME = re.compile("[A-Za-z0-9_-]+", re.ASCII)
"""What needs no quotes, neither in a setting's name nor in a shell."""
INDENT = "    "


def queue(document: Document, sink: Sink) -> list[str]:
    """The answer to `hold_queue`."""
    held = rows_of(document, "held")
    if not held:
        return ["Nothing is held."]
    short = shorten_ids(str(hold.get("id")) for hold in held)
    headers = ["ID", "FROM", "TO", "CAUSE", "AGE", "EXPIRES", "BYTES"]
    rows = [
        [
            one_line(short[str(hold.get("id"))]),
            _party(part_of(hold, "from")),
            called(part_of(hold, "to")),
            one_line(hold.get("cause")),
            age(seconds_since(hold.get("held_at"))),
            _time_left(hold),
            one_line(hold.get("bytes")),
        ]
        for hold in held
    ]
    width = line_width()
    head, *body = lay_out(headers, rows, width=width, elastic={1: 8, 2: 8, 3: 8}, right={4, 5, 6})
    lines = [sink.paint(GAP.join(head).rstrip(), "dim")]
    for hold, cells in zip(held, body, strict=True):
        cells[0] = sink.paint(cells[0], "bold")
        lines.append(GAP.join(cells).rstrip())
        preview = one_line(hold.get("summary") or hold.get("preview"))
        if preview:
            lines.append(INDENT + (preview if width is None else shorten(preview, max(8, width - len(INDENT)))))
    left_out = document.get("left_out")
    if isinstance(left_out, int) and left_out:
        lines.append(f"{left_out} more do not fit here; they show when some of these are decided.")
    flagged = [short[str(hold.get("id"))] for hold in held if hold.get("flags")]
    if flagged:
        lines.append(f"! With markup that a harness takes for its own: {one_line(', '.join(flagged))}.")
    return [*lines, "", "`xsessionctl show ID` has all of one; `approve ID` or `deny ID` decides."]


def details(hold: Document, sink: Sink) -> list[str]:
    """One held message: who, what and why, and its whole text."""
    message_id, cause = one_line(hold.get("id")), str(hold.get("cause"))
    until = hold.get("expires_at")
    lines = [f"{sink.paint(message_id, 'bold')} is held until you decide."]
    sender, target = part_of(hold, "from"), part_of(hold, "to")
    facts: list[tuple[str, object]] = [
        *_side("from", sender, hold.get("sender_class")),
        ("written by", "a subagent of it" if hold.get("subagent") is True else None),
        *_side("to", target, hold.get("receiver_class")),
        ("why", f"{cause}: {CAUSES[cause]}" if cause in CAUSES else cause),
        ("rule", hold.get("rule")),
        ("held since", f"{clock(hold.get('held_at'))} ({age(seconds_since(hold.get('held_at')))} ago)"),
        ("expires", f"{clock(until)} (in {_time_left(hold)})" if until else "never: it waits until you decide"),
        ("size", f"{one_line(hold.get('bytes'))} bytes"),
        ("sha256", hold.get("sha256")),
        ("summary", hold.get("summary")),
    ]
    lines += fact_lines(facts)
    flags = hold.get("flags")
    if isinstance(flags, list) and flags:
        found = ", ".join(one_line(flag) for flag in flags)
        lines.append(sink.paint(f"  ! It has markup that a harness takes for its own: {found}", "yellow"))
    text = hold.get("text")
    if isinstance(text, str):
        lines += ["", *(INDENT + line for line in inert(text, multiline=True).split("\n"))]
    else:
        lines += ["", "Its text is not shown: to a session before a person has let it through, or too long for here."]
    short = next(iter(shorten_ids([str(hold.get("id"))]).values()))
    return [
        *lines,
        "",
        *_way_out(cause, target),
        f"`xsessionctl approve {one_line(short)}` or `xsessionctl deny {one_line(short)}` decides.",
    ]


def _side(word: str, party: Document, perm_class: object) -> list[tuple[str, object]]:
    """What is known of one side of a message."""
    where = [one_line(party.get("harness")), folder(party.get("cwd"))]
    facts: list[tuple[str, object]] = [(word, GAP.join(part for part in (_party(party), *where) if part))]
    if party.get("id") and party.get("kind") in (None, "session"):
        facts.append(("", party["id"]))
    if isinstance(perm_class, str) and party.get("kind") in (None, "session"):
        facts.append(("", CLASSES.get(perm_class, perm_class)))
    return facts


def _party(party: Document) -> str:
    """How a sender is called: a session as everywhere, anything else with its kind."""
    kind = party.get("kind")
    name = called(party)
    return name if kind in (None, "session") or name == kind else f"{name} ({one_line(kind)})"


def _time_left(hold: Document) -> str:
    until = timestamp(hold.get("expires_at"))
    if until is None:
        return "never"
    left = max(0.0, until - time.time())
    return age(left + 30 if left > 60 else left)  # to the nearest minute: an hour that has just begun is one


# ---------------------------------------------------------------------------------------------------------- decisions


def decided(document: Document, held: Mapping[str, Document], sink: Sink) -> list[str]:
    """What became of the messages that could be decided. held: as they were in the queue."""
    rows = [row for row in rows_of(document, "decided") if not row.get("error")]
    lines = []
    for row in rows:
        message_id = str(row.get("id"))
        hold = held.get(message_id, {})
        state = one_line(row.get("state"))
        word = sink.paint("denied", "red") if state == "denied" else sink.paint("approved", "green")
        route = f"{_party(part_of(hold, 'from'))} → {called(part_of(hold, 'to'))}" if hold else ""
        now = "" if state == "denied" else f"{state} now"
        lines.append(GAP.join(part for part in (word, one_line(message_id), route, now) if part))
    trusted = list(dict.fromkeys(one_line(row.get("trust")) for row in rows if row.get("trust")))
    if trusted:
        lines.append(f"Remembered as {', '.join(trusted)}; `xsessionctl trust list` shows it, `trust revoke` ends it.")
    return lines


def trusts(document: Document, sink: Sink) -> list[str]:
    """The answer to `trusts`."""
    found = rows_of(document, "trusts")
    if not found:
        return ["Nothing is trusted. `xsessionctl approve ID --trust session` remembers an approval."]
    short = shorten_ids(str(trust.get("id")) for trust in found)
    rows = [
        [
            one_line(short[str(trust.get("id"))]),
            called(part_of(trust, "from")),
            called(part_of(trust, "to")),
            one_line(trust.get("scope")),
            clock(trust["until"], "%H:%M") if trust.get("until") else ENDS.get(str(trust.get("scope")), ""),
            clock(trust.get("at"), "%H:%M"),
            one_line(trust.get("by")),
        ]
        for trust in found
    ]
    headers = ["ID", "FROM", "TO", "SCOPE", "UNTIL", "SINCE", "BY"]
    head, *body = lay_out(headers, rows, width=line_width(), elastic={6: 6, 1: 8, 2: 8}, right=set())
    return [sink.paint(GAP.join(head).rstrip(), "dim"), *(GAP.join(cells).rstrip() for cells in body)]


# --------------------------------------------------------------------------------------------------------- explanation


def explanation(document: Document, sink: Sink) -> list[str]:
    """The answer to `explain`."""
    sender, receiver = part_of(document, "sender"), part_of(document, "receiver")
    verdict, cause = document.get("verdict"), str(document.get("cause"))
    what = {
        "admit": (sink.paint("goes through", "green"), "."),
        "hold": (sink.paint("would be held", "yellow"), f": {CAUSES.get(cause, one_line(cause))}."),
        "refuse": (sink.paint("would be refused", "red"), ", and nothing of it stored."),
    }.get(str(verdict), (one_line(verdict), "."))
    kind = sender.get("kind")
    who = {"human": "you", "script": "a script outside every session"}.get(str(kind)) or called(sender)
    lines = [f"A message from {who} to {called(receiver)} {what[0]}{what[1]}"]
    policy = part_of(receiver, "policy")
    ends = "when nobody decides in time (inbound.hold_expiry)" if document.get("expires") else "never"
    facts: list[tuple[str, object]] = [
        ("cause", document.get("cause")),
        ("rule", document.get("rule")),
        ("expires", ends if verdict == "hold" else None),
        ("sender", _class_of(sender) if kind in (None, "session") else None),
        ("receiver", _class_of(receiver)),
        ("inbound", setting(policy.get("inbound"), unset="not set: the classes of both decide (parity)")),
        ("scope", setting(policy.get("scope"), unset="")),
    ]
    return [*lines, *fact_lines(facts), *_way_out(cause, receiver), "Nothing was sent."]


def _way_out(cause: str, receiver: Document) -> list[str]:
    """What would make known whether the receiver asks, if that is why: nothing else that is shown leads there."""
    if cause != "mode-unknown":
        return []
    harness = str(receiver.get("harness"))
    # A harness's name is its own word: one that a shell would read otherwise is not put into a command.
    name = harness if receiver.get("harness") and HARNESS_NAME.fullmatch(harness) else "NAME"
    who = "its harness" if name == "NAME" else name
    return [f"If {who} asks before it acts: `xsessionctl config set harness.{name}.assume_class prompting`."]


def _class_of(party: Document) -> str:
    found = one_line(party.get("class"))
    return CLASSES.get(found, found)
