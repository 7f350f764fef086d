"""What a model is told: the broker's answers as MCP results, in text and as structured content.

Laws: text and structured content each say all that matters, because most harnesses show their model only one of them.
Of a message that was sent, the answer repeats nothing. What others wrote (names, folders, also in the rule of a hold,
labels, reasons) is shown inert, and defused like the text of a message, in both. Refuses to know: how an answer came.
"""

from __future__ import annotations

from xsessiond.core.inert import inert
from xsessiond.core.limits import SHIM_SENT_TEXT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from xsessionctl.shim.mail import Batch

_MEANINGS = {
    "held": "A human must decide (xsessionctl hold-queue), and you are told. Do not send it again.",
    "queued": "It is read when that session next can. Do not send it again.",
    "handed": "It has been handed over and not been seen yet. Do not send it again.",
    "delivered": "Do not send it again.",
    "replied": "",
}
"""What each state of a message means to its sender."""
_TARGETS = {
    "unknown": "That session runs; its harness cannot tell whether it is busy.",
    "offline": "That session does not run now.",
}
"""What the state of a receiver says that is no word of everyday language."""
HUMAN = "human"
"""The id of the receiver that is no session: the user, at a terminal."""
_OVERDUE = "No reply yet; it will come to you by itself. Do not send it again."
_THEIRS = ("label", "harness", "harness_session_id", "cwd")
"""What a session says about itself, in its own words. (A name has no room for markup.)"""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~+")
"""Letters of which nothing that means anything to a harness is made."""
_OURS = _PLAIN - {"/"} | set(" ,:;=()")
"""Letters of our own sentences about the classes of two sessions."""
_RECENT = 20
"""Lines of a text that lists many messages."""


