"""What `log` says to a person: what was said, what became of it, and what was not let through for being too much.

Laws: those of `render`. Refuses to know: sockets, options, exit codes.
"""

from __future__ import annotations

from xsessionctl.render import STATE_STYLES, clock, decision, one_line, part_of, rows_of, who
from xsessiond.core.inert import inert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from xsessionctl.output import Sink

REASONS = {
    "rate_limited": "sent too fast",
    "duplicate": "the same text again",
    "hop_limit": "too many in a row, each caused by another",
    "exchange_limit": "too many a minute between the two",
    "queue_full": "too many wait there",
    "hold_full": "too many are held there",
}
"""Why one message was one too many."""


def log_lines(document: Mapping[str, object], sink: Sink) -> list[str]:
    """The answer to `log`."""
    lines = [line for entry in rows_of(document, "entries") for line in entry_lines(entry, sink)]
    lines += [suppressed_line(row, sink) for row in rows_of(document, "suppressed")]
    return lines or ["Nothing was said."]


def entry_lines(entry: Mapping[str, object], sink: Sink) -> list[str]:
    """One message: a line, and its text below."""
    state = one_line(entry.get("state"))
    facts = [sink.paint(state, STATE_STYLES.get(state, "bold")), one_line(entry.get("id"))]
    if entry.get("reply_to"):
        facts.append(f"answers {one_line(entry['reply_to'])}")
    if entry.get("hop"):
        facts.append(sink.paint(f"hop {one_line(entry['hop'])}", "dim"))
    lines = ["  ".join([sink.paint(clock(entry.get("sent_at")), "dim"), _route(entry, sink), *facts])]
    text = entry.get("text") if entry.get("text") is not None else entry.get("summary")
    lines += [f"    {line}" for line in inert(str(text or ""), multiline=True).split("\n")]
    lines += [sink.paint(f"  {decision(step)}", "dim") for step in rows_of(entry, "decisions")]
    return lines


def suppressed_line(row: Mapping[str, object], sink: Sink) -> str:
    """What one sender was refused, to one receiver, for one reason."""
    code, count = one_line(row.get("code")), one_line(row.get("count"))
    since = clock(row.get("first_at"))
    facts = [sink.paint(f"{count} turned away", "yellow"), f"{REASONS.get(code, code)}, since {since}"]
    return "  ".join([sink.paint(clock(row.get("last_at")), "dim"), _route(row, sink), *facts])


def _route(row: Mapping[str, object], sink: Sink) -> str:
    sender, receiver = who(part_of(row, "from")), who(part_of(row, "to"))
    return f"{sink.paint(sender, 'bold')} → {sink.paint(receiver, 'bold')}"
