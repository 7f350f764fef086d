"""`xsessionctl status --charges`: who holds what of the broker's."""

from __future__ import annotations

import json

from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member


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
        assert f"descriptors: {answer['files']['used']} of" in shown or "descriptors: " in shown
    assert "charges" not in json.loads(broker.ctl("status", "--json").stdout)


def test_without_a_broker(broker: PrivateBroker) -> None:
    assert broker.ctl("status", "--charges").returncode == 9
