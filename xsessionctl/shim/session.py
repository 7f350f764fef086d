"""One conversation of a harness as the shim has it: its link, its mail, its hooks, its door.

The MCP server has one; a bridge that speaks for several conversations has one for each. Laws: what only some harnesses
have (hooks, a door) is loaded when the harness is known to be one of them. Refuses to know: MCP, how the loop runs.
"""

from __future__ import annotations

from xsessionctl.shim.broker_link import BrokerLink
from xsessionctl.shim.courier import Courier
from xsessionctl.shim.mail import Mailbag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xsessionctl.shim.broker_link import Rendezvous
    from xsessionctl.shim.door import Door
    from xsessionctl.shim.hooks import Hooks, Reply
    from xsessionctl.shim.identity import Identity
    from xsessionctl.shim.loop import Source


class Session:
    """See the module.

    sources: for the loop, this object first; `settle` them when they are over. hooks: None where the harness has none
    that we know. on_up: called when the session is attached.
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
            self.courier.on_waiting = lambda: directory.flag("mail", on=self.courier.anything_waits)
        if harness == "claude":
            from xsessionctl.shim.doors import claude

            self.hooks.look = claude.find_look(self.identity)
            self.use_door(claude.open_door(self.identity, directory))
        elif harness == "gemini":
            from xsessionctl.shim.doors import typed

            self.use_door(typed.open_door(self.identity))
        if self.identity.hooked:
            self.hooks.note_hooks_run()

    def use_door(self, door: Door) -> None:
        """From now on this is the way in. Only with evidence to be had: without hooks it stays shut."""
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
        self.courier.link_is_up(queued)
        self.on_up()

    # -- as a source of the loop: the deadlines ------------------------------------------------------------------------

    wants_write = False

    @property
    def due(self) -> float | None:
        """When `tick` has something to do."""
        times = (self.courier.due, self.hooks.due if self.hooks is not None else None)
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
        self.courier.tick(now)
        if self.hooks is not None:
            self.hooks.tick(now)


def _nothing() -> None:
    pass
