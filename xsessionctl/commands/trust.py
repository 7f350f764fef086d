"""`xsessionctl trust`: approvals that are remembered."""

from __future__ import annotations

import click

from xsessionctl.client import deadline_in
from xsessionctl.held import ask_human, find_trust
from xsessionctl.options import Setup, complete_trust, family, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.render import one_line
from xsessionctl.render_held import trusts
from xsessionctl.requests import ask


@verb(
    "list",
    examples={"xsessionctl trust list": "who may write to whom without being held, and until when"},
    exits=(7, 9),
)
def list_trusts(setup: Setup) -> int:
    """What you approved for later messages too.

    `xsessionctl approve ID --trust session` or `--trust pair` makes one. It covers what parity, an explicit `hold` of
    yours or of the project, and scope would hold; never what the administrator or a `refuse` says.
    """
    return conclude(lambda: ask("trusts", {}, setup.deadline), trusts, setup.sink, as_json=setup.as_json)


@verb("revoke", examples={"xsessionctl trust revoke t-1a2b": "what follows is held again"}, exits=(3, 4, 7, 9, 10))
@click.argument("trust_id", metavar="ID", shell_complete=complete_trust)
def revoke(setup: Setup, *, trust_id: str) -> int:
    """End a remembered approval.

    Only a human may. What it let through stays where it is; what follows is judged without it.
    """
    return conclude(lambda: _revoke(trust_id, setup.timeout), _revoked, setup.sink, as_json=setup.as_json)


def _revoke(word: str, timeout: float) -> Document:
    found = find_trust(word, ask("trusts", {}, deadline_in(timeout)))
    return ask_human("revoke_trust", {"id": found}, timeout)


def _revoked(document: Document, sink: Sink) -> list[str]:
    return [f"{one_line(document.get('revoked'))} covers nothing any more."]


command = family("trust", "What you approved for later messages too.", [list_trusts, revoke])
