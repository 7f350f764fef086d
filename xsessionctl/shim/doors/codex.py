"""The door into a conversation of Codex: the daemon that runs it, an app-server that takes input from any client.

    subscribe ──▶ turn/start, or turn/steer ──▶ accepted: WRITTEN ──▶ our text begins as an item of the turn: DELIVERED
       │                  └── not taken: REFUSED            └───────▶ the turn ends without it: REFUSED, or GONE
       └── not there: GONE

`turn/start` begins a turn in an idle thread and joins the running one in a busy one: the text is read with the next
request to the model, and no tool is disturbed. What is read is told by Codex itself, as an item with the id that was
sent along; what a user's interruption throws away is told by the end of the turn, and goes again.

Laws: nothing is sent along that changes what the session may do; this client is subscribed to a thread only while a
text is under way, because Codex ends a thread that nobody looks at, and it is not for us to keep it; only the daemon
that this process descends from is asked: a thread elsewhere has no such door. Refuses to know: what the texts say.
"""

from __future__ import annotations

import os
from time import monotonic

from xsessionctl.shim.codex import IDENTIFY, control_socket
from xsessionctl.shim.door import DELIVERED, GONE, REFUSED, WRITTEN, Door
from xsessionctl.shim.doors.app_server import LATE, LOST, AppServer
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
_INTO_A_TURN = ("inject", "steer")


def open_door(identity: Identity) -> CodexDoor:
    """The door of a session that Codex runs."""
    door = CodexDoor(control_socket(identity.variable), identity.pid)
    if identity.conversation is not None:
        door.know(identity.conversation)
    door.reopen()
    return door


