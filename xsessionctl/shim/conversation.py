"""One conversation of opencode, as the bridge has it: from what our plugin there tells of it to a session of ours.

    prompted(message) ──▶ pending ──a step of a turn has it──▶ entered: told as a hook's prompt
                             ├──the turn ended without it: the session is prompted with nothing, once
                             └──removed(message): its user took it away; a text of ours is posted again

opencode keeps a prompt at once and gives it to the model with the next step that begins. So a prompt of the user counts
from that step on, and a text of ours has arrived there then, not before. Where a turn was just ending, nothing would
read what came last; the empty prompt makes opencode look.

Laws: message ids of opencode grow, and a step that answers one has all before it. A human's prompt is what opencode
itself did not write and was not posted by us. Refuses to know: how the plugin is reached, what becomes of a message.
"""

from __future__ import annotations

from xsessionctl.shim import frames
from xsessionctl.shim.broker_link import RESTING, TRYING, UP
from xsessionctl.shim.calls import Calls
from xsessionctl.shim.courier import RUNNING
from xsessionctl.shim.dialects import OPENCODE
from xsessionctl.shim.doors.opencode import PluginDoor
from xsessionctl.shim.hooks import Hooks
from xsessionctl.shim.identity import Identity
from xsessionctl.shim.protocol import Call
from xsessionctl.shim.session import Session
from xsessionctl.shim.tools import list_tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xsessionctl.shim.doors.opencode import Write
    from xsessionctl.shim.outlet import Outlet
    from xsessionctl.shim.rendezvous import Rendezvous

HARNESS = "opencode"
LONGEST_CALL_S = 290.0
"""opencode puts no limit on a plugin's tool; people do."""
TOOLS = frozenset(str(tool["name"]) for tool in list_tools(""))
_UNNAMED = ("New session - ", "Child session - ")
"""How the titles begin that opencode gives before it knows better."""
_A_PERSON = "typed by a person"
"""Stands for the text of a prompt that is not ours; the text itself stays in opencode."""


class SessionIdentity(Identity):
    """One conversation of an opencode process. title: opencode's own for it, or None."""

    __slots__ = ("title",)

    def __init__(
        self, environ: Mapping[str, str], cwd: str, chain: list[tuple[int, list[str]]], conversation: str
    ) -> None:
        super().__init__(environ, cwd, chain)
        self.harness = self.explicit_harness or HARNESS
        self.conversation = conversation
        self.title: str | None = None

    def longest_call(self, *, hears_progress: bool) -> float:
        """See `Identity`."""
        return LONGEST_CALL_S

    def as_params(self) -> dict[str, object]:
        """See `Identity`."""
        return {**super().as_params(), "title": self.title}

    def note_title(self, title: object) -> None:
        """Takes over what opencode calls the conversation, once it has a name."""
        if isinstance(title, str) and title.strip() and not title.startswith(_UNNAMED):
            self.title = title


class _Post:
    """A text of ours on its way. message: opencode's id of the prompt that it became. quiet: it must start no turn.
    pushed: the session was prompted with nothing for its sake."""

    __slots__ = ("message", "pushed", "quiet", "text")

    def __init__(self, text: str, *, quiet: bool) -> None:
        self.text, self.quiet = text, quiet
        self.message: str | None = None
        self.pushed = False


class _Lines:
    """How the results of calls are written for the plugin: one text, because that is what opencode shows its model.
    running: the calls that have none yet, by their ids."""

    __slots__ = ("running",)

    def __init__(self) -> None:
        self.running: dict[object, Call] = {}

    def finish(self, call: Call, result: Mapping[str, object]) -> bytes | None:
        """See `Protocol.finish`."""
        if call.cancelled:
            return None
        content = result["content"]
        assert isinstance(content, list)
        text = "\n\n".join(str(part["text"]) for part in content)
        return frames.result(call.id, {"text": text, "isError": result["isError"]})

    def forget(self, call: Call) -> None:
        """See `Protocol.forget`."""
        self.running.pop(call.id, None)


