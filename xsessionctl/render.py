"""What the verbs say to a person, from the documents that `--json` prints.

Laws: every word that came from a session, a message or the broker passes through `inert`; a missing key is no fault,
since another version of the broker may answer. Refuses to know: sockets, options, exit codes.
"""

from __future__ import annotations

import os
import time

from xsessionctl.fast import sent_lines
from xsessionctl.output import Sink, line_width
from xsessionctl.table import GAP, lay_out
from xsessiond.core.inert import inert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STATE_STYLES = {
    "idle": "green",
    "busy": "yellow",
    "waiting": "yellow",
    "unresponsive": "red",
    "offline": "dim",
    "unknown": "dim",
    "held": "yellow",
    "delivered": "green",
    "replied": "green",
    "denied": "red",
    "expired": "red",
    "refused": "red",
    "discarded": "red",
}


def one_line(value: object) -> str:
    """Any value of a document as one inert line; nothing for null."""
    return "" if value is None else inert(str(value), multiline=False)


def rows_of(document: Mapping[str, object], key: str) -> list[dict[str, object]]:
    """The objects of a list in a document."""
    found = document.get(key)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def part_of(document: Mapping[str, object], key: str) -> dict[str, object]:
    """An object inside a document, empty when it is null."""
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def called(session: Mapping[str, object]) -> str:
    """`name [ref]`: how a session is addressed without doubt."""
    name, ref = one_line(session.get("name")), one_line(session.get("ref"))
    if session.get("id") == "human":
        return f"{name} (human)"
    return f"{name} [{ref}]" if ref else name or "?"


def seconds_since(moment: object) -> float | None:
    """Age of an RFC 3339 time, or None if it is not one."""
    stamp = timestamp(moment)
    return None if stamp is None else max(0.0, time.time() - stamp)


def timestamp(moment: object) -> float | None:
    """Seconds since the epoch of an RFC 3339 time, or None."""
    if not isinstance(moment, str):
        return None
    from datetime import datetime

    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return None


def age(seconds: float | None) -> str:
    """A length of time in at most three characters or so: 42s, 5m, 3h, 2d."""
    if seconds is None:
        return ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def clock(moment: object, of_day: str = "%H:%M:%S") -> str:
    """A time of day as people here read it, with the date if it is not today's."""
    stamp = timestamp(moment)
    if stamp is None:
        return one_line(moment)
    then, now = time.localtime(stamp), time.localtime()
    return time.strftime(of_day if then[:3] == now[:3] else f"%Y-%m-%d {of_day}", then)


def folder(path: object) -> str:
    """A folder as people write it."""
    text = one_line(path)
    home = os.environ.get("HOME", "")
    if home and home != "/" and (text == home or text.startswith(home + "/")):
        return "~" + text[len(home) :]
    return text


# -------------------------------------------------------------------------------------------------------- documents


def lines_of(verb: str, params: Mapping[str, object]) -> Callable[[Mapping[str, object], Sink], list[str]]:
    """What turns the answer to `verb` with these params into lines."""
    if verb == "check" and not params:
        return sends
    return {"send": sent, "list": roster, "check": message_state, "whoami": identity, "inbox": waiting}[verb]


def roster(document: Mapping[str, object], sink: Sink) -> list[str]:
    """The answer to `list`."""
    own = part_of(document, "self")
    if own:
        lines = [f"You are {called(own)}; others reach you by that name."]
    else:
        lines = ["You are not a session yourself; `xsessionctl whoami` says as whom you send."]
    sessions = rows_of(document, "sessions")
    if sessions:
        lines += ["", *_roster_table(sessions, own.get("id"), sink)]
    else:
        lines.append("No session is running. One appears when a harness starts `xsessionctl mcp`.")
    held = sum(count for session in sessions if isinstance(count := session.get("held"), int))
    if held:
        lines.append(f"{held} held until a human decides: `xsessionctl hold-queue`.")
    suppressed = sum(count for session in sessions if isinstance(count := session.get("suppressed"), int))
    if suppressed:
        lines.append(f"{suppressed} turned away as too many: `xsessionctl log` says whose.")
    for gap in rows_of(document, "incomplete"):
        lines.append(f"Not looked at: {one_line(gap.get('source'))} ({one_line(gap.get('reason'))}).")
    return lines


