"""`xsessionctl send`: a message from the caller to a session."""

from __future__ import annotations

import sys

import click

from xsessionctl.client import ClientError
from xsessionctl.options import Setup, between, complete_session, verb
from xsessionctl.outcome import Document, conclude, fail, send_code
from xsessionctl.output import is_terminal, write_text
from xsessionctl.render import part_of, sent
from xsessionctl.requests import Lease, ask
from xsessiond.core.limits import MAX_WAIT_S, RESUME_WITHIN_S

MOST_READ = 16 << 20
"""More than this from standard input is not read: it could not be sent by far."""


@verb(
    "send",
    examples={
        'xsessionctl send api "please run the tests"': "to the session called api",
        "git diff | xsessionctl send 1a2b3c -": "standard input, to the session with that ref",
        'xsessionctl send api --wait 60 "which port?"': "and wait for the answer",
        "xsessionctl send api --notify-when-idle": "nothing is sent: you are told when it has finished",
    },
    exits=(3, 4, 5, 6, 7, 8, 9, 10),
)
@click.argument("to", shell_complete=complete_session)
@click.argument("text", nargs=-1)
@click.option(
    "--wait",
    type=float,
    callback=between(0, MAX_WAIT_S),
    metavar="S",
    help=f"Wait up to S seconds for a reply (at most {MAX_WAIT_S:g}).",
)
@click.option(
    "--mode",
    type=click.Choice(["auto", "followup", "inject", "steer"]),
    default=None,
    help="auto (the default): between tool calls or as a turn; followup: a turn of its own; inject, steer: next step.",
)
@click.option(
    "--when-offline",
    type=click.Choice(["refuse", "queue", "resume"]),
    default=None,
    help="If the conversation does not run: refuse; queue: keep it for 7 days; resume: start it with your command.",
)
@click.option("--reply-to", metavar="ID", help="The message that this one answers.")
@click.option("--notify-when-idle", is_flag=True, help="Tell you once when that session is idle. TEXT may be left out.")
@click.option("--key", metavar="K", help="The same key twice is one message, however often it is sent.")
@click.option("--summary", metavar="TEXT", help="One line about it, for listings.")
def command(
    setup: Setup,
    *,
    to: str,
    text: tuple[str, ...],
    wait: float | None,
    mode: str | None,
    when_offline: str | None,
    reply_to: str | None,
    notify_when_idle: bool,
    key: str | None,
    summary: str | None,
) -> int:
    """Send a message to a session.

    TO is a name, `name [ref]`, a ref, an id, or a harness's own session id. TEXT is what the words give, joined by
    spaces; `-` or nothing is standard input, without a line end at its very end. It answers as soon as the message is
    on disk; what is refused stored nothing. From a terminal it is from you; from an agent's shell, from that agent's
    session.

    With `--notify-when-idle` and no TEXT nothing is sent, and standard input is not read. You are told once when that
    session has finished its turn and has no mail, or has ended: on your desktop if `approvals.notify` is set, and by
    `xsessionctl inbox`; in an agent's shell it is the agent that is told. It is in vain after 12 hours, and refused
    where the harness does not tell when it is busy.
    """
    params: dict[str, object] = {"to": to}
    given = {
        "wait_reply": wait,
        "mode": mode,
        "when_offline": when_offline,
        "reply_to": reply_to,
        "notify_when_idle": notify_when_idle or None,
        "key": key,
        "summary": summary,
    }
    params.update((name, value) for name, value in given.items() if value is not None)
    try:
        if text or not notify_when_idle:
            params["message"] = read_message() if text in ((), ("-",)) else " ".join(text)
    except ClientError as problem:
        return fail(problem, setup.sink, as_json=setup.as_json)
    time_to_resume = RESUME_WITHIN_S if when_offline == "resume" else 0
    with Lease() as lease:

        def take_reply(document: Document) -> None:
            if reply := part_of(document, "reply"):
                lease.acknowledge(reply.get("id"))

        return conclude(
            lambda: ask("send", params, setup.deadline + (wait or 0) + time_to_resume, lease),
            sent,
            setup.sink,
            as_json=setup.as_json,
            code=lambda document: send_code(document, waited=bool(wait)),
            shown=take_reply,
        )


def read_message() -> str:
    """Standard input as a message. Raises ClientError (`not_text`, `too_large`, `usage`)."""
    if sys.stdin is None:
        raise ClientError("usage", "There is no text, and standard input is closed.", "Give the text after the name.")
    if is_terminal(sys.stdin):
        write_text(sys.stderr, "Type the message; Ctrl-D on a line of its own sends it, Ctrl-C does not.\n")
    data = sys.stdin.buffer.read(MOST_READ + 1)
    if len(data) > MOST_READ:
        raise ClientError(
            "too_large",
            f"Standard input has more than {MOST_READ} bytes. Nothing was sent.",
            "Send the path of a file.",
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        raise ClientError(
            "not_text",
            f"Standard input is not UTF-8 (byte {problem.start}). Nothing was sent.",
            "Messages are text; send the path of a file.",
        ) from None
    return text.removesuffix("\n").removesuffix("\r")
