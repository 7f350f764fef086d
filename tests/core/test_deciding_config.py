"""The settings in force as a client is told them, and who may go on to change them."""

from __future__ import annotations

import pytest

from tests.support.core_house import House, Refused
from xsessiond.core.policy import CoreSettings, ShownValue

SETTINGS = CoreSettings(
    shown=(
        ShownValue("inbound.policy", "hold", "user", "/c.toml:2"),
        ShownValue("offline.keep", "7d", "default", None),
    ),
    config_ok=False,
    config_problems=("/c.toml:3:1: error: no",),
)
ANSWER = {
    "values": [
        {"key": "inbound.policy", "value": "hold", "source": "user", "where": "/c.toml:2"},
        {"key": "offline.keep", "value": "7d", "source": "default", "where": None},
    ],
    "problems": ["/c.toml:3:1: error: no"],
    "ok": False,
}


def test_everybody_may_look() -> None:
    """C5: each value with where it was written."""
    house = House(SETTINGS)
    assert house.human().ask("config") == house.script().ask("config") == ANSWER


def test_only_a_human_may_change_them() -> None:
    """5.2: an agent's shell is refused, and that is shown."""
    house = House(SETTINGS)
    assert house.human().ask("config", to_change=True) == ANSWER
    api = house.join("api")
    for who in (house.script(), house.connect(api.peer)):
        with pytest.raises(Refused, match="Only a human may change the settings") as caught:
            who.ask("config", to_change=True)
        assert caught.value.code == "not_permitted"
    assert any("tried to change the settings" in text for text in house.broker.core.warnings)


def test_reloading_answers_with_what_is_then_in_force() -> None:
    """14.3."""
    house = House()
    house.settings = SETTINGS
    line = house.human()
    assert line.ask("reload") == ANSWER
    gone = house.human()
    gone.drop()
    assert line.ask("config") == ANSWER
