"""The one rule for every path of the product, for the broker, the CLI, the shims and the hooks.

Laws: no other module works out where a socket, the store or a setting lies. The answer depends on the user, on the
state of the file system and on a few variables, never on the working directory; what another user's environment left
behind (`su`, `sudo -E`) is passed over, and `notes` says so. Only the standard library's cheapest modules are imported,
because a hook pays for them at every start. Refuses to know: who listens, and what is in the files.

Where a program must look (the first that applies):

    runtime dir  $XSESSIOND_RUNTIME_DIR · $XDG_RUNTIME_DIR/xsessiond if ours and 0700 · /run/user/UID/xsessiond if
                 ours · on macOS ~/Library/Application Support/xsessiond/run · ~/.local/state/xsessiond/run
    state dir    $XSESSIOND_STATE_DIR · $XDG_STATE_HOME/xsessiond · ~/.local/state/xsessiond
    config dir   $XSESSIOND_CONFIG_DIR · $XDG_CONFIG_HOME/xsessiond · ~/.config/xsessiond

A candidate that exists and is not safe (another's, a link, writable by others) is passed over; what a variable names
explicitly is used or refused, never replaced.

/run/user/UID comes with a login and goes with the last one, and XDG_RUNTIME_DIR may be set in one environment and not
in another. So a running broker records its runtime dir in the state dir, and a client that finds nobody where the rule
points looks there (`recorded_runtime_dir`). That two brokers never run on one state dir is the lock's business.
"""

import os
import stat
import sys

TYPE_CHECKING = False  # typing's own costs an import of 3 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

PRODUCT = "xsessiond"
RUN_USER = "/run/user"
"""Where logind puts the runtime directory of each user."""
SHORT_BASE = "/private/tmp" if sys.platform == "darwin" else "/tmp"  # noqa: S108 - what is made there is verified to be ours
"""Where a runtime dir goes that is too long for sockets. Never $TMPDIR: that differs between a login and cron."""
SHORT_TRIES = 8
"""How many names below SHORT_BASE are tried when other users have taken the first ones."""
MANAGED_CONFIG = "/etc/xsessiond/config.toml"
PLACE_VARIABLES = ("XSESSIOND_RUNTIME_DIR", "XSESSIOND_STATE_DIR", "XSESSIOND_CONFIG_DIR", "XSESSIOND_MANAGED_CONFIG")
"""Those of our variables that say where things are, and not whose they are."""
SOCKET_PATH_LIMIT = {"darwin": 103}
"""Bytes of a Unix socket's path, without the closing NUL, where that is not `DEFAULT_SOCKET_PATH_LIMIT`."""
DEFAULT_SOCKET_PATH_LIMIT = 107
LONGEST_REF = 16
"""Hex digits of a session's ref for which the runtime dir leaves room. Two of 2**64 refs do not meet by chance."""
_BELOW_RUNTIME_DIR = len("/s/") + LONGEST_REF + len(".sock")


class PathError(Exception):
    """A path cannot be used. `path` is which, `reason` a sentence for people: what is wrong and what mends it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path, self.reason = path, reason


class UnsafePath(PathError):
    """Somebody else could read or replace what lies there."""


class SocketPathTooLong(PathError):
    """The path of a socket exceeds what the platform can bind; it is never cut."""


class HomeUnknown(PathError):
    """Neither HOME nor the user database says where the user's own files go."""


