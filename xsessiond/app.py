"""The program: command line → settings → one running broker. The one place that knows every room."""

from __future__ import annotations

import argparse
import gc
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence

import psutil
import trio

from xsessiond import __version__
from xsessiond.config import Config, to_core
from xsessiond.config_files import SettingsFiles
from xsessiond.core.broker import Broker
from xsessiond.core.limits import STORE_RETRY_S
from xsessiond.core.state import Identity
from xsessiond.io.handover import (
    BadInheritance,
    Heritage,
    Succession,
    open_inheritance,
    take_inheritance,
    tell_check,
)
from xsessiond.io.listener import BadListener, ListeningSocket, PathInUse, adopt_listeners, bind_listener
from xsessiond.io.lock import AlreadyRunning, BrokerLock, acquire_broker_lock, adopt_broker_lock
from xsessiond.io.logs import Log, is_journal, shorten_errors
from xsessiond.io.processes import raise_file_limit, user_name
from xsessiond.io.runtime_dir import make_directories
from xsessiond.io.sdnotify import take_service_manager
from xsessiond.io.service import Service
from xsessiond.io.succession import succeed_broker
from xsessiond.paths import PathError, Paths, resolve_paths
from xsessiond.store.contract import Snapshot, Store, StoreError
from xsessiond.store.looking import require_usable
from xsessiond.store.memory import MemoryStore
from xsessiond.store.sqlite import SqliteStore

EXIT_ALREADY_RUNNING = 0
EXIT_UNUSABLE = 9
OPEN_PAUSE_S = 0.1
"""Between two tries to open the store."""


class Entropy:
    """Random bytes from the system, a few kilobytes at a time: a system call for each message's id would be a tenth of
    its cost."""

    __slots__ = ("_at", "_pool")

    def __init__(self) -> None:
        self._pool, self._at = b"", 0

    def __call__(self, count: int) -> bytes:
        """`count` bytes that were never given out before."""
        start = self._at
        end = start + count
        if end > len(self._pool):
            self._pool = os.urandom(4096)
            start, end = 0, count
        self._at = end
        return self._pool[start:end]


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """The command line. Exits by itself for --help, --version and what it does not know."""
    parser = argparse.ArgumentParser(
        prog="xsessiond",
        description="The broker. Your login or its first client starts it; talk to it with xsessionctl.",
    )
    parser.add_argument("--version", action="version", version=f"xsessiond {__version__}")
    parser.add_argument("--verbose", action="store_true", help="log what happens, not only what is wrong")
    parser.add_argument(
        "--service",
        metavar="MANAGER",
        choices=["systemd", "launchd"],
        help="said by the service manager's own file: takes over from a broker that a client started",
    )
    parser.add_argument("--check", action="store_true", help="only look whether a broker could run here and now")
    parser.add_argument("--without-store", action="store_true", help="keep nothing: for measurements only")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Runs the broker until it is stopped. Returns the exit status: 0 stopped or another runs, 9 cannot run, 1 our own
    fault."""
    _open_standard_streams()
    words = sys.argv[1:] if argv is None else argv
    arguments = parse_arguments(words)
    os.umask(0o077)
    if arguments.check:
        return _run_guarded(_check, None)
    return _run_guarded(lambda: _serve(arguments, words), arguments.service)


def _open_standard_streams() -> None:
    """Descriptors 0 to 2 are something, so that no lock or socket of ours is taken for standard output."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest that is free
        os.set_inheritable(fd, True)
    os.close(fd)


def _run_guarded(work: Callable[[], int], service: str | None) -> int:
    """What `work` returns, or the status of what keeps a broker from running, said in a sentence."""
    try:
        return work()
    except AlreadyRunning as found:
        # A service manager takes 0 for the end of all that was to be done, and would not try again.
        return _fail(EXIT_ALREADY_RUNNING if service is None else EXIT_UNUSABLE, str(found))
    except PathError as problem:
        return _fail(EXIT_UNUSABLE, problem.reason)
    except (BadListener, BadInheritance, PathInUse, StoreError) as problem:
        return _fail(EXIT_UNUSABLE, str(problem))
    except OSError as problem:
        return _fail(EXIT_UNUSABLE, f"{problem.filename or 'The system'}: {problem.strerror or problem}.")


