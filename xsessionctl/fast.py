"""The near-free way in: the simple forms of `send`, `list`, `check` and `whoami`, without click and without most of
our own modules.

Laws: says and returns exactly what the full command line does for the same words, which a test compares. What it does
not know it leaves alone by returning None, before anything was sent. Whatever goes wrong on the way, a missing broker
included, it hands to the full client together with the request; only a `send` that may have arrived is not asked
again. Each module that is imported here is felt in every `send` of a shell or a hook, and what must be imported comes
after the connection is made: the broker looks who is calling meanwhile (docs/decisions/0010-the-fast-way-in.md).
Refuses to know: options with values, words for failures.
"""

import sys
from os import environ, geteuid
from time import monotonic

from xsessiond.paths import PathError, resolve_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xsessionctl.sockets import Socket

    Document = Mapping[str, object]

VERBS = frozenset(("send", "list", "check", "whoami"))
TIMEOUT_S = 15.0
"""Default deadline of a command. Long enough to start a broker on a machine that is busy with other things."""
HELLO = '{"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":1,"client":"xsessionctl"}}\n'
CONVERSATION = "CODEX_THREAD_ID"
"""Set by Codex in its commands: its conversations share a process, so that nothing else tells whose a command is."""
MOST = 1 << 20
"""The greeting, a variable, and the longest frame. A test holds them to `core.limits` and `client`, which need not be
imported for them."""
RESULT = b'{"jsonrpc":"2.0","id":2,"result":{'
"""How an answer begins that can be printed without taking it apart."""
TURNED_AWAY = b'{"jsonrpc":"2.0","id":null,'
"""How it begins where the broker heard no request before it hung up: too many connections come from here."""
WHOLE_ID = 34
"""Characters of a message's id. A shortened one is looked up by the full command line."""
FINE = frozenset(("queued", "handed", "delivered", "replied"))
"""States of a sent message whose exit code is 0 whatever else was asked."""
SENT_WORDS = {
    "queued": "queued for",
    "handed": "handed to",
    "delivered": "delivered to",
    "replied": "answered by",
}


def greet(conversation: str | None) -> str:
    """The greeting's line. conversation: that this command says it is part of."""
    if not conversation:
        return HELLO
    from xsessionctl.codec import encode

    return HELLO[:-3] + f',"conversation":{encode(conversation)}' + HELLO[-3:]


def run(words: "Sequence[str]") -> int | None:
    """Does what `words` (without the program's name) ask and returns the exit code, or None if it takes the full
    command line.
    """
    if not words or words[0] not in VERBS:
        return None
    verb = words[0]
    values = [word for word in words[1:] if word != "--json"]
    as_json = len(values) + 1 < len(words)
    if any(word[:1] in ("-", "") for word in values):
        return None
    if verb == "send":
        if len(values) < 2:
            return None  # the text comes from standard input, or is missing
        params = {"to": values[0], "message": " ".join(values[1:])}
    elif verb == "check" and len(values) == 1 and len(values[0]) >= WHOLE_ID:
        params = {"message_id": values[0]}
    elif not values:
        params = {}
    else:
        return None
    deadline = monotonic() + TIMEOUT_S
    link = _connect()
    line = None if link is None else _exchange(link, verb, params, deadline)
    if line and as_json and verb != "send" and _is_plain(line):
        _say(line[len(RESULT) - 1 : -1].decode())
        return 0
    answer = _decode(line) if line else None
    result = answer.get("result") if answer else None
    if not isinstance(result, dict):
        return _in_full(verb, params, answer, deadline, asked=line is not None, as_json=as_json)
    if as_json:
        from xsessionctl.codec import encode_ascii

        _say(encode_ascii(result))
    elif verb == "send":
        _say("\n".join(sent_lines(result)))
    else:
        _show(verb, params, result)
    if verb == "send" and result.get("state") not in FINE:
        from xsessionctl.outcome import send_code

        return send_code(result)
    return 0


