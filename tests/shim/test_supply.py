"""What the broker has for a session: leased, given back, acknowledged until it is known."""

from __future__ import annotations

from tests.shim.fake_broker import make_message
from tests.shim.noted_link import NotedLink
from xsessionctl.shim.identity import Identity
from xsessionctl.shim.mail import Batch, Mailbag
from xsessionctl.shim.supply import NEWS_UNITS, Supply
from xsessiond.core.limits import SHIM_MAIL_BYTES


class Rig:
    def __init__(self) -> None:
        self.link = NotedLink(Identity({}, "/", []))
        self.bag = Mailbag()
        self.supply = Supply(self.link, self.bag)
        self.batches: list[Batch] = []
        self.changes: list[bool] = []
        self.supply.on_change = lambda: self.changes.append(self.supply.anything_waits)

    def take(self, *bodies: str, left: int = 0, news: tuple[str, ...] = (), count: int = 50) -> Batch:
        self.supply.take(count, SHIM_MAIL_BYTES, self.batches.append)
        messages = [make_message(f"m-{number}", body) for number, body in enumerate(bodies)]
        receipts = [{"text": text} for text in news]
        self.link.answer({"messages": messages, "receipts": receipts, "left": left})
        return self.batches[-1]


def test_what_is_said_is_what_waits() -> None:
    rig = Rig()
    assert rig.supply.hear("mail", {"queued": 1})
    assert rig.supply.hear("news", {"receipts": 1, "wake": True})
    assert not rig.supply.hear("entry", {})
    assert (rig.supply.waiting, rig.supply.news, rig.supply.wake) == (True, True, True)
    rig.take("one", left=2)
    assert (rig.supply.waiting, rig.supply.news, rig.supply.wake) == (True, False, False)
    rig.take("two")
    assert rig.changes == [True, True, True, False]


def test_to_look_for_news_says_nothing_of_mail() -> None:
    rig = Rig()
    rig.supply.hear("mail", {"queued": 1})
    rig.take(count=0, left=0)
    assert rig.supply.waiting


def test_what_does_not_fit_goes_back_at_once() -> None:
    rig = Rig()
    batch = rig.take("x" * 30_000, "y" * 30_000)
    assert batch.ids == ["m-0"]
    assert rig.link.told == [("release", {"ids": ["m-1"]})]
    assert rig.supply.waiting


def test_a_batch_that_is_put_back_waits_again_with_its_news() -> None:
    rig = Rig()
    batch = rig.take("one", news=("m-9 expired.",))
    rig.supply.put_back(batch)
    assert rig.link.told == [("release", {"ids": ["m-0"]})]
    assert rig.supply.waiting
    assert rig.take("one").news == ["m-9 expired."]


def test_news_that_is_too_much_for_one_batch_comes_with_the_next() -> None:
    rig = Rig()
    rig.link.notices.append("You are called api-fox.")
    lines = tuple(f"m-{number} to web expired." for number in range(300))
    first = rig.take(news=lines)
    assert sum(len(line) for line in first.news) <= NEWS_UNITS
    assert first.news[0] == "You are called api-fox."
    told = list(first.news[1:])
    while rig.supply.news:
        told += rig.take().news
    assert told == list(lines)


def test_an_acknowledgement_is_repeated_until_it_is_known() -> None:
    """W9."""
    rig = Rig()
    rig.bag.note_written(["m-0"])
    rig.supply.acknowledge(["m-0"])
    rig.link.answer(None)
    rig.supply.begin(0)
    assert rig.link.methods() == ["ack", "ack"]
    rig.link.answer({"acked": 1})
    rig.supply.begin(3)
    assert rig.link.methods() == ["ack", "ack"]
    assert rig.supply.waiting
    rig.supply.acknowledge([])
    rig.supply.confirm([])
    assert rig.link.last("ack") == {"ids": []}


def test_without_a_link_nothing_is_said() -> None:
    rig = Rig()
    rig.link.state = "trying"
    rig.supply.acknowledge(["m-0"])
    assert rig.link.asked == []


def test_another_conversation_begins_with_nothing() -> None:
    rig = Rig()
    rig.supply.put_back(rig.take("one", news=("x",)))
    rig.supply.forget()
    assert not rig.supply.anything_waits


def test_what_was_leased_for_the_conversation_before_is_not_shown_in_another() -> None:
    """7.5: the answer was on its way when the conversation was cleared; the end of its session gives the mail back."""
    rig = Rig()
    rig.supply.take(50, SHIM_MAIL_BYTES, rig.batches.append)
    rig.supply.forget()
    rig.link.answer({"messages": [make_message("m-0", "for the one before")], "receipts": [{"text": "x"}], "left": 3})
    [batch] = rig.batches
    assert (batch.ids, batch.news, batch.text) == ([], [], "")
    assert not rig.supply.anything_waits
    assert not rig.supply.taking
    assert rig.take("for this one").ids == ["m-0"]
