"""`xsessionctl bridge opencode`: the child process of our plugin in opencode, for all conversations there.

JSON-RPC 2.0 over standard input and output, one object a line; docs/harnesses.md has the methods. One thread, one poll,
as in the MCP server. Laws: each conversation is a session of its own, with a link of its own; what one of them waits
for keeps no other waiting; the process ends within two seconds of losing its input or opencode. Refuses to know: what
tools do, what a turn is.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from time import monotonic

from xsessionctl.shim import frames, loop, process
from xsessionctl.shim.conversation import Conversation, SessionIdentity
from xsessionctl.shim.identity import find_harness, read_process
from xsessionctl.shim.outlet import Outlet
from xsessionctl.shim.rendezvous import Rendezvous
from xsessionctl.shim.tools import INSTRUCTIONS, list_tools
from xsessionctl.shim.watch import Watch
from xsessiond import __version__
from xsessiond.core import jsonrpc, limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xsessionctl.shim.loop import Source

PROTOCOL = 1
"""Of the lines between plugin and bridge."""
PREFIX = "xsession_"
"""What stands before the names of our tools, as opencode itself puts it before those of an MCP server."""
CONVERSATIONS_MOST = 64
"""How many of one opencode are sessions at a time; the one that has been silent longest makes room."""
STATES = ("idle", "busy", "waiting")


class Bridge:
    """The process. environ, chain: see `Identity`. stdin, stdout: descriptors. wakeup: becomes readable when a signal
    asks for the end."""

    def __init__(
        self,
        environ: Mapping[str, str],
        chain: list[tuple[int, list[str]]],
        rendezvous: Callable[[], Rendezvous],
        watch: Watch,
        stdin: int,
        stdout: int,
        wakeup: int,
    ) -> None:
        self._environ, self._chain, self._rendezvous = environ, chain, rendezvous
        self._watch, self._stdin, self._wakeup = watch, stdin, wakeup
        self._splitter = jsonrpc.LineSplitter(limits.SHIM_LINE, sys.maxsize)
        self._outlet = Outlet(stdout)
        self._open: dict[str, Conversation] = {}  # by opencode's id, the one that was silent longest first
        self._closing: list[Conversation] = []
        self._posts: dict[int, Conversation] = {}
        self._last_post = 0
        self._ending: float | None = None
        self._over = False

    def run(self) -> None:
        """Serves until the plugin, opencode or a signal ends it."""
        if self._watch.gone:
            return
        while not self._over:
            self._turn()
        for conversation in (*self._open.values(), *self._closing):
            conversation.session.close()

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        every = [*self._open.values(), *self._closing]
        sources: list[Source] = [source for one in every for source in one.session.sources]
        # What told of the end stays readable.
        reading = [] if self._ending is not None else [self._wakeup, *self._watch.descriptors]
        if self._ending is None and self._outlet.waiting <= limits.SHIM_INBOX_PAUSE:
            reading.append(self._stdin)
        writing = [self._outlet.fd] if self._outlet.waiting else []
        broken = [] if self._outlet.waiting or self._outlet.broken else [self._outlet.fd]
        due = [self._ending, *(one.calls.due for one in every)]
        if self._watch.look_every is not None:
            due.append(monotonic() + self._watch.look_every)
        readable, writable, gone = loop.wait(sources, reading, writing, broken, due)
        now = monotonic()
        if self._outlet.fd in gone:
            self._outlet.fail()
        if self._outlet.fd in writable:
            self._outlet.write_some()
        if self._wakeup in readable or self._watch.look(readable) or self._outlet.broken:
            self._say_goodbye(now)
        elif self._stdin in readable:
            self._read(now)
        for one in every:
            one.calls.tick(now)
        self._settle(now)

    def _settle(self, now: float) -> None:
        for one in [one for one in self._closing if one.is_over(now)]:
            self._closing.remove(one)
            one.session.close()
        if self._ending is not None and (now >= self._ending or not self._closing):
            self._over = True

    def _say_goodbye(self, now: float) -> None:
        """There is nobody left to answer: all conversations are over."""
        if self._ending is None:
            self._ending = now + limits.SHIM_END_S
            for session_id in list(self._open):
                self._close(session_id, self._ending)

    def _read(self, now: float) -> None:
        try:
            data = os.read(self._stdin, limits.READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._say_goodbye(now)
            return
        for line in self._splitter.feed(data):
            if not isinstance(line, jsonrpc.Oversize):
                self._receive(line)

    # -- what the plugin says ------------------------------------------------------------------------------------------

    def _receive(self, line: bytes) -> None:
        try:
            frame = frames.from_line(line)
        except ValueError:
            frame = None
        if not isinstance(frame, dict):
            return
        method, params, request_id = frame.get("method"), frame.get("params"), frame.get("id")
        params = params if isinstance(params, dict) else {}
        if method is None:
            self._answered(request_id, frame.get("error"))
        elif method == "hello":
            self._outlet.put(frames.result(request_id, self._greeting()))
        elif method == "call" and isinstance(request_id, int):
            self._call(request_id, params)
        elif method == "cancel":
            for one in self._open.values():
                one.cancel(params.get("id"))
        else:
            self._hear(str(method), params)

    def _greeting(self) -> dict[str, object]:
        argv = self._chain[-1][1] if self._chain else []
        tools = []
        for tool in list_tools(""):
            text = str(tool["description"])
            if tool["name"] == "send_message":
                text = f"{text}\n\n{INSTRUCTIONS}"  # which an MCP server would have said by itself
            tools.append({"name": f"{PREFIX}{tool['name']}", "description": text, "inputSchema": tool["inputSchema"]})
        return {"protocol": PROTOCOL, "version": __version__, "tools": tools, "resume": find_resumed(argv)}

    def _hear(self, method: str, params: Mapping[str, object]) -> None:
        session_id = params.get("session")
        if not isinstance(session_id, str):
            return
        if method == "opened":
            self._open_one(session_id, params)
        conversation = self._touch(session_id)
        if conversation is None:
            return
        state, message = params.get("state"), params.get("message")
        if method in ("opened", "undone"):
            conversation.lock(locked=params.get("undone") is True)
        if method in ("opened", "state") and isinstance(state, str) and state in STATES:
            conversation.becomes(state)
        elif method == "closed":
            self._close(session_id, monotonic() + limits.SHIM_BROKER_S)
        elif method == "prompted" and isinstance(message, str):
            post = params.get("post")
            conversation.prompted(message, post if isinstance(post, int) else None, str(params.get("by")))
        elif method == "removed":
            conversation.removed(str(message))
        elif method == "stepped":
            conversation.stepped(str(params.get("parent")))

    def _touch(self, session_id: str) -> Conversation | None:
        conversation = self._open.pop(session_id, None)
        if conversation is not None:
            self._open[session_id] = conversation
        return conversation

    def _open_one(self, session_id: str, params: Mapping[str, object]) -> None:
        conversation = self._open.get(session_id)
        if conversation is None:
            if self._open and self._environ.get("XSESSIOND_SOCKET"):
                return  # a container that was granted one session has one
            folder = params.get("directory")
            cwd = folder if isinstance(folder, str) and folder.startswith("/") else "/"
            identity = SessionIdentity(self._environ, cwd, self._chain, session_id)
            if self._open or self._closing:
                # What its user said of the process was said of one session.
                identity.name = None
            identity.note_title(params.get("title"))
            conversation = Conversation(identity, self._rendezvous(), self._outlet, self._make_write(session_id))
            conversation.session.link.orphaned = self._watch.check
            self._open[session_id] = conversation
            conversation.begin()
            if len(self._open) > CONVERSATIONS_MOST:
                self._close(next(iter(self._open)), monotonic() + limits.SHIM_BROKER_S)
        conversation.identity.note_title(params.get("title"))

    def _close(self, session_id: str, deadline: float) -> None:
        conversation = self._open.pop(session_id, None)
        if conversation is not None:
            self._closing.append(conversation)
            conversation.say_goodbye(deadline)

    def _call(self, request_id: int, params: Mapping[str, object]) -> None:
        session_id, arguments = params.get("session"), params.get("arguments")
        conversation = self._touch(session_id) if isinstance(session_id, str) else None
        if conversation is None:
            text = "Messages between sessions cannot be used here: this conversation is no session."
            self._outlet.put(frames.result(request_id, {"text": text, "isError": True}))
            return
        conversation.call(
            request_id,
            str(params.get("tool")).removeprefix(PREFIX),
            arguments if isinstance(arguments, dict) else {},
            subagent=params.get("subagent") is True,
        )

    # -- posts ---------------------------------------------------------------------------------------------------------

    def _make_write(self, session_id: str) -> Callable[..., int]:
        def write(text: str, *, quiet: bool) -> int:
            self._last_post += 1
            conversation = self._open.get(session_id)
            if conversation is not None:
                self._posts[self._last_post] = conversation
                params = {"session": session_id, "text": text, "quiet": quiet}
                self._outlet.put(frames.request(self._last_post, "post", params))
            return self._last_post

        return write

    def _answered(self, post: object, error: object) -> None:
        conversation = self._posts.pop(post, None) if isinstance(post, int) else None
        if conversation is None or not isinstance(post, int):
            return
        data = error.get("data") if isinstance(error, dict) else None
        code = str(data.get("code")) if isinstance(data, dict) else "gone"
        conversation.answered(post, code if isinstance(error, dict) else None)


def find_resumed(argv: list[str]) -> dict[str, str | None] | None:
    """Which conversation opencode was started with: `{"session": id}`, with None for the newest of its folder; None if
    with none."""
    if not any("opencode" in word.rpartition("/")[2] for word in argv[:2]):
        return None  # something else stands above us
    words = argv[1:]
    if "--" in words:
        words = words[: words.index("--")]
    if "--fork" in words:
        return None  # a new one
    for word, following in pairwise((*words, "")):
        if word in ("-s", "--session") and following:
            return {"session": following}
        if word.startswith("--session="):
            return {"session": word.partition("=")[2]}
        if word in ("-c", "--continue"):
            return {"session": None}
    return None


def main() -> int:
    """Runs the bridge; returns its exit status."""
    parent = os.getppid()
    if not process.has_streams():
        return 0
    chain = find_harness(parent, read_process)
    watch = Watch([pid for pid, _ in chain], parent)
    Bridge(process.take_environ(), chain, Rendezvous, watch, 0, 1, process.catch_signals()).run()
    return 0
