"""xsessionctl.commands.grant: what is left behind where a grant does not come about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.commands import grant
from xsessionctl.options import Setup
from xsessionctl.output import Sink


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Setup:
    for kind in ("RUNTIME", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XSESSIOND_{kind}_DIR", str(tmp_path / kind.lower()))
    monkeypatch.setattr(grant, "ask", lambda *_: {"grants": []})
    return Setup(Sink(), as_json=True, timeout=1.0, deadline=deadline_in(1.0))


def fail_to_grant(monkeypatch: pytest.MonkeyPatch, setup: Setup, directory: Path, *, makes_socket: bool) -> ClientError:
    """The broker says no, or nothing any more: then the socket may be there already."""

    def ask_human(method: str, params: Any, timeout: float) -> dict[str, object]:
        if makes_socket:
            (directory / "session.sock").touch()
        raise ClientError("timeout", "The broker did not answer in time.", sent=True)

    monkeypatch.setattr(grant, "ask_human", ask_human)
    with pytest.raises(ClientError) as raised:
        grant._grant({"name": "box"}, str(directory), setup)
    return raised.value


def test_a_directory_that_was_made_for_nothing_goes_again(
    monkeypatch: pytest.MonkeyPatch, setup: Setup, tmp_path: Path
) -> None:
    assert fail_to_grant(monkeypatch, setup, tmp_path / "box", makes_socket=False).code == "timeout"
    assert not (tmp_path / "box").exists()
    (tmp_path / "box").mkdir(mode=0o700)
    assert fail_to_grant(monkeypatch, setup, tmp_path / "box", makes_socket=False).code == "timeout"
    assert (tmp_path / "box").exists()


def test_a_grant_that_may_have_come_about_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch, setup: Setup, tmp_path: Path
) -> None:
    """The failure is the broker's, and not that the directory is in use."""
    assert fail_to_grant(monkeypatch, setup, tmp_path / "box", makes_socket=True).code == "timeout"
    assert (tmp_path / "box" / "session.sock").exists()
