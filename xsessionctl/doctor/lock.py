"""Who holds the lock, what lies at the socket's path, and whether what answers there is who holds the lock."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import sys
from collections.abc import Iterator
from time import monotonic, sleep

from xsessionctl.client import deadline_in
from xsessionctl.doctor.findings import ELSEWHERE, Finding, Look, quote, read_status
from xsessionctl.sockets import connect_unix

STARTING_S = 3.0
"""A broker that starts holds its lock this long, at most, before it answers."""
PAUSE_S = 0.05


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    yield from _examine_path(look)
    if look.status() is None and look.trouble is None and _held(look):
        _await_start(look)
    broker, held = look.broker(), _held(look)
    if broker:
        yield from _compare(look, broker, held)
    elif held:
        yield from _tell_deaf(look, held)
    elif look.trouble is not None:
        yield Finding("lock", "problem", look.trouble.text, None, look.trouble.hint or ELSEWHERE)
    else:
        yield Finding("lock", "ok", "No broker runs, and nothing keeps one from starting.", None, "xsessionctl start")


def _examine_path(look: Look) -> Iterator[Finding]:
    path = look.paths.broker_socket
    try:
        found = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        what = f"{path} is not a socket."
        yield Finding(
            "lock", "problem", what, "No broker can listen there.", f"mv {quote(path)} {quote(path + '.old')}"
        )
    elif stat.S_IMODE(found.st_mode) != 0o600:
        what = f"{path}: its mode is {stat.S_IMODE(found.st_mode):04o}, not 0600."
        yield Finding("lock", "problem", what, "Only you should reach it.", f"chmod 600 {quote(path)}")
    elif not _listens(path):
        why = "A broker that was killed left it. The next start replaces it."
        yield Finding("lock", "note", f"Nobody listens at {path}.", why, "xsessionctl start")


def _listens(path: str) -> bool:
    try:
        connect_unix(path, deadline_in(1.0)).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        pass
    return True


def _held(look: Look) -> dict[str, tuple[str, ...]]:
    """The locks that somebody holds: path → what the holder wrote: pid, version and host."""
    held = {}
    for path in (look.paths.lock_file, look.paths.store_lock_file):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # given back in an instant; who starts waits longer
        except BlockingIOError:
            held[path] = tuple(os.pread(descriptor, 512, 0).decode("utf-8", "replace").split()[:3])
        except OSError:
            pass
        finally:
            os.close(descriptor)
    return held


def _await_start(look: Look) -> None:
    end = monotonic() + STARTING_S
    while monotonic() < end and _held(look):
        sleep(PAUSE_S)
        status, trouble = read_status(look.paths)
        if status is not None or trouble is not None:
            look.renew(status, trouble)
            return


def _compare(look: Look, broker: dict[str, object], held: dict[str, tuple[str, ...]]) -> Iterator[Finding]:
    pid = str(broker.get("pid"))
    path = look.paths.broker_socket
    holders = {note[0] for note in held.values() if note}
    others = holders - {pid}
    if others:
        other = ", ".join(sorted(others))
        yield Finding(
            "lock",
            "problem",
            f"What answers at {path} is pid {pid}, but pid {other} holds the lock.",
            "Two programs take themselves for the broker; sessions reach one or the other.",
            f"xsessionctl stop; kill {other}; xsessionctl start",
        )
        return
    free = [path for path in (look.paths.lock_file, look.paths.store_lock_file) if path not in held]
    if free:
        yield Finding(
            "lock",
            "problem",
            f"The broker (pid {pid}) does not hold {free[0]}.",
            "The file was removed or replaced, or the broker was started for another store. A second one could start.",
            "xsessionctl stop; xsessionctl start",
        )
        return
    listeners = _count_listeners(path)
    if listeners is not None and listeners > 1:
        yield Finding(
            "lock",
            "problem",
            f"{listeners} programs listen at sockets that were bound at {path}; the file is that of one.",
            "A program replaced the socket's file. Who connected to the other is not heard by this broker.",
            f"ss -xlp src {quote(path)}  # then end the one that is not pid {pid}",
        )
        return
    yield Finding("lock", "ok", f"The broker (pid {pid}) holds its lock, and is what answers at {path}.")


def _tell_deaf(look: Look, held: dict[str, tuple[str, ...]]) -> Iterator[Finding]:
    path, note = next(iter(held.items()))
    pid = note[0] if note else "unknown"
    host = note[2] if len(note) > 2 else ""
    openers = _find_openers(path)
    if openers and pid not in openers:
        others = " ".join(openers)
        yield Finding(
            "lock",
            "problem",
            f"{path} is locked, and not by a broker: pid {others} has it open.",
            "No broker can start while it is.",
            f"kill {others}",
        )
        return
    where = f" on {host}, which shares this directory" if host and host != socket.gethostname() else ""
    said = f" {look.trouble.text}" if look.trouble is not None else ""
    listener = _find_listener(look.paths.broker_socket)
    if listener is not None and note and str(listener) != pid:
        yield Finding(
            "lock",
            "problem",
            f"What listens at {look.paths.broker_socket} is pid {listener}, not the broker (pid {pid}).{said}",
            "Another program took the socket's place. The broker comes back there by itself once that is gone.",
            f"kill {listener}",
        )
        return
    # What is stopped, or stuck, heeds no other signal.
    kill = "kill -KILL" if listener is not None and str(listener) == pid else "kill"
    yield Finding(
        "lock",
        "problem",
        f"Pid {pid}{where} holds {path}, and answers nobody at {look.paths.broker_socket}.{said}",
        "No other broker can start while it lives. What it accepted is in the store.",
        f"{kill} {pid}" if not where and note else f"lsof {quote(path)}  # then end who has it open",
    )


def _find_openers(path: str) -> list[str]:
    """The other processes of this user that have the file open; none where the system does not tell."""
    try:
        wanted, pids = os.stat(path), [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    found = []
    for pid in pids:
        try:
            with os.scandir(f"/proc/{pid}/fd") as opened:
                if int(pid) != os.getpid() and any(_is_same(one.path, wanted) for one in opened):
                    found.append(pid)
        except OSError:
            continue  # another user's, or gone
    return sorted(found, key=int)


def _is_same(path: str, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), wanted)
    except OSError:
        return False


def _find_listener(path: str) -> int | None:
    """The process that listens there, as the kernel knows it; None where nobody does, or the system does not tell."""
    if sys.platform != "linux":
        return None
    try:
        link = connect_unix(path, deadline_in(1.0))
    except OSError:
        return None
    try:
        return int.from_bytes(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
    except OSError:
        return None
    finally:
        link.close()


def _count_listeners(path: str) -> int | None:
    """How many sockets that were bound at this path listen; None where the system does not tell."""
    if sys.platform != "linux":
        return None
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.split(maxsplit=7) for line in file]
    except OSError:
        return None
    listening = "00010000"  # __SO_ACCEPTCON
    return sum(1 for row in rows if len(row) == 8 and row[3] == listening and row[7].rstrip("\n") == path)
