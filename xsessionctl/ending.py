"""Ending a running broker, and having another go on in its place.

Laws: returns when it is so, and not when it was asked; works with a broker of any version. Which program goes on is
written where only this user can write, since the broker's socket is open to those who may not. Refuses to know: what is
printed.
"""

from __future__ import annotations

import os
from time import monotonic, sleep

from xsessionctl.client import ClientError, Connection
from xsessionctl.granted import granted_socket
from xsessionctl.lifecycle import FIRST_PAUSE_S, broker_command, connect_if_running, ensure_broker
from xsessionctl.render import part_of
from xsessionctl.requests import repeat, wait_for_successor
from xsessionctl.whole_file import write_whole
from xsessiond.paths import Paths


class Stopped:
    """What `stop_broker` found. pid: of the broker that ended, None when there was none. sessions: how many were
    connected. service: the service manager that had started it, if one had.
    """

    __slots__ = ("pid", "service", "sessions", "version")

    def __init__(self, pid: int | None, sessions: int, version: str | None, service: str | None = None) -> None:
        self.pid, self.sessions, self.version, self.service = pid, sessions, version, service


def stop_broker(paths: Paths, deadline: float) -> Stopped:
    """Asks the broker to stop and returns when its process is gone. Raises ClientError, `timeout` if it is still
    there.
    """
    found: list[Stopped] = []
    return repeat(lambda: _stop_once(paths, deadline, found), deadline)


def _stop_once(paths: Paths, deadline: float, found: list[Stopped]) -> Stopped:
    """found: gets the broker that was there. Should the link to it break and none be there after that, it is ending."""
    link = connect_if_running(paths, deadline)
    if link is None:
        if not found:
            return Stopped(None, 0, None)
        with _Watched(found[-1].pid or 0) as watched:
            if not watched.wait(deadline):
                raise _still_there(found[-1].pid)
        return found[-1]
    with link:
        status = link.call("status")
        broker, sessions = part_of(status, "broker"), status.get("sessions")
        pid, version, service = (broker.get(key) for key in ("pid", "version", "service"))
        stopped = Stopped(
            pid if isinstance(pid, int) else None,
            sessions if isinstance(sessions, int) else 0,
            version if isinstance(version, str) else None,
            service if isinstance(service, str) else None,
        )
        found.append(stopped)
        with _Watched(stopped.pid or 0) as watched:
            link.call("stop")
            if not (link.closed_by_peer() and watched.wait(deadline)):
                raise _still_there(stopped.pid)
    return stopped


def _still_there(pid: int | None) -> ClientError:
    return ClientError(
        "timeout",
        f"The broker (pid {pid}) was told to stop and is still there.",
        "It finishes what it accepted first. Look again with `xsessionctl status`.",
        sent=True,
    )


class Restarted:
    """What `restart_broker` did. how: `handed over`, `replaced` (stopped and started again), or `started`, since none
    ran or the one that did ended by itself. before, after: the `broker` part of `status` on either side; before is
    empty where none ran.
    """

    __slots__ = ("after", "before", "how")

    def __init__(self, how: str, before: dict[str, object], after: dict[str, object]) -> None:
        self.how, self.before, self.after = how, before, after


def restart_broker(paths: Paths, deadline: float) -> Restarted:
    """Has the broker hand over to the one of this installation; an older one, which cannot, is stopped and started.
    Returns when the new one answers. While somebody else restarts it or ends it, that is awaited. Raises ClientError;
    then the broker of before goes on, unless it says otherwise.
    """
    before: dict[str, object] = {}
    while (link := connect_if_running(paths, deadline)) is not None:
        try:
            with link:
                before = _broker_of(link)
                if granted_socket() is None:  # in a container the paths are not the broker's, which refuses anyway
                    _name_successor(paths)
                link.call("restart")
                link.closed_by_peer()
        except ClientError as problem:
            if problem.code == "version_mismatch":
                _forget_successor(paths)
                stop_broker(paths, deadline)
                return Restarted("replaced", before, _await_broker(paths, deadline))
            # Once more than was asked for hurts nobody.
            if not wait_for_successor(problem, deadline, harmless=True):
                raise
        else:
            # The socket never closes: who connects now waits in it until the new broker listens.
            after = _await_broker(paths, deadline)
            if after.get("instance") == before.get("instance"):
                raise ClientError("internal", "The broker said that it would be replaced, and goes on as it was.")
            return Restarted("handed over" if after.get("pid") == before.get("pid") else "started", before, after)
    return Restarted("started", before, _await_broker(paths, deadline))


def _await_broker(paths: Paths, deadline: float) -> dict[str, object]:
    """The `broker` part of what the next broker answers. Should it end before it does, there is another, or the reason
    why none can start.
    """

    def look() -> dict[str, object]:
        with ensure_broker(paths, deadline)[0] as link:
            return _broker_of(link)

    return repeat(look, deadline)


def _broker_of(link: Connection) -> dict[str, object]:
    return part_of(link.call("status"), "broker")


def _name_successor(paths: Paths) -> None:
    """Leaves word of which program is to go on: the one that belongs to this client. The broker would not believe it if
    it came over its socket, which is open to those who may not write in this directory.
    """
    from xsessionctl.codec import encode

    try:
        write_whole(paths.successor_file, encode(broker_command()).encode())
    except OSError as problem:
        raise ClientError(
            "refused",
            f"The broker cannot be told which program is to go on: {problem.filename}: {problem.strerror}.",
            "`xsessionctl stop` and `xsessionctl start` do without.",
        ) from None


def _forget_successor(paths: Paths) -> None:
    try:
        os.unlink(paths.successor_file)
    except OSError:
        pass


class _Watched:
    """Waits for the end of a process that need not be our child."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._descriptor: int | None = None
        self._gone = pid <= 0

    def __enter__(self) -> _Watched:
        if not self._gone and hasattr(os, "pidfd_open"):
            try:
                self._descriptor = os.pidfd_open(self._pid)
            except ProcessLookupError:
                self._gone = True
            except OSError:
                pass  # an old kernel: ask again and again
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def wait(self, deadline: float) -> bool:
        """True when the process is gone, False when the deadline came first."""
        if self._gone:
            return True
        if self._descriptor is not None:
            from select import select

            return bool(select([self._descriptor], [], [], max(0.0, deadline - monotonic()))[0])
        while monotonic() < deadline:
            try:
                os.kill(self._pid, 0)
            except OSError:
                return True
            sleep(FIRST_PAUSE_S)
        return False