def sent_lines(document: "Document") -> list[str]:
    """What a person reads after a `send`."""
    target, state, notice = document.get("to"), document.get("state"), document.get("notice")
    if not isinstance(target, dict):
        target = {}
    which = f"[{target['ref']}]" if target.get("ref") else "(human)"
    whither = f"{SENT_WORDS.get(str(state), f'{state} for')} {target.get('name')} {which}"
    parts = [whither, str(document.get("id")), str(notice or "")]
    if state == "held":
        from xsessionctl.render import held_for, one_line

        return [held_for(document), "  " + one_line(notice)] if notice else [held_for(document)]
    if not all(part.isascii() and part.isprintable() for part in parts):
        from xsessiond.core.inert import inert

        parts = [inert(part, multiline=False) for part in parts]
    lines = [f"{parts[0]} · {parts[1]}"]
    return [*lines, "  " + parts[2]] if notice else lines


def _connect() -> "Socket | None":
    """A link to the broker, if that is a matter of one call; None for every kind of trouble, and within a container."""
    if environ.get("XSESSIOND_SOCKET"):
        return None
    try:
        from _socket import AF_UNIX, SOCK_STREAM, socket  # the package of that name costs half as much as all of Python

        link = socket(AF_UNIX, SOCK_STREAM)
        link.settimeout(TIMEOUT_S)
        link.connect(resolve_paths().broker_socket)
    except (ImportError, OSError, PathError):
        return None
    return link


def _exchange(link: "Socket", verb: str, params: "Document", deadline: float) -> bytes | None:
    """The line that answers; None if nothing was asked, nothing if there was no answer. The link is closed."""
    from xsessionctl.sockets import READ_SIZE, limit_wait, peer_uid

    asked = False
    try:
        if peer_uid(link) not in (None, 0, geteuid()):
            return None
        text = "{}"
        if params:
            from xsessionctl.codec import encode

            text = encode(params)
        request = f'{{"jsonrpc":"2.0","id":2,"method":"{verb}","params":{text}}}\n'.encode()
        if len(request) > MOST:
            return None
        asked = True
        link.sendall(greet(environ.get(CONVERSATION)).encode() + request)
        data = b""
        while data.count(b"\n") < 2:
            limit_wait(link, deadline)
            more = link.recv(READ_SIZE)
            if not more:
                return None if data.startswith(TURNED_AWAY) else b""  # turned away at the door: nothing was done
            data += more
        greeted, answer, *_ = data.split(b"\n")
        # A greeting that was refused: nothing was done, and the full client finds out what is to be said of that.
        return answer if b'"result"' in greeted else None
    except (ConnectionResetError, BrokenPipeError):
        return b"" if asked and sys.platform != "linux" else None  # `client.link_lost` has why nothing was done then
    except (OSError, ValueError):
        return b"" if asked else None
    finally:
        link.close()


def _is_plain(line: bytes) -> bool:
    """Whether the result in an answer is, as it came, the document that `--json` prints."""
    whole = line.startswith(RESULT) and line.endswith(b"}}")
    return whole and line.isascii() and b"\\" not in line and b"\x7f" not in line


def _decode(line: bytes) -> "Document | None":
    """The answer in a line, or None if it is none."""
    from xsessionctl.codec import decode

    try:
        answer = decode(line.decode())
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and answer.get("id") in (2, None) else None


def _in_full(
    verb: str, params: "Document", answer: "Document | None", deadline: float, *, asked: bool, as_json: bool
) -> int:
    """The same request through the full client, or the refusal that it got already."""
    from xsessionctl.client import link_lost, refusal, timed_out
    from xsessionctl.outcome import conclude, send_code
    from xsessionctl.output import Sink
    from xsessionctl.render import lines_of
    from xsessionctl.requests import ask, outcome_unknown

    def work() -> "Document":
        if answer is not None and not (refused := refusal(answer)).unheard:
            raise refused
        if answer is None and asked and verb == "send":
            late = monotonic() >= deadline
            raise outcome_unknown(timed_out(sent=True) if late else link_lost("no answer"))
        return ask(verb, params, deadline)

    return conclude(work, lines_of(verb, params), Sink(), as_json=as_json, code=send_code if verb == "send" else None)


def _show(verb: str, params: "Document", result: "Document") -> None:
    from xsessionctl.output import Sink
    from xsessionctl.render import lines_of

    sink = Sink()
    sink.lines(lines_of(verb, params)(result, sink))


def _say(text: str) -> None:
    """A line or more on standard output; `output.write_text` knows what to do when that fails."""
    stream = sys.stdout
    try:
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # a replaced stream has none, and goes on below
        stream.write(text + "\n")
        stream.flush()
    except (AttributeError, BrokenPipeError, ValueError):
        from xsessionctl.output import write_text

        write_text(stream, text + "\n")