def _roster_table(sessions: list[dict[str, object]], own_id: object, sink: Sink) -> list[str]:
    headers = ["", "NAME", "REF", "STATE", "HARNESS", "DELIVERY", "FOLDER", "AGE", "QUEUED"]
    rows = [
        [
            "*" if own_id is not None and session.get("id") == own_id else "",
            one_line(session.get("name")),
            one_line(session.get("ref")),
            _state(session),
            one_line(session.get("harness")),
            one_line(session.get("delivery")),
            folder(session.get("cwd")),
            age(seconds_since(session.get("started_at"))),
            _waiting(session),
        ]
        for session in sessions
    ]
    head, *body = lay_out(headers, rows, width=line_width(), elastic={6: 12, 1: 12}, right={7, 8})
    lines = [sink.paint(GAP.join(head).rstrip(), "dim")]
    for session, cells in zip(sessions, body, strict=True):
        cells[1] = sink.paint(cells[1], "bold")
        cells[3] = sink.paint(cells[3], STATE_STYLES.get(str(session.get("state")), "bold"))
        lines.append(GAP.join(cells).rstrip())
    return lines


def _state(session: Mapping[str, object]) -> str:
    state = one_line(session.get("state"))
    if state in ("unresponsive", "offline"):
        more = ", can resume" if session.get("can_resume") else ""
        return f"{state} {age(seconds_since(session.get('last_seen_at')))}".rstrip() + more
    return f"{state}, no terminal" if session.get("attended") is False else state


def _waiting(session: Mapping[str, object]) -> str:
    queued, held = session.get("queued"), session.get("held")
    return f"{one_line(queued)}+{held} held" if isinstance(held, int) and held else one_line(queued)


def held_for(document: Mapping[str, object]) -> str:
    """The first line after a `send` that a human must let through."""
    until = f", until {clock(document['expires_at'], '%H:%M')}" if document.get("expires_at") else ""
    why = f" ({one_line(document['rule'])})" if document.get("rule") else ""
    return (
        f"held for {called(part_of(document, 'to'))}: a human must decide{why}{until} · {one_line(document.get('id'))}"
    )


def sent(document: Mapping[str, object], sink: Sink) -> list[str]:
    """The answer to `send`."""
    watch = part_of(document, "watch")
    if watch and not document.get("id"):
        whom, idle = called(part_of(document, "to")), watch.get("state") == "idle"
        notice = [f"  {one_line(document['notice'])}"] if document.get("notice") else []
        return [f"{whom} is idle" if idle else f"waiting for {whom} to be idle", *notice]
    lines = sent_lines(document)
    if watch:
        lines.append("  You are told once, when it is idle.")
    reply = part_of(document, "reply")
    if reply:
        lines += ["", f"{one_line(reply.get('from_name'))} answers · {one_line(reply.get('id'))}"]
        lines += inert(str(reply.get("text", "")), multiline=True).split("\n")
    return lines


