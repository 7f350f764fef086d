"""The file with the passphrase: right, wrong, missing, unusable, changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.support.users import STRANGER, needs_root
from xsessiond.core.passphrase import make_record
from xsessiond.io import passphrase
from xsessiond.io.passphrase import Checked, PassphraseFile

TEXT = "correct horse"
RECORD = make_record(TEXT, bytes(16))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "passphrase"
    write(path, RECORD)
    return path


def write(path: Path, record: str) -> None:
    path.write_text(record)
    path.chmod(0o600)


def remove(path: Path) -> None:
    path.unlink()


def opened(path: Path, told: list[str] | None = None) -> PassphraseFile:
    report: Callable[[str], None] = ([] if told is None else told).append
    return PassphraseFile(str(path), report)


async def test_right_and_wrong(path: Path) -> None:
    """5.2."""
    file = opened(path)
    assert file.is_set()
    assert await file.check(TEXT) == Checked(ok=True)
    assert await file.check("wrong") == Checked(ok=False)


async def test_none_is_set(tmp_path: Path) -> None:
    """Nobody can decide, and is told so."""
    file = opened(tmp_path / "passphrase")
    assert not file.is_set()
    found = await file.check(TEXT)
    assert not found.ok
    assert found.problem == "Nobody can decide: no passphrase is set. Set one with `xsessionctl passphrase`."


def spoil(path: Path, fault: str) -> None:
    match fault:
        case "readable":
            path.chmod(0o644)
        case "a link":
            path.rename(path.with_name("elsewhere"))
            path.symlink_to("elsewhere")
        case "a directory":
            path.unlink()
            path.mkdir()
        case "a fifo":
            path.unlink()
            os.mkfifo(path, 0o600)
        case _:
            path.write_text(TEXT if fault == "text" else "")


@pytest.mark.parametrize("fault", ["readable", "a link", "a directory", "text", "empty", "a fifo"])
async def test_a_file_that_cannot_be_trusted_opens_nothing(path: Path, fault: str) -> None:
    spoil(path, fault)
    file = opened(path)
    assert file.is_set()
    with trio.fail_after(10):
        found = await file.check(TEXT)
    assert not found.ok
    assert found.problem is not None
    assert found.problem.startswith("Nobody can decide: ")
    assert TEXT not in found.problem


@needs_root
async def test_a_file_of_another_user_opens_nothing(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER)
    found = await opened(path).check(TEXT)
    assert "uid 54322" in str(found.problem)


async def test_a_system_without_scrypt_opens_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: str) -> bool:
        raise AttributeError("no scrypt")

    monkeypatch.setattr(passphrase, "matches", fail)
    found = await opened(path).check(TEXT)
    assert found == Checked(ok=False, problem="Nobody can decide: the passphrase cannot be checked (no scrypt).")


async def test_guessing_is_slowed_for_all_who_guess(
    path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """5.2: however many ask at once; while it lasts the right one does not help either."""
    tried: list[str] = []

    def matches(record: str, text: str) -> bool:
        tried.append(text)
        return text == TEXT

    monkeypatch.setattr(passphrase, "matches", matches)
    monkeypatch.setattr(trio.to_thread, "run_sync", _at_once)
    file = opened(path)
    problems: list[str | None] = []

    async def guess(number: int) -> None:
        problems.append((await file.check(f"guess {number}")).problem)

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(guess, number)
    assert len(tried) == 5
    assert problems.count("Too many wrong passphrases. Try again in 10 s.") == 45
    assert not (await file.check(TEXT)).ok
    await trio.sleep(10)
    assert (await file.check(TEXT)).ok
    assert (await file.check("wrong")).problem is None


async def _at_once(function: Callable[..., bool], *args: str) -> bool:
    await trio.lowlevel.checkpoint()
    return function(*args)


async def test_that_it_was_changed_is_told(path: Path) -> None:
    """A program that may write the file could have done it; not unseen."""
    told: list[str] = []
    file = opened(path, told)
    file.notice_change()
    assert told == []
    remove(path)
    file.notice_change()
    write(path, make_record("another one", bytes(16)))
    assert (await file.check("another one")).ok
    write(path, RECORD)
    assert (await file.check(TEXT)).ok
    assert (await file.check(TEXT)).ok
    assert told == [f"The passphrase for decisions was {what}." for what in ("removed", "set", "changed")]
