"""What is removed in time, beside what the store forgets."""

from __future__ import annotations

import os
from pathlib import Path

from tests.io.rig import Surroundings
from xsessiond.io.upkeep import Upkeep
from xsessiond.store.contract import StoreError
from xsessiond.store.memory import MemoryStore


class Failing(MemoryStore):
    """A store that cannot prune now."""

    def prune(self, *, older_than_ms: int) -> int:
        raise StoreError("the disk is full", transient=True)


async def test_texts_in_files_go_when_final_messages_go(tmp_path: Path) -> None:
    """7.6: also where nobody writes another long text."""
    around = Surroundings()
    around.texts_dir = str(tmp_path)
    for name, written in (("m-1.txt", 100), ("m-2.txt", 300)):
        (tmp_path / name).write_text("text")
        os.utime(tmp_path / name, (written, written))
    await Upkeep(MemoryStore(), around).prune(200_000)
    assert os.listdir(tmp_path) == ["m-2.txt"]
    assert around.log == []


async def test_a_store_that_cannot_prune_says_so(tmp_path: Path) -> None:
    around = Surroundings()
    await Upkeep(Failing(), around).prune(200_000)
    assert around.log == [("warning", "pruning failed", {"problem": "the disk is full"})]
