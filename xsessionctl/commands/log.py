"""`xsessionctl log`: what was said, and what became of it."""

from __future__ import annotations

import re
from collections import deque
from datetime import UTC, datetime, timedelta

import click

from xsessionctl.client import ClientError
from xsessionctl.following import follow
from xsessionctl.held import complete_id
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import conclude, fail
from xsessionctl.render import rows_of
from xsessionctl.render_log import entry_lines, log_lines, suppressed_line
from xsessionctl.requests import ask
from xsessiond.core.limits import LOG_MOST

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@verb(
    "log",
    examples={
        "xsessionctl log --since 2h": "the last two hours, oldest first",
        "xsessionctl log --thread m-204b9b00ddd7cd357612d37b8c0746c1": "a message, its replies, and theirs",
        "xsessionctl log --follow": "and what comes, until Ctrl-C",
    },
    exits=(4, 7, 9, 10),
)
@click.option(
    "--follow", is_flag=True, help='Stay, and print what comes. With --json: one entry a line, or {"suppressed": …}.'
)
@click.option("--thread", metavar="ID", help="Only the thread that this message belongs to.")
@click.option("--since", metavar="T", help="Only since then: 30s, 10m, 2h, 7d ago, or a time like 2026-01-31T12:00.")
@click.option("--limit", type=click.IntRange(1, LOG_MOST), default=100, metavar="N", help="At most the last N (100).")
def command(setup: Setup, *, follow: bool, thread: str | None, since: str | None, limit: int) -> int:
    """What was said, and what became of it.

    You see all messages of your sessions, oldest first, with what you or a rule decided about those that were held. In
    an agent's shell only those of that session are shown. What was turned away as too many is counted below, as long as
    the broker runs.
    """
    params: dict[str, object] = {"limit": limit}
    if thread is not None:
        try:
            params["thread"] = complete_id(thread, setup.timeout)
        except ClientError as problem:
            return fail(problem, setup.sink, as_json=setup.as_json)
    if since is not None:
        params["since"] = moment(since)
    if follow:
        return _follow(setup, params)
    return conclude(lambda: ask("log", params, setup.deadline), log_lines, setup.sink, as_json=setup.as_json)


def moment(text: str) -> str:
    """A time as RFC 3339 in UTC, from one or from a length of time before now. Raises click.BadParameter."""
    ago = re.fullmatch(r"(\d+)\s*([smhd])", text.strip())
    try:
        if ago is not None:
            then = datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        else:
            then = datetime.fromisoformat(text.strip()).astimezone(UTC)  # without a zone it is the local one
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is no time. Write 30s, 10m, 2h, 7d, or 2026-01-31T12:00.", param_hint="'--since'"
        ) from None
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _follow(setup: Setup, params: dict[str, object]) -> int:
    sink = setup.sink
    told: deque[object] = deque(maxlen=LOG_MOST)

    def tell(entry: dict[str, object]) -> None:
        if entry.get("id") in told:
            return  # a broker that took another's place tells again of what came in the last millisecond
        told.append(entry.get("id"))
        params["since"] = entry.get("sent_at")
        if setup.as_json:
            sink.document(entry)
        else:
            sink.lines(entry_lines(entry, sink))

    def tell_suppressed(row: dict[str, object]) -> None:
        if setup.as_json:
            sink.document({"suppressed": row})
        else:
            sink.lines([suppressed_line(row, sink)])

    try:
        for what, news in follow("log", lambda: {**params, "follow": True}, setup.deadline):
            if what == "answer":
                for entry in rows_of(news, "entries"):
                    tell(entry)
                for row in rows_of(news, "suppressed"):
                    tell_suppressed(row)
            elif what == "entry":
                tell(dict(news))
            elif what == "suppressed":
                tell_suppressed(dict(news))
    except ClientError as problem:
        return fail(problem, sink, as_json=setup.as_json)
    return 0