class Paths:
    """Every path, absolute, as text. Made by `resolve_paths`; none of them need exist.

    `sources` maps `runtime_dir`, `state_dir`, `config_dir` and `managed_config` to the part of the rule that gave them,
    for people. `notes` are sentences about what was passed over and why. `explicit`: $XSESSIOND_RUNTIME_DIR was set.
    """

    __slots__ = (
        "backup_dir", "bodies_dir", "broker_socket", "config_dir", "config_file", "explicit", "lock_file",
        "log_file", "managed_config", "notes", "passphrase_file", "platform", "recorded_link", "runtime_dir",
        "session_dir", "sources", "state_dir", "store_file", "store_lock_file", "successor_file",
    )  # fmt: skip

    def __init__(
        self,
        *,
        runtime_dir: str,
        state_dir: str,
        config_dir: str,
        managed_config: str,
        sources: dict[str, str],
        notes: tuple[str, ...] = (),
        explicit: bool = False,
        platform: str = sys.platform,
    ) -> None:
        self.runtime_dir = runtime_dir
        self.broker_socket = runtime_dir + "/broker.sock"
        self.lock_file = runtime_dir + "/broker.lock"
        self.session_dir = runtime_dir + "/s"
        self.state_dir = state_dir
        self.store_file = state_dir + "/store.db"
        self.store_lock_file = state_dir + "/store.lock"
        self.log_file = state_dir + "/xsessiond.log"
        self.bodies_dir = state_dir + "/bodies"
        self.backup_dir = state_dir + "/backup"
        self.recorded_link = state_dir + "/rendezvous"
        self.successor_file = state_dir + "/successor"
        self.config_dir = config_dir
        self.config_file = config_dir + "/config.toml"
        self.passphrase_file = config_dir + "/passphrase"
        self.managed_config = managed_config
        self.sources = sources
        self.notes = notes
        self.explicit = explicit
        self.platform = platform

    def session_socket(self, ref: str) -> str:
        """Return the path of the private socket of the session `ref` (hex digits).

        Raises SocketPathTooLong for a ref with more digits than the runtime dir leaves room for.
        """
        path = f"{self.session_dir}/{ref}.sock"
        check_socket_path(path, platform=self.platform)
        return path

    def at_runtime_dir(self, runtime_dir: str, source: str) -> "Paths":
        """Return these paths with another runtime dir, as when a broker turns out to run there; `source` says why."""
        return Paths(
            runtime_dir=runtime_dir,
            state_dir=self.state_dir,
            config_dir=self.config_dir,
            managed_config=self.managed_config,
            sources={**self.sources, "runtime_dir": source},
            notes=self.notes,
            explicit=self.explicit,
            platform=self.platform,
        )


def resolve_paths(environ: "Mapping[str, str] | None" = None, *, platform: str = sys.platform) -> Paths:
    """Work out every path for this user. `environ` is os.environ unless given; `platform` is a value of sys.platform.

    Nothing is made or changed. Raises HomeUnknown if a path below the home directory is needed and there is none, and
    UnsafePath if the runtime dir is too long for sockets and no short one can be had.
    """
    rule = _Rule(os.environ if environ is None else environ, platform)
    runtime_dir, runtime_source = rule.runtime_dir()
    state_dir, state_source = rule.base_dir("STATE", ".local/state")
    config_dir, config_source = rule.base_dir("CONFIG", ".config")
    managed, managed_source = rule.variable("XSESSIOND_MANAGED_CONFIG"), "XSESSIOND_MANAGED_CONFIG"
    if managed is None:
        managed, managed_source = MANAGED_CONFIG, "default"
    return Paths(
        runtime_dir=runtime_dir,
        state_dir=state_dir,
        config_dir=config_dir,
        managed_config=managed,
        sources={
            "runtime_dir": runtime_source,
            "state_dir": state_source,
            "config_dir": config_source,
            "managed_config": managed_source,
        },
        notes=tuple(rule.notes),
        explicit=runtime_source.startswith("XSESSIOND_RUNTIME_DIR"),
        platform=platform,
    )


def home_dir(environ: "Mapping[str, str] | None" = None) -> str:
    """Work out the user's home directory, by the same rule. Raises HomeUnknown."""
    return _Rule(os.environ if environ is None else environ, sys.platform).home() or "/"


