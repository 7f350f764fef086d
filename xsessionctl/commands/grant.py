"""`xsessionctl grant`: one session for one container, in a directory to mount."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import suppress

import click

from xsessionctl.client import ClientError, connect, deadline_in
from xsessionctl.grants import SOCKET, TOKEN, find_directory, make_directory, remove_files, write_token
from xsessionctl.held import ask_human
from xsessionctl.lifecycle import find_paths
from xsessionctl.options import Setup, read_duration, verb
from xsessionctl.outcome import Document, conclude, fail
from xsessionctl.output import Sink
from xsessionctl.render import called, clock, one_line, part_of, rows_of
from xsessionctl.requests import ask

MOUNTED = "/run/xsession"
"""Where the directory goes in a container, in what is printed."""


@verb(
    "grant",
    examples={
        "xsessionctl grant build --class bypass": "what to mount, and which variables to set",
        "xsessionctl grant build --dir /srv/build/xsession --for 8h": "in a directory of your own, for the day",
        "xsessionctl grant --list": "what is granted",
        "xsessionctl grant build --revoke": "the container is out, at once",
    },
    exits=(3, 4, 5, 7, 9, 10),
)
@click.argument("name", required=False, metavar="[NAME]")
@click.option(
    "--dir", "directory", metavar="D", type=click.Path(), help="The directory to mount; empty, or not there yet."
)
@click.option("--cwd", metavar="DIR", type=click.Path(), help="Its folder on this machine, whose settings hold (here).")
@click.option(
    "--class", "perm_class", type=click.Choice(["bypass", "prompting"]), help="Whether it acts without asking."
)
@click.option("--for", "for_s", callback=read_duration, metavar="DUR", help="Until then: 30m, 8h, 7d.")
@click.option("--revoke", is_flag=True, help="End it, and remove the files.")
@click.option("--list", "listing", is_flag=True, help="What is granted, where, and until when.")
def command(
    setup: Setup,
    *,
    name: str | None,
    directory: str | None,
    cwd: str | None,
    perm_class: str | None,
    for_s: float | None,
    revoke: bool,
    listing: bool,
) -> int:
    """Give one container one session's socket, and nothing else.

    Makes a directory with the socket and the token of a new session, which only you can enter. What has it mounted acts
    as that session: it can list, send and read, and cannot decide, stop the broker, or reach other sockets. It is
    offline until its container connects, survives restarts of both, and ends when you revoke it. Granted again it gets
    a new token. Only a human may. Run the container as your own user, or rootless: other users are turned away.
    """
    if listing:
        return conclude(lambda: ask("grants", {}, setup.deadline), _listed, setup.sink, as_json=setup.as_json)
    if name is None:
        problem = ClientError("usage", "Missing argument 'NAME'.", "See `xsessionctl grant --help`.")
        return fail(problem, setup.sink, as_json=setup.as_json)
    if revoke:
        return conclude(lambda: _revoke(name, setup.timeout), _revoked, setup.sink, as_json=setup.as_json)
    params = {"name": name, "cwd": os.path.abspath(cwd or os.getcwd()), "class": perm_class, "for_s": for_s}
    return conclude(lambda: _grant(params, directory, setup), _granted, setup.sink, as_json=setup.as_json)


def _grant(params: Mapping[str, object], wanted: str | None, setup: Setup) -> Document:
    paths = find_paths()
    known = rows_of(ask("grants", {}, setup.deadline), "grants")
    directory = find_directory(paths, str(params["name"]), wanted, known)
    made = make_directory(directory)
    try:
        given = ask_human("grant", {**params, "directory": directory}, setup.timeout)
    except ClientError:
        if made:
            with suppress(OSError):  # an answer that was lost on its way: it was granted, and its socket is there
                os.rmdir(directory)
        raise
    write_token(directory, str(given.get("token")))
    _verify(f"{directory}/{SOCKET}", deadline_in(setup.timeout))
    return {
        "session": given.get("session"),
        "directory": directory,
        "socket": f"{directory}/{SOCKET}",
        "token_file": f"{directory}/{TOKEN}",
        "expires_at": given.get("expires_at"),
        "replaced": given.get("replaced"),
        "mount": {"source": directory, "target": MOUNTED},
        "env": {"XSESSIOND_SOCKET": f"{MOUNTED}/{SOCKET}", "XSESSIOND_TOKEN_FILE": f"{MOUNTED}/{TOKEN}"},
    }


def _verify(socket: str, deadline: float) -> None:
    """Whether somebody listens there now. Raises ClientError."""
    try:
        connect(socket, deadline).close()
    except OSError as problem:
        text = f"The broker does not listen at {socket}: {problem.strerror or problem}."
        raise ClientError(
            "internal", text, "Its log says why: `xsessionctl doctor`, `xsessionctl service logs`."
        ) from None


def _granted(document: Document, sink: Sink) -> list[str]:
    session, mount, env = (part_of(document, key) for key in ("session", "mount", "env"))
    source, target = one_line(mount.get("source")), one_line(mount.get("target"))
    options = ["-v", f"{source}:{target}"]
    for variable, value in env.items():
        options += ["-e", f"{variable}={value}"]
    until = f", until {clock(document['expires_at'])}" if document.get("expires_at") else ""
    word = "Granted anew" if document.get("replaced") else "Granted"
    command = shlex.join(["docker", "run", "--user", f"{os.getuid()}:{os.getgid()}", *options, "IMAGE"])
    return [
        f"{word}: {sink.paint(called(session), 'bold')}{until}",
        f"  mount  {source} at {target}",
        *(f"  set    {variable}={one_line(value)}" for variable, value in env.items()),
        f"  as in  {one_line(command)}",
        "  The harness in there starts `xsessionctl mcp` as anywhere.",
    ]


def _revoke(name: str, timeout: float) -> Document:
    done = ask_human("revoke_grant", {"of": name}, timeout)
    directory = done.get("directory")
    left = remove_files(directory) if isinstance(directory, str) else None
    return {**done, "left": left}


def _revoked(document: Document, sink: Sink) -> list[str]:
    lines = [f"{called(part_of(document, 'revoked'))} is granted to nobody any more."]
    if document.get("left"):
        lines.append(f"  {one_line(document['left'])} is left: there is more in it.")
    return lines


def _listed(document: Document, sink: Sink) -> list[str]:
    lines = []
    for row in rows_of(document, "grants"):
        session = part_of(row, "session")
        until = f"until {clock(row['expires_at'])}" if row.get("expires_at") else "until it is revoked"
        state = one_line(session.get("state"))
        lines.append(f"{called(session)}  {state}, {until}")
        lines.append(sink.paint(f"  {one_line(row.get('directory'))}, by {one_line(row.get('by'))}", "dim"))
    return lines or ["Nothing is granted."]
