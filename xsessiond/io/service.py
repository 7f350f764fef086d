"""The broker's life: sockets opened, sessions' doors, processes watched, signals, the graceful end.

Laws: ready means that a connection is answered; whatever ends the broker, what was accepted is stored and sent first,
within a bounded time. Refuses to know: requests, and how anything is decided.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from functools import partial

import trio

from xsessiond.config import Config, to_core
from xsessiond.config_files import SettingsFiles
from xsessiond.core.broker import Broker
from xsessiond.core.effects import (
    LinkClosed,
    LinkOpened,
    PassphraseChecked,
    ProcessExited,
    ProcessId,
    ProjectRead,
    Restored,
    SettingsRead,
    StopAsked,
    StoreReported,
    SuccessorFound,
)
from xsessiond.core.effects import Peer as PeerSeen
from xsessiond.core.limits import DOOR_CONNECTIONS, OPEN_FILES, STOP_WITHIN_S
from xsessiond.core.policy import ProjectSettings
from xsessiond.io.accept import Acceptor
from xsessiond.io.arrivals import Arrivals, Sender, find_sender, say_why
from xsessiond.io.doors import Doors
from xsessiond.io.engine import Engine
from xsessiond.io.exits import ExitWatch
from xsessiond.io.guests import Guests, most_guests
from xsessiond.io.handover import Heritage, Inheritance
from xsessiond.io.listener import ListeningSocket, bind_listener
from xsessiond.io.lock import BrokerLock
from xsessiond.io.logs import Log
from xsessiond.io.notify import Notifier
from xsessiond.io.passphrase import PassphraseFile
from xsessiond.io.peer import Peer
from xsessiond.io.peer_facts import PeerFacts
from xsessiond.io.processes import boot_id, peer_credentials, user_name
from xsessiond.io.readiness import FdSet
from xsessiond.io.resumer import Resumer, reap_inherited
from xsessiond.io.runtime_dir import keep_in_place, recover_runtime_dir
from xsessiond.io.sdnotify import ServiceManager
from xsessiond.io.settings import SettingsSource
from xsessiond.io.watchdog import feed_watchdog
from xsessiond.store.contract import Snapshot, Store


class Service:
    """Runs one broker on one lock. snapshot: what the store held at the start. rendezvous: the listening socket;
    inherited: a service manager owns its file. files, config: the settings files, and what they said at the start.
    heritage: what came from the broker before us, and how another comes after us; None where none can. open_files: how
    many this process may have."""

    def __init__(
        self,
        broker: Broker,
        store: Store,
        snapshot: Snapshot,
        lock: BrokerLock,
        rendezvous: ListeningSocket,
        log: Log,
        manager: ServiceManager,
        files: SettingsFiles,
        config: Config,
        heritage: Heritage | None = None,
        *,
        inherited: bool,
        open_files: int = OPEN_FILES,
    ) -> None:
        self._engine, self._store = Engine(broker, store, self), store
        self._restored: Restored | None = Restored(snapshot, boot_id())
        self._lock, self._log, self._manager = lock, log, manager
        self._rendezvous, self._inherited = rendezvous, inherited
        self._heritage = heritage = heritage or Heritage()
        self._doors = Doors(lock, self._serve, log, heritage.doors)
        self._silent: tuple[int, ...] = ()
        self._fds = FdSet(self._engine.settle)
        self._exits = ExitWatch(self._fds, lambda process: self._engine.submit(ProcessExited(process)))
        self._settings = SettingsSource(files, config, self._settings_read, self._project_read, self._report)
        self._passphrase = PassphraseFile(lock.paths.passphrase_file, self._passphrase_changed)
        self._notifier = Notifier(config.notify, self._report, confined=manager.present)
        self._resumer = Resumer(self._engine.submit, confined=manager.present)
        self._guests: dict[str | None, Guests] = {}
        self._most_guests = most_guests(open_files)
        self._arrivals = Arrivals(lambda text, pid: log.write("warning", text, {"pid": pid}))
        self._links = 0
        self._stopped = trio.Event()
        self._handing_over = False
        self._uid = os.geteuid()
        self._facts = PeerFacts(user_name())
        self._acceptor: Acceptor | None = None
        self._nursery: trio.Nursery | None = None

    # -- what the engine asks for ------------------------------------------------------------------------------------

    def open_door(self, session_id: str, ref: str, granted: str | None) -> None:
        """See `Doors.open`."""
        self._doors.open(session_id, ref, granted)

    def close_door(self, session_id: str) -> None:
        """See `Doors.close`."""
        self._doors.close(session_id)

    @property
    def texts_dir(self) -> str:
        """See `Surroundings`."""
        return self._lock.paths.bodies_dir

    def watch(self, process: ProcessId) -> bool:
        """See `ExitWatch.watch`."""
        return self._exits.watch(process)

    def unwatch(self, process: ProcessId) -> None:
        """See `ExitWatch.unwatch`."""
        self._exits.unwatch(process)

    def read_project(self, session_id: str, cwd: str) -> None:
        """See `SettingsSource.watch_project`."""
        self._settings.watch_project(session_id, cwd)

    def forget_project(self, session_id: str) -> None:
        """See `SettingsSource.forget_project`."""
        self._settings.forget_project(session_id)

    def read_settings(self) -> None:
        """See `SettingsSource.reload`."""
        self._settings.reload()

    def _project_read(self, session_id: str, project: ProjectSettings) -> None:
        self._engine.submit(ProjectRead(session_id, project))

    def _settings_read(self, config: Config) -> None:
        self._passphrase.notice_change()
        self._notifier.use(config.notify)
        for problem in config.problems:
            self._log.write("warning", "settings", {"problem": problem})
        self._engine.submit(SettingsRead(to_core(config, has_passphrase=self._passphrase.is_set())))

    def check_passphrase(self, ticket: int, text: str) -> None:
        """See `PassphraseFile.check`."""
        assert self._nursery is not None
        self._nursery.start_soon(self._check_passphrase, ticket, text)

    async def _check_passphrase(self, ticket: int, text: str) -> None:
        found = await self._passphrase.check(text)
        self._engine.submit(PassphraseChecked(ticket, found.ok, found.problem))

    def _passphrase_changed(self, text: str) -> None:
        self._log.write("warning", text, {"path": self._lock.paths.passphrase_file})
        self._notifier.tell(text, "If that was not you, look at `xsessionctl status`.")

    def start_conversation(self, ticket: int, argv: tuple[str, ...], cwd: str) -> None:
        """See `Resumer.start`."""
        self._resumer.start(ticket, argv, cwd)

    def end_attempt(self, ticket: int, *, arrived: bool) -> None:
        """See `Resumer.end`."""
        self._resumer.end(ticket, arrived=arrived)

    def notify(self, title: str, text: str) -> None:
        """See `Notifier.tell`."""
        self._notifier.tell(title, text)

    def write_log(self, level: str, what: str, facts: dict[str, object]) -> None:
        """One line for the operator."""
        self._log.write(level, what, facts)

    def find_successor(self) -> None:
        """Answers with `SuccessorFound`, later."""
        assert self._nursery is not None
        self._nursery.start_soon(self._find_successor)

    async def _find_successor(self) -> None:
        if self._heritage.succession is None:
            found = SuccessorFound(None, "It was started in a way that no other can go on from.")
        else:
            found = await self._heritage.succession.find(self._lock.paths)
        self._engine.submit(found)

    def stop(self, reason: str, *, handover: bool) -> None:
        """The broker decided to end; `run` goes on from here, also where it was handing over and shall not any more."""
        if self._handing_over:
            self._leave()
        self._handing_over = handover
        self._stopped.set()

    # -- connections -------------------------------------------------------------------------------------------------

    def _serve(self, door: str | None, sock: socket.socket, closed: Callable[[], None]) -> None:
        """One connection begins."""
        found = self._identify(sock, door)
        if found is None:
            sock.close()
            closed()
            return
        facts, sender = found
        assert self._nursery is not None
        self._links += 1
        guests = self._guests.get(door)
        if guests is None:
            # One less than the acceptor allows, so that there is always room for one who comes.
            most = DOOR_CONNECTIONS - 1 if door is not None else self._most_guests
            guests = self._guests[door] = Guests(most)

        def gone(peer: Peer) -> None:
            closed()
            guests.leave(peer.link)
            if not guests:
                del self._guests[door]
            peer.protocol.step("close")
            del self._engine.peers[peer.link]
            self._engine.submit(LinkClosed(peer.link))

        peer = Peer(sock, self._links, self._fds, self._nursery, self._engine.receive, gone)
        self._engine.peers[peer.link] = peer
        pid = facts.process.pid if facts.process is not None else 0
        unwanted = guests.enter(peer.link, sender, pid, peer.protocol)
        self._engine.submit(LinkOpened(peer.link, door, facts, peer.protocol))
        peer.start()
        if unwanted is not None and (other := self._engine.peers.get(unwanted)) is not None:
            self._log.write("info", "link closed", {"why": "a crowd", "pid": pid})
            other.cut()

    def _identify(self, sock: socket.socket, door: str | None) -> tuple[PeerSeen, Sender] | None:
        """Who connected, and who sent it, by the kernel's word; None for another user, who is not answered, and for
        what comes too fast, which is told so."""
        try:
            found = peer_credentials(sock)
        except OSError:
            return None
        if found.uid != self._uid:
            self._log.write("warning", "another user was turned away", {"uid": found.uid, "pid": found.pid})
            return None
        came, now = Sender(door, found.pid), trio.current_time()
        if self._arrivals.is_over(came, now):
            say_why(sock)
            return None
        facts = self._facts.look_closely(sock) if door is None else self._facts.look(sock)
        sender = find_sender(door, facts, self._exits)
        if not self._arrivals.admit(came, sender, now):
            say_why(sock)
            return None
        return facts, sender

    # -- life --------------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until a client, a signal or the service manager ends it."""
        try:
            async with trio.open_nursery() as self._nursery:
                nursery = self._nursery
                self._acceptor = Acceptor(self._fds, nursery, lambda text: self._log.write("warning", text, {}))
                await nursery.start(self._engine.run)
                nursery.start_soon(self._exits.run)
                nursery.start_soon(self._notifier.run)
                await nursery.start(self._resumer.run)
                nursery.start_soon(reap_inherited, self._heritage.children)
                await nursery.start(self._settings.run)
                self._doors.begin(self._acceptor)
                self._restore()
                self._doors.settle()
                await self._settings.first_answers()  # nobody is served before, and told that something holds for that
                nursery.start_soon(self._fds.run)
                await nursery.start(self._heed_signals)
                self._acceptor.add(self._rendezvous, partial(self._serve, None))
                self._take_guests()
                await nursery.start(keep_in_place, self._directories, self._intact, self._remake, self._report)
                self._log.write("info", "ready", {"socket": self._rendezvous.path})
                self._manager.ready("ready")
                nursery.start_soon(self._look_at_store)
                nursery.start_soon(feed_watchdog, self._manager, self._engine.upkeep.prove_writer)
                task_status.started()
                await self._stopped.wait()
                await self._wind_down()
                nursery.cancel_scope.cancel()
        finally:
            self._close()

    async def _look_at_store(self) -> None:
        """Once, beside what is served: the log that the last broker left is moved, and the store checked. One that is
        damaged is used as far as it goes, never thrown away; `status` is red."""
        await self._engine.upkeep.checkpoint()
        found = await trio.to_thread.run_sync(self._store.check)
        self._engine.submit(StoreReported((found.ok, found.detail)))
        if not found.ok:
            self._log.write("error", "the store is damaged", {"detail": found.detail})

    def _restore(self) -> None:
        restored, self._restored = self._restored, None  # it is large, and needed no more
        assert restored is not None, "a service runs once"
        self._engine.submit(restored)

    async def _heed_signals(self, *, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            task_status.started()
            async for number in signals:
                self._engine.submit(StopAsked(signal.Signals(number).name))

    async def _wind_down(self) -> None:
        """No newcomers; what was accepted is stored and sent; then the connections end."""
        assert self._acceptor is not None
        if self._handing_over:
            self._acceptor.let_go()
        else:
            self._leave()
        with trio.move_on_after(STOP_WITHIN_S):
            await self._engine.finish()
            for peer in list(self._engine.peers.values()):
                peer.hear_out()  # what came too late is refused, so that its sender knows that nothing was done
            await self._engine.finish()
        if self._handing_over:
            let_go = [peer.let_go() for peer in self._engine.peers.values()]
            self._silent = tuple(fd for fd in let_go if fd is not None)

    def _leave(self) -> None:
        """From now on nobody finds us. Doing it again does nothing."""
        assert self._acceptor is not None
        self._manager.stopping("stopping")
        self._remove_sockets()
        self._acceptor.close()

    def _take_guests(self) -> None:
        """Whoever connected to the broker before us and had not said anything speaks to us."""
        assert self._acceptor is not None
        for guest in self._heritage.guests:
            path = os.fsdecode(guest.getsockname())
            listener = self._rendezvous if path == self._rendezvous.path else self._doors.at(path)
            if listener is None:
                guest.close()
            else:
                self._acceptor.adopt(listener, guest)

    def pass_on(self) -> Inheritance | None:
        """After `run`: what the successor gets, which nobody here closes any more; None where there is none."""
        if not self._handing_over:
            return None
        return Inheritance(
            *self._lock.detach(), self._rendezvous.detach(), self._doors.detach(), self._silent, self._inherited
        )

    def _remove_sockets(self) -> None:
        self._doors.unlink()
        if not self._inherited:
            self._rendezvous.unlink()

    def _close(self) -> None:
        for peer in self._engine.peers.values():
            peer.abandon()
        self._exits.close()
        if self._acceptor is not None:
            self._acceptor.close()
        self._fds.close()

    # -- the runtime dir ---------------------------------------------------------------------------------------------

    def _directories(self) -> list[str]:
        paths = self._lock.paths
        return [paths.runtime_dir, paths.session_dir, *self._doors.directories()]

    def _intact(self) -> bool:
        if self._stopped.is_set():
            return True  # what goes now goes by our own hand
        return all(map(os.path.isdir, self._directories())) and self._rendezvous.intact() and self._doors.intact()

    def _remake(self) -> None:
        """Binds again what was deleted. Connections live on; sessions are told nothing, their sockets have the same
        paths."""
        assert self._acceptor is not None
        recover_runtime_dir(self._lock)
        if not self._rendezvous.intact():
            fresh = bind_listener(self._lock.paths.broker_socket, self._lock)
            self._acceptor.remove(self._rendezvous)
            self._rendezvous, self._inherited = fresh, False
            self._acceptor.add(fresh, partial(self._serve, None))
        self._doors.remake()

    def _report(self, text: str) -> None:
        self._log.write("warning", text, {})
