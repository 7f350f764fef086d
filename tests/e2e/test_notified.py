"""The user is told where they are: a command of theirs runs when a message is held."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, ask_once, poll

WRITE = """
import os, sys
os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), ascii(sys.argv[2:]).encode() + b"\\n")
"""
UNSEEN = "Nobody is known to be looking."


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def settings(place: PrivateBroker, *command: str) -> str:
    return f"[approvals]\nnotify = {json.dumps([sys.executable, '-c', WRITE, str(place.root / 'told'), *command])}\n"


def test_a_held_message_is_told_by_the_user_s_command(broker: PrivateBroker) -> None:
    """H1, 5.9: a session without a screen; and a change of the command applies at once. No text of the message is in
    it."""
    told = broker.root / "told"
    (broker.config_dir / "config.toml").write_text(settings(broker, "{title}", "{text}"))
    broker.start()
    with (
        Member(broker.rendezvous, "web"),
        Member(broker.rendezvous, "ops", **{"class": "bypass"}) as ops,
    ):
        held = ops.send("web", "secret $(reboot)")
        assert held["state"] == "held"
        assert UNSEEN not in held["notice"]
        poll(lambda: lines(told), bool)
        assert lines(told) == ["['A message for web is held', 'From ops: mode-mismatch.']"]
        (broker.config_dir / "config.toml").write_text(settings(broker, "another: {text}"))
        poll(lambda: ask_once(broker.rendezvous, "config")["values"], lambda values: "another: " in str(values))
        assert ops.send("web", "again")["state"] == "held"
        poll(lambda: lines(told), lambda seen: len(seen) > 1)
        assert lines(told)[1:] == ["['another: From ops: mode-mismatch.']"]


def test_without_a_command_the_sender_hears_that_nobody_looks(broker: PrivateBroker) -> None:
    """H11."""
    broker.start()
    with Member(broker.rendezvous, "web"), Member(broker.rendezvous, "ops", **{"class": "bypass"}) as ops:
        assert UNSEEN in ops.send("web", "hello")["notice"]