class _Post:
    """A text under way. key: what its item in the turn is known by. turn: that it went to, or None. over: turns that
    ended since it was sent, with how they did. ends: its outcome is known, and told as soon as the thread is left."""

    __slots__ = ("done", "ends", "key", "over", "sent", "text", "turn")

    def __init__(self, text: str, done: Done) -> None:
        self.text, self.done = text, done
        self.key = f"xsession-{os.urandom(12).hex()}"
        self.sent = self.ends = False
        self.turn: str | None = None
        self.over: dict[str, str] = {}


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
        self._elsewhere = self._shut = self._loaded = False
        self._retry_at: float | None = None
        self._retry_s = RETRY_FIRST_S
        self._post: _Post | None = None

    # -- finding -------------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the daemon has this conversation."""
        return self._loaded and not self._shut

    @property
    def is_busy(self) -> bool:
        """Whether a text is under way."""
        return self._post is not None

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
        self._post = self._retry_at = None
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
        if self._server is None:
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
            found = _object((result or {}).get("thread"))
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
        thread = _object((result or {}).get("thread"))
        status = _object(thread.get("status"))
        loaded = status.get("type") not in (None, "notLoaded") and thread.get("canAcceptDirectInput") is not False
        if loaded and not self._loaded and self._server is not None:

            def joined(result: Result, problem: str | None) -> None:
                self._see_policy(result, problem)
                self._leave(self._open)

            self._tell(status)
            self._server.call("thread/resume", self._joining, joined)
        elif not loaded:
            self._lack()

    def _open(self) -> None:
        if self._server is not None and not self._loaded:
            self._loaded = True
            self.on_change()

    def _see_policy(self, result: Result, problem: str | None) -> None:
        if result is not None:
            sandbox = _object(result.get("sandbox")).get("type")
            self.on_policy(result.get("approvalPolicy") != "never", sandbox != "dangerFullAccess")

    # -- what Codex tells ----------------------------------------------------------------------------------------------

    def _hear(self, method: str, params: Mapping[str, object]) -> None:
        if method == "thread/started":
            thread = _object(params.get("thread"))
            if self.thread is None and isinstance(thread.get("id"), str):
                self._inspect(str(thread["id"]))
            return
        if self.thread is None or params.get("threadId") != self.thread:
            return
        if method == "thread/status/changed":
            self._tell(_object(params.get("status")))
        elif method == "thread/closed":
            self._lack()
        elif method == "item/started":
            post = self._post
            if post is not None and not post.ends and _object(params.get("item")).get("clientId") == post.key:
                self._finish(post, DELIVERED)
        elif method == "turn/completed":
            turn = _object(params.get("turn"))
            self._end_turn(str(turn.get("id")), str(turn.get("status")))

    def _tell(self, status: Mapping[str, object]) -> None:
        kind, flags = status.get("type"), status.get("activeFlags")
        if kind == "active":
            waits = isinstance(flags, list) and any(flag in _WAITING for flag in flags)
            self.on_status("waiting" if waits else "busy")
        elif kind != "notLoaded":  # which `thread/closed` follows
            self.on_status("idle")

    def _lack(self) -> None:
        """The thread is not to be had any more, at least for now. What became of a text that was sent nobody knows."""
        post = self._post
        if post is not None and post.turn is not None:
            self._post = None
        elif post is not None:
            self._finish(post, WRITTEN if post.sent else GONE)
        if self._loaded:
            self._loaded = False
            self.on_change()

    def _lose(self) -> None:
        self._server = None
        self._retry_at = monotonic() + self._retry_s
        self._retry_s = min(self._retry_s * 2, RETRY_MOST_S)
        self._lack()

    # -- posting -------------------------------------------------------------------------------------------------------

    @property
    def _joining(self) -> dict[str, object]:
        """The thread runs here: this joins it, and changes nothing."""
        return {"threadId": self.thread, "excludeTurns": True}

    def post(self, text: str, *, busy: bool, mode: str, done: Done) -> None:
        """See `Door`."""
        if self._server is None or not self.is_open:
            done(GONE)
            return
        if self._post is not None:
            done(REFUSED)
            return
        post = self._post = _Post(text, done)

        def subscribed(result: Result, problem: str | None) -> None:
            self._see_policy(result, problem)
            if problem is not None:
                self._finish(post, GONE)
                self._lack()
            elif mode in _INTO_A_TURN:
                self._steer(post)
            else:
                self._send("turn/start", post, {})

        self._server.call("thread/resume", self._joining, subscribed)

    def _steer(self, post: _Post) -> None:
        """Into the turn that runs, or not at all."""

        def listed(result: Result, problem: str | None) -> None:
            turns = (result or {}).get("data")
            last = _object(turns[0]) if isinstance(turns, list) and turns else {}
            if last.get("status") == "inProgress":
                self._send("turn/steer", post, {"expectedTurnId": last.get("id")})
            else:
                self._finish(post, REFUSED)

        if self._server is not None and self._post is post:
            params = {"threadId": self.thread, "limit": 1, "itemsView": "notLoaded"}
            self._server.call("thread/turns/list", params, listed)

    def _send(self, method: str, post: _Post, more: Mapping[str, object]) -> None:
        def accepted(result: Result, problem: str | None) -> None:
            if self._post is not post or post.ends:
                return  # it was in the turn before this answer came
            if result is None:
                # Not taken, for what reason ever, is as good as not now; no answer is neither.
                self._finish(post, WRITTEN if problem in (LATE, LOST) else REFUSED)
                return
            post.turn = str(_object(result.get("turn")).get("id") or result.get("turnId"))
            post.done(WRITTEN)
            if post.turn in post.over:
                self._end_turn(post.turn, post.over[post.turn])

        if self._server is None or self._post is not post:
            return
        post.sent = True
        content = [{"type": "text", "text": post.text, "text_elements": []}]
        params = {"threadId": self.thread, "input": content, "clientUserMessageId": post.key, **more}
        self._server.call(method, params, accepted)

    def _end_turn(self, turn: str, status: str) -> None:
        post = self._post
        if post is None or not post.sent or post.ends:
            return
        if post.turn is None:
            post.over[turn] = status
        elif post.turn == turn and status == "interrupted":
            self._finish(post, REFUSED)  # its user stopped the turn before it was read: Codex has forgotten it
        elif post.turn == turn:
            self.shut()  # a hook of the user's lets no such prompt through, or Codex has changed
            self._finish(post, GONE)

    def _finish(self, post: _Post, outcome: str) -> None:
        if self._post is post and not post.ends:
            post.ends = True
            self._leave(lambda: self._end(post, outcome))

    def _end(self, post: _Post, outcome: str) -> None:
        if self._post is post:
            self._post = None
            post.done(outcome)

    def _leave(self, then: Callable[[], None]) -> None:
        """Unsubscribes. Only then what follows: a subscription that comes after this must not be undone by it."""
        if self._server is None or self._server.closed:
            then()
        else:
            self._server.call("thread/unsubscribe", {"threadId": self.thread}, lambda result, problem: then())

    # -- as a source of the loop ---------------------------------------------------------------------------------------

    @property
    def wants_write(self) -> bool:  # type: ignore[override]
        """Whether to poll for writing too."""
        return self._server is not None and self._server.wants_write

    @property
    def due(self) -> float | None:  # type: ignore[override]
        """When `tick` has something to do."""
        times = [self._server.due if self._server else None, self._retry_at]
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
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None
            self.reopen()


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _nothing(result: Result, problem: str | None) -> None:
    pass


def _ignore(*_: object) -> None:
    pass
