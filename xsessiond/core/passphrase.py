"""The user's passphrase for decisions: what is kept of it, and how often it may be tried.

Kept is one line in the customary form, `$scrypt$ln=15,r=8,p=1$SALT$HASH`, which takes a tenth of a second and 32 MiB to
try: what somebody who read the file pays for each guess.

Laws: the text itself is kept nowhere; comparing takes as long for a near miss as for a far one; the time is an
argument. Refuses to know: files, threads, who asks.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from hmac import compare_digest
from unicodedata import normalize

LN, R, P = 15, 8, 1
"""scrypt's cost: 2**LN times R times 128 bytes of memory."""
HASH_BYTES = 32
SALT_BYTES = 16
LEAST, MOST = 8, 1024
"""Characters of a passphrase."""
FREE_TRIES = 5
"""Wrong ones in a row before the first wait."""
FIRST_WAIT_S, LONGEST_WAIT_S = 10.0, 900.0
"""The wait after each further wrong one doubles."""

_RECORD = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d)\$([A-Za-z0-9+/]{22,88})\$([A-Za-z0-9+/]{43,88})\n?")


class BadRecord(ValueError):
    """What is kept is no passphrase of ours. The text is a sentence."""


def find_fault(text: str) -> str | None:
    """What is wrong with a new passphrase, as a sentence, or None."""
    if len(text) < LEAST:
        return f"It is too short: at least {LEAST} characters."
    if len(text) > MOST:
        return f"It is too long: at most {MOST} characters."
    return None


def make_record(text: str, salt: bytes) -> str:
    """What to keep of this passphrase. salt: SALT_BYTES random bytes, never used before."""
    return f"$scrypt$ln={LN},r={R},p={P}${_encode(salt)}${_encode(_derive(text, salt, LN, R, P))}\n"


def matches(record: str, text: str) -> bool:
    """Whether `text` is the passphrase that `record` was made of. Slow. Raises BadRecord."""
    found = _RECORD.fullmatch(record)
    if found is None:
        raise BadRecord("It is not in the form that `xsessionctl passphrase` writes.")
    ln, r, p = (int(number) for number in found.groups()[:3])
    # What is cheaper than ours is not ours; what is much dearer would stop the machine.
    if not (LN <= ln <= LN + 3 and r == R and 1 <= p <= 4):
        raise BadRecord("Its costs are not those that `xsessionctl passphrase` sets.")
    salt, kept = _decode(found[4]), _decode(found[5])
    return compare_digest(_derive(text, salt, ln, r, p), kept)


def _derive(text: str, salt: bytes, ln: int, r: int, p: int) -> bytes:
    # The same text from another keyboard may come in another form of Unicode.
    secret = normalize("NFC", text[: MOST + 1]).encode("utf-8", "surrogatepass")
    memory = 132 * r * (2**ln + p + 2)
    return hashlib.scrypt(secret, salt=salt, n=2**ln, r=r, p=p, maxmem=memory, dklen=HASH_BYTES)


def _encode(data: bytes) -> str:
    return b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise BadRecord("It is not in the form that `xsessionctl passphrase` writes.") from None


class Tries:
    """How often it was wrong in a row, and until when nobody may try. Times are seconds of any clock that goes on."""

    __slots__ = ("_until", "_wrong")

    def __init__(self) -> None:
        self._wrong = 0
        self._until = 0.0

    def wait(self, now: float) -> float:
        """Seconds until the next try; 0: now."""
        return max(0.0, self._until - now)

    def note(self, now: float, *, right: bool) -> None:
        """A try is over."""
        if right:
            self._wrong = 0
            return
        self._wrong += 1
        beyond = self._wrong - FREE_TRIES
        if beyond >= 0:
            self._until = now + min(FIRST_WAIT_S * 2 ** min(beyond, 20), LONGEST_WAIT_S)