def _check() -> int:
    """Whether this program could go on from a broker that runs: it is all there, and can use what that one leaves."""
    paths = resolve_paths()
    SettingsFiles(paths).read()
    require_usable(paths.store_file)
    print(tell_check(__version__, paths))
    return 0


def _serve(arguments: argparse.Namespace, words: Sequence[str]) -> int:
    """One broker's life, and its hand-over to the next in this process."""
    environ = dict(os.environ)
    service: str | None = arguments.service
    if service == "launchd":
        shorten_errors()
    manager = take_service_manager()
    left = take_inheritance()
    paths = resolve_paths()
    succession = None if arguments.without_store else Succession(words, environ)
    heritage = Heritage(succession=succession)
    rendezvous: ListeningSocket | None = None
    inherited = left is not None and left.inherited
    if left is None:
        make_directories(paths)
        lock = acquire_broker_lock(paths, __version__) if service is None else succeed_broker(paths, __version__)
    else:
        rendezvous, doors, guests = open_inheritance(left)
        children = [child.pid for child in psutil.Process().children()]
        heritage = Heritage(doors, guests, children, succession)
        runtime_dir = os.path.dirname(rendezvous.path)
        if runtime_dir != paths.runtime_dir:  # the rule may point elsewhere by now; the broker stays where it is
            paths = paths.at_runtime_dir(runtime_dir, "where the broker started")
        lock = adopt_broker_lock(paths, __version__, left.runtime_lock, left.store_lock)
    files = SettingsFiles(paths)
    config = files.read()
    store, snapshot = _make_memory() if arguments.without_store else _open_store(paths, config)
    if rendezvous is None:
        rendezvous, inherited = _open_rendezvous(paths, lock)  # last: whoever finds it finds a broker
    open_files = raise_file_limit()
    log = Log(paths.log_file, "info" if arguments.verbose else "warning", journal=is_journal(os.environ))
    for note in paths.notes:
        log.write("warning", note, {})
    for fault in config.problems:
        log.write("warning", "settings", {"problem": fault})
    broker = _make_broker(paths, config, service, open_files)
    running = Service(
        broker, store, snapshot, lock, rendezvous, log, manager, files, config, heritage,
        inherited=inherited, open_files=open_files,
    )  # fmt: skip
    del snapshot
    gc.collect()
    gc.freeze()  # what the program is made of is never garbage; not looking at it again saves a tenth of each message
    try:
        trio.run(running.run)
        bequest = running.pass_on()
    finally:
        store.close()
        lock.release()
    if bequest is not None and succession is not None:
        succession.enter(bequest)
    return 0


def _open_rendezvous(paths: Paths, lock: BrokerLock) -> tuple[ListeningSocket, bool]:
    """The listening socket, and whether a service manager gave it to us."""
    adopted = adopt_listeners(os.environ, paths.broker_socket)
    if adopted:
        return next(iter(adopted.values())), True
    return bind_listener(paths.broker_socket, lock), False


def _make_memory() -> tuple[Store, Snapshot]:
    store = MemoryStore()
    return store, store.load()


def _open_store(paths: Paths, config: Config) -> tuple[Store, Snapshot]:
    """The store and what is in it. Where something passing is in the way, such as another program's lock, it is tried
    again for a while: who started the broker waits as long. Raises StoreError."""
    deadline = time.monotonic() + STORE_RETRY_S
    while True:
        try:
            store = SqliteStore(paths.store_file, config.durability, full_fsync=sys.platform == "darwin")
            try:
                return store, store.load()
            except StoreError:
                store.close()
                raise
        except StoreError as problem:
            if not problem.transient or time.monotonic() > deadline:
                raise
        time.sleep(OPEN_PAUSE_S)


def _make_broker(paths: Paths, config: Config, service: str | None, open_files: int) -> Broker:
    entropy = Entropy()
    identity = Identity(
        version=__version__,
        instance=entropy(16).hex(),
        pid=os.getpid(),
        machine=socket.gethostname(),
        user=user_name(),
        session_dir=paths.session_dir,
        service=service,
        boot_clock_s=_read_boot_clock(),
        open_files=open_files,
    )
    return Broker(identity, to_core(config, has_passphrase=os.path.lexists(paths.passphrase_file)), entropy)


def _read_boot_clock() -> float | None:
    if sys.platform != "linux":
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _fail(status: int, reason: str) -> int:
    print(f"xsessiond: {reason}", file=sys.stderr)
    return status
