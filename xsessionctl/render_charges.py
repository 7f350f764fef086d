"""Who holds what of the broker's, as people read it."""

from __future__ import annotations

from xsessionctl.outcome import Document
from xsessionctl.output import Sink, line_width
from xsessionctl.render import called, one_line, part_of, rows_of
from xsessionctl.table import GAP, lay_out

COLUMNS = {
    "LINKS": "links",
    "UNSENT": "unsent_bytes",
    "QUEUED": "queued",
    "BYTES": "queued_bytes",
    "HELD": "held",
    "HELD BYTES": "held_bytes",
    "WAITS": "waits",
    "WATCHES": "watches",
    "RECEIPTS": "receipts",
}


def charge_lines(document: Document, sink: Sink) -> list[str]:
    """The `charges` of `status --charges`: a row for each that holds something, the heaviest first."""
    charges = part_of(document, "charges")
    found = rows_of(charges, "charges")
    most, total = part_of(charges, "limits"), part_of(charges, "total")
    rows = [[_name(row), *(one_line(row.get(key)) for key in COLUMNS.values())] for row in found]
    rows.append(["limit of each", *(one_line(most.get(key)) or "-" for key in COLUMNS.values())])
    rows.append(["together", *(one_line(total.get(key)) for key in COLUMNS.values())])
    numbers = set(range(1, len(COLUMNS) + 1))
    head, *body = lay_out(["WHO", *COLUMNS], rows, width=line_width(), elastic={0: 8}, right=numbers)
    lines = ["", sink.paint(GAP.join(head).rstrip(), "dim"), *(GAP.join(cells).rstrip() for cells in body)]
    left_out = charges.get("left_out")
    if isinstance(left_out, int) and left_out:
        lines.append(f"{left_out} more hold less.")
    files, strangers = part_of(charges, "files"), part_of(charges, "strangers")
    resident = part_of(charges, "memory").get("rss_bytes")
    facts = [f"connections of scripts and newcomers: {one_line(strangers.get('links'))}"]
    if strangers.get("unsent_bytes"):
        facts[0] += f", with {one_line(strangers['unsent_bytes'])} bytes unsent"
    if most.get("sessions") is not None:
        facts.append(f"sessions: at most {one_line(most['sessions'])}")
    if files.get("used") is not None:
        facts.append(f"descriptors: {one_line(files['used'])} of {one_line(files.get('limit'))}")
    if isinstance(resident, int):
        facts.append(f"memory: {resident / (1 << 20):.1f} MiB")
    return [*lines, "; ".join(facts)]


def _name(row: Document) -> str:
    return called(row) if row.get("kind") == "session" else "you"
