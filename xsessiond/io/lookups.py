"""Questions of the broker, put to the store.

Laws: one question, one read; it may run in any thread. Refuses to know: who asks, why.
"""

from __future__ import annotations

from xsessiond.core.effects import FindEvents, FindKey, FindMessage, FindSent, Found, Question
from xsessiond.store.contract import Store


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
        case _:
            return store.read_log(limit=question.limit, since_ms=question.since_ms, thread=question.thread)
