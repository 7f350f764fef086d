"""The broker's directories: made, and the runtime dir kept there for as long as the broker lives.

Other programs clean up: /run/user/UID goes with the last login, people delete what they do not know. The sockets that
stood there would still be open, and nobody could reach them.

Laws: a loss is noticed by the kernel's report, not by looking now and then; timers run only while something is lost.
What is made again is made by the rule of `paths` under the same lock. Refuses to know: what listens there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import trio

from xsessiond.core.limits import REMAKE_RETRY_MAX_S, REMAKE_RETRY_S
from xsessiond.io.listener import PathInUse
from xsessiond.io.lock import AlreadyRunning, BrokerLock
from xsessiond.paths import PathError, Paths, resolve_paths
from xsessiond.private_dirs import ensure_private_dir

if sys.platform == "darwin":
    from xsessiond.io._macos import PathWatch
else:
    from xsessiond.io._inotify import PathWatch


GATHER_S = 0.05
"""Wait after a change for what comes with it: a crowd of sessions that end takes their sockets away one by one."""


def make_directories(paths: Paths) -> None:
    """Make what a broker needs, private: runtime dir, sessions' dir, state dir. Raises UnsafePath, OSError."""
    for path in (paths.runtime_dir, paths.session_dir, paths.state_dir):
        ensure_private_dir(path)


def recover_runtime_dir(lock: BrokerLock) -> Paths:
    """Make the runtime dir again, where the rule wants it now, and take its lock; return the paths that hold now.

    The rule may want another place: /run/user/UID is gone after the last login. Clients find it by the word that the
    lock leaves in the state dir. Where the rule now wants another state dir too (the home that this broker was started
    with is gone), that place is for the broker of that store, and ours stays where it was. Raises PathError,
    AlreadyRunning, OSError; may then be tried again.
    """
    now = resolve_paths()
    paths = lock.paths
    if now.runtime_dir != paths.runtime_dir and now.state_dir == paths.state_dir:
        paths = paths.at_runtime_dir(now.runtime_dir, now.sources["runtime_dir"])
    make_directories(paths)
    lock.renew(paths)
    return paths


async def keep_in_place(
    directories: Callable[[], list[str]],
    intact: Callable[[], bool],
    remake: Callable[[], None],
    report: Callable[[str], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call `remake` whenever `intact` is false after a change in one of `directories`. Runs until cancelled.

    `remake` may raise PathError, AlreadyRunning, PathInUse or OSError, and is called again after a while or a change.
    `report` gets a sentence for the log when something was lost, made again, or cannot be, each once.
    """
    watch = PathWatch()
    failure: str | None = None
    pause = REMAKE_RETRY_S
    try:
        while True:
            _arm(watch, directories())
            if intact():  # asked after arming, so that nothing falls between
                failure, pause = None, REMAKE_RETRY_S
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                await trio.lowlevel.wait_readable(watch.fileno())
                await trio.sleep(GATHER_S)
                continue
            reason = _try(remake, intact)
            if reason is None:
                report("The runtime directory or a socket in it was lost, and has been made again.")
                await trio.lowlevel.checkpoint()
                continue
            if reason != failure:
                failure = reason
                report(f"The runtime directory was lost and cannot be made again yet: {reason}")
            await trio.sleep(REMAKE_RETRY_S)  # at least; it may be a place where much happens
            with trio.move_on_after(pause):
                await trio.lowlevel.wait_readable(watch.fileno())
            pause = min(pause * 2, REMAKE_RETRY_MAX_S)
    finally:
        watch.close()


def _try(remake: Callable[[], None], intact: Callable[[], bool]) -> str | None:
    """Return why it failed, as a sentence, or None."""
    try:
        remake()
    except PathError as error:
        return error.reason
    except (AlreadyRunning, PathInUse) as error:
        return f"{error}."
    except OSError as error:
        return f"{error.filename or 'the system'}: {error.strerror or error}."
    return None if intact() else "it was lost again at once."


def _arm(watch: PathWatch, directories: list[str]) -> None:
    watch.disarm()
    for path in directories:
        above = os.path.dirname(path)
        if os.path.isdir(path):
            watch.watch_losses(path)
        else:
            while not os.path.isdir(above):
                above = os.path.dirname(above)
            watch.watch_arrivals(above)
        while above != "/":
            watch.watch_itself(above)
            above = os.path.dirname(above)
