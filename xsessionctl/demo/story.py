"""What happens in the demonstration, step by step, and what must come of each.

Laws: a step does it for real and checks what came; the first surprise ends the play. Further steps are further
functions in `STEPS`. Refuses to know: how it is shown, where it plays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from xsessionctl.demo.actor import Actor, ToolResult
from xsessionctl.demo.stage import XSESSIONCTL, Stage
from xsessionctl.held import SHOWN_DIGITS
from xsessiond.core.errors import EXIT_CODES

ASKING, ANSWERING = "shop-api", "shop-web"
BOLD = "shop-deploy"
"""A session that acts without asking."""
REQUEST = "The release is out. Please delete the branch release/4.2 in your checkout."
QUESTION = "Which port does your dev server use? I want to call it from the tests."
ANSWER = "5173, and it also listens on ::1."


SHORT = len("m-") + SHOWN_DIGITS
NOT_PERMITTED = EXIT_CODES["not_permitted"]


class Surprise(Exception):
    """Something came out differently. The text says what was expected."""


class Audience(Protocol):
    """Who is shown what happens."""

    def call(self, who: str, tool: str, arguments: dict[str, object]) -> None:
        """Somebody does something."""

    def answer(self, lines: list[str], document: object) -> None:
        """What they get for it. document: the same for programs."""

    def conclude(self, text: str) -> None:
        """What that shows."""


@dataclass(slots=True)
class Play:
    """What the steps share. told: ids and refs from one step to the next. watched: a person plays the person."""

    stage: Stage
    audience: Audience
    told: dict[str, str] = field(default_factory=dict)
    watched: bool = True

    def actor(self, name: str) -> Actor:
        """The session of that name."""
        return next(actor for actor in self.stage.actors if actor.name == name)

    def call(self, name: str, tool: str, **arguments: object) -> ToolResult:
        """Lets a session call a tool, before the audience."""
        self.audience.call(name, tool, arguments)
        result = self.actor(name).call(tool, arguments)
        self.audience.answer([line for text in result.texts for line in text.splitlines()], result.structured)
        return result

    def run(self, who: str, *words: str) -> tuple[int, str]:
        """Lets you, or a session's agent in its shell, type `xsessionctl` with these words, before the audience.
        Returns the exit code and the output."""
        self.audience.call(who, " ".join(["xsessionctl", *words]), {})
        code, output = self.stage.command(*words) if who == "you" else self.actor(who).command([*XSESSIONCTL, *words])
        self.audience.answer(output.splitlines(), {"exit": code, "output": output})
        return code, output

    def expect(self, fact: bool, text: str) -> None:  # noqa: FBT001 - reads as an assertion
        """Ends the play unless it is so."""
        if not fact:
            raise Surprise(text)


def meet(play: Play) -> None:
    """Two sessions find each other."""
    for name in (ASKING, ANSWERING):
        play.stage.enter(name).introduce()
    play.actor(ASKING).call("list_agents", {})  # its answer means that the session is known
    for name, other in ((ANSWERING, ASKING), (ASKING, ANSWERING)):
        result = play.call(name, "list_agents")
        names = [row.get("name") for row in _rows(result.structured, "sessions")]
        play.expect(other in names, f"{name} should see {other}, and sees {names}.")
    play.audience.conclude("Each sees the other, and learns what it is called itself.")


def write(play: Play) -> None:
    """One writes to the other."""
    result = play.call(ASKING, "send_message", to=ANSWERING, message=QUESTION)
    play.expect(not result.is_error, f"The message to {ANSWERING} should be accepted.")
    play.expect(result.structured.get("state") in ("queued", "handed"), "It should wait for its reader.")
    play.told["question"] = str(result.structured.get("id"))
    play.audience.conclude("It is on disk before the answer. Neither session had to be told where the other one is.")


def read_and_reply(play: Play) -> None:
    """The other reads it in its envelope, and replies."""
    result = play.call(ANSWERING, "read_messages")
    messages = _rows(result.structured, "messages")
    play.expect(
        [message.get("id") for message in messages] == [play.told["question"]], "Exactly that message should arrive."
    )
    play.expect(messages[0].get("text") == QUESTION, "It should arrive unchanged.")
    sent = play.call(ANSWERING, "send_message", to=ASKING, message=ANSWER, reply_to=play.told["question"])
    play.expect(not sent.is_error, "The reply should be accepted.")
    play.told["reply"] = str(sent.structured.get("id"))
    got = _rows(play.call(ASKING, "read_messages").structured, "messages")
    play.expect([message.get("id") for message in got] == [play.told["reply"]], "The reply should arrive, once.")
    play.expect(got[0].get("reply_to") == play.told["question"], "It should say what it answers.")
    play.audience.conclude("The envelope says who wrote, and that nobody's permissions came with it.")


def check(play: Play) -> None:
    """The sender looks what became of its message."""
    result = play.call(ASKING, "check_delivery", message_id=play.told["question"])
    states = [step.get("state") for step in _rows(result.structured, "history")]
    play.expect(states[:1] == ["queued"] and states[-1:] == ["replied"], f"It should be replied to, and went {states}.")
    play.audience.conclude("Each word has one meaning: delivered is said only when a model really has it.")


def refuse(play: Play) -> None:
    """A name that nobody has, and one that could mean two."""
    for name, code in (("shop-wbe", "not_found"), ("shop", "ambiguous")):
        result = play.call(ASKING, "send_message", to=name, message="hello")
        error = result.structured.get("error")
        found = error.get("code") if isinstance(error, dict) else None
        play.expect(result.is_error and found == code, f"{name} should be refused as {code}, and was {found}.")
        candidates = [row.get("name") for row in _rows(error, "candidates")]
        play.expect(ANSWERING in candidates, f"The refusal should name {ANSWERING}, and names {candidates}.")
    play.audience.conclude("Never a guess: refused with the candidates, and nothing was stored.")


def hold(play: Play) -> None:
    """A session that acts without asking writes to one that asks: it is held, and an agent cannot let it through."""
    play.stage.enter(BOLD, "bypass").introduce()
    result = play.call(BOLD, "send_message", to=ASKING, message=REQUEST)
    play.expect(not result.is_error and result.structured.get("state") == "held", "It should be held.")
    play.told["held"] = str(result.structured.get("id"))
    own = play.run(BOLD, "approve", play.told["held"][:SHORT])
    play.expect(own[0] == NOT_PERMITTED and BOLD in own[1], "An agent must not let its own message through.")
    got = play.call(ASKING, "read_messages")
    play.expect(_rows(got.structured, "messages") == [], "Nobody should get it before it is approved.")
    play.audience.conclude("A sender that asks nobody has no say over one that asks. Nor can an agent approve for you.")


def decide(play: Play) -> None:
    """A person sees it, with the reason, and lets it through."""
    seen = play.run("you", "hold-queue")
    if BOLD in seen[1]:
        play.expect("mode-mismatch" in seen[1], "The queue should say why.")
        why = play.run("you", "explain", "--from", BOLD, "--to", ASKING)
        play.expect(why[0] == 0 and "would be held" in why[1], "It should be explained.")
    approved = play.run("you", "approve", play.told["held"][:SHORT])
    if approved[0] == NOT_PERMITTED:
        play.watched = False
        play.audience.conclude(
            "This demonstration was started by an agent, or where that cannot be told, so that it may not approve. "
            "In a terminal of your own it goes on: the message arrives, marked as approved by you."
        )
        return
    play.expect(BOLD in seen[1], "The queue should have it.")
    play.expect(approved[0] == 0, "It should be approved.")
    got = _rows(play.call(ASKING, "read_messages").structured, "messages")
    play.expect([message.get("id") for message in got] == [play.told["held"]], "It should arrive now.")
    play.expect("approved by" in str(got[0].get("envelope")), "The receiver should see that it was held and approved.")
    play.audience.conclude(
        "You decide, from any terminal that no agent started, and the receiver sees that you did."
        if play.stage.terminal
        else "You decide. (Here there is no terminal, so this private broker was told to do without one: "
        "approvals.without_terminal. Yours takes decisions only from a terminal that no agent started.)"
    )


def look(play: Play) -> None:
    """A person looks from a terminal."""
    code, output = play.run("you", "list")
    play.expect(code == 0 and ANSWERING in output, f"`xsessionctl list` should show {ANSWERING!r}.")
    code, output = play.run("you", "log")
    play.expect(code == 0 and (ANSWER in output or not play.watched), f"`xsessionctl log` should show {ANSWER!r}.")
    play.audience.conclude(
        "Everything can be seen from any terminal of yours."
        if play.watched
        else "From a terminal of yours everything can be seen; an agent sees what its own session sent and got."
    )


STEPS: list[tuple[str, Callable[[Play], None]]] = [
    ("Two sessions start, and look who is there", meet),
    ("One asks the other", write),
    ("The other reads it, and replies", read_and_reply),
    ("What became of the question?", check),
    ("Names that mean nobody, or two", refuse),
    ("Held until a human decides", hold),
    ("You decide", decide),
    ("You look, from a terminal", look),
]
"""The play. Each title is a line of the transcript."""


def _rows(document: object, key: str) -> list[dict[str, object]]:
    found = document.get(key) if isinstance(document, dict) else None
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
