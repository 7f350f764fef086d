"""Ending what a test started: a process and its descendants, each identified by pid and start time, within a deadline.

Nothing is ever found by name. psutil compares the start time before it signals, so a pid that was given to another
process meanwhile is left alone.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable

import psutil

GRACE_SECONDS = 5.0
"""How long a process has to end by itself after being asked to."""


def descendants_of(pid: int) -> list[psutil.Process]:
    """The live descendants of ``pid``, nearest first; none when it has ended."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def wait_gone(processes: Iterable[psutil.Process], timeout: float) -> list[psutil.Process]:
    """Wait until ``processes`` have ended; returns those that still run after ``timeout`` seconds."""
    _, alive = psutil.wait_procs([p for p in processes if is_running(p)], timeout=timeout)
    return [p for p in alive if is_running(p)]


def members_of_session(leader: int) -> list[psutil.Process]:
    """The live processes of the kernel session that ``leader`` opened, its orphans too; not ``leader`` itself."""
    members = []
    for process in psutil.process_iter():
        try:
            if process.pid != leader and os.getsid(process.pid) == leader:
                members.append(process)
        except (ProcessLookupError, PermissionError):
            continue  # ended meanwhile, or another user's
    return members


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """End ``process``, which was started as the leader of a session, with its descendants: asked first, then killed.

    It may have ended already: then the orphans that it left are ended. Reaps it.
    """
    tree = descendants_of(process.pid) if process.poll() is None else []
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    end_processes({*tree, *members_of_session(process.pid)})


def end_processes(processes: Iterable[psutil.Process]) -> None:
    """End ``processes``: those that have not gone by themselves are asked, then killed."""
    left = wait_gone(processes, timeout=1.0)  # most end as soon as their parent is gone
    for process in left:
        _signal(process, kill=False)
    left = wait_gone(left, GRACE_SECONDS)
    for process in left:
        _signal(process, kill=True)
    wait_gone(left, GRACE_SECONDS)


def processes_with(variable: str, value: str) -> list[psutil.Process]:
    """The processes of ours that were started with this variable in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(variable) == value:
                found.append(process)
        except psutil.Error:
            continue  # another user's, or gone
    return found


def _signal(process: psutil.Process, *, kill: bool) -> None:
    try:
        process.kill() if kill else process.terminate()
    except psutil.NoSuchProcess:
        pass


def is_running(process: psutil.Process) -> bool:
    """Whether it runs; a zombie has ended, whoever should reap it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
