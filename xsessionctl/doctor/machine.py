"""What the machine lends to the broker: descriptors, and a clock that may jump."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

from xsessionctl.doctor.findings import Finding, Look
from xsessionctl.render import timestamp

PER_SESSION, SPARE = 3, 64
"""Descriptors that the broker needs for one session (its socket, a link, its process), and for itself."""
JUMP_S = 30.0
"""The wall clock is corrected by seconds all the time."""


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    broker = look.broker()
    pid = broker.get("pid")
    if not isinstance(pid, int):
        return
    sessions = (look.status() or {}).get("sessions")
    yield from _examine_descriptors(pid, sessions if isinstance(sessions, int) else 0)
    yield from _examine_clock(broker)


def _examine_descriptors(pid: int, sessions: int) -> Iterator[Finding]:
    limit, used = _read_limit(pid), _count_open(pid)
    if limit is None:
        return
    need = max(used or 0, PER_SESSION * sessions) + SPARE
    state = f"The broker may have {limit} descriptors open" + (f", and has {used}" if used is not None else "")
    if need > limit:
        yield Finding(
            "machine",
            "problem",
            f"{state}; {sessions} sessions run.",
            "Newcomers wait or are turned away when there are none left.",
            "xsessionctl stop, then xsessionctl start where `ulimit -Hn` says more (a service: LimitNOFILE=65536)",
        )
    else:
        yield Finding("machine", "ok", f"{state}.")


def _read_limit(pid: int) -> int | None:
    if sys.platform != "linux":
        return None
    import resource

    try:
        soft, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    except OSError:
        return None
    return None if soft == resource.RLIM_INFINITY else soft


def _count_open(pid: int) -> int | None:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


def _examine_clock(broker: dict[str, object]) -> Iterator[Finding]:
    started, boot = timestamp(broker.get("started_at")), broker.get("boot_clock_s")
    if started is None or not isinstance(boot, int | float) or not hasattr(time, "CLOCK_BOOTTIME"):
        return
    jump = (time.time() - started) - (time.clock_gettime(time.CLOCK_BOOTTIME) - boot)
    if abs(jump) <= JUMP_S:
        yield Finding("machine", "ok", "The clock did not jump since the broker started.")
        return
    yield Finding(
        "machine",
        "note",
        f"The wall clock was set {'forward' if jump > 0 else 'back'} by {abs(jump):.0f} s since the broker started.",
        "Ages and expiry of what was sent before are off by that. Nobody is evicted for it: deadlines run on another "
        "clock.",
        "timedatectl status",
    )
