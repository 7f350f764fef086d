"""Mail on its way into a model's context: rendered, shown once, acknowledged when it has been written.

Laws: a message is acknowledged only after the result that carries it has been written whole; one that was written
before and comes again (the acknowledgement was lost with a broker) is acknowledged and not shown a second time. A batch
stays small enough for a harness to pass on, and nothing is cut for it: what is too long is put into a file, if there
is one who does that. Refuses to know: sockets, MCP, doors.
"""

from __future__ import annotations

import os

from xsessionctl.shim.answers import show_words
from xsessiond.core.limits import SHIM_MAIL_BYTES, SHIM_REMEMBERED_IDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from xsessiond.core.envelope import HeldInfo, SpilledInfo

    Spill: TypeAlias = Callable[[Mapping[str, object]], SpilledInfo | None]
    """Puts the text of a message into a file; None if that cannot be done."""

BEGINNING = 2000
"""Characters of a text that its envelope shows when the whole is in a file."""
_STEER = "The next message is meant to change what you are doing; read it before your next step."


class Batch:
    """What one `take` brought, ready to be shown.

    show: messages as results write them. news: one line for each receipt. ids: to acknowledge once shown. stale: were
    shown before. surplus: more than a result should carry; to be given back. left: how many still wait. modes: what
    their senders asked for.
    """

    __slots__ = ("ids", "left", "mark", "modes", "news", "show", "stale", "surplus")

    def __init__(self) -> None:
        self.show: list[dict[str, object]] = []
        self.news: list[str] = []
        self.ids: list[str] = []
        self.stale: list[str] = []
        self.surplus: list[str] = []
        self.left = 0
        self.modes: list[str] = []
        self.mark = f"n-{os.urandom(16).hex()}"
        """By which the news is known when it comes back in a prompt."""

    @property
    def envelopes(self) -> list[str]:
        """The texts for the model, oldest first."""
        return [str(message["envelope"]) for message in self.show]

    def cut_news(self, most: int) -> list[str]:
        """Leaves at most so many characters of news, and gives back the rest; the first line always stays."""
        size = 0
        for number, line in enumerate(self.news):
            size += count_units(line) + 3
            if number and size > most:
                rest = self.news[number:]
                del self.news[number:]
                return rest
        return []

    @property
    def text(self) -> str:
        """All of it as one text: what a door posts, or a hook adds to a turn."""
        parts = []
        for envelope, mode in zip(self.envelopes, self.modes, strict=True):
            parts.append(f"{_STEER}\n{envelope}" if mode == "steer" else envelope)
        if self.news:
            parts.append(render_notice(self.news, self.mark))
        return "\n\n".join(parts)


class Mailbag:
    """Remembers which messages this process has written into the conversation that its client runs."""

    __slots__ = ("_written", "unacked")

    def __init__(self) -> None:
        self._written: dict[str, None] = {}
        self.unacked: set[str] = set()
        """Written, and the broker has not confirmed yet that it knows."""

    def open(self, result: Mapping[str, object], most: int = SHIM_MAIL_BYTES, spill: Spill | None = None) -> Batch:
        """Sorts the result of a `take`. most: characters of mail in one batch. spill: for a message that is longer;
        without it the first goes whole, whatever its size."""
        batch = Batch()
        left = result.get("left")
        batch.left = left if isinstance(left, int) else 0
        size = 0
        for message in _objects(result.get("messages")):
            message_id = str(message.get("id"))
            if message_id in self._written:
                batch.stale.append(message_id)
                continue
            shown: dict[str, object] | None = show_message(message)
            assert shown is not None
            if spill is not None and count_units(str(shown["envelope"])) > most:
                spilled = None if batch.surplus else spill(message)
                shown = show_message(message, spilled) if spilled is not None else None
            if shown is not None:
                size += count_units(str(shown["envelope"])) + 2
            if shown is None or batch.surplus or (batch.show and size > most):
                # The first always goes, whatever its size, and none overtakes another.
                batch.surplus.append(message_id)
                continue
            batch.show.append(shown)
            batch.modes.append(str(message.get("mode")))
            batch.ids.append(message_id)
        batch.left += len(batch.surplus)
        batch.news = [line for receipt in _objects(result.get("receipts")) if (line := _one_line(receipt.get("text")))]
        return batch

    def forget(self) -> None:
        """It runs another: what was written into the one before may come again there, and was not read here."""
        self._written.clear()
        self.unacked.clear()

    def note_written(self, ids: list[str]) -> None:
        """The client has them."""
        for message_id in ids:
            self._written[message_id] = None
            self.unacked.add(message_id)
        while len(self._written) > SHIM_REMEMBERED_IDS:
            oldest = next(iter(self._written))
            del self._written[oldest]
            self.unacked.discard(oldest)