class Conversation:
    """See the module. outlet: where answers to calls go. write: sends a text to the plugin, for this session."""

    def __init__(self, identity: SessionIdentity, rendezvous: Rendezvous, outlet: Outlet, write: Write) -> None:
        self.identity = identity
        self.session = Session(identity, rendezvous)
        self._lines = _Lines()
        self.calls = Calls(identity, self.session.link, outlet, self._lines, self.session.bag, self.session.courier)
        self.session.on_up = self.calls.link_is_up
        self._goodbye: float | None = None
        self._write = write
        self._posts: dict[int, _Post] = {}
        self._prompts: list[tuple[str, str]] = []  # (message, text) of prompts that no step has had, oldest first
        self._state = "idle"
        self.door = PluginDoor(self._post)
        self._hooks = self.session.hooks = Hooks(identity, self.session.link, self.session.courier, OPENCODE)
        self._hooks.note_hooks_run()
        self.session.use_door(self.door)
        self.session.courier.supply.on_change = self._look_behind

    def begin(self) -> None:
        """The session is to be known."""
        if not self.identity.off:
            self.session.link.want()

    def say_goodbye(self, deadline: float) -> None:
        """The conversation is over, or opencode is; the broker is told so until then, at the latest."""
        self._goodbye = deadline
        self.door.close()
        link = self.session.link
        if self.identity.granted or link.state == RESTING or (link.state == TRYING and link.session is None):
            self._goodbye = 0.0  # not known there; or not this process's to end
        elif link.state == UP:
            self._end()
        else:
            # It is about to be known, or known and its link broken: for as long as opencode lives it would stay.
            self.session.on_up = self._end

    def _end(self) -> None:
        def done() -> None:
            self._goodbye = 0.0

        assert self._goodbye is not None
        self.session.link.end(self._goodbye, done)

    def is_over(self, now: float) -> bool:
        """Whether it has been said, or the time for that is over."""
        return self._goodbye is not None and self._goodbye <= now

    # -- what its model does -------------------------------------------------------------------------------------------

    def call(self, request_id: int, tool: str, arguments: dict[str, object], *, subagent: bool) -> None:
        """Its model, or that of one of its subagents, uses a tool."""
        call = Call(request_id, tool, arguments, {}, "", None)
        if tool not in TOOLS:
            text = f"There is no tool {tool[:80]!r}."
            self.calls.answer(call, text, is_error=True, done=_nothing, dropped=_nothing)
            return
        call.aside = subagent
        self._lines.running[request_id] = call
        self.calls.start(call)

    def cancel(self, request_id: object) -> None:
        """Nobody wants the result of this call any more."""
        call = self._lines.running.pop(request_id, None)
        if call is not None:
            call.cancelled = True
            self.calls.cancel(call)

    # -- what opencode does --------------------------------------------------------------------------------------------

    def becomes(self, state: str) -> None:
        """What the session does now, as opencode says."""
        before, self._state = self._state, state
        self.door.reopen()
        if state == "waiting":
            self._tell("asks")
        elif state == "idle":
            self._tell("idle")
            self._look_behind()
        elif before == "waiting" or not self._prompts:
            # Else the step that comes says more: what began the turn.
            self._tell("busy")

    def lock(self, *, locked: bool) -> None:
        """Its user has undone a part of it, or has it back."""
        self.door.lock(locked=locked)
        self._look_behind()

    def prompted(self, message: str, post: int | None, by: str) -> None:
        """The session was given a prompt. post: the id of ours, if it is one."""
        ours = self._posts.get(post) if post is not None else None
        if ours is not None and post is not None:
            ours.message = message
            self.door.seen(post)
        text = ours.text if ours is not None else _A_PERSON if by == "human" else ""
        self._prompts.append((message, text))

    def removed(self, message: str) -> None:
        """A prompt is not in the conversation any more: its user undid it, and has gone on."""
        self._prompts = [prompt for prompt in self._prompts if prompt[0] != message]
        for post in [post for post, item in self._posts.items() if item.message == message]:
            del self._posts[post]
            self.door.removed(post)

    def stepped(self, parent: str) -> None:
        """A step of a turn began, whose model is given all prompts up to `parent`."""
        entered = [text for message, text in self._prompts if message <= parent]
        self._prompts = [(message, text) for message, text in self._prompts if message > parent]
        for post, item in list(self._posts.items()):
            if item.message is not None and item.message <= parent:
                del self._posts[post]
                self.door.arrived(post)
        for text in entered:
            self._tell("prompt", text)
        if not entered:
            self._tell("step")

    def answered(self, post: int, error: str | None) -> None:
        """What the plugin made of a post. error: None if opencode has it."""
        ours = self._posts.get(post)
        if error is not None and ours is not None and ours.message is None:
            del self._posts[post]
        self.door.answered(post, error)

    def _post(self, text: str, *, quiet: bool) -> int:
        post = self._write(text, quiet=quiet)
        self._posts[post] = _Post(text, quiet=quiet)
        return post

    def _look_behind(self) -> None:
        """In an idle session: what was posted into a turn that had just ended is pushed, once. What must start no turn
        waits for the next one, unless it keeps others from starting it."""
        if self._state in RUNNING or self.door.locked:
            return
        for item in list(self._posts.values()):
            held_up = not item.quiet or self.session.courier.supply.waiting
            if item.message is not None and item.text and held_up and not item.pushed:
                item.pushed = True
                self._write("", quiet=False)

    def _tell(self, event: str, prompt: str = "") -> None:
        self._hooks.hear({"hook_event_name": event, "prompt": prompt}, _unanswered)


def _nothing() -> None:
    pass


def _unanswered(answer: str, done: Callable[[], None], dropped: Callable[[], None]) -> None:
    """opencode's events want no answer."""
