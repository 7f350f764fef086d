"""Putting the product into a harness's files and taking it out again: first as a plan that can be shown, then done.

Laws: a plan is made of all files of a harness before the first is written, so that one that cannot be changed leaves
the others alone; what is shown is what is written; a file that has all it should have is not written. Refuses to know:
single harnesses, what is asked and printed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import unified_diff
from time import monotonic, sleep

from xsessionctl.client import ClientError
from xsessionctl.harness.base import Harness, Part, Site
from xsessionctl.harness.common import count_common
from xsessionctl.harness.json_spans import BadText
from xsessionctl.harness.receipts import Receipt, Receipts, write_receipt
from xsessionctl.harness.trees import Path, value_at
from xsessionctl.user_file import ChangedMeanwhile, UserFile

MOST_BYTES = 64 << 20
"""Of a harness's file. Claude Code's grows with every project."""
TRIES = 20
"""How often the change is made anew for somebody who writes the file all the time."""
LOCK_S, LOCK_PAUSE_S = 3.0, 0.02
"""How long a harness that is writing its file is waited for."""


ANCHOR = 500
"""Lines before the first change that a diff is made from: it takes long where much is alike, and looks for the longest
piece that is, which should be this one."""


@dataclass(frozen=True)
class Step:
    """One file that is to change. after: its new text, None for no file. again: makes the step anew, from what the file
    says by then; None if nothing is left to do."""

    part: Part
    file: UserFile
    after: str | None
    receipt: Receipt | None
    again: Callable[[], Step | None]

    @property
    def path(self) -> str:
        """Of the file."""
        return self.part.path

    def diff(self) -> list[str]:
        """The change, as `diff -u` shows it."""
        old = self.path if self.file.exists else os.devnull
        new = self.path if self.after is not None else os.devnull
        before, after = self.file.text.splitlines(), (self.after or "").splitlines()
        same = max(0, count_common(before, after) - ANCHOR)
        found = unified_diff(before[same:], after[same:], old, new, n=2, lineterm="")
        return [_shifted(line, same) if line.startswith("@@") else line for line in found]


def _shifted(place: str, by: int) -> str:
    """`@@ -3,4 +3,9 @@`, so many lines further down."""
    return re.sub(r"(?<= [-+])\d+", lambda line: str(int(line[0]) + by), place)


def plan_install(harness: Harness, site: Site, receipts: Receipts) -> list[Step]:
    """What has to change so that all is there. Raises ClientError."""
    steps = [_plan_part(harness, part, receipts) for part in harness.parts(site)]
    return [step for step in steps if step is not None]


def plan_uninstall(harness: Harness, site: Site, receipts: Receipts) -> list[Step]:
    """What has to change so that nothing of ours is left. Raises ClientError."""
    steps = [_plan_removal(harness, part, receipts) for part in harness.parts(site)]
    return [step for step in steps if step is not None]


def _plan_part(harness: Harness, part: Part, receipts: Receipts) -> Step | None:
    file = UserFile(part.path, most=MOST_BYTES)
    old = receipts.get(part.path)
    with _refusing(harness, part):
        after = _installed(part, file)
        before = _base(part, file, old)
        hollow = _hollow(part, before or "")
    if after == file.text and file.exists:
        return None
    file.refuse_unwritable()
    folders = _missing_folders(part.path) or (old.folders if old is not None else [])
    receipt = write_receipt(before or "", after, made=before is None, folders=folders, hollow=hollow)
    return Step(part, file, after, receipt, lambda: _plan_part(harness, part, receipts))


def _plan_removal(harness: Harness, part: Part, receipts: Receipts) -> Step | None:
    file = UserFile(part.path, most=MOST_BYTES)
    with _refusing(harness, part):
        after = _base(part, file, receipts.get(part.path))
    if not file.exists or after == file.text:
        return None
    file.refuse_unwritable()
    return Step(part, file, after, None, lambda: _plan_removal(harness, part, receipts))


def find_states(harness: Harness, site: Site) -> dict[str, str]:
    """How each entry is, by `path: title`: installed, missing or outdated. Raises ClientError."""
    states = {}
    for part in harness.parts(site):
        file = UserFile(part.path, most=MOST_BYTES)
        with _refusing(harness, part):
            tree = _parse(part, file.text)
            for entry in part.entries:
                fault = entry.find_fault(tree)
                if fault is not None or entry.ways():
                    states[f"{part.path}: {entry.title}"] = fault or "installed"
    return states


def find_switches(harness: Harness, site: Site) -> list[str]:
    """What the user has switched off that ours needs, as sentences. Files that cannot be read say nothing here."""
    trees = {}
    for part in harness.parts(site):
        try:
            trees[part.path] = part.form.parse(UserFile(part.path, most=MOST_BYTES).text)
        except (BadText, ClientError):
            continue
    return list(harness.switched_off(trees))


def do(step: Step, receipts: Receipts) -> None:
    """Writes one file, with the same change if it says something else by now. Raises ClientError; then it is as it
    was."""
    for again in range(TRIES, -1, -1):
        try:
            _do(step, receipts)
        except ChangedMeanwhile:
            if not again:
                raise
        else:
            return


def _do(step: Step, receipts: Receipts) -> None:
    with receipts.alone(), _locked(step.part.lock):
        fresh = step.again()
        if fresh is None:
            return
        old, new = receipts.get(step.path), fresh.receipt
        if new is not None and step.receipt is not None:
            # Which of two files made a folder for both does not matter.
            new = replace(new, folders=max(step.receipt.folders, new.folders, key=len))
        receipts.set(step.path, new)  # first: what cannot be remembered is not written
        try:
            if fresh.after is None:
                fresh.file.remove()
            else:
                fresh.file.replace(fresh.after)
        except ClientError:
            receipts.set(step.path, old)
            raise
        if new is None and old is not None:
            for folder in old.folders:
                try:
                    os.rmdir(folder)
                except OSError:
                    break  # somebody has put something there


# -- what the texts become ---------------------------------------------------------------------------------------------


def _installed(part: Part, file: UserFile) -> str:
    text = file.text
    _parse(part, text)
    for entry in part.entries:
        text = entry.put(part.form, text)
    return text


def _base(part: Part, file: UserFile, receipt: Receipt | None) -> str | None:
    """The file without anything of ours; None: without us there was none."""
    if not file.exists:
        return None
    exact = receipt.restore(file.text) if receipt is not None else None
    if receipt is not None and exact is not None:
        return None if receipt.made else exact
    tree = _parse(part, file.text)
    text = file.text
    for entry in part.entries:
        text = entry.remove(part.form, text)
    text = _drop_hollow(part, tree, text, receipt.hollow if receipt is not None else [])
    made = receipt is not None and receipt.made
    return None if made and not part.form.parse(text) and text != file.text else text


def _ways(part: Part) -> list[Path]:
    """The objects and lists that our entries stand in, the innermost first."""
    ways = {way for entry in part.entries for way in entry.ways()}
    return sorted(ways, key=len, reverse=True)


def _hollow(part: Part, text: str) -> list[list[str]]:
    """Which of these are there and hold nothing."""
    tree = part.form.parse(text)
    return [[str(name) for name in way] for way in _ways(part) if value_at(tree, way) in ({}, [])]


def _drop_hollow(part: Part, before: object, text: str, kept: list[list[str]]) -> str:
    """Without those that hold nothing any more because ours are gone."""
    for way in _ways(part):
        if list(way) not in kept and value_at(before, way) not in ({}, [], None):
            if value_at(part.form.parse(text), way) in ({}, []):
                text = part.form.remove(text, way)
    return text


def _parse(part: Part, text: str) -> object:
    tree = part.form.parse(text)
    if not isinstance(tree, dict):
        raise BadText("it holds no object")
    return tree


@contextmanager
def _refusing(harness: Harness, part: Part) -> Iterator[None]:
    try:
        yield
    except BadText as problem:
        raise ClientError(
            "bad_config",
            f"{part.path} is not changed: {problem}.",
            f"Mend it by hand; nothing was changed for {harness.title}.",
        ) from None


# -- on the disk -------------------------------------------------------------------------------------------------------


def _missing_folders(path: str) -> list[str]:
    """The folders that have to be made for a file, the innermost first."""
    found = []
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Holds the lock that a harness, too, holds while it writes: a directory. One that stays was left behind."""
    held = False
    deadline = monotonic() + LOCK_S
    while path and not held:
        try:
            os.mkdir(path, 0o700)
            held = True
        except FileExistsError:
            if monotonic() > deadline:
                break
            sleep(LOCK_PAUSE_S)
        except OSError:
            break  # the write will say what is wrong
    try:
        yield
    finally:
        if held:
            os.rmdir(path)
