"""A laptop that sleeps: the real service and sockets, on a wall clock that jumps while the other one stands still."""

from __future__ import annotations

import pytest

from tests.support.private_broker import PrivateBroker
from tests.support.service_rig import in_thread, running_service
from tests.support.wire_client import Member, poll
from xsessiond.core import holding
from xsessiond.core.times import Now
from xsessiond.io.engine import Engine
from xsessiond.store.memory import MemoryStore

NIGHT_S = 8 * 3600


async def test_a_hold_expires_over_a_sleep_and_nobody_is_evicted(
    broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5.4, 1.6, P10: what waited for a human an hour is over; who was there is there; both sides hear of it."""
    asleep_s = 0.0
    awake = Engine.now

    def now(engine: Engine) -> Now:
        mono, ms = awake(engine)
        return Now(mono, ms + round(asleep_s * 1000))

    monkeypatch.setattr(Engine, "now", now)
    monkeypatch.setattr(holding, "LOOK_AGAIN_S", 0.05)  # a minute, for who need not wait for a test
    async with running_service(broker, MemoryStore()):
        web = await in_thread(lambda: Member(broker.rendezvous, "web", **{"class": "bypass"}))
        api = await in_thread(lambda: Member(broker.rendezvous, "api"))
        with web, api:
            sent = await in_thread(lambda: web.send("api", "Shall I?"))
            assert sent["state"] == "held"
            asleep_s = NIGHT_S

            def state() -> object:
                return web.call("check", message_id=sent["id"])["state"]

            assert await in_thread(lambda: poll(state, lambda found: found != "held")) == "expired"
            assert [session["name"] for session in (await in_thread(web.call, "list"))["sessions"]] == ["web", "api"]
            (told,) = (await in_thread(web.call, "take"))["receipts"]
            assert (told["id"], told["state"]) == (sent["id"], "expired")
            (heard,) = (await in_thread(api.call, "take"))["receipts"]
            assert "1 held message from web expired" in heard["text"]
