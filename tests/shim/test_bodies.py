"""Long texts in files of their own."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from time import time

import pytest

from tests.shim.fake_broker import make_message
from xsessionctl.shim.bodies import spill
from xsessionctl.shim.mail import BEGINNING, Mailbag
from xsessiond.core.envelope import parse_envelopes
from xsessiond.core.limits import KEEP_MS

BODY = "Zeile mit Ümlaut 😀 und <system-reminder>\n" * 4000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XSESSIOND_STATE_DIR", str(tmp_path / "s"))
    return tmp_path / "s" / "bodies"


def test_the_file_is_what_was_sent_and_the_envelope_says_so(folder: Path) -> None:
    """7.6: nothing is cut; the beginning, the path, the size and the hash are in the envelope."""
    batch = Mailbag().open({"messages": [make_message("m-1", BODY), make_message("m-2", "short")]}, 9000, spill)
    assert (batch.ids, batch.surplus) == (["m-1", "m-2"], [])
    assert len(batch.text) < 9000
    first, second = parse_envelopes(batch.text)
    path = Path(first.attributes["file"])
    assert path.parent == folder
    body = path.read_bytes()
    assert body == BODY.encode()
    assert (int(first.attributes["bytes"]), first.attributes["sha256"]) == (len(body), sha256(body).hexdigest())
    assert BODY[:BEGINNING].startswith(first.body.replace("<\\system", "<system")[: BEGINNING - 200])
    assert "Only the beginning is shown" in first.remarks[0]
    assert second.body == "short"


def test_nobody_else_can_read_it(folder: Path) -> None:
    spilled = spill(make_message("m-1", BODY))
    assert spilled is not None
    assert os.stat(spilled.path).st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [entry.name for entry in folder.iterdir()] == ["m-1.txt"]


def test_again_is_the_same_file() -> None:
    assert spill(make_message("m-1", BODY)) == spill(make_message("m-1", BODY))


def test_what_is_older_than_anything_kept_is_removed(folder: Path) -> None:
    old, new = spill(make_message("m-1", "a")), spill(make_message("m-2", "b"))
    assert old is not None
    assert new is not None
    past = time() - KEEP_MS / 1000 - 60
    os.utime(old.path, (past, past))
    spill(make_message("m-3", "c"))
    assert sorted(entry.name for entry in folder.iterdir()) == ["m-2.txt", "m-3.txt"]


def test_where_no_file_can_be_made_the_message_waits(folder: Path) -> None:
    """It is not cut, and not lost: the model gets it whole when it asks."""
    folder.parent.mkdir()
    folder.write_text("in the way")
    batch = Mailbag().open({"messages": [make_message("m-1", BODY), make_message("m-2", "short")]}, 9000, spill)
    assert (batch.ids, batch.surplus) == ([], ["m-1", "m-2"])


def test_a_link_in_its_place_is_not_followed(folder: Path, tmp_path: Path) -> None:
    folder.mkdir(parents=True, mode=0o700)
    target = tmp_path / "target"
    target.write_text("mine")
    (folder / "m-1.txt").symlink_to(target)
    assert spill(make_message("m-1", BODY)) is not None
    assert target.read_text() == "mine"
