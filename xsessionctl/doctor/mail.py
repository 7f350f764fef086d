"""Mail that gets no further: given to a harness and never seen in a turn, or left while its session works on."""

from __future__ import annotations

from collections.abc import Iterator

from xsessionctl.doctor.findings import Finding, Look
from xsessionctl.render import called, rows_of


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    status = look.status()
    if status is None:
        return
    listed = rows_of(look.ask("list") or {}, "sessions")
    found = [finding for session in listed for finding in _examine_session(session)]
    yield from found or [Finding("mail", "ok", "No message is stuck.")]
    held = status.get("held")
    if isinstance(held, int) and held:
        what = f"{held} messages are held until you decide." if held > 1 else "A message is held until you decide."
        yield Finding("mail", "note", what, None, "xsessionctl hold-queue")
    warnings = status.get("warnings")
    for text in warnings if isinstance(warnings, list) else []:
        yield Finding(
            "mail", "note", str(text), "The broker keeps what it warned of until it ends.", "xsessionctl status"
        )


def _examine_session(session: dict[str, object]) -> Iterator[Finding]:
    who, stalled = called(session), session.get("stalled")
    if isinstance(stalled, int) and stalled:
        yield Finding(
            "mail",
            "problem",
            f"{stalled} of the messages given to {who} were not seen in a turn for a minute or more.",
            "The harness took them, and nothing shows that its model read them.",
            "Look at that session: does it wait for you? Else start it again; what it had not read comes again.",
        )
    if session.get("stuck") is True:
        yield Finding(
            "mail",
            "problem",
            f"{who} works on, and does not take the {session.get('queued')} messages that wait for it.",
            "Its shim or a hook of its harness does not run.",
            "Start that session again; its mail waits for it.",
        )
    if session.get("state") == "unresponsive":
        yield Finding(
            "mail",
            "note",
            f"{who} does not answer (pid {session.get('pid')}).",
            "Its process is stopped, or its shim has ended while the harness lives.",
            "Start its MCP server again from within the harness, or the session.",
        )
