"""The closed lists of events and effects."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from tests.support.core_house import House
from xsessiond.core import effects
from xsessiond.core.effects import Effect, Event, Persist, ProcessId, Question, SendFrame, TimePassed
from xsessiond.core.records import DropPins


def structs() -> set[type]:
    return {
        thing
        for thing in vars(effects).values()
        if isinstance(thing, type) and issubclass(thing, msgspec.Struct) and thing.__module__ == effects.__name__
    }


def test_each_value_is_an_event_or_an_effect_or_a_question() -> None:
    """None is both, none is forgotten; all are values."""
    events, done, asked = set(get_args(Event)), set(get_args(Effect)), set(get_args(Question))
    assert events & done == set()
    assert structs() - {effects.Peer} == events | done | asked
    assert all(kind.__struct_config__.frozen for kind in structs())
    assert all(kind.__doc__ for kind in structs())


def test_events_are_past_tense_and_effects_imperative() -> None:
    past = ("ed", "Up", "Stored", "Read", "Found")
    assert all(kind.__name__.endswith(past) for kind in get_args(Event))
    assert not any(kind.__name__.endswith("ed") for kind in get_args(Effect))


def test_what_is_stored_is_waited_for_unless_it_says_otherwise() -> None:
    assert not Persist(DropPins("s-a")).lazy
    assert not SendFrame(1, b"{}\n").urgent


def test_a_process_is_its_pid_and_its_start() -> None:
    """1.3"""
    assert ProcessId(1, 2) == ProcessId(1, 2)
    assert ProcessId(1, 2) != ProcessId(1, 3)


def test_the_broker_knows_every_event_and_nothing_else() -> None:
    house = House()
    assert house.broker.handle(TimePassed(), house.now) == []
    with pytest.raises(AssertionError):
        house.broker.handle("something else", house.now)  # type: ignore[arg-type]
