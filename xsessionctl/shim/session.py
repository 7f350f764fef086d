"""One conversation of a harness as the shim has it: its link, its mail, its hooks, its door.

The MCP server has one; a bridge that speaks for several conversations has one for each. Laws: what only some harnesses
have (hooks, a door) is loaded when the harness is known to be one of them. Refuses to know: MCP, how the loop runs.
"""

from __future__ import annotations

import os
from time import monotonic

from xsessionctl.shim.broker_link import BrokerLink
from xsessionctl.shim.courier import Courier
from xsessionctl.shim.door import Door
from xsessionctl.shim.mail import Mailbag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xsessionctl.shim.claude import ToolUses
    from xsessionctl.shim.doors.codex import CodexDoor
    from xsessionctl.shim.doors.codex_clients import Clients
    from xsessionctl.shim.doors.codex_queue import Queue
    from xsessionctl.shim.hooks import Hooks, Reply
    from xsessionctl.shim.identity import Identity
    from xsessionctl.shim.loop import Source
    from xsessionctl.shim.rendezvous import Rendezvous


NAMED_WITHIN_S = 3.0
"""How long a session that its harness is about to name waits for that before it makes itself known."""


class Session:
    """See the module.

    sources: for the loop, this object first; `settle` them when they are over. hooks: None where the harness has none
    that we know. on_up: called when the session is attached; on_known: when `is_known` has become true by itself.
    """

    def __init__(self, identity: Identity, rendezvous: Rendezvous) -> None:
        self.identity = identity
        self.link = BrokerLink(identity, rendezvous)
        self.bag = Mailbag()
        self.courier = Courier(identity, self.link, self.bag)
        self.hooks: Hooks | None = None
        self.sources: list[Source] = [self.link, self]
        self.on_up: Callable[[], None] = _nothing
        self._door: Door | None = None
        self._tool_uses: ToolUses | None = None
        self._codex: CodexDoor | None = None
        self._clients: Clients | None = None
        self._queue: Queue | None = None
        self._unattended = False
        self._unnamed_until: float | None = None
        self.on_known: Callable[[], None] = _nothing
        self._close: list[Callable[[], None]] = []
        self.link.on_up = self._link_is_up
        self.link.on_told = self.courier.hear

    def begin(self) -> None:
        """The harness is known now: whatever belongs to it is opened. Again is harmless."""
        harness = self.identity.harness
        if self.hooks is not None or self.identity.off or harness not in ("claude", "codex", "gemini"):
            return
        from xsessionctl.shim.dialects import DIALECTS
        from xsessionctl.shim.hooks import Hooks

        self.hooks = Hooks(self.identity, self.link, self.courier, DIALECTS[harness])
        directory = None
        if DIALECTS[harness].in_directory and self.identity.hooked and self.identity.pid is not None:
            from xsessionctl.shim.hook_dir import HookDirectory

            directory = HookDirectory(self.identity.pid, self.hooks, self.sources)
            self.sources.append(directory)
            self._close.append(directory.close)
            supply = self.courier.supply
            supply.on_change = lambda: directory.flag("mail", on=supply.anything_waits)
        if harness == "claude":
            from xsessionctl.shim.claude import ToolUses
            from xsessionctl.shim.doors import claude

            self._tool_uses = ToolUses()
            self.hooks.look = claude.find_look(self.identity)
            self.use_door(claude.open_door(self.identity, directory))
        elif harness == "gemini":
            from xsessionctl.shim.doors import typed

            self.use_door(typed.open_door(self.identity))
        elif harness == "codex":
            from xsessionctl.shim.doors import codex

            self._codex = door = codex.open_door(self.identity)
            door.on_status, door.on_policy = self._codex_does, self._codex_may
            if self.identity.pid is not None:
                from xsessionctl.shim.doors.codex_clients import Clients

                self._clients = clients = Clients(door.path, self.identity.pid, self._codex_is_seen)
                self.sources.append(clients)
                self._close.append(clients.close)
            self.use_door(self._other_door() if door.is_elsewhere else door)
        if self.identity.hooked and harness != "codex":  # there only their user's trust makes them run
            self.hooks.note_hooks_run()
            if DIALECTS[harness].names_late:
                self._unnamed_until = monotonic() + NAMED_WITHIN_S
                self.hooks.on_named = self._named

    def _named(self) -> None:
        """Its harness has named the conversation, or has had the time for it."""
        if self._unnamed_until is not None:
            self._unnamed_until = None
            self.on_known()

    def use_door(self, door: Door) -> None:
        """From now on this is the way in."""
        if self._door is not None:
            self.sources.remove(self._door)
        self._door = door
        self.sources.append(door)
        self.courier.use_door(door)

    def hear(self, fields: Mapping[str, object], reply: Reply) -> None:
        """One event of the harness, with everything that its hook says."""
        self.begin()
        if self.hooks is None:
            reply("{}", _nothing, _nothing)
        else:
            self.hooks.hear(fields, reply)

    def note_origin(self, meta: Mapping[str, object], fields: Mapping[str, object]) -> bool:
        """Where a tool call came from, as its `_meta` and, of a hook, its fields say. False if it says nothing about
        what the session does: it is a subagent's, or only about a call, or no hook of the harness at all."""
        if self._tool_uses is not None:
            from xsessionctl.shim.claude import BEFORE_CALL

            if fields.get("hook_event_name") != BEFORE_CALL:
                return True
            self._tool_uses.hear(fields)
            return False
        if self._codex is None or self.hooks is None or self.identity.off:
            return True
        from xsessionctl.shim.codex import IDENTIFY, Origin

        origin = Origin(meta, fields.get("session_id"))
        if origin.subagent:
            self._be_guest(str(origin.session))
            return False
        if origin.thread is not None:
            self.hooks.is_conversation(origin.thread)
            self._codex.know(origin.thread)
            if self._queue is not None:
                self._queue.know(origin.thread)
        self.hooks.note_policy(None, origin.unsandboxed)
        return fields.get("hook_event_name") != IDENTIFY

    def is_subagents(self, meta: Mapping[str, object]) -> bool:
        """Whether a model's tool call with this `_meta`, of which `note_origin` knows, is known to be a subagent's."""
        return self.identity.guest or (self._tool_uses is not None and self._tool_uses.is_subagents(meta))

    def _be_guest(self, conversation: str) -> None:
        """This process serves a subagent: it is no session, and speaks for the one that the subagent belongs to."""
        if not self.identity.guest:
            self.identity.guest, self.identity.conversation = True, conversation
            self.use_door(Door())
            self.link.leave()

    def _other_door(self) -> Door:
        """The way into a Codex that its daemon does not run."""
        from xsessionctl.shim.codex import terminal_program

        program = terminal_program(self.identity.harness_argv)
        if program is None:
            return Door()
        from xsessionctl.shim.doors.codex_queue import Queue

        self._queue = Queue(program, self.identity.variable("CODEX_HOME"))
        return self._queue

    def _codex_does(self, state: str) -> None:
        assert self.hooks is not None
        assert self._codex is not None
        self.hooks.is_told(state, "mail" if self._codex.is_busy else "other")
        if self._clients is not None:
            self._clients.look()

    def _codex_may(self, asks: bool, confined: bool) -> None:  # noqa: FBT001 - both are findings
        assert self.hooks is not None
        self.hooks.note_policy("default" if asks else "bypassPermissions", not confined)

    def _codex_is_seen(self, attended: bool) -> None:  # noqa: FBT001 - it is a finding
        self._unattended = not attended
        self.link.tell("update", {"attended": attended})

    def close(self) -> None:
        """The conversation is over, or this process is."""
        if self._door is not None:
            self._door.close()
        for close in self._close:
            close()
        self.link.drop()

    def _link_is_up(self, queued: int) -> None:
        if self.hooks is not None:
            self.hooks.link_is_up()
        if self._unattended:
            self.link.tell("update", {"attended": False})
        self.courier.link_is_up(queued)
        self.on_up()

    # -- as a source of the loop: the deadlines ------------------------------------------------------------------------

    wants_write = False

    @property
    def is_known(self) -> bool:
        """Whether it is sure that this is a session, and which one: then it may be introduced."""
        identity = self.identity
        if identity.guest:
            return False
        if self._unnamed_until is not None:
            return False  # one that is resumed would be another than it was
        if identity.harness != "codex" or identity.conversation is not None or identity.granted:
            return True
        from xsessionctl.shim import codex
        from xsessionctl.shim.identity import read_process

        if identity.pid is None or codex.is_app_server(identity.harness_argv):
            return identity.pid is None
        return not codex.has_elder(identity.pid, os.getpid(), codex.list_processes, read_process)

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        times = (self._unnamed_until, self.courier.due, self.hooks.due if self.hooks is not None else None)
        return min((time for time in times if time is not None), default=None)

    def fileno(self) -> int | None:
        """Nothing of its own."""
        return None

    def read(self) -> None:
        """Never called."""

    def write(self) -> None:
        """Never called."""

    def tick(self, now: float) -> None:
        """Does what is due."""
        if self._unnamed_until is not None and self._unnamed_until <= now:
            self._named()
        self.courier.tick(now)
        if self.hooks is not None:
            self.hooks.tick(now)


def _nothing() -> None:
    pass
