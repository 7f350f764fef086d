"""Rows and operations: values that say whole what is kept."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from xsessiond.core import records
from xsessiond.core.records import DropPins, EventRow, MessageRow, Op, PutPin, PutReceipt, PutSession, SessionRow


def test_values_are_equal_by_what_they_say_and_cannot_be_changed() -> None:
    pin = PutPin("s-a", "web", "s-b")
    assert pin == PutPin("s-a", "web", "s-b")
    assert pin != PutPin("s-a", "web", "s-c")
    with pytest.raises(AttributeError):
        pin.name = "x"  # type: ignore[misc]
    for kind in (*get_args(Op), SessionRow, MessageRow, EventRow, records.Snapshot):
        assert kind.__struct_config__.frozen, kind


def test_operations_are_a_closed_list() -> None:
    kinds = [thing for thing in vars(records).values() if isinstance(thing, type) and issubclass(thing, msgspec.Struct)]
    named = {kind for kind in kinds if kind.__name__.startswith(("Put", "Mark", "Drop"))}
    assert named == set(get_args(Op))


def test_a_message_begins_without_the_times_that_come_later() -> None:
    row = MessageRow(
        1, "m-1", "queued", "human", "human", "ann", None, None, "s-b", "b", "x", 1, b"d", None, None, "m-1", 0, "auto",
        None, 1, "default: accept", 5, None,
    )  # fmt: skip
    assert (row.handed_at, row.delivered_at, row.replied_at, row.ended_at) == (None, None, None, None)
    assert row.__struct_fields__[:4] == ("seq", "id", "state", "sender_kind")


def test_operations_name_whom_they_concern() -> None:
    assert DropPins("s-a").sender_id == "s-a"
    assert PutReceipt("s-a", "m-1", "expired", 5, "text").session_id == "s-a"
    assert PutSession.__struct_fields__ == ("row",)
