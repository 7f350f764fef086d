"""The rules for sandboxes: each can be read by what reads it, and names what a client needs and nothing else."""

from __future__ import annotations

import json
import tomllib

import pytest

from tests.support.private_broker import PrivateBroker
from xsessionctl.sandboxes import tell_sandboxes
from xsessiond.paths import resolve_paths


def rules(platform: str) -> tuple[dict[str, object], dict[str, dict[str, object]]]:
    paths = resolve_paths(
        {"XSESSIOND_RUNTIME_DIR": "/r", "XSESSIOND_STATE_DIR": '/s "x"', "HOME": "/"}, platform=platform
    )
    document = tell_sandboxes(paths)
    found = document["rules"]
    assert isinstance(found, list)
    return document, {str(rule["harness"]): rule for rule in found}


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_rules_are_what_their_readers_read(platform: str) -> None:
    """I6"""
    document, by_harness = rules(platform)
    assert document["connect"] == ["/r/broker.sock"]
    assert document["read"] == ["/r", '/s "x"/rendezvous']
    claude = json.loads(str(by_harness["claude"]["text"]))["sandbox"]["network"]
    codex = tomllib.loads(str(by_harness["codex"]["text"]))
    if platform == "darwin":
        assert claude == {"allowUnixSockets": ["/r/broker.sock"]}
        assert codex["permissions"]["xsession"]["network"]["unix_sockets"] == {"/r/broker.sock": "allow"}
        assert codex["default_permissions"] == "xsession"
    else:
        assert claude == {"allowAllUnixSockets": True}
        assert codex["sandbox_workspace_write"] == {"network_access": True}
        assert all(rule["note"] for rule in by_harness.values()), "what is wider than it need be says so"


def test_nothing_need_be_writable() -> None:
    """13.1: a sandbox that may not write in the state dir cannot name the broker's successor, for one."""
    for platform in ("linux", "darwin"):
        document, by_harness = rules(platform)
        assert "write" not in document
        assert "writable_roots" not in str(by_harness)
        assert "allowWrite" not in str(by_harness)


def test_the_verb_prints_them_and_starts_nothing(broker: PrivateBroker) -> None:
    """I6"""
    document = json.loads(broker.ctl("paths", "--sandbox", "--json").stdout)
    assert document["connect"] == [str(broker.rendezvous)]
    shown = broker.ctl("paths", "--sandbox").stdout
    assert str(broker.rendezvous) in shown
    assert "~/.claude/settings.json" in shown
    assert "~/.codex/config.toml" in shown
    assert not broker.rendezvous.exists()
