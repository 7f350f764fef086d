"""Mail on its way into a model's context: rendered, shown once, acknowledged when it has been written.

Laws: a message is acknowledged only after the result that carries it has been written whole; one that was written
before and comes again (the acknowledgement was lost with a broker) is acknowledged and not shown a second time. A batch
stays small enough for a harness to pass on. Refuses to know: sockets, MCP.
"""

from __future__ import annotations

from xsessionctl.shim.answers import show_words
from xsessiond.core.limits import SHIM_MAIL_BYTES, SHIM_REMEMBERED_IDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from xsessiond.core.envelope import HeldInfo


class Batch:
    """What one `take` brought, ready to be shown.

    show: messages as results write them. news: one line for each receipt. ids: to acknowledge once shown. stale: were
    shown before. surplus: more than a result should carry; to be given back. left: how many still wait.
    """

    __slots__ = ("ids", "left", "news", "show", "stale", "surplus")

    def __init__(self) -> None:
        self.show: list[dict[str, object]] = []
        self.news: list[str] = []
        self.ids: list[str] = []
        self.stale: list[str] = []
        self.surplus: list[str] = []
        self.left = 0

    @property
    def envelopes(self) -> list[str]:
        """The texts for the model, oldest first."""
        return [str(message["envelope"]) for message in self.show]


class Mailbag:
    """Remembers which messages this process has written to its client."""

    __slots__ = ("_written", "unacked")

    def __init__(self) -> None:
        self._written: dict[str, None] = {}
        self.unacked: set[str] = set()
        """Written, and the broker has not confirmed yet that it knows."""

    def open(self, result: Mapping[str, object]) -> Batch:
        """Sorts the result of a `take`."""
        batch = Batch()
        left = result.get("left")
        batch.left = left if isinstance(left, int) else 0
        size = 0
        for message in _objects(result.get("messages")):
            message_id = str(message.get("id"))
            if message_id in self._written:
                batch.stale.append(message_id)
                continue
            shown = show_message(message)
            size += len(str(shown["envelope"]))
            if batch.surplus or (batch.show and size > SHIM_MAIL_BYTES):
                # The first always goes, whatever its size, and none overtakes another.
                batch.surplus.append(message_id)
                continue
            batch.show.append(shown)
            batch.ids.append(message_id)
        batch.left += len(batch.surplus)
        batch.news = [line for receipt in _objects(result.get("receipts")) if (line := _one_line(receipt.get("text")))]
        return batch

    def note_written(self, ids: list[str]) -> None:
        """The client has them."""
        for message_id in ids:
            self._written[message_id] = None
            self.unacked.add(message_id)
        while len(self._written) > SHIM_REMEMBERED_IDS:
            oldest = next(iter(self._written))
            del self._written[oldest]
            self.unacked.discard(oldest)


def show_message(message: Mapping[str, object]) -> dict[str, object]:
    """A message of the wire as `read_messages` gives it.

    `text` is what stands in the envelope, in which markup that a harness could take for its own has been defused: many
    harnesses show their model this object and nothing else. `sha256` is of what was sent; `defused` says that the two
    differ.
    """
    origin = message.get("from")
    origin = origin if isinstance(origin, dict) else {}
    envelope = message.get("envelope")
    if not isinstance(envelope, str):
        envelope = _render(message, origin)
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


def _render(message: Mapping[str, object], origin: Mapping[str, object]) -> str:
    """The envelope of a message that came without, because with it the frame would have been too long."""
    import os

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
        body=str(message.get("text")),
        held=_held(message.get("held")),
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
