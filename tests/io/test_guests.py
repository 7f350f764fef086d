"""Whom to let go when a listening socket is crowded."""

from __future__ import annotations

from xsessiond.core.limits import FILES_PER_SESSION, MAX_CONNECTIONS, SESSIONS_MOST
from xsessiond.core.link import Link
from xsessiond.io.arrivals import Sender
from xsessiond.io.guests import LEAST, SPARE, Guests, most_guests

ANN, BOB = Sender(None, 1), Sender(None, 2)


def test_a_crowd_leaves_room_for_the_most_sessions() -> None:
    """13.3: each of which has three descriptors, and a link while it comes."""
    for open_files in (256, 1024, 4096, 65536):
        sessions = min(SESSIONS_MOST, open_files // FILES_PER_SESSION)
        assert LEAST < most_guests(open_files) < MAX_CONNECTIONS
        assert 3 * sessions + most_guests(open_files) + SPARE <= open_files
    assert most_guests(16) == LEAST


def proven() -> Link:
    link = Link()
    link.proven = True
    return link


def test_nobody_goes_while_there_is_room() -> None:
    guests = Guests(3)
    assert [guests.enter(link, ANN, 1, Link()) for link in range(3)] == [None, None, None]
    guests.leave(1)
    assert guests.enter(3, ANN, 1, Link()) is None
    assert len(guests) == 3


def test_the_process_with_the_most_loses_its_oldest() -> None:
    guests = Guests(4)
    for link, pid in enumerate([10, 20, 20, 10]):
        assert guests.enter(link, ANN, pid, Link()) is None
    assert guests.enter(4, ANN, 20, Link()) == 0  # two each among those who were there: the oldest of all
    guests.leave(0)
    assert guests.enter(5, ANN, 30, Link()) == 1
    guests.leave(1)
    assert guests.enter(6, ANN, 30, Link()) == 2


def test_many_processes_of_one_sender_are_a_crowd() -> None:
    """The one process of another, though it was there first, is not what has to go."""
    guests = Guests(4)
    assert guests.enter(0, BOB, 10, Link()) is None
    assert guests.enter(1, BOB, 10, Link()) is None
    assert guests.enter(2, ANN, 20, Link()) is None
    assert guests.enter(3, ANN, 21, Link()) is None
    guests.leave(1)
    assert guests.enter(4, ANN, 22, Link()) is None
    assert guests.enter(5, ANN, 23, Link()) == 2
    guests.leave(2)
    assert guests.enter(6, BOB, 11, Link()) == 3


def test_a_newcomer_is_not_the_one_who_goes_and_neither_is_one_that_has_proven_whose_it_is() -> None:
    guests = Guests(2)
    assert guests.enter(1, ANN, 10, proven()) is None
    assert guests.enter(2, BOB, 99, Link()) is None
    assert guests.enter(3, BOB, 99, Link()) == 2
    guests.leave(2)
    assert guests.enter(4, BOB, 99, Link()) == 3


def test_where_all_others_have_proven_whose_they_are_the_newcomer_goes() -> None:
    guests = Guests(1)
    guests.enter(1, ANN, 10, proven())
    assert guests.enter(2, BOB, 99, Link()) == 2
