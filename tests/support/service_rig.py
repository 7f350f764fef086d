"""The broker within the test's own process: the real service, core and sockets, on a store that the test chooses.

For what cannot be had from a process of its own at the moment that a test needs it: a disk that hangs, a commit that
fails. Clients are the blocking ones, used from threads (`in_thread`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from tests.support.private_broker import PrivateBroker
from xsessiond.config import to_core
from xsessiond.config_files import SettingsFiles
from xsessiond.core.broker import Broker
from xsessiond.core.records import Op
from xsessiond.core.state import Identity
from xsessiond.io.listener import bind_listener
from xsessiond.io.lock import acquire_broker_lock
from xsessiond.io.logs import Log
from xsessiond.io.runtime_dir import make_directories
from xsessiond.io.sdnotify import ServiceManager
from xsessiond.io.service import Service
from xsessiond.paths import resolve_paths
from xsessiond.store.contract import Store, StoreError
from xsessiond.store.memory import MemoryStore

T = TypeVar("T")


class TroubledStore(MemoryStore):
    """A store whose commits wait while `gate` is closed and fail while `problem` is set.

    begun: released once for each commit that begins. failing: which commits fail. batches: what was committed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Semaphore(0)
        self.problem: StoreError | None = None
        self.failing: Callable[[Sequence[Op]], bool] = lambda _: True
        self.batches: list[tuple[Op, ...]] = []

    def commit(self, ops: Sequence[Op]) -> None:
        """See `Store.commit`."""
        self.begun.release()
        assert self.gate.wait(20), "the test did not open the gate"
        if self.problem is not None and self.failing(ops):
            raise self.problem
        super().commit(ops)
        self.batches.append(tuple(ops))

    def close_gate(self) -> None:
        """Let the next commit wait; `begun` tells when it does."""
        while self.begun.acquire(blocking=False):
            pass
        self.gate.clear()


@asynccontextmanager
async def running_service(place: PrivateBroker, store: Store) -> AsyncIterator[Service]:
    """Run the service until the end of the block, and then stop it as a signal would."""
    before = dict(os.environ)
    os.environ.update(place.directories())  # where a lost runtime dir is made again, the environment says
    paths = resolve_paths()
    make_directories(paths)
    lock = acquire_broker_lock(paths, "0")
    rendezvous = bind_listener(paths.broker_socket, lock)
    identity = Identity("0", "instance", os.getpid(), "here", "me", paths.session_dir)
    files = SettingsFiles(paths)
    config = files.read()
    broker = Broker(identity, to_core(config, has_passphrase=False), os.urandom)
    log = Log(paths.log_file, "warning", journal=False)
    manager = ServiceManager(None, None)
    service = Service(broker, store, store.load(), lock, rendezvous, log, manager, files, config, inherited=False)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(service.run)
            yield service
            service.stop("the test is over", handover=False)
    finally:
        os.environ.clear()
        os.environ.update(before)
        log.close()
        lock.release()
        store.close()


async def in_thread(work: Callable[..., T], *arguments: object) -> T:
    """Run something that blocks, such as a client, beside the service."""
    return await trio.to_thread.run_sync(lambda: work(*arguments))
