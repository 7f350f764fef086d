"""Mail into a harness: by a door that does as the test says, and by the answers of hooks."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from tests.shim.fake_broker import make_message
from tests.shim.noted_link import NotedLink
from xsessionctl.shim.courier import RETRY_FIRST_S, UNSEEN_S, Courier
from xsessionctl.shim.dialects import marks_in
from xsessionctl.shim.door import DELIVERED, GONE, REFUSED, WRITTEN, Door
from xsessionctl.shim.identity import Identity
from xsessionctl.shim.mail import Batch, Mailbag
from xsessiond.core.envelope import parse_envelopes


def message_id(number: int) -> str:
    return f"m-{number:032x}"


class FakeDoor(Door):
    """Notes what is posted. done: of the last post. Opened once, it opens again."""

    delivery = "push"
    modes = ("auto", "followup")

    def __init__(self, *, opened: bool = True, busy_too: bool = True) -> None:
        super().__init__()
        self.opened, self.busy_too, self._works = opened, busy_too, opened
        self.posted: list[tuple[str, bool, str]] = []
        self.done: Callable[[str], None] = lambda _: None
        self.closed = 0

    @property
    def is_open(self) -> bool:
        return self.opened

    def post(self, text: str, *, busy: bool, mode: str, done: Callable[[str], None]) -> None:
        self.posted.append((text, busy, mode))
        self.done = done

    def shut(self) -> None:
        self.opened = False

    def reopen(self) -> None:
        self.opened = self._works

    def close(self) -> None:
        self.closed += 1


class Rig:
    """A courier with everything around it made up."""

    def __init__(self, door: FakeDoor | None = None, *, hooked: bool = True) -> None:
        self.identity = Identity({}, "/", [(1, ["x"])])
        self.link = NotedLink(self.identity)
        self.bag = Mailbag()
        self.courier = Courier(self.identity, self.link, self.bag)
        self.courier.hooked = hooked
        self.door = door or FakeDoor()
        self.courier.use_door(self.door)
        self.courier.turn_is("idle")
        self.fetched: list[Batch] = []

    def mail(self, *numbers: int, left: int = 0, mode: str = "auto", receipts: tuple[str, ...] = ()) -> None:
        """The broker has mail, and gives these when it is asked."""
        self.courier.hear("mail", {"queued": len(numbers)})
        self.give(*numbers, left=left, mode=mode, receipts=receipts)

    def give(self, *numbers: int, left: int = 0, mode: str = "auto", receipts: tuple[str, ...] = ()) -> None:
        messages = [{**make_message(message_id(n), f"text {n}"), "mode": mode} for n in numbers]
        told = [{"id": "x", "state": "expired", "text": text} for text in receipts]
        self.link.answer_to("take", {"messages": messages, "receipts": told, "left": left})

    def see(self) -> None:
        """The harness shows the last post as a prompt."""
        self.courier.saw(marks_in(self.door.posted[-1][0]))

    def told(self, method: str) -> list[dict[str, Any]]:
        return [params for name, params in self.link.told if name == method]


def test_what_arrives_is_posted_handed_and_acknowledged_on_evidence() -> None:
    """W1: written is not delivered; only its id in a prompt makes it so."""
    rig = Rig()
    rig.mail(1)
    [(text, busy, mode)] = rig.door.posted
    [envelope] = parse_envelopes(text)
    assert (envelope.attributes["id"], envelope.body, busy, mode) == (message_id(1), "text 1", False, "auto")
    assert rig.told("handed") == []
    rig.door.done(WRITTEN)
    assert rig.told("handed") == [{"ids": [message_id(1)]}]
    assert "ack" not in rig.link.methods()
    rig.see()
    assert rig.link.last("ack") == {"ids": [message_id(1)]}
    rig.courier.saw([message_id(1)])
    rig.door.done(WRITTEN)
    assert rig.told("handed") == [{"ids": [message_id(1)]}]


def test_five_that_wait_come_as_one_batch_in_order() -> None:
    """W15."""
    rig = Rig()
    rig.mail(1, 2, 3, 4, 5)
    [(text, _, _)] = rig.door.posted
    assert [envelope.body for envelope in parse_envelopes(text)] == [f"text {n}" for n in range(1, 6)]
    rig.door.done(WRITTEN)
    rig.see()
    assert rig.link.last("ack") == {"ids": [message_id(n) for n in range(1, 6)]}


def test_nothing_is_posted_while_something_is_without_evidence() -> None:
    """W7: one wake at a time; what comes meanwhile is not even taken, by nobody."""
    rig = Rig()
    rig.mail(1)
    rig.door.done(WRITTEN)
    rig.courier.hear("mail", {"queued": 1})
    rig.courier.turn_is("busy")
    rig.courier.turn_is("idle")
    assert rig.link.methods().count("take") == 1
    assert rig.courier.under_way
    rig.see()
    assert rig.link.methods().count("take") == 2
    rig.give(2)
    assert len(rig.door.posted) == 2


def test_an_earlier_text_is_no_evidence_of_a_later_one_that_has_more() -> None:
    """6.1: a harness that was stopped has first what it was given first, which was given up meanwhile."""
    rig = Rig()
    rig.mail(1)
    rig.door.done(WRITTEN)
    [(first, _, _)] = rig.door.posted
    due = rig.courier.due
    assert due is not None
    rig.courier.tick(due)
    rig.courier.turn_is("idle")
    rig.courier.hooks_run()
    rig.mail(1, 2)
    rig.door.done(WRITTEN)
    rig.courier.saw(marks_in(first))
    assert rig.link.last("ack") == {"ids": [message_id(1)]}
    rig.see()
    assert rig.link.last("ack") == {"ids": [message_id(1), message_id(2)]}
    assert not rig.courier.under_way


def test_what_came_into_another_conversation_is_not_taken_for_read_in_its_own() -> None:
    """7.5, 6.1: the harness had a text in its inbox when it was cleared, and went back to the first one later."""
    rig = Rig()
    rig.mail(1)
    rig.door.done(WRITTEN)
    rig.courier.forget_conversation()
    rig.see()
    rig.courier.forget_conversation()
    rig.courier.link_is_up(1)
    rig.give(1)
    assert len(rig.door.posted) == 2


def test_what_is_being_fetched_for_the_door_is_not_overtaken_either() -> None:
    """7.3: the result of a tool that ends now carries no later one."""
    rig = Rig()
    rig.courier.hear("mail", {"queued": 1})
    assert rig.courier.under_way
    rig.give(1)
    rig.door.done(WRITTEN)
    rig.see()
    assert not rig.courier.under_way


def test_a_door_that_says_not_now_is_tried_again_with_the_same() -> None:
    """W10: a busy refusal loses nothing, and no lease is given up for it."""
    rig = Rig()
    rig.mail(1)
    rig.door.done(REFUSED)
    assert rig.courier.under_way
    due = rig.courier.due
    assert due is not None
    assert due - monotonic() <= RETRY_FIRST_S
    rig.courier.tick(due)
    assert len(rig.door.posted) == 2
    assert rig.door.posted[0] == rig.door.posted[1]
    rig.door.done(REFUSED)
    later = rig.courier.due
    assert later is not None
    assert later - monotonic() > RETRY_FIRST_S
    rig.courier.turn_is("busy")
    assert len(rig.door.posted) == 3
    assert rig.told("release") == []


def test_a_broken_door_gives_back_what_it_had_and_the_listing_says_so() -> None:
    """W17: the push path breaks; others see `turn`, and nothing is lost."""
    rig = Rig()
    assert rig.identity.delivery == "push"
    rig.mail(1)
    rig.door.opened = False
    rig.door.done(GONE)
    assert rig.told("release") == [{"ids": [message_id(1)]}]
    assert rig.told("update")[-1] == {"delivery": "turn", "modes": ["auto", "inject", "steer"]}
    assert rig.courier.wants_hook(stopping=False)
    rig.courier.turn_is("busy")
    rig.courier.turn_is("idle")
    assert rig.told("update")[-1]["delivery"] == "push"


def test_an_idle_session_that_begins_no_turn_has_not_got_it() -> None:
    """W3, W13: the door is doubted, and the message waits where something can still happen."""
    rig = Rig()
    rig.courier.step()  # a hook has come before
    rig.mail(1)
    rig.door.done(WRITTEN)
    due = rig.courier.due
    assert due is not None
    assert abs(due - monotonic() - UNSEEN_S) < 1
    rig.courier.tick(due)
    assert rig.told("release") == [{"ids": [message_id(1)]}]
    assert rig.told("update")[-1]["delivery"] == "turn"
    rig.courier.turn_is("busy")
    rig.courier.turn_is("idle")
    assert not rig.door.opened
    # It comes after all: then it is read, and the door works.
    rig.see()
    assert rig.link.last("ack") == {"ids": [message_id(1)]}
    assert rig.door.opened
    assert rig.told("update")[-1]["delivery"] == "push"


def test_hooks_that_are_installed_and_never_come_are_not_there() -> None:
    """W13, W16: as when its user has switched all hooks off; then nothing waits for them, and nobody is told `turn`."""
    rig = Rig()
    rig.mail(1)
    rig.door.done(WRITTEN)
    due = rig.courier.due
    assert due is not None
    rig.courier.tick(due)
    assert rig.told("update")[-1]["delivery"] == "pull"
    rig.courier.hooks_run()
    assert rig.told("update")[-1]["delivery"] == "push"


def test_a_busy_session_has_all_the_time_it_needs() -> None:
    """A tool may run for long, and nothing is delivered before it ends."""
    rig = Rig()
    rig.courier.turn_is("busy")
    rig.mail(1)
    assert rig.door.posted[0][1] is True
    rig.door.done(WRITTEN)
    assert rig.courier.due is None
    rig.courier.turn_is("waiting")
    assert rig.courier.due is None
    rig.courier.turn_is("idle")
    assert rig.courier.due is not None


def test_a_door_that_knows_for_itself_needs_no_hook() -> None:
    rig = Rig()
    rig.mail(1)
    rig.door.done(DELIVERED)
    assert rig.link.last("ack") == {"ids": [message_id(1)]}
    assert not rig.courier.under_way


@pytest.mark.parametrize("mode", ["inject", "steer"])
def test_what_must_start_no_turn_is_left_to_the_hooks_of_this_one(mode: str) -> None:
    """3.6: by the door it might begin a turn of its own."""
    rig = Rig()
    rig.courier.turn_is("busy")
    rig.mail(1, mode=mode)
    assert rig.door.posted == []
    assert rig.told("release") == [{"ids": [message_id(1)]}]
    rig.courier.hear("mail", {"queued": 1})
    assert rig.link.methods().count("take") == 1
    assert rig.courier.wants_hook(stopping=False)
    rig.courier.fetch(9800, rig.fetched.append)
    rig.give(1, mode=mode)
    assert rig.fetched[-1].ids == [message_id(1)]
    assert ("meant to change" in rig.fetched[-1].text) is (mode == "steer")
    # The turn ends first: the rest is the broker's to say, and the door's to bring.
    rig.courier.put_away(rig.fetched[-1])
    rig.courier.turn_is("idle")
    assert rig.link.methods().count("take") == 3


def test_a_hook_s_answer_is_read_when_the_next_hook_comes() -> None:
    rig = Rig(FakeDoor(opened=False))
    rig.courier.hear("mail", {"queued": 1})
    assert rig.courier.wants_hook(stopping=True)
    rig.courier.fetch(9800, rig.fetched.append)
    assert not rig.courier.wants_hook(stopping=False)
    rig.give(1, left=1, receipts=("m-9 expired.",))
    [batch] = rig.fetched
    assert "m-9 expired." in batch.text
    rig.courier.show(batch)
    assert rig.told("handed") == [{"ids": [message_id(1)]}]
    assert "ack" not in rig.link.methods()
    assert not rig.courier.wants_hook(stopping=False)
    rig.courier.step()
    assert rig.link.last("ack") == {"ids": [message_id(1)]}
    assert rig.courier.wants_hook(stopping=False)
    rig.courier.step()
    assert rig.link.methods().count("ack") == 1


def test_an_answer_that_nobody_got_goes_back_and_its_news_is_not_lost() -> None:
    """W9."""
    rig = Rig(FakeDoor(opened=False))
    rig.courier.hear("mail", {"queued": 1})
    rig.courier.fetch(9800, rig.fetched.append)
    rig.give(1, receipts=("m-9 expired.",))
    rig.courier.put_away(rig.fetched[0])
    assert rig.told("release") == [{"ids": [message_id(1)]}]
    assert rig.courier.supply.news
    rig.courier.fetch(9800, rig.fetched.append)
    rig.give()
    assert rig.fetched[1].news == ["m-9 expired."]


def test_news_wakes_nobody_unless_it_was_asked_for() -> None:
    """6.4, 9.2."""
    rig = Rig()
    rig.courier.hear("news", {"receipts": 1, "wake": False})
    assert "take" not in rig.link.methods()
    assert rig.courier.supply.anything_waits
    assert not rig.courier.wants_hook(stopping=True)
    assert rig.courier.wants_hook(stopping=False)
    rig.courier.hear("news", {"receipts": 2, "wake": True})
    assert rig.link.last("take")["max"] == 0
    rig.give(receipts=("web is idle now.",))
    [(text, _, _)] = rig.door.posted
    assert "| web is idle now." in text
    [mark] = marks_in(text)
    rig.door.done(WRITTEN)
    assert rig.told("handed") == []
    rig.courier.saw([mark])
    assert rig.link.last("ack") == {"ids": []}
    assert not rig.courier.under_way


def test_a_lot_of_news_comes_in_parts() -> None:
    rig = Rig()
    rig.link.notices.append("You are called api-fox.")
    rig.courier.hear("news", {"receipts": 60, "wake": True})
    rig.give(receipts=tuple(f"message {n} to web expired after an hour or so." for n in range(100)))
    text = rig.door.posted[0][0]
    assert len(text) < 3000
    assert "You are called api-fox." in text
    assert rig.courier.supply.news
    rig.courier.fetch(9800, rig.fetched.append)
    rig.give()
    assert rig.fetched[0].news[0] not in text
    assert rig.link.notices == []


def test_without_hooks_there_is_no_evidence_and_so_no_door() -> None:
    """W16: nobody is told `push` by a session whose installation is half."""
    rig = Rig(hooked=False)
    assert rig.identity.delivery == "pull"
    rig.courier.hear("mail", {"queued": 1})
    assert "take" not in rig.link.methods()
    rig.courier.hooks_run()
    assert rig.told("update")[-1] == {"delivery": "push", "modes": ["auto", "followup", "inject", "steer"]}
    assert rig.link.methods() == ["take"]


def test_a_door_for_idle_sessions_leaves_the_busy_ones_to_the_hooks() -> None:
    rig = Rig(FakeDoor(busy_too=False))
    rig.courier.turn_is("busy")
    rig.courier.hear("mail", {"queued": 1})
    assert "take" not in rig.link.methods()
    assert rig.courier.wants_hook(stopping=False)
    assert not rig.courier.wants_hook(stopping=True)
    rig.courier.turn_is("idle")
    assert rig.link.methods() == ["take"]


def test_a_door_that_comes_back_by_itself_counts_while_the_turn_runs() -> None:
    rig = Rig(FakeDoor(opened=False))
    rig.door.returns = True
    rig.courier.turn_is("busy")
    assert rig.identity.delivery == "push"
    rig.courier.turn_is("idle")
    assert rig.identity.delivery == "turn"


def test_another_conversation_gets_nothing_of_the_one_before() -> None:
    """7.5: and what it left without evidence is not acknowledged for it."""
    rig = Rig()
    rig.mail(1)
    rig.door.done(WRITTEN)
    rig.courier.forget_conversation()
    assert not rig.courier.under_way
    assert not rig.courier.supply.anything_waits
    rig.door.done(WRITTEN)
    assert rig.courier.due is None


def test_after_a_broken_link_leases_are_void_and_evidence_still_counts() -> None:
    rig = Rig()
    rig.mail(1)
    rig.door.done(WRITTEN)
    rig.courier.link_is_up(1)
    assert rig.link.methods().count("take") == 1  # it is under way, and not to be given twice
    rig.see()
    assert rig.link.last("ack") == {"ids": [message_id(1)]}
    rig.link.answer_to("ack", None)
    rig.courier.link_is_up(0)
    assert rig.link.last("ack") == {"ids": [message_id(1)]}
    rig.link.answer_to("ack", {"acked": 1})
    rig.courier.link_is_up(0)
    assert rig.link.methods().count("ack") == 2


def test_what_was_seen_before_is_acknowledged_and_not_posted_again() -> None:
    """W9: an acknowledgement that was lost makes no second delivery."""
    rig = Rig()
    rig.bag.note_written([message_id(1)])
    rig.mail(1, 2)
    assert [envelope.body for envelope in parse_envelopes(rig.door.posted[0][0])] == ["text 2"]
    assert rig.link.last("ack") == {"ids": [message_id(1)]}


def test_a_take_that_fails_leaves_everything_as_it_was() -> None:
    rig = Rig()
    rig.courier.hear("mail", {"queued": 1})
    rig.link.answer_to("take", None, {"code": "no_broker", "text": "No."})
    assert rig.door.posted == []
    assert rig.courier.supply.waiting
    rig.courier.turn_is("busy")
    assert rig.link.methods().count("take") == 2


def test_a_new_door_takes_the_place_of_the_old() -> None:
    rig = Rig()
    other = FakeDoor(opened=False)
    rig.courier.use_door(other)
    assert rig.door.closed == 1
    assert rig.identity.delivery == "turn"
    other.opened = True
    other.on_change()
    assert rig.identity.delivery == "push"


def test_others_words_are_nothing_to_it() -> None:
    rig = Rig()
    rig.courier.hear("queue", {})
    rig.courier.saw([])
    assert rig.link.asked == []


def test_what_is_in_the_way_is_told_as_it_changes() -> None:
    rig = Rig(FakeDoor(opened=False))
    told: list[bool] = []
    rig.courier.supply.on_change = lambda: told.append(rig.courier.supply.anything_waits)
    rig.courier.hear("mail", {"queued": 1})
    rig.courier.supply.note_left(0)
    assert told == [True, False]


# -- a door that only announces ----------------------------------------------------------------------------------------


class Bell(FakeDoor):
    announces = True

    def __init__(self) -> None:
        super().__init__(busy_too=False)


def test_a_bell_is_rung_once_and_the_turn_s_hook_carries_what_waits() -> None:
    """7.1, W7: nothing is leased before the turn begins."""
    rig = Rig(Bell())
    rig.courier.hear("mail", {"queued": 1})
    rig.courier.hear("mail", {"queued": 1})
    assert rig.door.posted == [("", False, "auto")]
    assert "take" not in rig.link.methods()
    assert rig.courier.ringing
    rig.door.done(WRITTEN)
    rig.courier.turn_is("busy")
    assert not rig.courier.ringing
    assert rig.courier.wants_hook(stopping=False)
    rig.courier.fetch(9000, rig.fetched.append)
    rig.give(1)
    assert rig.fetched[0].ids == [message_id(1)]


def test_a_bell_that_is_refused_is_rung_again_later() -> None:
    rig = Rig(Bell())
    rig.courier.hear("mail", {"queued": 1})
    rig.door.done(REFUSED)
    assert not rig.courier.ringing
    rig.courier.hear("mail", {"queued": 1})
    assert len(rig.door.posted) == 1
    rig.courier.tick(monotonic() + RETRY_FIRST_S)
    assert len(rig.door.posted) == 2


def test_a_turn_that_begins_by_itself_is_as_good() -> None:
    rig = Rig(Bell())
    rig.courier.hear("mail", {"queued": 1})
    rig.courier.turn_is("busy")
    rig.door.done(REFUSED)
    assert rig.courier.due is None


def test_a_bell_that_brings_no_turn_is_not_rung_any_more() -> None:
    """W3, W17"""
    rig = Rig(Bell())
    rig.courier.step()  # a hook has come before
    rig.courier.hear("mail", {"queued": 1})
    rig.door.done(WRITTEN)
    rig.courier.tick(monotonic() + UNSEEN_S)
    assert not rig.courier.ringing
    assert rig.identity.delivery == "turn"


def test_a_bell_that_is_gone() -> None:
    rig = Rig(Bell())
    rig.courier.hear("mail", {"queued": 1})
    rig.door.opened = False
    rig.door.done(GONE)
    assert (rig.courier.ringing, rig.identity.delivery) == (False, "turn")
