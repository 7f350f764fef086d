"""Questions of the broker, put to the store one at a time.

Laws: one question, one read, in a thread; what the questions of a link that has gone would find is not looked for, but
they are answered all the same, since the broker counts on it. Refuses to know: what is asked, why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import assert_never

import trio

from xsessiond.core.effects import (
    FindEvents,
    FindKey,
    FindMessage,
    FindSent,
    Found,
    LookedUp,
    LookUp,
    Question,
    ReadLog,
)
from xsessiond.store.contract import Store, StoreError


class Lookups:
    """The questions that wait. wanted(link): whether somebody still waits there. answered(event): called for each, in
    order, from the task of `run`."""

    __slots__ = ("_answered", "_asked", "_expected", "_questions", "_store", "_wanted")

    def __init__(self, store: Store, wanted: Callable[[int], bool], answered: Callable[[LookedUp], None]) -> None:
        self._store, self._wanted, self._answered = store, wanted, answered
        self._questions: deque[LookUp] = deque()
        self._expected: dict[int, int] = {}
        self._asked = trio.Event()

    def waiting_for(self, link: int) -> int:
        """Questions of this link that are not answered yet."""
        return self._expected.get(link, 0)

    def expect(self, effect: LookUp) -> None:
        """A question that will be asked once what was decided before it is stored."""
        self._expected[effect.link] = self._expected.get(effect.link, 0) + 1

    def ask(self, effect: LookUp) -> None:
        """One that was expected; it may be answered now."""
        self._questions.append(effect)
        self._asked.set()

    async def run(self) -> None:
        """Answers until cancelled."""
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            while self._questions:
                await self._look_up(self._questions.popleft())

    async def _look_up(self, effect: LookUp) -> None:
        found: Found = None
        problem = None
        try:
            if self._wanted(effect.link):
                found = await trio.to_thread.run_sync(answer_question, self._store, effect.question)
        except StoreError as error:
            problem = str(error)
        self._expected[effect.link] -= 1
        if not self._expected[effect.link]:
            del self._expected[effect.link]
        self._answered(LookedUp(effect.ticket, found, problem))


def answer_question(store: Store, question: Question) -> Found:
    """What the question returns. Raises StoreError."""
    match question:
        case FindMessage():
            return store.find_message(question.message_id)
        case FindKey():
            return store.find_key(question.sender_id, question.key)
        case FindSent():
            return store.sent_by(question.sender_id, question.limit)
        case FindEvents():
            return store.events_of(question.seqs)
        case ReadLog():
            return store.read_log(limit=question.limit, since_ms=question.since_ms, thread=question.thread)
        case _:
            assert_never(question)
