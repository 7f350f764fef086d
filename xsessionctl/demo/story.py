"""What happens in the demonstration, step by step, and what must come of each.

Laws: a step does it for real and checks what came; the first surprise ends the play. Further steps are further
functions in `STEPS`. Refuses to know: how it is shown, where it plays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from xsessionctl.demo.actor import Actor, ToolResult
from xsessionctl.demo.stage import Stage

ASKING, ANSWERING = "shop-api", "shop-web"
QUESTION = "Which port does your dev server use? I want to call it from the tests."
ANSWER = "5173, and it also listens on ::1."


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
    """What the steps share. told: ids and refs from one step to the next."""

    stage: Stage
    audience: Audience
    told: dict[str, str] = field(default_factory=dict)

    def actor(self, name: str) -> Actor:
        """The session of that name."""
        return next(actor for actor in self.stage.actors if actor.name == name)

    def call(self, name: str, tool: str, **arguments: object) -> ToolResult:
        """Lets a session call a tool, before the audience."""
        self.audience.call(name, tool, arguments)
        result = self.actor(name).call(tool, arguments)
        self.audience.answer([line for text in result.texts for line in text.splitlines()], result.structured)
        return result

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


def look(play: Play) -> None:
    """A person looks from a terminal."""
    for verb, expected in (("list", ANSWERING), ("log", ANSWER)):
        play.audience.call("you", f"xsessionctl {verb}", {})
        code, output = play.stage.command(verb)
        play.audience.answer(output.splitlines(), {"exit": code, "output": output})
        play.expect(code == 0 and expected in output, f"`xsessionctl {verb}` should show {expected!r}.")
    play.audience.conclude("Everything can be seen from any terminal of yours.")


STEPS: list[tuple[str, Callable[[Play], None]]] = [
    ("Two sessions start, and look who is there", meet),
    ("One asks the other", write),
    ("The other reads it, and replies", read_and_reply),
    ("What became of the question?", check),
    ("Names that mean nobody, or two", refuse),
    ("You look, from a terminal", look),
]
"""The play. Each title is a line of the transcript."""


def _rows(document: object, key: str) -> list[dict[str, object]]:
    found = document.get(key) if isinstance(document, dict) else None
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
