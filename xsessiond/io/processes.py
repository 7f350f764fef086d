"""What the kernel knows about processes: who is at the other end, what it descends from, whether it still runs.

Laws: a process is a `ProcessId`, never a bare pid, so that a pid used again is nobody we know. What cannot be seen
(another user's process, another pid namespace, a hardened /proc) is None or `complete=False`, never a guess. Every
function is quick and does not block. Refuses to know: sessions, and what follows from an end (`exits` waits for it).
"""

from __future__ import annotations

import os
import pwd
import resource
import sys
from functools import cache
from typing import NamedTuple

from xsessiond.core.limits import OPEN_FILES
from xsessiond.io._process import PeerCred, ProcessId, ProcessStat

if sys.platform == "darwin":
    from xsessiond.io import _macos as _system
    from xsessiond.io._macos import is_ours, peer_credentials, peer_process, read_place, terminal_name
else:
    from xsessiond.io import _linux as _system
    from xsessiond.io._linux import is_ours, peer_credentials, peer_process, read_place, terminal_name

__all__ = [
    "Ancestry",
    "PeerCred",
    "ProcessId",
    "Step",
    "ancestry",
    "boot_id",
    "environment_marks",
    "identify",
    "is_ours",
    "is_running",
    "own_process",
    "peer_credentials",
    "peer_process",
    "raise_file_limit",
    "read_place",
    "terminal_name",
    "trace",
    "user_name",
]

MARKS = frozenset({
    "CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_SESSION_ID", "CLAUDE_PID",
    "CODEX_CI", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID",
    "GEMINI_CLI", "OPENCODE", "OPENCODE_PID",
    "AI_AGENT", "AMP_CURRENT_THREAD_ID", "ANTIGRAVITY_AGENT", "AUGMENT_AGENT", "CLAUDE_CODE_IS_COWORK", "CLINE_ACTIVE",
    "COPILOT_CLI", "CURSOR_AGENT", "GOOSE_TERMINAL", "PI_CODING_AGENT", "QWEN_CODE",
    "XSESSIOND_SHIM", "XSESSIOND_TOKEN_FILE",
})  # fmt: skip
"""Variables that a harness sets in what it starts, and ours in a shim. Settings that people export themselves
(CODEX_HOME, GEMINI_API_KEY, XSESSIOND_NAME) are not among them, nor what an editor sets in its users' own terminals
(CURSOR_TRACE_ID)."""
LONGEST_ANCESTRY = 128
"""More generations than a process tree has; a chain that is read while it changes must end."""


class Step(NamedTuple):
    """One generation of an ancestry, with what was seen of it."""

    process: ProcessId
    stat: ProcessStat


class Ancestry(tuple[ProcessId, ...]):
    """A process, its parent, and so on up to the first process of the machine or the container.

    `complete` is False if the chain broke off before that: an ancestor is hidden from us, or ended while we looked. Who
    asks whether a process is below a session must not take an incomplete chain for a no.
    """

    complete: bool = False


def identify(pid: int) -> ProcessId | None:
    """Return the process that has this pid now, or None if none has, it is a zombie, or it is hidden from us."""
    found = _system.read_stat(pid) if pid > 0 else None
    return None if found is None or found.dead else ProcessId(pid, found.start)


def is_running(process: ProcessId) -> bool:
    """Tell whether that very process still runs. A zombie does not."""
    return identify(process.pid) == process


def ancestry(pid: int) -> Ancestry:
    """Return the process `pid` and its ancestors, itself first; empty if there is none. A zombie has ancestors too.

    Linux: about 7 µs a generation.
    """
    steps, complete = trace(pid)
    result = Ancestry(step.process for step in steps)
    result.complete = complete
    return result


def trace(pid: int) -> tuple[list[Step], bool]:
    """Return what `ancestry` does with what was seen of each process, and whether it is complete."""
    steps: list[Step] = []
    complete = False
    while pid > 0 and len(steps) < LONGEST_ANCESTRY:
        found = _system.read_stat(pid)
        if found is None or (steps and found.start > steps[-1].process.start):
            break  # gone or hidden; or younger than its child, so that the pid has passed to somebody else meanwhile
        steps.append(Step(ProcessId(pid, found.start), found))
        pid = found.parent
        complete = pid == 0
    return steps, complete


def environment_marks(pid: int) -> frozenset[str] | None:
    """Return which of `MARKS` are in the environment that `pid` was started with; None if that cannot be read.

    It is what the process was given at its start, by whoever started it: a mark tells something, its absence nothing.
    """
    return _system.read_environ(pid, MARKS) if pid > 0 else None


@cache
def boot_id() -> str:
    """Return what identifies this run of the machine, and with a `ProcessId` a process for ever.

    "unknown" where the system has no such thing; then processes of different boots cannot be told apart by it.
    """
    return _system.read_boot_id() or "unknown"


def user_name() -> str:
    """Return what sessions call the human: the account's name, whichever environment the broker was started from."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's made-up user
        return os.environ.get("USER") or "you"


def raise_file_limit(wanted: int = OPEN_FILES) -> int:
    """Raise this process's limit of open descriptors as far as it may go, up to `wanted`; return what it is now.

    Not simply to the hard limit: that is a thousand million in some containers, and programs that we start inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    for limit in (most, 10240):  # macOS refuses more than kern.maxfilesperproc, whatever the hard limit says
        if limit <= soft:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError):
            continue
        return limit
    return soft


def own_process() -> ProcessId:
    """Return this process."""
    found = identify(os.getpid())
    assert found is not None, "a process that runs can see itself"
    return found