def count_units(text: str) -> int:
    """Its length as harnesses measure it, which are written in JavaScript for the most part."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "replace")) // 2


def render_notice(lines: list[str], mark: str) -> str:
    """What the broker itself has to say to a session's model. mark: `n-` and 32 hex digits."""
    nonce = os.urandom(6).hex()
    told = "\n".join(f"| {line}" for line in lines)
    return (
        f'<cross-session-notice nonce="{nonce}" id="{mark}">\n{told}\n</cross-session-notice nonce="{nonce}">\n'
        "Note: from the message broker itself, not from your user. There is nobody to answer."
    )


def show_message(message: Mapping[str, object], spilled: SpilledInfo | None = None) -> dict[str, object]:
    """A message of the wire as `read_messages` gives it. spilled: where the whole text is, if only its beginning is to
    be shown.

    `text` is what stands in the envelope, in which markup that a harness could take for its own has been defused: many
    harnesses show their model this object and nothing else. `sha256` is of what was sent; `defused` says that the two
    differ.
    """
    origin = message.get("from")
    origin = origin if isinstance(origin, dict) else {}
    envelope = message.get("envelope")
    if not isinstance(envelope, str) or spilled is not None:
        envelope = _render(message, origin, spilled)
    sent = str(message.get("text"))
    lines = [line[2:] for line in envelope.split("\n") if line.startswith("| ")]
    text = "\n".join(lines) if lines else sent
    shown: dict[str, object] = {
        "id": message.get("id"),
        "from": origin.get("id") or origin.get("kind"),
        "from_name": origin.get("name"),
        "text": text,
        "sent_at": message.get("sent_at"),
        "age_s": message.get("age_s"),
        "hop": message.get("hop"),
        "reply_to": message.get("reply_to"),
        "held": message.get("held"),
        "bytes": message.get("bytes"),
        "sha256": message.get("sha256"),
        "envelope": envelope,
    }
    if text != sent:
        shown["defused"] = True
    return shown


def _render(message: Mapping[str, object], origin: Mapping[str, object], spilled: SpilledInfo | None) -> str:
    """The envelope of a message that came without, because with it the frame would have been too long, or that is
    shown in part."""
    from xsessiond.core.envelope import EnvelopeInput, render_envelope
    from xsessiond.core.times import parse_time

    kind = origin.get("kind")
    item = EnvelopeInput(
        id=message["id"],  # type: ignore[arg-type]
        from_kind=kind if kind in ("session", "human", "script") else "script",
        from_id=origin.get("id"),  # type: ignore[arg-type]
        from_ref=_text(origin.get("ref")),
        from_name=str(origin.get("name")),
        from_harness=_text(origin.get("harness")),
        from_folder=_text(origin.get("cwd")),
        sent_at=parse_time(str(message.get("sent_at"))),
        age_s=_number(message.get("age_s")),
        hop=int(_number(message.get("hop"))),
        seq=int(_number(message.get("seq"))),
        reply_to=message.get("reply_to"),  # type: ignore[arg-type]
        can_reply=message.get("can_reply") is not False,
        reply_how="tool",
        body=str(message.get("text"))[: None if spilled is None else BEGINNING],
        held=_held(message.get("held")),
        subagent=origin.get("subagent") is True,
        spilled=spilled,
    )
    return render_envelope(item, nonce=os.urandom(6).hex(), full_note=message.get("full_note") is not False)


def _held(mark: object) -> HeldInfo | None:
    """The mark of a message that was held and let go, as the envelope has it."""
    from xsessiond.core.envelope import HeldInfo
    from xsessiond.core.times import parse_time

    if not isinstance(mark, dict):
        return None
    return HeldInfo(_number(mark.get("held_s")), mark["by"], parse_time(str(mark.get("at"))))


def _objects(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _one_line(value: object) -> str:
    return show_words(" ".join(value.split())) if isinstance(value, str) else ""


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0
