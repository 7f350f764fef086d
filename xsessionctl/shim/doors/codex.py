"""The door into a conversation of Codex: the daemon that runs it, an app-server that takes input from any client.

Each client of the daemon hears of every thread when it begins and ends a turn; what happens in one is told to those who
subscribe to it. Laws: this client is subscribed only while it asks what the session may do, or a text is under way
(`Passage`), because Codex ends a thread that nobody looks at, and it is not for us to keep it; only the daemon that
this process descends from is asked: a thread elsewhere has no such door. Refuses to know: what the texts say.
"""

from __future__ import annotations

from time import monotonic

from xsessionctl.shim.codex import IDENTIFY, control_socket
from xsessionctl.shim.door import GONE, REFUSED, Door
from xsessionctl.shim.doors.app_server import AppServer
from xsessionctl.shim.doors.codex_passage import Passage, as_object, join, leave
from xsessionctl.shim.peer import Foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from xsessionctl.shim.door import Done
    from xsessionctl.shim.identity import Identity

    Result: TypeAlias = dict[str, object] | None

SERVER = "xsession"
"""What our MCP server is called in Codex's configuration."""
RETRY_FIRST_S, RETRY_MOST_S = 1.0, 60.0
"""Pause before a daemon that hung up is tried again; it doubles."""
_WAITING = ("waitingOnApproval", "waitingOnUserInput")


def open_door(identity: Identity) -> CodexDoor:
    """The door of a session that Codex runs."""
    door = CodexDoor(control_socket(identity.variable), identity.pid)
    if identity.conversation is not None:
        door.know(identity.conversation)
    door.reopen()
    return door


