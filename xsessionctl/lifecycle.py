"""Finding the broker, and starting it where it is missed.

Laws: which broker serves is decided by its own lock and not here; this module only spares the machine fifty starts at
once. What is started owes nothing to who started it: another session of the system, no terminal, no open file, no
parent that is ours, and of the environment only what a service of this user may know. A start that fails is told in
the broker's own words. Refuses to know: requests, and what is printed.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from xsessionctl.client import ClientError, Connection, connect
from xsessionctl.granted import connect_granted, granted_socket
from xsessiond.paths import PLACE_VARIABLES, PathError, Paths, home_dir, recorded_runtime_dir, resolve_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from subprocess import Popen

NOBODY = (FileNotFoundError, ConnectionRefusedError)
"""What connecting raises when there is no broker."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.1
"""Between two looks at a broker that is starting or ending."""
REASON_BYTES = 4096
"""How much of what a failed start wrote is shown."""

KEPT_VARIABLES = frozenset(
    "HOME USER LOGNAME SHELL PATH LANG LANGUAGE TZ TMPDIR DISPLAY WAYLAND_DISPLAY DBUS_SESSION_BUS_ADDRESS "
    "PYTHONPATH PYTHONHOME VIRTUAL_ENV".split()
)
KEPT_PREFIXES = ("LC_", "XDG_")
"""All that a started broker gets to see, beside `PLACE_VARIABLES`. Keys and tokens of a harness, and the identity of a
session, are not its business.
"""


def find_paths() -> Paths:
    """Where everything is, for this user. Raises ClientError."""
    try:
        return resolve_paths()
    except PathError as problem:
        raise ClientError("no_broker", problem.reason, detail=problem.path) from None


def find_home(environ: Mapping[str, str]) -> str:
    """This user's home directory. Raises ClientError."""
    try:
        return home_dir(environ)
    except PathError as problem:
        raise ClientError("bad_config", problem.reason) from None


def connect_if_running(paths: Paths, deadline: float) -> Connection | None:
    """A link to the broker, or None when there is none. Raises ClientError when there is something that cannot be
    used.
    """
    granted = granted_socket()
    if granted is not None:
        return connect_granted(granted, deadline)
    socket = paths.broker_socket
    try:
        return connect(socket, deadline)
    except NOBODY:
        pass
    except OSError as problem:
        raise _unusable(socket, problem) from None
    elsewhere = recorded_runtime_dir(paths)
    if elsewhere is None:
        return None
    socket = elsewhere + "/broker.sock"
    try:
        return connect(socket, deadline)
    except NOBODY:
        return None
    except OSError as problem:
        raise _unusable(socket, problem) from None


def connect_or_start(paths: Paths, deadline: float) -> Connection:
    """A link to the broker, which is started if there is none. Raises ClientError."""
    return ensure_broker(paths, deadline)[0]


def ensure_broker(paths: Paths, deadline: float, environ: Mapping[str, str] | None = None) -> tuple[Connection, bool]:
    """As `connect_or_start`; the second value tells whether this call started the broker.

    environ: what `paths` were worked out from, if that is not this process's environment.
    """
    link = connect_if_running(paths, deadline)
    if link is not None:
        return link, False
    with Starting(paths, environ) as starting:
        pause = 0.0
        while True:
            starting.step()
            link = connect_if_running(paths, deadline) if monotonic() < deadline else None
            if link is not None:
                return link, starting.mine
            starting.check()
            if monotonic() + pause > deadline:
                raise ClientError(
                    "timeout",
                    "The broker did not start in time.",
                    f"See {paths.log_file}, or run `xsessiond` by hand to watch it start; `--timeout S` waits longer.",
                )
            sleep(pause)
            pause = min(max(FIRST_PAUSE_S, pause * 1.5), LONGEST_PAUSE_S)


