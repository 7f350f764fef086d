"""Files of other programs: written whole, only ours replaced or removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from xsessionctl.client import ClientError
from xsessionctl.service.files import Planned, changes_of, put_in_place


def ours(text: bytes) -> bool:
    return text.startswith(b"ours")


def planned(path: Path, text: bytes | None = b"ours 2") -> Planned:
    return Planned(str(path), text, ours)


def done(*files: Planned) -> list[str]:
    changes = changes_of(files)
    assert put_in_place(files) == changes
    return [change["change"] for change in changes]


def test_it_is_made_with_its_directories_and_then_left(tmp_path: Path) -> None:
    """I3: doing it again changes nothing."""
    path = tmp_path / "a/b/unit"
    assert done(planned(path)) == ["made"]
    before = path.stat()
    assert done(planned(path)) == ["unchanged"]
    assert path.stat() == before
    assert path.read_bytes() == b"ours 2"
    assert [child.name for child in path.parent.iterdir()] == ["unit"]


def test_an_older_one_of_ours_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "unit"
    path.write_bytes(b"ours 1")
    with path.open("rb") as reader:
        assert done(planned(path)) == ["replaced"]
        assert reader.read() == b"ours 1"  # who had it open reads the old one to its end
    assert path.read_bytes() == b"ours 2"


def make_link(path: Path) -> None:
    path.with_name("elsewhere").write_bytes(b"ours 1")
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "make", [lambda path: path.write_bytes(b"theirs"), make_link, Path.mkdir], ids=["text", "link", "directory"]
)
def test_what_is_not_ours_is_left_alone(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """I3: the user's own stays; nothing else is written either."""
    path, other = tmp_path / "unit", tmp_path / "other"
    make(path)
    with pytest.raises(ClientError) as refused:
        put_in_place([planned(other), planned(path)])
    assert refused.value.detail == str(path)
    assert not other.exists()
    assert done(planned(path, None)) == ["left"]
    assert os.path.lexists(path)


def test_ours_is_removed_and_a_drop_in_directory_that_is_empty_then(tmp_path: Path) -> None:
    unit, mine, drop_in = tmp_path / "unit", tmp_path / "unit.d/mine.conf", tmp_path / "unit.d/ours.conf"
    assert done(planned(unit), planned(drop_in)) == ["made", "made"]
    mine.write_text("")
    assert done(planned(unit, None), planned(drop_in, None)) == ["removed", "removed"]
    assert mine.exists()
    mine.unlink()
    assert done(planned(drop_in)) == ["made"]
    assert done(planned(drop_in, None)) == ["removed"]
    assert list(tmp_path.iterdir()) == []
    assert done(planned(unit, None), planned(drop_in, None)) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ClientError) as refused:
        put_in_place([planned(tmp_path / "file/unit")])
    assert str(tmp_path / "file") in refused.value.text
    assert refused.value.exit_code == 10
    assert "Make it writable" in (refused.value.hint or "")