def message_state(document: Mapping[str, object], sink: Sink) -> list[str]:
    """The answer to `check` with an id."""
    state = one_line(document.get("state"))
    target = part_of(document, "to")
    lines = [
        f"{one_line(document.get('id'))} · {sink.paint(state, STATE_STYLES.get(state, 'bold'))} · to {called(target)}"
    ]
    for step in rows_of(document, "history"):
        by, rule = one_line(step.get("by")), one_line(step.get("rule"))
        if step.get("state") == "denied" and by and rule:  # in the person's own words, which are no rule
            more = [f"by {by}: {rule}"]
        else:
            more = ([f"by {by}"] if by else []) + ([f"rule {rule}"] if rule else [])
        lines.append("  ".join(["", clock(step.get("at")), one_line(step.get("state")), *more]))
    if state == "held":
        until = f", until {clock(document['expires_at'], '%H:%M')}" if document.get("expires_at") else ""
        lines.append(f"A human must decide{until}: `xsessionctl hold-queue`.")
    if document.get("target_state"):
        lines.append(f"{one_line(target.get('name')) or 'The target'} {_doing(document['target_state'])}.")
    return lines


def _doing(state: object) -> str:
    """What a session does now. `unknown` is what its harness can tell, and not whether it is there."""
    if state == "unknown":
        return "runs; its harness cannot tell whether it is busy"
    return "does not run now" if state == "offline" else f"is {one_line(state)} now"


def sends(document: Mapping[str, object], sink: Sink) -> list[str]:
    """The answer to `check` without an id."""
    return _messages(document, sink, empty="You have sent nothing yet.", other="to")


def waiting(document: Mapping[str, object], sink: Sink) -> list[str]:
    """The answer to `inbox`."""
    lines = _news(document)
    if rows_of(document, "messages") or not lines:
        lines += _messages(document, sink, empty="Nothing waits.", other="from_name")
    if (rows_of(document, "messages") or rows_of(document, "receipts")) and not document.get("session"):
        lines.append("`xsessionctl inbox --take` shows the texts, and takes them.")
    return lines


def taken(document: Mapping[str, object], sink: Sink) -> list[str]:
    """The answer to `inbox --take`: what became of what was sent, then each message with its text."""
    lines = _news(document)
    for message in rows_of(document, "messages"):
        sender = part_of(message, "from")
        facts = [sink.paint(called(sender), "bold"), one_line(message.get("id"))]
        if message.get("reply_to"):
            facts.append(f"answers {one_line(message['reply_to'])}")
        lines.append("  ".join([sink.paint(clock(message.get("sent_at")), "dim"), *facts]))
        lines += [f"    {line}" for line in inert(str(message.get("text") or ""), multiline=True).split("\n")]
    if document.get("left"):
        lines.append(f"{one_line(document['left'])} more: take again.")
    return lines or ["Nothing waits."]


def _news(document: Mapping[str, object]) -> list[str]:
    return [one_line(receipt.get("text")) for receipt in rows_of(document, "receipts")]


def _messages(document: Mapping[str, object], sink: Sink, *, empty: str, other: str) -> list[str]:
    found = rows_of(document, "messages")
    if not found:
        return [empty]
    rows = []
    for message in found:
        target = message.get(other)
        rows.append(
            [
                one_line(message.get("id")),
                one_line(message.get("state")),
                called(target) if isinstance(target, dict) else one_line(target),
                age(seconds_since(message.get("sent_at"))),
                one_line(message.get("bytes")),
                one_line(message.get("summary")),
            ]
        )
    headers = ["ID", "STATE", "FROM" if other == "from_name" else "TO", "AGE", "BYTES", "SUMMARY"]
    head, *body = lay_out(headers, rows, width=line_width(), elastic={5: 10, 2: 12}, right={3, 4})
    return [sink.paint(GAP.join(head).rstrip(), "dim"), *(GAP.join(cells).rstrip() for cells in body)]


def decision(step: Mapping[str, object]) -> str:
    """One step in the life of a message that was held: what, when, by whom and by which rule."""
    state, by, rule = (one_line(step.get(key)) for key in ("state", "by", "rule"))
    word = {"queued": "approved" if by else "released"}.get(state, state)
    if state == "held" and by:  # an attempt, which the rule tells of
        return f"{clock(step.get('at'))}  {rule}"
    return (
        f"{clock(step.get('at'))}  {word}"
        + (f" by {by}" if by else "")
        + (f" ({rule})" if rule not in ("", word) else "")
    )