class CodexDoor(Door):
    """See the module.

    thread: the conversation's id, once it is known (`know`). on_status: called with `idle`, `busy` or `waiting` when
    Codex says that this is what the conversation does now. on_policy: called with whether it asks before it acts, and
    whether what it runs is confined.
    """

    modes = ("auto", "followup", "inject", "steer")
    proves = True

    def __init__(self, path: str, daemon: int | None) -> None:
        """path: see `control_socket`. daemon: pid of the process that started this one."""
        super().__init__()
        self.thread: str | None = None
        self.on_status: Callable[[str], None] = _ignore
        self.on_policy: Callable[[bool, bool], None] = _ignore
        self._path, self._daemon = path, daemon
        self._server: AppServer | None = None
        self._elsewhere = self._shut = self._seen = self._loaded = self._learning = False
        self._retry_at: float | None = None
        self._retry_s = RETRY_FIRST_S
        self._passage: Passage | None = None

    # -- finding -------------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the daemon has this conversation."""
        return self._loaded and not self._shut

    @property
    def is_elsewhere(self) -> bool:
        """Whether there is no daemon that could have this conversation."""
        return self._server is None and self._retry_at is None

    @property
    def path(self) -> str:
        """Where the daemon listens."""
        return self._path

    @property
    def is_busy(self) -> bool:
        """Whether a text is under way."""
        return self._passage is not None

    def know(self, thread: str) -> None:
        """Says which conversation this is."""
        if thread != self.thread:
            self.thread = thread
            self._look()

    def shut(self) -> None:
        """See `Door.shut`."""
        self._shut = True
        self._retry_at = monotonic() + RETRY_MOST_S

    def reopen(self) -> None:
        """See `Door.reopen`: connects if it is not connected, and looks whether the thread is there."""
        if self._elsewhere:
            return
        if self._shut:
            self._shut = False
            if self._loaded:
                self.on_change()
        if self._server is None:
            self._connect()
        elif not self._loaded:
            self._look()

    def close(self) -> None:
        """See `Door.close`."""
        self._passage = self._retry_at = None
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _connect(self) -> None:
        try:
            server = AppServer(self._path, self._greeted, self._hear, self._lose)
        except (OSError, ImportError):
            return
        except Foreign:
            self._elsewhere = True
            return
        if server.pid is not None and server.pid != self._daemon:
            # `codex exec`, a terminal without daemon, an editor's own server: their threads are not in there.
            self._elsewhere = True
            server.close()
            return
        self._server = server

    def _greeted(self) -> None:
        self._retry_s = RETRY_FIRST_S
        self._look()

    def _look(self) -> None:
        """Asks for the conversation; as long as it is not known, which one it is."""
        if self._server is None or not self._server.ready:
            return
        if self.thread is not None:
            self._server.call("thread/read", {"threadId": self.thread}, self._see)
            return

        def listed(result: Result, problem: str | None) -> None:
            found = (result or {}).get("data")
            for thread in found if isinstance(found, list) else ():
                if isinstance(thread, str):
                    self._inspect(thread)

        self._server.call("thread/loaded/list", {}, listed)

    def _inspect(self, thread: str) -> None:
        """Whether it is a conversation of its own, neither a subagent's nor Codex's for itself; then it is called."""

        def read(result: Result, problem: str | None) -> None:
            found = as_object((result or {}).get("thread"))
            if found and not found.get("ephemeral") and found.get("parentThreadId") is None:
                self._call(thread)

        if self._server is not None and self.thread is None:
            self._server.call("thread/read", {"threadId": thread}, read)

    def _call(self, thread: str) -> None:
        """Has Codex call our tool in that thread: if that call arrives here, it is ours. Nothing else tells before the
        first prompt."""
        call = {"threadId": thread, "server": SERVER, "tool": "hook", "arguments": {"hook_event_name": IDENTIFY}}
        if self._server is not None and self.thread is None:
            self._server.call("mcpServer/tool/call", call, _nothing)

    def _see(self, result: Result, problem: str | None) -> None:
        thread = as_object((result or {}).get("thread"))
        status = as_object(thread.get("status"))
        self._seen = status.get("type") not in (None, "notLoaded") and thread.get("canAcceptDirectInput") is not False
        if not self._seen:
            self._lack()
        elif not self._loaded:
            self._tell(status)

    # -- what Codex tells ----------------------------------------------------------------------------------------------

    def _hear(self, method: str, params: Mapping[str, object]) -> None:
        if method == "thread/started":
            thread = as_object(params.get("thread"))
            if self.thread is None and isinstance(thread.get("id"), str):
                self._inspect(str(thread["id"]))
        elif self.thread is None or params.get("threadId") != self.thread:
            pass
        elif method == "thread/status/changed":
            self._tell(as_object(params.get("status")))
        elif method == "thread/closed":
            self._lack()
        elif self._passage is not None:
            self._passage.hear(method, params)

    def _tell(self, status: Mapping[str, object]) -> None:
        kind, flags = status.get("type"), status.get("activeFlags")
        if kind == "notLoaded":
            return  # `thread/closed` follows
        if kind == "active":
            waits = isinstance(flags, list) and any(flag in _WAITING for flag in flags)
            self.on_status("waiting" if waits else "busy")
        else:
            self.on_status("idle")
        self._learn()

    def _lack(self) -> None:
        """The thread is not to be had any more, at least for now."""
        passage, self._seen = self._passage, False
        if passage is not None:
            passage.lose()
            self._passage = None
        if self._loaded:
            self._loaded = False
            self.on_change()

    def _lose(self) -> None:
        self._server = None
        self._learning = False
        self._retry_at = monotonic() + self._retry_s
        self._retry_s = min(self._retry_s * 2, RETRY_MOST_S)
        self._lack()

    # -- posting -------------------------------------------------------------------------------------------------------

    def post(self, text: str, *, busy: bool, mode: str, done: Done) -> None:
        """See `Door`."""
        if self._server is None or self.thread is None or not self.is_open:
            done(GONE)
            return
        if self._passage is not None:
            done(REFUSED)
            return

        def tell(outcome: str) -> None:
            if self._passage is not passage:
                return
            if passage.over:
                self._passage = None
            if outcome == GONE:
                self.shut()
            done(outcome)

        passage = self._passage = Passage(self._server, self.thread, text, mode, self._see_policy, tell)
        if not self._learning:
            passage.begin()

    def _learn(self) -> None:
        """Asks what the session may do, which Codex tells to who subscribes to its thread."""
        server, thread = self._server, self.thread
        if server is None or thread is None or self._learning or self._passage is not None:
            return
        self._learning = True

        def joined(result: Result, problem: str | None) -> None:
            if result is not None:
                self._see_policy(result)
                leave(server, thread, learned)
            else:
                learned()  # it had no turn yet

        def learned() -> None:
            self._learning = False
            if self._seen and self._server is server and not self._loaded:
                self._loaded = True
                self.on_change()
            if self._passage is not None:
                self._passage.begin()

        server.call("thread/resume", join(thread), joined)

    def _see_policy(self, thread: Mapping[str, object]) -> None:
        policy, sandbox = thread.get("approvalPolicy"), as_object(thread.get("sandbox")).get("type")
        asks, confined = policy != "never", sandbox != "dangerFullAccess"
        if not asks or not confined or (policy is not None and sandbox is not None):
            self.on_policy(asks, confined)  # else this Codex does not say it, or not so

    # -- as a source of the loop ---------------------------------------------------------------------------------------

    @property
    def wants_write(self) -> bool:  # type: ignore[override]
        """Whether to poll for writing too."""
        return self._server is not None and self._server.wants_write

    @property
    def due(self) -> float | None:  # type: ignore[override]
        """When `tick` has something to do."""
        passage = None if self._passage is None else self._passage.due
        times = (self._server.due if self._server is not None else None, self._retry_at, passage)
        return min((time for time in times if time is not None), default=None)

    def fileno(self) -> int | None:
        """What to poll."""
        return None if self._server is None else self._server.fileno()

    def read(self) -> None:
        """Call when it is readable."""
        if self._server is not None:
            self._server.read()

    def write(self) -> None:
        """Call when it is writable."""
        if self._server is not None:
            self._server.write()

    def tick(self, now: float) -> None:
        """Call when `due` is over."""
        if self._server is not None:
            self._server.tick(now)
        if self._passage is not None:
            self._passage.tick(now)
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None
            self.reopen()


def _nothing(result: Result, problem: str | None) -> None:
    pass


def _ignore(*_: object) -> None:
    pass