class Starting:
    """One client's part in a start. `mine`: a broker was started here."""

    def __init__(self, paths: Paths, environ: Mapping[str, str] | None = None) -> None:
        self._paths = paths
        self._environ = broker_environment(os.environ if environ is None else environ)
        self._lock: int | None = None
        self._chosen = False
        self._child: Popen[bytes] | None = None
        self._reason_file = paths.state_dir + "/start.err"
        self.mine = False

    def __enter__(self) -> Starting:
        from xsessiond.private_dirs import ensure_private_dir

        directory = self._paths.runtime_dir
        try:
            ensure_private_dir(directory)
            directory = self._paths.state_dir
            ensure_private_dir(directory)
            self._lock = os.open(self._paths.runtime_dir + "/start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PathError as problem:
            raise ClientError(
                "no_broker", f"The broker cannot be started: {problem.reason}", detail=problem.path
            ) from None
        except OSError as problem:
            raise ClientError(
                "no_broker",
                f"The broker cannot be started: {problem.filename or directory}: {problem.strerror}.",
                "`xsessionctl paths` prints where its files go and which variable moves them.",
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            # The go-between that would have told of a failure. The broker is not its child any more once it is gone.
            self._child.kill()
            self._child.wait()
            if self._child.stdout is not None:
                self._child.stdout.close()
        if self._lock is not None:
            os.close(self._lock)

    def step(self) -> None:
        """Takes the part of the one that starts, or, when that was done in an earlier step, starts the broker.

        Between the two the caller looks once more whether there is one: another client may just have finished.
        """
        import fcntl

        if self._child is not None or self._lock is None:
            return
        if self._chosen:
            self._child = _spawn(self._reason_file, self._environ)
            self.mine = True
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._chosen = True
        except OSError:
            pass  # another client is about it

    def check(self) -> None:
        """Raises ClientError with the broker's own reason if the one that was started here has ended."""
        if self._child is None or self._child.poll() is None or self._child.stdout is None:
            return
        status = self._child.stdout.read().strip()
        if status in (b"", b"0"):
            # Another broker was there first, and will answer. Should it end before it did, the next step starts one.
            self._child.wait()
            self._child.stdout.close()
            self._child, self.mine = None, False
            return
        raise ClientError(
            "bad_config" if status == b"11" else "no_broker",
            _read_reason(self._reason_file) or f"The broker ended with status {status.decode()} while it started.",
            f"Run `xsessiond` by hand to see more; its log is {self._paths.log_file}.",
        )


def _spawn(reason_file: str, environ: Mapping[str, str]) -> Popen[bytes]:
    """Starts the broker, detached. Returns the go-between that prints the broker's exit status if it ends while we
    wait.

    Going through a shell makes the broker nobody's child at once, also when the client is a shim that lives for days,
    and costs a millisecond. A second fork by hand would not do: it is unsafe in a process with threads.
    """
    from subprocess import DEVNULL, PIPE, Popen

    errors = os.open(reason_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        return Popen(
            ["/bin/sh", "-c", 'umask 077; "$@" >/dev/null & wait $!; echo $?', "sh", *broker_command()],
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=errors,
            cwd="/",
            env=dict(environ),
            start_new_session=True,
        )
    finally:
        os.close(errors)


def broker_command() -> list[str]:
    """What starts the broker: this very interpreter, whatever PATH says, and no module from the working directory."""
    return [sys.executable, "-P", "-m", "xsessiond"]


def broker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a broker that a client with `environ` starts."""
    return {
        name: value
        for name, value in environ.items()
        if name in KEPT_VARIABLES or name in PLACE_VARIABLES or name.startswith(KEPT_PREFIXES)
    }


def _read_reason(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - REASON_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    told = [line.removeprefix("xsessiond: ") for line in lines if line.startswith("xsessiond: ")]
    return " ".join(told or [line for line in lines if line.strip()][-1:])


def _unusable(socket: str, problem: OSError) -> ClientError:
    if not isinstance(problem, PermissionError):
        return ClientError("no_broker", f"{socket} cannot be connected to: {problem.strerror or problem}.")
    if _may_be_ours(socket):
        return ClientError(
            "not_permitted",
            f"This process may not connect to {socket}, which is yours: a sandbox keeps it from that.",
            "`xsessionctl paths --sandbox` prints the rules that let it through; an agent's tools work without them.",
        )
    return ClientError(
        "not_permitted",
        f"{socket} belongs to another user, or its directory does.",
        "Each user has a broker of their own; look at `xsessionctl paths`.",
    )


def _may_be_ours(socket: str) -> bool:
    """Whether nobody else has it: a filter of system calls refuses also what is not there."""
    try:
        return os.stat(socket).st_uid == os.geteuid()
    except FileNotFoundError:
        return True
    except OSError:
        return False