def setting(value: object, *, unset: str) -> str:
    """A setting in force with where it was written. unset: what to say where nobody set it."""
    if not isinstance(value, dict):
        return unset if value is None else one_line(value)
    what = "unreadable, so that it holds" if value.get("value") is None else one_line(value["value"])
    return f"{what} ({one_line(value.get('source'))}: {one_line(value.get('where'))})"


def who(party: Mapping[str, object]) -> str:
    """A party of a message, as people call it."""
    name = one_line(party.get("name"))
    if party.get("subagent") is True:
        return f"{name} (a subagent)"
    return f"{name} (human)" if "human" in (party.get("kind"), party.get("id")) else name


def identity(document: Mapping[str, object], sink: Sink) -> list[str]:
    """The answer to `whoami`."""
    session = part_of(document, "session")
    among = rows_of(document, "among")
    if among:
        names = ", ".join(called(one) for one in among)
        return [f"One of several sessions that share a process, and not sure which: {names}."]
    if not session:
        if document.get("kind") == "script":
            return ["A script: outside every session, and without a terminal. What it sends says so."]
        name = one_line(document.get("name")) or "you"
        return [f"The human {name}, at a terminal. What you send is from you, not from a session."]
    facts = [
        ("id", session.get("id")),
        ("reply address", document.get("address")),
        ("inbound mail", setting(document.get("policy"), unset="as the classes of both sides say (parity)")),
        ("arrives by", session.get("delivery")),
        ("can reply", "yes" if session.get("can_reply") else "no"),
        ("state", session.get("state")),
        ("harness", session.get("harness")),
        ("conversation", session.get("harness_session_id")),
        ("class", session.get("class")),
        ("folder", folder(session.get("cwd"))),
        ("label", session.get("label")),
    ]
    return [f"The session {sink.paint(called(session), 'bold')}.", *fact_lines(facts)]


def fact_lines(facts: list[tuple[str, object]]) -> list[str]:
    """Name and value in two columns; what is null is left out."""
    shown = [(name, one_line(value)) for name, value in facts if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0)
    return [f"  {name:<{width}}  {value}" for name, value in shown]


def broker_state(document: Mapping[str, object], sink: Sink) -> list[str]:
    """The answer to `status`."""
    broker, store, config = (part_of(document, key) for key in ("broker", "store", "config"))
    uptime = broker.get("uptime_s")
    lines = [
        f"xsessiond {one_line(broker.get('version'))} runs (pid {one_line(broker.get('pid'))}"
        + (f", up {age(float(uptime))})" if isinstance(uptime, int | float) else ")")
    ]
    verdicts = {"store": _verdict(store, store.get("detail"), sink), "settings": _verdict(config, None, sink)}
    facts = [
        ("sessions", document.get("sessions")),
        ("queued", document.get("queued")),
        ("held", f"{held} (xsessionctl hold-queue)" if (held := document.get("held")) else held),
        ("suppressed", f"{many} turned away (xsessionctl log)" if (many := document.get("suppressed")) else None),
        *verdicts.items(),
        ("protocol", broker.get("protocol")),
        ("instance", broker.get("instance")),
    ]
    shown = [(name, verdicts.get(name) or one_line(value)) for name, value in facts if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0)
    lines += [f"  {name:<{width}}  {value}" for name, value in shown]
    problems = config.get("problems")
    lines += [f"  ! {one_line(problem)}" for problem in problems] if isinstance(problems, list) else []
    warnings = document.get("warnings")
    lines += [f"  ! {one_line(warning)}" for warning in warnings] if isinstance(warnings, list) else []
    return lines


def _verdict(part: Mapping[str, object], detail: object, sink: Sink) -> str:
    if not part:
        return ""
    word = sink.paint("ok", "green") if part.get("ok") else sink.paint("not ok", "red")
    return f"{word} ({one_line(detail)})" if detail else word
