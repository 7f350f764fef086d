"""`xsessionctl status --charges`: who holds what of the broker's."""

from __future__ import annotations

import json
import sys

from tests.support.private_broker import PrivateBroker, accepts
from tests.support.wire_client import Json, Member, greet, poll


def test_the_heaviest_first_with_the_limits_and_the_descriptors(broker: PrivateBroker) -> None:
    """13.3, F1: of a real broker, with what the system says of its process."""
    broker.start()
    with Member(broker.rendezvous, "api") as api, Member(broker.rendezvous, "web"):
        for number in range(3):
            api.send("web", f"text {number}")
        answer = json.loads(broker.ctl("status", "--charges", "--json").stdout)["charges"]
        rows = {row["name"]: row for row in answer["charges"]}
        assert (rows["web"]["queued"], rows["web"]["queued_bytes"], rows["web"]["links"]) == (3, 18, 1)
        assert answer["total"]["queued"] == 3
        assert 0 < answer["files"]["used"] < answer["files"]["limit"]
        shown = broker.ctl("status", "--charges").stdout
        assert "WHO" in shown
        assert "limit of each" in shown
        facts = shown.splitlines()[-1]
        assert f"sessions: at most {answer['limits']['sessions']}; descriptors: " in facts
        assert f" of {answer['files']['limit']}; memory: " in facts
        assert 10 << 20 < answer["memory"]["rss_bytes"] < 1 << 30
    assert "charges" not in json.loads(broker.ctl("status", "--json").stdout)


def test_what_somebody_asks_for_and_does_not_read_is_whose_it_is(broker: PrivateBroker) -> None:
    """13.3: a session that reads none of its answers, and a stranger that does the same."""
    broker.start()
    with (
        Member(broker.rendezvous, "api") as api,
        Member(broker.rendezvous, "web"),
        greet(broker.rendezvous) as stranger,
    ):
        for wire in (api.wire, stranger):
            wire.write_what_fits(b'{"jsonrpc":"2.0","id":9,"method":"list"}\n' * 5000)

        def ask() -> Json:
            found: Json = json.loads(broker.ctl("status", "--charges", "--json").stdout)["charges"]
            return found

        answer = poll(ask, lambda found: found["strangers"]["unsent_bytes"] and found["total"]["unsent_bytes"])
        rows = {row["name"]: row["unsent_bytes"] for row in answer["charges"]}
        assert 0 < rows["api"] <= answer["limits"]["unsent_bytes"]
        assert rows["web"] == 0
        assert answer["total"]["unsent_bytes"] == rows["api"]
        assert "bytes unsent" in broker.ctl("status", "--charges").stdout


def test_where_the_system_gives_few_descriptors_there_are_few_sessions(broker: PrivateBroker) -> None:
    """F1, 13.3: the number that counts is told."""
    process = broker.spawn("sh", "-c", 'ulimit -n 400 && exec "$0" -m xsessiond', sys.executable)
    poll(lambda: accepts(broker.rendezvous) or process.poll() is not None, bool)
    answer = json.loads(broker.ctl("status", "--charges", "--json").stdout)["charges"]
    assert (answer["files"]["limit"], answer["limits"]["sessions"]) == (400, 100)
    assert "sessions: at most 100; " in broker.ctl("status", "--charges").stdout


def test_without_a_broker(broker: PrivateBroker) -> None:
    assert broker.ctl("status", "--charges").returncode == 9
