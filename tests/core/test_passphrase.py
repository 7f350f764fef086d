"""What is kept of a passphrase, and how often it may be tried."""

from __future__ import annotations

import hashlib
from base64 import b64encode

import pytest

from xsessiond.core import passphrase
from xsessiond.core.passphrase import BadRecord, Tries, find_fault, make_record, matches

SALT = bytes(range(16))


def test_it_is_kept_as_scrypt() -> None:
    """5.2: a slow hash with a salt, in the customary form, made by the standard's own function."""
    record = make_record("correct horse", SALT)
    digest = hashlib.scrypt(b"correct horse", salt=SALT, n=2**15, r=8, p=1, maxmem=64 << 20, dklen=32)
    salt, kept = (b64encode(data).decode().rstrip("=") for data in (SALT, digest))
    assert record == f"$scrypt$ln=15,r=8,p=1${salt}${kept}\n"
    assert "horse" not in record
    assert matches(record, "correct horse")
    assert matches(record.rstrip("\n"), "correct horse")
    for wrong in ("", "correct horsf", "correct horse ", "Correct horse"):
        assert not matches(record, wrong)


def test_another_salt_is_another_record() -> None:
    assert make_record("correct horse", SALT) != make_record("correct horse", SALT[::-1])


def test_the_form_of_unicode_does_not_matter() -> None:
    assert matches(make_record("schlüssel", SALT), "schlu\u0308ssel")


def test_what_is_no_text_is_only_wrong() -> None:
    assert not matches(make_record("correct horse", SALT), "\ud800" * 2000)


@pytest.mark.parametrize(
    "record",
    [
        "",
        "correct horse",
        "$scrypt$ln=15,r=8,p=1$AAAA$AAAA",
        "$scrypt$ln=1,r=8,p=1$AAECAwQFBgcICQoLDA0ODw$" + "A" * 43,  # cheap
        "$scrypt$ln=30,r=8,p=1$AAECAwQFBgcICQoLDA0ODw$" + "A" * 43,  # would stop the machine
        "$scrypt$ln=15,r=99,p=1$AAECAwQFBgcICQoLDA0ODw$" + "A" * 43,
        "$scrypt$ln=15,r=8,p=0$AAECAwQFBgcICQoLDA0ODw$" + "A" * 43,
        "$scrypt$ln=15,r=8,p=1$AAECAwQFBgcICQoLDA0ODwA$" + "A" * 45,  # no base64
        "$argon2id$v=19$m=1,t=1,p=1$AAECAwQFBgcICQoLDA0ODw$" + "A" * 43,
        "$scrypt$ln=15,r=8,p=1$AAECAwQFBgcICQoLDA0ODw$" + "A" * 43 + "\n\n",
    ],
)
def test_what_we_did_not_write_opens_nothing(record: str) -> None:
    with pytest.raises(BadRecord):
        matches(record, "correct horse")


@pytest.mark.parametrize(
    "text, fault",
    [
        ("", "too short"),
        ("1234567", "too short"),
        ("12345678", None),
        ("x" * passphrase.MOST, None),
        ("x" * (passphrase.MOST + 1), "too long"),
    ],
)
def test_what_may_become_one(text: str, fault: str | None) -> None:
    found = find_fault(text)
    assert (found is None) == (fault is None)
    assert fault is None or fault in str(found)


def test_wrong_ones_cost_time() -> None:
    """5.2: five are free; each further one doubles the wait, up to a quarter of an hour; a right one ends it."""
    tries = Tries()
    now, waits = 1000.0, []
    for _ in range(16):
        now += tries.wait(now)
        tries.note(now, right=False)
        waits.append(tries.wait(now))
    assert waits == [0, 0, 0, 0, 10, 20, 40, 80, 160, 320, 640, 900, 900, 900, 900, 900]
    assert tries.wait(now + 899) == 1
    assert tries.wait(now + 901) == 0
    tries.note(now + 901, right=True)
    assert [tries.note(now + 902, right=False) for _ in range(4)] == [None] * 4
    assert tries.wait(now + 902) == 0
    tries.note(now + 902, right=False)
    assert tries.wait(now + 902) == 10