class _Rule:
    """One application of the rule: what it reads, and what it passed over."""

    __slots__ = ("_home", "environ", "notes", "platform", "uid")

    def __init__(self, environ: "Mapping[str, str]", platform: str) -> None:
        self.environ = environ
        self.platform = platform
        self.uid = os.geteuid()
        self.notes: list[str] = []
        self._home: str | None = None

    def variable(self, name: str) -> str | None:
        """Return an absolute path from the environment, or None; what is relative depends on where one stands."""
        value = self.environ.get(name)
        if not value:
            return None
        if not value.startswith("/"):
            self.notes.append(f"{name}={value} is ignored: it is not an absolute path.")
            return None
        return os.path.normpath(value).replace("//", "/")

    def runtime_dir(self) -> tuple[str, str]:
        """Return the runtime dir, short enough for sockets, and where it came from."""
        path, source = self._runtime_dir()
        room = socket_path_limit(self.platform) - _BELOW_RUNTIME_DIR
        length = len(os.fsencode(path))
        if length <= room:
            return path, source
        return self._short_dir(path), f"{source}, moved from {path} ({length} bytes; sockets leave room for {room})"

    def _runtime_dir(self) -> tuple[str, str]:
        explicit = self.variable("XSESSIOND_RUNTIME_DIR")
        if explicit is not None:
            return explicit, "XSESSIOND_RUNTIME_DIR"  # never replaced by another: who sets it wants that broker or none
        base = self.variable("XDG_RUNTIME_DIR")
        if base is not None:
            wrong = self._fault(base, private=True)
            if wrong is None:
                path = self._candidate(base + "/" + PRODUCT)
                if path is not None:
                    return path, "XDG_RUNTIME_DIR"
            else:
                self.notes.append(f"XDG_RUNTIME_DIR={base} is passed over: {wrong}.")
        login = f"{RUN_USER}/{self.uid}"
        if self.platform != "darwin" and self._fault(login, private=False) is None:
            path = self._candidate(login + "/" + PRODUCT)
            if path is not None:
                return path, login
        if self.platform == "darwin":
            path = self._candidate(self.home() + "/Library/Application Support/" + PRODUCT + "/run")
            if path is not None:
                return path, "macOS default"
        return self.home() + "/.local/state/" + PRODUCT + "/run", "default"

    def base_dir(self, kind: str, below_home: str) -> tuple[str, str]:
        """Return the state or config dir and where it came from; `kind` is STATE or CONFIG."""
        explicit = self.variable(f"XSESSIOND_{kind}_DIR")
        if explicit is not None:
            return explicit, f"XSESSIOND_{kind}_DIR"
        base = self.variable(f"XDG_{kind}_HOME")
        if base is not None:
            wrong = self._foreign(base)
            if wrong is None:
                return base + "/" + PRODUCT, f"XDG_{kind}_HOME"
            self.notes.append(f"XDG_{kind}_HOME={base} is passed over: {wrong}.")
        return f"{self.home()}/{below_home}/{PRODUCT}", "default"

    def home(self) -> str:
        """Return the user's home: HOME, unless `su` or `sudo` left it pointing at somebody else's."""
        if self._home is None:
            self._home = self._find_home()
        return self._home

    def _find_home(self) -> str:
        value = self.variable("HOME")
        if value is not None and _owner(value) == self.uid:
            return "" if value == "/" else value
        home = _home_of(self.uid)
        if home is None or (value is not None and not _writable(home, self.uid) and os.access(value, os.W_OK)):
            home = value  # a container's made-up user: the home that it was given will have to do
        if home is None:
            raise HomeUnknown(
                "",
                f"Neither HOME nor the user database names a home directory for uid {self.uid}. Set HOME, or all of "
                "XSESSIOND_RUNTIME_DIR, XSESSIOND_STATE_DIR and XSESSIOND_CONFIG_DIR, to absolute paths.",
            )
        if value is not None and home != value:
            self.notes.append(f"HOME={value} is passed over for {home}: it does not belong to uid {self.uid}.")
        return "" if home == "/" else home

    def _candidate(self, path: str) -> str | None:
        """Return `path` if it is safe or not there yet; else note why not, so that the next one is taken."""
        try:
            wrong = dir_fault(os.lstat(path), self.uid, private=False)
        except FileNotFoundError:
            return path
        except OSError as error:
            wrong = error.strerror
        if wrong is None:
            return path
        note = f"{path} is passed over: {wrong}."
        if note not in self.notes:
            self.notes.append(note)
        return None

    def _fault(self, path: str, *, private: bool) -> str | None:
        try:
            return dir_fault(os.lstat(path), self.uid, private=private)
        except OSError as error:
            return error.strerror or "it cannot be read"

    def _foreign(self, path: str) -> str | None:
        """Say why `path`, which need not exist, is not for us to make files in; None if it is."""
        while True:
            try:
                found = os.stat(path)
            except FileNotFoundError:
                path = os.path.dirname(path)
                continue
            except OSError as error:
                return f"{path}: {error.strerror}"
            if found.st_uid == self.uid or found.st_mode & stat.S_ISVTX:
                return None
            return f"{path} belongs to uid {found.st_uid}"

    def _short_dir(self, path: str) -> str:
        from hashlib import sha256

        for number in range(SHORT_TRIES):
            digest = sha256(os.fsencode(path) + b"\0%d" % number).hexdigest()[:16]
            short = f"{SHORT_BASE}/{PRODUCT}-{self.uid}-{digest}"
            if self._candidate(short) is not None:
                return short
        raise UnsafePath(
            path,
            f"{path} is too long for sockets, and every short directory for it in {SHORT_BASE} is taken by somebody "
            "else. Set XSESSIOND_RUNTIME_DIR to a short path of your own.",
        )


