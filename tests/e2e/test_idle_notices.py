"""Notices when a session is idle, with real processes: they survive kill -9 of the broker, and come once."""

from __future__ import annotations

import subprocess

from tests.shim.process import ShimProcess, finish_all, texts
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Json, Member, poll


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    assert process.wait(20) == -9


def take_news(member: Member) -> list[Json]:
    """What the session is told, shown and confirmed."""
    receipts: list[Json] = member.call("take", max=0)["receipts"]
    member.ack()
    return receipts


def test_it_survives_the_broker_and_comes_once(broker: PrivateBroker) -> None:
    """9.2: killed after it was asked for, and again after it was due, before anybody was told."""
    process = broker.start()
    with Member(broker.rendezvous, "asks") as asks, Member(broker.rendezvous, "works", delivery="push") as works:
        works.call("turn", phase="started")
        sent = asks.send("works", "the tests, please", notify_when_idle=True)
        assert sent["watch"]["state"] == "watching"
        kill(process)
        process = broker.start()
        asks.rejoin()
        works.rejoin()
        works.call("turn", phase="started")
        works.ack(*(message["id"] for message in works.take()))
        works.call("turn", phase="ended")
        assert asks.wire.note("news") == {"receipts": 1, "wake": True}
        kill(process)
        process = broker.start()
        asks.rejoin()
        works.rejoin()
        works.call("turn", phase="ended")
        assert asks.wire.note("news") == {"receipts": 1, "wake": True}, "who comes back hears of it again"
        (notice,) = take_news(asks)
        assert (notice["id"], notice["state"]) == (works.id, "idle")
        kill(process)
        broker.start()
        asks.rejoin()
        works.rejoin()
        works.call("turn", phase="ended")
        assert take_news(asks) == []


def test_sessions_of_different_harnesses_are_told_of_each_other(broker: PrivateBroker) -> None:
    """9.2: the asker's model hears it with its next tool result."""
    broker.start()
    try:
        shim = ShimProcess(broker, XSESSIOND_NAME="asks")
        shim.initialize(client="codex-mcp-client")
        with Member(broker.rendezvous, "works", harness="claude", delivery="push") as works:
            works.call("turn", phase="started")
            result = shim.call("send_message", to="works", notify_when_idle=True)
            assert texts(result)[0].startswith("You are told once when works [")
            assert result["structuredContent"]["watch"]["state"] == "watching"
            assert "news" not in shim.call("list_agents")["structuredContent"]
            works.call("end")
            told = poll(lambda: shim.call("list_agents")["structuredContent"].get("news"), bool)
            assert len(told) == 1
            assert "has ended" in told[0]
            assert "news" not in shim.call("list_agents")["structuredContent"]
    finally:
        finish_all()
