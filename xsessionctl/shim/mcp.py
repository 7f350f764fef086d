"""`xsessionctl mcp`: the MCP server that a harness starts in a session, on standard input and output.

One thread, one poll over the client, the broker, the processes that the session lives in, and signals. With nothing to
do it sleeps. Laws: the client is answered before the broker is looked for; nothing here waits for either; the process
ends within two seconds of losing its input, its output or its harness. Standard output carries the protocol and nothing
else. Refuses to know: what tools do.
"""

from __future__ import annotations

import os
import sys
from time import monotonic

from xsessionctl.shim import loop, process, tools
from xsessionctl.shim.calls import Calls
from xsessionctl.shim.identity import Identity, find_harness, read_process
from xsessionctl.shim.outlet import Outlet
from xsessionctl.shim.protocol import Call, Cancel, ClientSeen, Protocol, Reply
from xsessionctl.shim.rendezvous import Rendezvous
from xsessionctl.shim.session import Session
from xsessionctl.shim.watch import Watch
from xsessiond.core import limits
from xsessiond.core.jsonrpc import LineSplitter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from xsessionctl.shim.outlet import Entry
    from xsessiond.core.jsonrpc import Oversize


class Shim:
    """The server. stdin, stdout: descriptors. wakeup: becomes readable when a signal asks for the end."""

    def __init__(
        self, identity: Identity, rendezvous: Rendezvous, watch: Watch, stdin: int, stdout: int, wakeup: int
    ) -> None:
        self._identity, self._watch, self._stdin, self._wakeup = identity, watch, stdin, wakeup
        self._protocol = Protocol(self._list_tools, tools.INSTRUCTIONS)
        self._splitter = LineSplitter(limits.SHIM_LINE, sys.maxsize)
        self._outlet = Outlet(stdout)
        self._session = Session(identity, rendezvous)
        self._link = self._session.link
        self._link.orphaned = watch.check
        self._calls = Calls(
            identity, self._link, self._outlet, self._protocol, self._session.bag, self._session.courier
        )
        self._session.on_up = self._calls.link_is_up
        self._session.on_known = self._introduce
        self._hooked: list[_HookCall] = []
        self._introduced = self._wanted = False
        self._introduce_at: float | None = None
        self._ending: float | None = None  # until then what runs may finish; nothing more is read
        self._saying_goodbye = False
        self._over = False

    def run(self) -> None:
        """Serves until the client, the harness or a signal ends it."""
        if self._watch.gone:
            return
        while not self._over:
            self._turn()
        self._session.close()

    def _turn(self) -> None:
        # What told of the end stays readable.
        reading = [] if self._saying_goodbye else [self._wakeup, *self._watch.descriptors]
        if self._ending is None and self._outlet.waiting <= limits.SHIM_INBOX_PAUSE:
            reading.append(self._stdin)
        writing = [self._outlet.fd] if self._outlet.waiting else []
        broken = [] if self._outlet.waiting or self._outlet.broken else [self._outlet.fd]
        due = [self._calls.due, self._ending, self._introduce_at]
        if self._watch.look_every is not None:
            due.append(monotonic() + self._watch.look_every)
        readable, writable, gone = loop.wait(self._session.sources, reading, writing, broken, due)
        now = monotonic()
        if self._wakeup in readable or self._watch.look(readable):
            # There is nobody left to answer.
            self._say_goodbye(now)
        if self._outlet.fd in gone:
            self._outlet.fail()
        if self._outlet.fd in writable:
            self._outlet.write_some()
        if self._stdin in readable:
            self._read()
        if self._introduce_at is not None and self._introduce_at <= now:
            self._introduce()
        self._calls.tick(now)
        self._consider_ending(now)

    def _read(self) -> None:
        try:
            data = os.read(self._stdin, limits.READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._ending = monotonic() + limits.SHIM_DRAIN_S
            return
        for line in self._splitter.feed(data):
            self._receive(line)

    def _receive(self, line: bytes | Oversize) -> None:
        for event in self._protocol.receive(line):
            if isinstance(event, Reply):
                self._outlet.put(event.data)
            elif isinstance(event, Call):
                if event.tool == tools.HOOK:
                    self._hear(event)
                else:
                    self._session.note_origin(event.meta, {})
                    event.aside = self._session.is_subagents(event.meta)
                    self._introduce()
                    self._calls.start(event)
            elif isinstance(event, Cancel):
                self._cancel(event.call)
            elif isinstance(event, ClientSeen):
                if event.name and self._identity.name_client(event.name) and self._introduced:
                    self._link.tell("update", {"harness": self._identity.harness})
                if not event.probing:
                    self._introduce()
                elif self._introduce_at is None and not self._introduced:
                    self._introduce_at = monotonic() + limits.SHIM_PROBE_S

    def _introduce(self) -> None:
        """The first word of the client makes the session known, after it has been answered."""
        self._introduce_at = None
        if not self._introduced and not self._identity.off:
            self._introduced = True
            self._session.begin()
        if self._introduced and not self._wanted and self._session.is_known:
            self._wanted = True
            self._link.want()

    def _list_tools(self, revision: str) -> list[dict[str, object]]:
        return tools.list_tools(revision, hooks=self._identity.calls_hooks)

    def _hear(self, call: Call) -> None:
        """The harness calls by one of its hooks. Its model must not: a prompt that it made up would pass for its
        user's."""
        if tools.is_models_own(call.meta):
            self._calls.answer(call, tools.NOT_FOR_MODELS, is_error=True, done=_nothing, dropped=_nothing)
            return
        ours = self._session.note_origin(call.meta, call.arguments)
        self._introduce()
        if not ours:
            self._calls.answer(call, "{}", is_error=False, done=_nothing, dropped=_nothing)
            return
        self._hooked = [item for item in self._hooked if not item.over]
        item = _HookCall(call, self._calls)
        self._hooked.append(item)
        self._session.hear(call.arguments, item.reply)

    def _cancel(self, call: Call) -> None:
        for item in self._hooked:
            if item.call is call and not item.over:
                if item.entry is not None:
                    self._outlet.withdraw(item.entry)
                elif self._session.hooks is not None:
                    self._session.hooks.cancel(item.reply)
                return
        self._calls.cancel(call)
        if self._session.hooks is not None:
            self._session.hooks.suspect_end()

    def _consider_ending(self, now: float) -> None:
        if self._outlet.broken:
            self._say_goodbye(now)
        elif self._ending is not None and not self._saying_goodbye:
            if now >= self._ending or not (self._calls.running or self._outlet.waiting):
                self._say_goodbye(now)
        if self._saying_goodbye and self._ending is not None and now >= self._ending:
            self._over = True

    def _say_goodbye(self, now: float) -> None:
        """The conversation is over: its name is free at once, without the time that a broken link is given."""
        if self._saying_goodbye:
            return
        self._saying_goodbye = True
        self._ending = now + limits.SHIM_END_S
        if self._link.state != "up" or self._identity.granted:
            # A granted session is not this process's to end: the next one in the container uses it again.
            self._over = True
            return

        def done() -> None:
            self._over = True

        self._link.end(self._ending, done)


class _HookCall:
    """A hook that came as a tool call. entry: its answer on its way, or None. over: it is written, or never will be."""

    __slots__ = ("_calls", "call", "entry", "over", "reply")

    def __init__(self, call: Call, calls: Calls) -> None:
        self.call, self._calls = call, calls
        self.entry: Entry | None = None
        self.over = False
        self.reply = self._reply  # one object, by which it is known again

    def _reply(self, text: str, done: Callable[[], None], dropped: Callable[[], None]) -> None:
        def end(then: Callable[[], None]) -> Callable[[], None]:
            def ended() -> None:
                self.over = True
                then()

            return ended

        self.entry = self._calls.answer(self.call, text, is_error=False, done=end(done), dropped=end(dropped))


def _nothing() -> None:
    pass


def main() -> int:
    """Runs the server; returns its exit status."""
    parent = os.getppid()
    if not process.has_streams():
        return 0
    if os.isatty(0):
        sys.stderr.write("This is an MCP server: a harness starts it and speaks JSON-RPC to it. Ctrl-D ends it.\n")
    try:
        cwd = os.getcwd()
    except OSError:
        cwd = "/"  # the folder is gone
    identity = Identity(process.take_environ(), cwd, find_harness(parent, read_process))
    watch = Watch(identity.watched, parent)
    Shim(identity, Rendezvous(), watch, 0, 1, process.catch_signals()).run()
    return 0
