"""Sessions that do not know when to stop, with the real broker: stopped, told of, counted, and a prompt begins anew."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Json, Member, Refused, ask_once
from xsessiond.core.limits import EXCHANGE_PER_MINUTE


def tell(broker: PrivateBroker, verb: str) -> Json:
    document: Json = json.loads(broker.ctl(verb, "--json").stdout)
    return document


def converse(one: Member, other: Member, count: int) -> Json:
    """They answer each other for so many messages. Returns the refusal that ended it, or nothing."""
    for number in range(count):
        sender, reader = (one, other) if number % 2 == 0 else (other, one)
        try:
            sender.send(reader.name, f"thank you, {number}")
        except Refused as refusal:
            return refusal.data
        reader.ack(*(message["id"] for message in reader.take()))
    return {}


def test_two_that_thank_each_other_are_stopped_and_it_can_be_seen(broker: PrivateBroker) -> None:
    """R1, R3: both told once, the human by the status and on the desktop; counted in list, status and log."""
    broker.start()
    with Member(broker.rendezvous, "ann") as ann, Member(broker.rendezvous, "bob") as bob:
        refusal = converse(ann, bob, 100)
        assert refusal["code"] == "exchange_limit"
        assert 0 < refusal["retry_after_s"] <= 60
        assert len(tell(broker, "log")["entries"]) == EXCHANGE_PER_MINUTE + 1
        for number in range(3):
            assert converse(bob, ann, 1 + number)["code"] == "exchange_limit"
        assert ann.wire.note("news") == {"receipts": 1, "wake": False}
        (receipt,) = ann.call("take", max=0)["receipts"]
        assert (receipt["id"], receipt["state"]) == (None, "stopped")
        entries = tell(broker, "log")["entries"]
        assert [entry["hop"] for entry in entries] == list(range(EXCHANGE_PER_MINUTE + 1))
        assert [entry["cause"] for entry in entries] == [None, *(entry["id"] for entry in entries[:-1])]
        (warning,) = tell(broker, "status")["warnings"]
        assert "bob and ann" in warning
        assert tell(broker, "status")["suppressed"] == 4
        told = broker.ctl("log").stdout
        assert "bob → ann  4 turned away  too many a minute between the two" in told
        assert "4 turned away as too many" in broker.ctl("list").stdout
        bob.call("turn", phase="started", by="human")
        assert bob.send("ann", "my user wants to know")["state"] == "queued"


def test_a_follower_of_the_log_sees_what_is_turned_away(broker: PrivateBroker) -> None:
    """R4"""
    broker.start()
    with Member(broker.rendezvous, "ann") as ann, Member(broker.rendezvous, "bob") as bob:
        ann.send("bob", "the tests pass")
        following = broker.spawn(sys.executable, "-m", "xsessionctl", "log", "--follow", "--json")
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["text"] == "the tests pass"
        for _ in range(2):
            with pytest.raises(Refused, match="m-"):
                ann.send("bob", "the tests pass")
        row = json.loads(following.stdout.readline())["suppressed"]
        assert (row["from"]["name"], row["to"]["id"], row["code"], row["count"]) == ("ann", bob.id, "duplicate", 1)


def test_hops_are_counted_over_a_killed_broker_and_are_a_setting(broker: PrivateBroker) -> None:
    """R2, 10.6: what was read a while ago is in the store, and what may be set is read from the file."""
    broker.config_dir.mkdir(mode=0o700, exist_ok=True)
    (broker.config_dir / "config.toml").write_text("[pacing]\nmax_hops = 3\n")
    process = broker.start()
    with Member(broker.rendezvous, "ann") as ann, Member(broker.rendezvous, "bob") as bob:
        assert converse(ann, bob, 100)["detail"]["hop"] == 4
        process.kill()
        assert process.wait(20) == -9
        broker.start()
        for member in (ann, bob):
            member.rejoin()
        with pytest.raises(Refused) as refused:
            ann.send("bob", "and so on")
        assert refused.value.data["code"] == "hop_limit"
        assert refused.value.data["detail"]["cause"] == tell(broker, "log")["entries"][-1]["id"]
        (broker.config_dir / "config.toml").write_text("[pacing]\nmax_hops = 4\n")
        ask_once(broker.rendezvous, "reload")
        assert ann.send("bob", "and so on")["state"] == "queued"
