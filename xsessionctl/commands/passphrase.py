"""`xsessionctl passphrase`: sets what the user is asked for when they decide."""

from __future__ import annotations

import os

import click

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.held import TRIES, wants_passphrase
from xsessionctl.lifecycle import find_paths
from xsessionctl.options import Setup, verb
from xsessionctl.outcome import Document, conclude
from xsessionctl.output import Sink
from xsessionctl.prompt import read_secret
from xsessionctl.render import one_line, rows_of
from xsessionctl.requests import ask
from xsessionctl.whole_file import write_whole
from xsessiond.core.passphrase import SALT_BYTES, BadRecord, find_fault, make_record, matches

MOST_BYTES = 4096


@verb(
    "passphrase",
    examples={
        "xsessionctl passphrase": "set one, or another one",
        "xsessionctl passphrase --remove": "have none any more",
        "xsessionctl config set approvals.passphrase true": "have it asked for",
    },
    exits=(7, 9, 10),
)
@click.option("--remove", is_flag=True, help="Have none any more.")
def command(setup: Setup, *, remove: bool) -> int:
    """Set the passphrase for your decisions.

    With `approvals.passphrase = true` in the settings, each approval, denial, revocation and change of the settings
    asks for it, so that no program of yours decides unnoticed. It is typed at the terminal and never shown, and kept
    as a slow hash only. Who has one types it before setting another.
    """
    return conclude(lambda: _work(setup.timeout, remove=remove), _lines, setup.sink, as_json=setup.as_json)


def _work(timeout: float, *, remove: bool) -> Document:
    path = find_paths().passphrase_file
    before = _read(path)
    _prove(before, path, timeout)
    if remove:
        if before is not None:
            os.unlink(path)
        what = "removed"
    else:
        _write(path, make_record(_read_new(), os.urandom(SALT_BYTES)))
        what = "set" if before is None else "changed"
    settings = ask("reload", {}, deadline_in(timeout))
    wanted = any(
        row.get("key") == "approvals.passphrase" and row.get("value") == "true" for row in rows_of(settings, "values")
    )
    return {"passphrase": what, "path": path, "asked_for": wanted}


def _prove(record: str | None, path: str, timeout: float) -> None:
    """That it is a human, and the one who knows the passphrase that there is. Raises ClientError."""
    if _may_change(None, timeout) and record is None:
        return
    for _ in range(TRIES):
        old = _ask_for("The passphrase that you have now is needed first.", "Old passphrase: ")
        try:
            if _may_change(old, timeout) and (record is None or matches(record, old)):
                return
        except BadRecord as problem:
            raise ClientError(
                "bad_config", f"{path} cannot be used. {problem}", "Remove it by hand, then set a new one."
            ) from None
    raise ClientError("not_permitted", "That is not the passphrase. Nothing was changed.", "Try again.")


def _may_change(passphrase: str | None, timeout: float) -> bool:
    """Whether the broker lets this human change the settings; False: it wants the passphrase, or another one. Raises
    ClientError."""
    more = {} if passphrase is None else {"passphrase": passphrase}
    try:
        ask("config", {"to_change": True, **more}, deadline_in(timeout))
    except ClientError as problem:
        if wants_passphrase(problem):
            return False
        raise
    return True


def _read_new() -> str:
    why = "A passphrase for your decisions."
    while True:
        new = _ask_for(why, "New passphrase: ")
        fault = find_fault(new)
        if fault is not None:
            why = fault
        elif _ask_for("The same once more.", "New passphrase: ") == new:
            return new
        else:
            why = "These were not the same."


def _ask_for(why: str, prompt: str) -> str:
    found = read_secret(why, prompt)
    if found is None:
        raise ClientError("not_permitted", "A passphrase is typed at a terminal. Nothing was changed.")
    return found


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClientError("bad_config", f"{path} cannot be read: {error.strerror}.", "Mend it by hand.") from None


def _write(path: str, record: str) -> None:
    """Puts the record there in one step, for this user alone. Raises ClientError."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_whole(path, record.encode("ascii"), lasting=True)
    except OSError as error:
        raise ClientError(
            "bad_config", f"{path} cannot be written: {error.strerror}.", "Nothing was changed."
        ) from None


def _lines(document: Document, sink: Sink) -> list[str]:
    what, wanted = document["passphrase"], document["asked_for"]
    lines = [f"The passphrase is {one_line(what)}."]
    if what == "removed" and wanted:
        turn = "`xsessionctl config set approvals.passphrase false`"
        lines.append(f"The settings still ask for one, so nobody can decide: set another, or {turn}.")
    elif what != "removed" and not wanted:
        lines.append("It is not asked for yet: `xsessionctl config set approvals.passphrase true`.")
    return lines
