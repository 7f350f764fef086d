"""Whether the store is sound, can be used by this version, and has room to grow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import time

from xsessionctl.client import ClientError
from xsessionctl.doctor.findings import Finding, Look, quote
from xsessionctl.store_program import run_store_program, set_aside

LEAST_FREE = 64 << 20
"""Bytes: the log grows to 16 MiB, and what waits for one session may have as much again."""
AHEAD_S = 60.0
"""Times in the store that are later than now by more than this are from a clock that was set back since."""


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    yield from _examine_disk(look.paths.state_dir)
    yield from _examine_runtime_disk(look.paths.runtime_dir)
    try:
        found = run_store_program(["check", look.paths.store_file], look.deadline)
    except ClientError as problem:
        if problem.code == "not_found":
            yield Finding("store", "ok", problem.text)
        else:
            mend = problem.hint or f"ls -la {quote(look.paths.state_dir)}; df -h {quote(look.paths.state_dir)}"
            yield Finding("store", "problem", problem.text, "Messages cannot be stored.", mend)
        return
    yield _judge(found, look)
    newest = found.get("newest_ms")
    ahead = newest / 1000 - time() if isinstance(newest, int) else 0.0
    if ahead > AHEAD_S:
        yield Finding(
            "store",
            "problem",
            f"The store knows of a time that is {ahead:.0f} s ahead of this machine's clock.",
            "The clock was set back. Ages are wrong and holds expire late until it has caught up.",
            "timedatectl status",
        )


def _judge(found: dict[str, object], look: Look) -> Finding:
    path, detail = found.get("path"), found.get("detail")
    if not found.get("ok"):
        why = "Some of what was accepted may be lost. It is used as far as it goes, and nothing of it is thrown away."
        return Finding("store", "problem", f"{path}: {detail}", why, set_aside(str(path)))
    if not found.get("usable"):
        why = "This version cannot use it, and leaves it as it is."
        return Finding("store", "problem", f"{path}: {detail}", why, "Install the newer version again.")
    told = (look.status() or {}).get("store")
    if isinstance(told, dict) and told.get("ok") is False:
        why = "What is sent is refused until the store works again; the broker tries with every message."
        return Finding(
            "store",
            "problem",
            f"The broker says: {told.get('detail')}",
            why,
            f"xsessionctl log; ls -l {quote(str(path))}",
        )
    counts = f"{found.get('messages')} messages, {found.get('waiting')} of them waiting"
    return Finding("store", "ok", f"{path} is sound ({counts}, {found.get('bytes')} bytes).")


def _examine_runtime_disk(directory: str) -> Iterator[Finding]:
    """Sockets and locks are small, and usually in memory: it is full, or it is not."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return  # not made yet
    if not found.f_bavail or (found.f_files and not found.f_favail):
        why = "No broker can start, and no session can come."
        yield Finding("store", "problem", f"There is no room in {directory}.", why, f"df -h {quote(directory)}")


def _examine_disk(directory: str) -> Iterator[Finding]:
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    try:
        found = os.statvfs(directory)
    except OSError as problem:
        yield Finding("store", "problem", f"{directory}: {problem.strerror}.", "The store is there.")
        return
    free = found.f_bavail * found.f_frsize
    full = "What is sent is refused when the disk is full; nothing that was accepted is lost."
    if free < LEAST_FREE:
        yield Finding(
            "store", "problem", f"{free >> 20} MiB are free where the store is.", full, f"df -h {quote(directory)}"
        )
    elif found.f_files and not found.f_favail:
        what = "No more files can be made where the store is."
        yield Finding("store", "problem", what, full, f"df -i {quote(directory)}")
    else:
        yield Finding("store", "ok", f"{free >> 20} MiB are free where the store is.")