def socket_path_limit(platform: str = sys.platform) -> int:
    """Return how many bytes the path of a Unix socket may have on `platform`."""
    return SOCKET_PATH_LIMIT.get(platform, DEFAULT_SOCKET_PATH_LIMIT)


def check_socket_path(path: str, *, platform: str = sys.platform) -> None:
    """Raise SocketPathTooLong, naming path, length and limit, if a socket cannot be bound at `path`."""
    limit, length = socket_path_limit(platform), len(os.fsencode(path))
    if length > limit:
        raise SocketPathTooLong(
            path,
            f"The path of the socket {path} has {length} bytes, and this system allows {limit}. "
            "Set XSESSIOND_RUNTIME_DIR to a shorter directory.",
        )


def recorded_runtime_dir(paths: Paths) -> str | None:
    """Return where the last broker on this state dir ran, if that is safe and another runtime dir than the rule's.

    For a client that found nobody at `paths.broker_socket`, before it starts a broker: `paths.at_runtime_dir(…)`.
    """
    if paths.explicit:
        return None
    target = _read_link(paths.recorded_link)
    if target is None or target == paths.runtime_dir or not target.startswith("/"):
        return None
    try:
        safe = dir_fault(os.lstat(target), os.geteuid(), private=True) is None
    except OSError:
        return None
    return target if safe else None


def _read_link(path: str) -> str | None:
    try:
        if os.lstat(path).st_uid != os.geteuid():
            return None
        return os.readlink(path)
    except OSError:
        return None


def dir_fault(found: os.stat_result, uid: int, *, private: bool) -> str | None:
    """Say what makes a directory unfit, as half a sentence, or None. `private` also asks for mode 0700 exactly."""
    mode = found.st_mode
    if stat.S_ISLNK(mode):
        return "it is a symbolic link"
    if not stat.S_ISDIR(mode):
        return "it is not a directory"
    if found.st_uid != uid:
        return f"it belongs to uid {found.st_uid}, not to uid {uid}"
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write in it (mode {stat.S_IMODE(mode):04o})"
    if private and stat.S_IMODE(mode) != 0o700:
        return f"its mode is {stat.S_IMODE(mode):04o}, not 0700"
    return None


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def _writable(path: str, uid: int) -> bool:
    return _owner(path) == uid or os.access(path, os.W_OK)


def _home_of(uid: int) -> str | None:
    import pwd

    try:
        path = pwd.getpwuid(uid).pw_dir
    except KeyError:
        return None
    return os.path.normpath(path) if path.startswith("/") else None
