"""docs/protocol.md is enough: what it shows is spoken with a bare socket, and what it lists is what there is."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, Refused, Wire, ask_once, greet
from xsessiond.core import wire

DOCUMENT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
REQUESTS = {str(kind.__struct_config__.tag): kind for kind in get_args(wire.AnyRequest)}
KINDS = ("rendezvous", "session", "both")


def read_block(language: str, first: str = "") -> str:
    """Return the fenced block of that language whose text begins so."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, flags=re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if block.startswith(first))
    return str(block)


def read_table(heading: str) -> list[list[str]]:
    """Return the cells of the first table whose head begins with these words, row by row. `\\|` is no border."""
    lines = iter(DOCUMENT.splitlines())
    for line in lines:
        if line.startswith(f"| {heading} |"):
            break
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


# -- the session -------------------------------------------------------------------------------------------------------


class BareLink:
    """A socket and a file object: what ten lines of any language have."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        self._socket.connect(path)
        self._lines = self._socket.makefile("rb")

    def write(self, text: str) -> None:
        self._socket.sendall(text.encode() + b"\n")

    def read(self) -> Any:
        return json.loads(self._lines.readline())

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def match(shown: Any, found: Any, known: dict[str, str], where: str = "frame") -> None:
    """Hold what came against what the document shows; learn what its `$words` stand for."""
    if shown == "…":
        return
    if isinstance(shown, str) and shown.startswith("$"):
        assert known.setdefault(shown, found) == found, f"{where}: {found} where {shown} was {known[shown]}"
    elif isinstance(shown, dict):
        assert isinstance(found, dict), where
        assert found.keys() == shown.keys(), where
        for key, value in shown.items():
            match(value, found[key], known, f"{where}.{key}")
    elif isinstance(shown, list):
        assert isinstance(found, list), where
        assert len(found) == len(shown), where
        for number, value in enumerate(shown):
            match(value, found[number], known, f"{where}[{number}]")
    else:
        assert found == shown, where


def test_the_whole_session_of_the_document(broker: PrivateBroker) -> None:
    """Every line is written as it stands there, and every line that comes back is the one that stands there."""
    broker.start()
    links: dict[str, BareLink] = {}
    known: dict[str, str] = {}

    def fill_in(text: str) -> str:
        return re.sub(r"\$\w+", lambda found: known[found[0]], text)

    spoken = 0
    try:
        for line in read_block("session").splitlines():
            name, _, rest = line.partition(" ")
            if name == "connect":
                link, _, path = rest.partition(" ")
                links[link] = BareLink(str(broker.runtime_dir / fill_in(path)))
            elif name.endswith(">"):
                links[name[:-1]].write(fill_in(rest))
            else:
                match(json.loads(rest), links[name[:-1]].read(), known)
            spoken += 1
    finally:
        for opened in links.values():
            opened.close()
    assert spoken > 30
    assert {"$api_token", "$question", "$answer"} <= known.keys()


def test_the_handshake_of_the_document(broker: PrivateBroker) -> None:
    broker.start()
    asked, answered = (json.loads(line) for line in read_block("json", '{"jsonrpc":"2.0","id":1,"method"').splitlines())
    with Wire(broker.rendezvous) as client:
        client.put(asked)
        found = client.read()
    assert found.keys() == answered.keys()
    assert found["result"].keys() == answered["result"].keys()
    assert found["result"]["broker"].keys() == answered["result"]["broker"].keys()


def test_a_refusal_has_the_fields_of_the_document(broker: PrivateBroker) -> None:
    broker.start()
    shown = json.loads(read_block("json", '{"jsonrpc":"2.0","id":7,"error"'))["error"]
    with Member(broker.rendezvous, "api") as api, pytest.raises(Refused) as refused:
        api.send("wbe", "hello?")
    assert refused.value.error.keys() == shown.keys()
    assert refused.value.data.keys() == shown["data"].keys()
    assert (refused.value.error["code"], refused.value.code) == (shown["code"], shown["data"]["code"])
    assert refused.value.error["message"] == refused.value.data["text"]


def test_a_message_has_the_fields_of_the_document(broker: PrivateBroker) -> None:
    broker.start()
    shown = json.loads(read_block("json", '{"id":"m-…","from":{"kind"'))
    with Member(broker.rendezvous, "api") as api, Member(broker.rendezvous, "web") as web:
        api.send("web", shown["text"])
        (message,) = web.take()
        assert message.keys() == shown.keys()
        assert message["from"].keys() == shown["from"].keys()
        assert (message["text"], message["bytes"]) == (shown["text"], shown["bytes"])
        web.call("release", ids=[message["id"]])
        (rendered,) = web.take(render=True)
        assert rendered.keys() == shown.keys() | {"envelope"}
        assert shown["text"] in rendered["envelope"]


# -- the lists ---------------------------------------------------------------------------------------------------------


def documented_methods() -> dict[str, list[str]]:
    """Return the params of each method in the table, as they stand there."""
    rows = [(row[0].strip("`"), row[1]) for row in read_table("method")]
    return {name: re.findall(r"\w+", params) for name, params in rows}


def test_a_held_message_has_the_fields_of_the_document(broker: PrivateBroker) -> None:
    """As its sender sees it, whoever else may look; sessions are shown in part."""
    broker.start()
    shown = json.loads(read_block("json", '{"id":"m-…","from":{"id"'))
    about = {"class": "bypass", "pid": os.getpid()}
    with Member(broker.rendezvous, "api"), Member(broker.rendezvous, "deploy", **about) as deploy:
        sent = deploy.send("api", shown["text"])
        queue = ask_once(broker.rendezvous, "hold_queue")
        assert queue.keys() == {"held", "left_out"}
        (hold,) = queue["held"]
        assert hold.keys() == shown.keys()
        for side in ("from", "to"):
            assert {name: hold[side][name] for name in shown[side] if name != "id"} == {
                name: value for name, value in shown[side].items() if name != "id"
            }
        same = ("cause", "rule", "text", "bytes", "summary", "sender_class", "receiver_class", "flags", "subagent")
        assert {name: hold[name] for name in same} == {name: shown[name] for name in same}
        assert (hold["id"], hold["expires_at"]) == (sent["id"], sent["expires_at"])


def test_every_method_is_in_the_document_and_every_method_of_the_document_is_there() -> None:
    apart = {"hello", "register", "attach"}  # these have their own sections
    assert set(documented_methods()) | apart == wire.METHODS
    for name in apart:
        assert f"`{name}`" in DOCUMENT


@pytest.mark.parametrize("method", sorted(documented_methods()))
def test_the_params_of_a_method_are_those_of_the_document(method: str) -> None:
    params = next(field.type for field in msgspec.structs.fields(REQUESTS[method]) if field.name == "params")
    known = {field.encode_name for field in msgspec.structs.fields(params)} if params is not msgspec.Raw else set()
    shown = {word for word in documented_methods()[method] if word not in ("or", "on", "the", "rendezvous", "also")}
    assert shown == known - ({"render"} if method == "take" else set())


def test_the_params_of_register_are_those_of_the_document() -> None:
    shown = {name for row in read_table("param") for name in re.findall(r"`(\w+)`", row[0])}
    assert shown == {field.encode_name for field in msgspec.structs.fields(wire.RegisterParams)}


def documented_sockets() -> dict[str, str]:
    """Return on which kind of socket each method is to be had, by the document."""
    rows = zip(KINDS, read_table("socket"), strict=True)
    return {method: kind for kind, row in rows for method in row[2].strip("`").split()}


def test_a_method_is_to_be_had_on_the_sockets_that_the_document_says(broker: PrivateBroker) -> None:
    broker.start()
    where = documented_sockets()
    assert where.keys() == wire.METHODS
    with Member(broker.rendezvous, "api") as api:
        for method, kind in where.items():
            if method in ("stop", "restart"):  # they end what is asked here
                continue
            for socket_kind, path in (("rendezvous", broker.rendezvous), ("session", api.socket)):
                with greet(path) as client:
                    assert is_to_be_had(client, method, api) == (kind in (socket_kind, "both")), (method, socket_kind)


MINIMAL: dict[str, dict[str, Any]] = {
    "hello": {"protocol": 1}, "send": {"message": "x"}, "handed": {"ids": []}, "release": {"ids": []},
    "rename": {"name": "other"}, "turn": {"phase": "ended"}, "cancel": {"id": 1}, "attach": {"token": ""},
    "decide": {"verdict": "deny"}, "revoke_trust": {"id": "t-0"}, "explain": {"sender": "api", "receiver": "api"},
    "grant": {"name": "box", "directory": "/x", "cwd": "/"}, "revoke_grant": {"of": "box"},
}  # fmt: skip


def is_to_be_had(client: Wire, method: str, api: Member) -> bool:
    """Ask with as little as the method can be asked with; what matters is whether it is refused for the socket."""
    try:
        client.call(method, MINIMAL.get(method, {}))
    except Refused as refusal:
        return "This method is for" not in str(refusal)
    return True


def test_status_and_stop_need_no_hello_and_no_params(broker: PrivateBroker) -> None:
    """P9: frozen for ever, also for a client whose protocol the broker does not speak."""
    process = broker.start()
    with Wire(broker.rendezvous) as client:
        with pytest.raises(Refused) as refused:
            client.call("hello", protocol=99, client="example/99")
        assert refused.value.code == "version_mismatch"
        assert refused.value.data["detail"]["protocol"] == 1
        with pytest.raises(Refused):
            client.call("list")
    with Wire(broker.rendezvous) as client:
        client.write(b'{"jsonrpc":"2.0","id":1,"method":"status"}\n')
        answer = client.answer(1)["broker"]
        assert (answer["pid"], answer["protocol"]) == (process.pid, 1)
        assert isinstance(answer["version"], str)
        client.write(b'{"jsonrpc":"2.0","id":2,"method":"stop"}\n')
        assert client.answer(2) == {"stopping": True, "pid": process.pid}
    assert process.wait(20) == 0