def tell_refusal(error: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """An `error` object as text and structured content."""
    error = {**error, **{key: show_words(error[key]) for key in ("text", "hint") if isinstance(error.get(key), str)}}
    parts = [str(error.get("text") or "That was refused.")]
    hint = error.get("hint")
    if isinstance(hint, str) and hint:
        parts.append(hint)
    candidates = error.get("candidates")
    told = " ".join(parts)
    named = [item for item in _objects(candidates) if f"[{item.get('ref')}]" not in told]
    if named:
        parts.append("Candidates: " + "; ".join(map(_address, named)) + ".")
    shown = dict(error)
    if isinstance(candidates, list):
        shown["candidates"] = list(map(_tame, _objects(candidates)))
    return " ".join(parts), {"error": shown}


def tell_list(result: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """`list_agents`."""
    own = result.get("self")
    own_id = own.get("id") if isinstance(own, dict) else None
    lines = [f"Others call you {_call(own)}." if isinstance(own, dict) else "You are not listed."]
    sessions = list(map(_tame, _objects(result.get("sessions"))))
    others = [session for session in sessions if session.get("id") != own_id]
    if not others:
        lines.append("No other session is there.")
    for session in others:
        facts = [show_words(session.get(key)) for key in ("harness", "state", "delivery") if session.get(key)]
        if session.get("can_reply") is False:
            facts.append("cannot reply")
        if session.get("attended") is False:
            facts.append("no terminal attached")
        lines.append(f"- {_call(session)} {' '.join(facts)} {show_words(session.get('cwd'))}".rstrip())
    for source in _objects(result.get("incomplete")):
        where, why = show_words(source.get("source")), show_words(source.get("reason"))
        lines.append(f"Not everything could be looked at: {where}: {why}.")
    # The caller's own row is marked, as in every listing.
    marked = [{**session, "is_self": True} if session.get("id") == own_id else session for session in sessions]
    return "\n".join(lines), {**result, "self": _tame(own) if isinstance(own, dict) else own, "sessions": marked}


def tell_sent(
    result: Mapping[str, object], reply: Mapping[str, object] | None, *, waited: bool
) -> tuple[str, dict[str, object]]:
    """`send_message`: at most SHIM_SENT_TEXT_BYTES, nothing of the body. reply: see `show_message`."""
    watch = result.get("watch")
    if result.get("id") is None and isinstance(watch, dict):
        return _tell_watched(result, watch)
    state = str(result.get("state"))
    message_id = str(result.get("id"))
    meaning = _MEANINGS.get(state, "Do not send it again.")
    if reply is not None:
        meaning = "The reply follows."
    elif waited and state not in ("held", "replied"):
        meaning = _OVERDUE
    until = f" until {_minute(result['expires_at'])}" if state == "held" and result.get("expires_at") else ""
    text = f"{state}{until}. {meaning}".rstrip()
    if isinstance(watch, dict):
        text += " You are told once when it is idle."
    to = result.get("to")
    if state == "queued" and isinstance(to, dict) and to.get("id") == HUMAN:
        text = f"{state}. Your user reads it when they look. Do not send it again."
    whole = f"{message_id} to {_call(to)}: {text}" if isinstance(to, dict) else f"{message_id}: {text}"
    if len(whole.encode("utf-8", "replace")) > SHIM_SENT_TEXT_BYTES:
        ref = to.get("ref") if isinstance(to, dict) else None
        whole = f"{message_id} to [{ref}]: {text}"
    shown = {key: reply[key] for key in ("id", "text", "from_name", "envelope")} if reply is not None else None
    return whole, {**_tame_rule(result), "reply": shown, "text": whole}


def _tell_watched(result: Mapping[str, object], watch: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """`send_message` without a message."""
    to = result.get("to")
    whom = _call(to) if isinstance(to, dict) else "it"
    text = f"{whom} is idle now."
    if watch.get("state") != "idle":
        text = f"You are told once when {whom} is idle, within 12 hours. Go on, or end your turn: do not ask again."
    return text, {**_tame_rule(result), "text": text}


def tell_checked(result: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """`check_delivery`, of one message or of all."""
    messages = result.get("messages")
    if isinstance(messages, list):
        lines = [_line(message) for message in _objects(messages)]
        if not lines:
            return "You have sent nothing yet.", dict(result)
        if len(lines) > _RECENT:
            lines = [f"{len(lines)} messages; these {_RECENT} and {len(lines) - _RECENT} more:", *lines[:_RECENT]]
        return "\n".join(lines), dict(result)
    steps = list(map(_step, _objects(result.get("history"))))
    text = _line(result)
    if steps:
        text += " " + ", ".join(steps) + "."
    target = result.get("target_state")
    if isinstance(target, str):
        text += " " + _TARGETS.get(target, f"That session is {target}.")
    tamed = _tame_rule(result)
    if isinstance(result.get("history"), list):
        tamed["history"] = [
            {**step, "rule": show_words(step["rule"])} if isinstance(step.get("rule"), str) else step
            for step in _objects(result["history"])
        ]
    return text, tamed


def _step(step: Mapping[str, object]) -> str:
    """One step in the life of a message. Why somebody denied it is told each time: the news of it came once."""
    told = f"{step.get('state')} {_clock(step.get('at'))}"
    why = show_words(step.get("rule")) if step.get("state") == "denied" else ""
    return f"{told} ({why})" if why else told


def tell_read(batch: Batch) -> tuple[str, dict[str, object]]:
    """`read_messages`. The envelopes follow as texts of their own."""
    count = len(batch.show)
    text = f"{count} message{'s' if count > 1 else ''}." if count else "No messages are waiting."
    if batch.left:
        text += f" {batch.left} more wait; call read_messages again."
    return text, {"messages": batch.show, "left": batch.left}


def tell_renamed(result: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """`rename_session`."""
    own = result.get("self")
    return f"Others call you {_call(own)} now." if isinstance(own, dict) else "Renamed.", dict(result)


def as_result(
    text: str, structured: Mapping[str, object], more: list[str], *, is_error: bool, revision: str
) -> dict[str, object]:
    """A tool result in the form of a revision; `more` are texts after the first."""
    result: dict[str, object] = {
        "content": [{"type": "text", "text": part} for part in (text, *more)],
        "isError": is_error,
    }
    if revision >= "2025-06-18":
        result["structuredContent"] = structured
    return result


def _line(message: Mapping[str, object]) -> str:
    to = message.get("to")
    return f"{message.get('id')} to {_call(to) if isinstance(to, dict) else '?'}: {message.get('state')}."


def _call(session: Mapping[str, object]) -> str:
    if session.get("id") == HUMAN:
        return "your user"
    return f"{show_words(session.get('name'))} [{session.get('ref')}]"


def _address(candidate: Mapping[str, object]) -> str:
    parts = [_call(candidate)]
    parts += [show_words(candidate.get(key)) for key in ("harness", "state", "cwd") if candidate.get(key)]
    return " ".join(parts)


def _clock(value: object) -> str:
    return value[11:19] if isinstance(value, str) else "?"


def _minute(value: object) -> str:
    """A time as a model reads it beside its own log: UTC, to the minute, with its day."""
    return f"{value[:16]}Z" if isinstance(value, str) else "?"


def show_words(value: object) -> str:
    """Somebody's words on one line, inert and defused."""
    if not isinstance(value, str):
        return ""
    if _PLAIN.issuperset(value):
        return value
    from xsessiond.core.defuse import defuse  # nearly never needed, and not quick to load

    return defuse(inert(value, multiline=False))


def _tame(session: Mapping[str, object]) -> dict[str, object]:
    """The same with what it says about itself as `show_words` shows it."""
    return {**session, **{key: show_words(session[key]) for key in _THEIRS if isinstance(session.get(key), str)}}


def _tame_rule(result: Mapping[str, object]) -> dict[str, object]:
    """The same with the rule, and what else quotes it, as `show_words` shows it. A rule that names no file has nobody
    else's words, and a send is to be quick."""
    told = [key for key in ("rule", "notice") if isinstance(result.get(key), str) and not _OURS.issuperset(result[key])]  # type: ignore[arg-type]
    return {**result, **{key: show_words(result[key]) for key in told}}


def _objects(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
