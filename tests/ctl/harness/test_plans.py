"""xsessionctl.harness.plans and receipts: what happens between the look and the write, and what is remembered."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from difflib import unified_diff
from functools import partial
from pathlib import Path

import pytest

from tests.ctl.harness.wild import Home, make_home, plain_json, tree_of
from xsessionctl.client import ClientError
from xsessionctl.harness import plans
from xsessionctl.harness.finding import Found
from xsessionctl.harness.plans import Step, do, plan_install, plan_uninstall
from xsessionctl.harness.receipts import Receipt, Receipts, write_receipt
from xsessionctl.installing import Job, carry_out

SECRET = "sk-this-is-nobody's-business"


@pytest.fixture
def claude(tmp_path: Path) -> Home:
    home = make_home(tmp_path, "claude")
    (home.path / ".claude.json").write_text(json.dumps({"oauth": SECRET, "n": 1}, indent=2))
    return home


def state_of(home: Home) -> dict[str, object]:
    found = json.loads((home.path / ".claude.json").read_text())
    assert isinstance(found, dict)
    return found


def test_what_is_written_between_the_look_and_the_write_stays(claude: Home) -> None:
    """A harness that runs writes its own file at any time: the same change goes into what stands there by then."""
    steps = plan_install(claude.harness, claude.site, claude.receipts)
    (claude.path / ".claude.json").write_text(json.dumps({"oauth": SECRET, "n": 2}, indent=4))
    for step in steps:
        do(step, claude.receipts)
    assert state_of(claude)["n"] == 2
    assert claude.faults() == {}
    assert '    "oauth"' in (claude.path / ".claude.json").read_text()
    claude.uninstall()
    assert (claude.path / ".claude.json").read_text() == json.dumps({"oauth": SECRET, "n": 2}, indent=4)


def test_who_writes_in_the_very_moment_is_written_after(claude: Home) -> None:
    """Between the last look and the write: what was written stays, and the change is made to that."""
    state, count = claude.path / ".claude.json", 0
    steps = plan_install(claude.harness, claude.site, claude.receipts)

    def disturbed(step: Step) -> Step | None:
        nonlocal count
        fresh = step.again()
        if step.path == str(state) and count < 3:
            count += 1
            state.write_text(json.dumps({"oauth": SECRET, "n": 10 + count}))
        return fresh

    for step in steps:
        do(replace(step, again=partial(disturbed, step)), claude.receipts)
    assert (state_of(claude)["n"], count) == (13, 3)
    assert claude.faults() == {}


def test_what_is_done_by_then_is_not_done_again(claude: Home) -> None:
    steps = plan_install(claude.harness, claude.site, claude.receipts)
    claude.install()
    before = tree_of(claude.path)
    for step in steps:
        do(step, claude.receipts)
    assert tree_of(claude.path) == before


def test_a_harness_that_is_writing_is_waited_for(claude: Home) -> None:
    lock = claude.path / ".claude.json.lock"
    lock.mkdir()
    step = plan_install(claude.harness, claude.site, claude.receipts)[0]
    writer = threading.Thread(target=do, args=(step, claude.receipts))
    writer.start()
    try:
        writer.join(0.3)
        assert "mcpServers" not in state_of(claude)
    finally:
        lock.rmdir()
        writer.join(10)
    assert "mcpServers" in state_of(claude)
    assert not lock.exists()


def test_a_lock_that_was_left_behind_is_passed_over(claude: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "LOCK_S", 0.05)
    (claude.path / ".claude.json.lock").mkdir()
    claude.install()
    assert "mcpServers" in state_of(claude)
    assert (claude.path / ".claude.json.lock").exists()


def test_a_failure_says_what_was_written_before(claude: Home) -> None:
    steps = plan_install(claude.harness, claude.site, claude.receipts)
    (claude.path / ".claude").write_text("in the way")
    job = Job(claude.harness, Found(None, None), claude.site, steps)
    with pytest.raises(ClientError, match=f"Before that, {claude.path}/.claude.json was written"):
        carry_out([job], claude.receipts)
    (claude.path / ".claude").unlink()
    claude.uninstall()
    assert state_of(claude) == {"oauth": SECRET, "n": 1}


def test_what_could_not_be_remembered_is_not_written(claude: Home, tmp_path: Path) -> None:
    """The failure says that nothing was changed, and a file of the user's can always be taken back exactly."""
    (tmp_path / "state").write_text("in the way")
    before = tree_of(claude.path)
    [step, *_] = plan_install(claude.harness, claude.site, claude.receipts)
    with pytest.raises(ClientError):
        do(step, claude.receipts)
    assert (tree_of(claude.path), claude.receipts.get(step.path)) == (before, None)
    (tmp_path / "state").unlink()
    claude.install()
    known = claude.receipts
    installed, receipt = tree_of(claude.path), known.get(step.path)
    [step, *_] = plan_uninstall(claude.harness, claude.site, known)
    (tmp_path / "state" / f".installed.json.{os.getpid()}").write_text("in the way of what is written there")
    with pytest.raises(ClientError):
        do(step, known)
    assert (tree_of(claude.path), known.get(step.path)) == (installed, receipt)
    assert receipt is not None


