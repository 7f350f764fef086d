"""Installing into files as they are found in the wild: nothing of the user's changes, and all of ours goes again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.ctl.harness.wild import TEXTS, Home, make_home, text_for, tree_of
from xsessionctl.client import ClientError
from xsessionctl.harness.base import Part
from xsessionctl.harness.known import HARNESSES


@pytest.fixture(params=sorted(HARNESSES))
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return make_home(tmp_path, request.param)


def fill(home: Home, name: str) -> None:
    """Puts the text of this name into each file of the harness that can have such a text."""
    for part in home.harness.parts(home.site):
        text = text_for(part, name)
        if text is not None:
            path = Path(part.path)
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_bytes(text.encode())
            path.chmod(0o600)


@pytest.mark.parametrize("name", TEXTS)
def test_five_times_in_and_once_out_is_as_before(home: Home, name: str) -> None:
    """I3: one entry, however often it is put in; taken out, every byte and every mode is what it was."""
    fill(home, name)
    before = tree_of(home.path)
    assert home.install()
    assert home.faults() == {}
    after = tree_of(home.path)
    for _ in range(4):
        assert home.install() == []
    assert tree_of(home.path) == after
    assert home.uninstall()
    assert tree_of(home.path) == before
    assert home.uninstall() == []


def test_what_was_not_there_is_not_there_again(home: Home) -> None:
    assert tree_of(home.path) == {}
    home.install()
    assert home.faults() == {}
    for path in home.files:
        assert path.stat().st_mode & 0o777 == 0o600
    home.uninstall()
    assert tree_of(home.path) == {}


@pytest.mark.parametrize("name", TEXTS)
def test_what_the_user_changes_later_stays(home: Home, name: str) -> None:
    """I3: what they add after ours stays, and ours goes out of its middle."""
    fill(home, name)
    before = {part.path: part.form.parse(read(part)) for part in home.harness.parts(home.site)}
    home.install()
    parts = [part for part in home.harness.parts(home.site) if Path(part.path).exists()]
    for part in parts:
        write(part, part.form.put(read(part), ("added later",), {"by": "the user"}))
    assert home.install() == []
    assert home.faults() == {}
    home.uninstall()
    for part in parts:
        assert part.form.parse(read(part)) == {**as_dict(before[part.path]), "added later": {"by": "the user"}}
        assert "xsession" not in read(part)


def as_dict(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def read(part: Part) -> str:
    path = Path(part.path)
    return path.read_bytes().decode("utf-8-sig") if path.exists() else ""


def write(part: Part, text: str) -> None:
    path = Path(part.path)
    mark = b"\xef\xbb\xbf" if path.read_bytes().startswith(b"\xef\xbb\xbf") else b""
    path.write_bytes(mark + text.encode())


def test_a_link_among_dotfiles_stays_one(home: Home) -> None:
    dots = home.path / "dots"
    dots.mkdir()
    for number, path in enumerate(home.files):
        path.parent.mkdir(exist_ok=True, parents=True)
        (dots / f"{number}").write_text("")
        path.symlink_to(dots / f"{number}")
    before = tree_of(home.path)
    home.install()
    assert all(path.is_symlink() for path in home.files)
    assert home.faults() == {}
    home.uninstall()
    assert tree_of(home.path) == before


def test_a_link_that_leads_to_itself_is_refused(home: Home) -> None:
    for path in home.files:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.symlink_to(path.name)
    before = tree_of(home.path)
    with pytest.raises(ClientError, match="cannot be read: Too many levels of symbolic links"):
        home.install()
    assert tree_of(home.path) == before


@pytest.mark.parametrize("text", ['{"a": ', "\udcff", "[]"])
def test_what_cannot_be_parsed_is_left_alone_with_all_else(home: Home, text: str) -> None:
    last = home.files[-1]
    last.parent.mkdir(exist_ok=True, parents=True)
    last.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = tree_of(home.path)
    with pytest.raises(ClientError, match=str(last)):
        home.install()
    assert tree_of(home.path) == before


def test_what_is_read_only_is_left_alone(home: Home) -> None:
    first = home.files[0]
    first.parent.mkdir(exist_ok=True, parents=True)
    first.write_text("")
    first.chmod(0o400)
    before = tree_of(first.parent)
    with pytest.raises(ClientError, match="is read-only"):
        home.install()
    assert tree_of(first.parent) == before


@pytest.mark.timeout(10)
def test_a_pipe_in_its_place_is_refused_and_not_waited_for(home: Home) -> None:
    file = home.files[0]
    file.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(file)
    with pytest.raises(ClientError, match="no ordinary file"):
        home.install()


def test_a_status_looks_at_the_meaning(home: Home) -> None:
    """I3: another layout of the same is installed; without one entry it is not."""
    home.install()
    for part in home.harness.parts(home.site):
        if part.path.endswith(".json"):
            Path(part.path).write_text(json.dumps(part.form.parse(read(part)), indent=7, sort_keys=True))
    assert home.faults() == {}
    assert home.install() == []
    for path in home.files:
        path.unlink()
    faults = home.faults()
    assert set(faults.values()) == {"missing"}
    assert {fault.partition(":")[0] for fault in faults} == set(map(str, home.files))
