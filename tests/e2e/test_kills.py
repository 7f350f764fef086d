"""The broker is killed with -9, at any moment and again and again: nothing is lost, nothing arrives twice.

Real processes, real sockets, the real store, and clients that come back by themselves (tests/support/kill_storm.py).
"""

from __future__ import annotations

import subprocess

import pytest

from tests.support.broker_files import find_bugs
from tests.support.kill_storm import KillStorm, find_store_faults
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, Refused, await_status, poll, read_status

pytestmark = pytest.mark.slow

SENDERS, RECEIVERS = 20, 4


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    assert process.wait(20) == -9


def storm(broker: PrivateBroker, kills: int, seed: int) -> None:
    """Kill so often with 20 senders at work, and hold the broker to its promises."""
    run = KillStorm(broker, senders=SENDERS, receivers=RECEIVERS, seed=seed)
    ledger = run.run(kills)
    assert run.kills == kills
    assert ledger.find_faults() == []
    assert find_store_faults(broker.state_dir / "store.db", ledger) == []
    assert read_status(broker.rendezvous)["store"]["ok"]
    assert find_bugs(broker) == []
    assert len(ledger.answered) >= kills  # it was at work: at least one message went through in each life
    assert ledger.retries >= kills


def test_twenty_kills_with_twenty_senders(broker: PrivateBroker) -> None:
    """L13, L3, W9: what was answered arrives exactly once, what was not at most once, in order; integrity holds."""
    storm(broker, kills=20, seed=1)


@pytest.mark.timeout(1200)
def test_a_thousand_kills_with_twenty_senders(broker: PrivateBroker) -> None:
    """L13, L3, W9: the same, a thousand times over."""
    storm(broker, kills=1000, seed=2)


def test_delivery_works_after_each_of_twenty_restarts(broker: PrivateBroker) -> None:
    """W11, P3, P15: a killed broker's socket and lock do not hinder the next, and its sessions go on as they were."""
    process = broker.start()
    with Member(broker.rendezvous, "asks") as asks, Member(broker.rendezvous, "answers", push=True) as answers:
        ids = {asks.id, answers.id}
        for number in range(20):
            kill(process)
            process = broker.start()
            asks.rejoin()
            answers.rejoin()
            status = await_status(broker.rendezvous, sessions=2)
            assert status["broker"]["pid"] == process.pid
            assert status["store"]["ok"]
            assert {asks.id, answers.id} == ids
            assert (asks.name, answers.name) == ("asks", "answers")
            sent = asks.send("answers", f"number {number}")
            note = answers.wire.note("message")
            assert (note["message"]["id"], note["message"]["seq"]) == (sent["id"], number + 1)
            assert answers.call("ack", upto=note["n"]) == {"acked": 1}
            assert asks.call("check", message_id=sent["id"])["state"] == "delivered"


def test_a_receiver_that_dies_between_lease_and_acknowledgement_gets_the_message_again(broker: PrivateBroker) -> None:
    """W9: the same id, once more; after the acknowledgement never again, also over a restart."""
    process = broker.start()
    with Member(broker.rendezvous, "asks") as asks, Member(broker.rendezvous, "answers") as answers:
        sent = asks.send("answers", "read me")
        (leased,) = answers.take()
        answers.rejoin()  # its link broke: the lease is over
        (again,) = answers.take()
        assert leased["id"] == again["id"] == sent["id"]
        kill(process)  # and now the broker dies, before the acknowledgement
        process = broker.start()
        answers.rejoin()
        (third,) = answers.take()
        assert (third["id"], third["seq"], third["text"]) == (sent["id"], 1, "read me")
        assert answers.ack(third["id"]) == 1
        kill(process)
        broker.start()
        answers.rejoin()
        assert answers.take() == []
        asks.rejoin()
        states = [step["state"] for step in asks.call("check", message_id=sent["id"])["history"]]
        assert states == ["queued", "delivered"]


def test_a_retry_after_a_lost_answer_is_one_message(broker: PrivateBroker) -> None:
    """L3: the same key is the same id and one delivery, also for the next broker; another text under it is refused."""
    process = broker.start()
    with Member(broker.rendezvous, "asks") as asks, Member(broker.rendezvous, "answers") as answers:
        first = asks.send("answers", "once", key="k1")
        assert asks.send("answers", "once", key="k1")["id"] == first["id"]
        kill(process)
        process = broker.start()
        asks.rejoin()
        answers.rejoin()
        assert asks.send("answers", "once", key="k1")["id"] == first["id"]
        with pytest.raises(Refused) as refused:
            asks.send("answers", "another text", key="k1")
        assert refused.value.code == "key_reused"
        (message,) = answers.take()
        assert message["id"] == first["id"]
        assert answers.ack(first["id"]) == 1
        kill(process)
        broker.start()
        asks.rejoin()
        answers.rejoin()
        repeated = asks.send("answers", "once", key="k1")
        assert (repeated["id"], repeated["state"]) == (first["id"], "delivered")
        assert answers.take() == []


def test_mail_of_a_conversation_that_ended_is_kept_for_it(broker: PrivateBroker) -> None:
    """L1: unread mail survives its receiver's end and a killed broker, and is there when the conversation resumes."""
    process = broker.start()
    with Member(broker.rendezvous, "asks") as asks:
        with Member(broker.rendezvous, "answers", harness_session_id="talk-1") as answers:
            sent = [asks.send("answers", f"number {number}")["id"] for number in range(3)]
            answers.call("end")
        await_status(broker.rendezvous, sessions=1)
        kill(process)
        broker.start()
        asks.rejoin()
        assert {asks.call("check", message_id=message_id)["state"] for message_id in sent} == {"queued"}
        with Member(broker.rendezvous, None, harness_session_id="talk-1") as resumed:
            assert resumed.name == "answers"
            assert [message["id"] for message in resumed.take()] == sent


def test_mail_that_is_never_claimed_expires_and_its_sender_is_told(broker: PrivateBroker) -> None:
    """L1: with the shortest time that can be set for keeping it."""
    (broker.config_dir / "config.toml").write_text("[offline]\nkeep = 0.2\n")
    broker.start()
    with Member(broker.rendezvous, "asks") as asks:
        with Member(broker.rendezvous, "answers", harness_session_id="talk-1") as answers:
            sent = asks.send("answers", "too late")
            answers.call("end")
        (receipt,) = poll(lambda: asks.call("take")["receipts"], bool)
        assert (receipt["id"], receipt["state"]) == (sent["id"], "expired")
        assert asks.call("check", message_id=sent["id"])["state"] == "expired"