def test_what_was_not_written_is_not_remembered(claude: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    [step, *_] = plan_install(claude.harness, claude.site, claude.receipts)

    def fail(file: object, text: str) -> None:
        raise ClientError("bad_config", "The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(plans.UserFile, "replace", fail)
        with pytest.raises(ClientError):
            do(step, claude.receipts)
    assert claude.receipts.get(step.path) is None


def test_nothing_of_the_user_s_is_remembered_but_what_ours_took_the_place_of(claude: Home, tmp_path: Path) -> None:
    claude.install()
    memory = tmp_path / "state" / "installed.json"
    assert SECRET not in memory.read_text()
    assert memory.stat().st_mode & 0o777 == 0o600
    claude.uninstall()
    assert not memory.parent.exists()


def test_a_folder_that_somebody_uses_stays(tmp_path: Path) -> None:
    home = make_home(tmp_path, "codex")
    home.install()
    (home.path / ".codex" / "auth.json").write_text("{}")
    home.uninstall()
    assert list(tree_of(home.path)) == [".codex", ".codex/auth.json"]


def test_a_file_that_was_ours_and_got_more_stays(tmp_path: Path) -> None:
    home = make_home(tmp_path, "gemini")
    home.install()
    path = home.files[0]
    path.write_text(json.dumps({**json.loads(path.read_text()), "theme": "dark"}))
    home.uninstall()
    assert json.loads(path.read_text()) == {"theme": "dark"}


def test_what_a_reinstall_changes_is_taken_back_exactly_too(tmp_path: Path) -> None:
    home = make_home(tmp_path, "claude").with_version(2, 0, 0)
    home.files[1].parent.mkdir()
    home.files[1].write_text(plain_json(indent="\t"))
    before = tree_of(home.path)
    home.install()
    home.with_version(2, 1, 332).install()
    assert home.uninstall()
    assert tree_of(home.path) == before


def test_without_a_memory_entries_of_ours_go_and_the_rest_stays(claude: Home, tmp_path: Path) -> None:
    claude.install()
    (tmp_path / "state" / "installed.json").unlink()
    steps = plan_uninstall(claude.harness, claude.site, claude.receipts)
    assert [step.after for step in steps] == [json.dumps({"oauth": SECRET, "n": 1}, indent=2), "{}\n"]


@pytest.mark.parametrize(
    "before, after", [("", "abc"), ("abc", ""), ("aXa", "aYYa"), ("aaa", "aaaa"), ("same", "same"), ("ab", "ba")]
)
def test_a_receipt_gives_the_old_text_for_the_new_one_only(before: str, after: str) -> None:
    receipt = write_receipt(before, after, made=False, folders=[], hollow=[])
    assert receipt.restore(after) == before
    assert receipt.restore(after + " ") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"/x": {"digest": 1}}', '{"/x": 5}'])
def test_an_unreadable_memory_is_an_empty_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "installed.json").write_text(text)
    receipts = Receipts(str(tmp_path))
    assert receipts.get("/x") is None
    receipt = Receipt("d", 0, 1, "old", made=True, folders=["/f"], hollow=[["a"]])
    receipts.set("/x", receipt)
    assert Receipts(str(tmp_path)).get("/x") == receipt


def test_a_diff_of_a_long_file_is_what_one_of_the_whole_would_be(claude: Home) -> None:
    """Only its end is compared."""
    path = claude.path / ".claude.json"
    path.write_text(json.dumps({"projects": {f"/p{number}": {"n": number} for number in range(900)}}, indent=2))
    step = plan_install(claude.harness, claude.site, claude.receipts)[0]
    assert step.after is not None
    whole = unified_diff(path.read_text().splitlines(), step.after.splitlines(), step.path, step.path, n=2, lineterm="")
    assert step.diff() == list(whole)
    assert step.diff()[2].startswith("@@ -2701,")
