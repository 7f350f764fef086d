"""What the platform modules and `processes` tell each other: a process, who is at the other end of a socket.

Laws: values only. Refuses to know: how a system is asked.
"""

from __future__ import annotations

from typing import NamedTuple

from xsessiond.core.effects import ProcessId

__all__ = ["PeerCred", "ProcessId", "ProcessStat"]


class PeerCred(NamedTuple):
    """Who opened the connection, as the kernel recorded it then. `pid` is None for one outside our pid namespace."""

    pid: int | None
    uid: int
    gid: int


class ProcessStat(NamedTuple):
    """What one look at a process tells. `dead` includes zombies; `terminal` is 0 without a controlling terminal.

    session: pid of the leader of its session (setsid(2)); 0 if that is outside our pid namespace. image: another value
    after each exec, empty where the system does not tell; only to be compared.
    """

    parent: int
    start: int
    terminal: int
    dead: bool
    name: str
    session: int
    image: bytes
