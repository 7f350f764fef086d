"""Whether the store can be written and whether it is sound: neither hides the other."""

from __future__ import annotations

import pytest

from xsessiond.core.effects import StoreReported
from xsessiond.core.store_health import StoreHealth

SOUND, DAMAGED, WORKS, FULL = (
    StoreReported((True, "sound")),
    StoreReported((False, "damaged")),
    StoreReported(None),
    "full",
)


@pytest.mark.parametrize(
    "seen, ok, detail",
    [
        ([], True, "not checked yet"),
        ([SOUND], True, "sound"),
        ([DAMAGED], False, "damaged"),
        ([FULL], False, "full"),
        ([FULL, SOUND], False, "full"),
        ([FULL, DAMAGED], False, "full"),
        ([SOUND, FULL], False, "full"),
        ([FULL, WORKS], True, "The store works again."),
        ([FULL, SOUND, WORKS], True, "The store works again."),
        ([FULL, WORKS, SOUND], True, "sound"),
        ([DAMAGED, FULL, WORKS], False, "damaged"),
        ([FULL, DAMAGED, WORKS], False, "damaged"),
    ],
)
def test_what_status_tells(seen: list[StoreReported | str], ok: object, detail: str) -> None:
    """D11, 15.5"""
    health = StoreHealth()
    for event in seen:
        if isinstance(event, str):
            health.fail(event)
        else:
            health.see(event)
    assert health.tell() == {"ok": ok, "detail": detail}
