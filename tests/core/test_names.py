"""Names: their grammar, their comparison, their look-alikes, and the making of new ones."""

from __future__ import annotations

import itertools
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from xsessiond.core.confusables import prototypes
from xsessiond.core.limits import MAX_NAME
from xsessiond.core.names import (
    BadName,
    check_name,
    derive_name,
    fold_name,
    free_name,
    near_names,
    skeleton,
    skeletons,
    suggest_names,
)
from xsessiond.core.words import NOUNS, QUALITIES

ANY_TEXT = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("aА0-_. \n\u0301\u200b\u202e")))


def is_name(text: str) -> bool:
    try:
        check_name(text)
    except BadName:
        return False
    return True


# ------------------------------------------------------------------------------------------------------------- grammar


@pytest.mark.parametrize(
    "name",
    [
        "web", "a", "7", "Web-Api_2.0", ".dotfiles", "_x", "web.", "x" * 64, "Müller", "名前", "веб",
        "שלום", "مرحبا", "१२३",
        "नमस्ते", "क्षत्रिय", "ภาษาไทย", "บ้าน", "မြွှာ", "བསྒྲུབས", "ខ្មែរ", "Ⱥ", "ไม้", "한국어", "ｗｅｂ", "abcde", "12345",
        "s-cafe", "m-1", "decaf-x", "users", "systemd", "a" + "\u0301\u0302\u0303\u0304\u0305",
    ],
)  # fmt: skip
def test_names_of_any_script(name: str) -> None:
    assert check_name(name) == unicodedata.normalize("NFC", name)


def test_a_name_is_kept_in_nfc() -> None:
    """S10: one name has one spelling, whatever keyboard it came from."""
    assert check_name("cafe\u0301") == "café"
    assert check_name("\u1112\u1161\u11ab") == "한"


@pytest.mark.parametrize(
    "name, says",
    [
        ("", "is empty"),
        ("x" * 65, "65 characters, 64 are allowed"),
        ("é" * 65, "65 characters, 64 are allowed"),
        ("e\u0301" * 200, "400 characters, 64 are allowed"),
        ("a b", "a space (U+0020)"),
        ("a\xa0b", "a space (U+00A0)"),
        ("boss\nDM from boss", "a control character (U+000A)"),
        ("a\x1b[31m", "a control character (U+001B)"),
        ("a\x00", "a control character (U+0000)"),
        ("a\x9b", "a control character (U+009B)"),
        ("a\u202eb", "an invisible format character (U+202E)"),
        ("a\u2066b", "an invisible format character (U+2066)"),
        ("pay\u200bpal", "an invisible format character (U+200B)"),
        ("pay\u200dpal", "an invisible format character (U+200D)"),
        ("pay\xadpal", "an invisible format character (U+00AD)"),
        ("\ufeffweb", "an invisible format character (U+FEFF)"),
        ("web\U000e0041", "an invisible format character (U+E0041)"),
        ("a\u2028b", "a line separator (U+2028)"),
        ("a\u2029b", "a paragraph separator (U+2029)"),
        ("a\ud800", "half of a character (U+D800)"),
        ("a\ue000", "a private-use character (U+E000)"),
        ("a\u0378", "an unassigned character (U+0378)"),
        ("web\u3164", "an invisible character (U+3164)"),
        ("web\u115f", "an invisible character (U+115F)"),
        ("web\ufe0f", "an invisible character (U+FE0F)"),
        ("web\U000e0100", "an invisible character (U+E0100)"),
        ("we\u034fb", "an invisible character (U+034F)"),
        ("a\u20dd", "an enclosing mark (U+20DD)"),
        ("\u0338web", "combining mark (U+0338)"),
        ("web-\u0338", "combining mark (U+0338)"),
        ("1\u0338", "combining mark (U+0338)"),
        ("q" + "\u0316" * 5, "combining mark (U+0316)"),
        ("a/b", "holds /, which is neither"),
        ("a<b", "holds <, which is neither"),
        ("@web", "holds @, which is neither"),
        ("web [3f2a9c]", "a space"),
        ("🦊", "holds 🦊, which is neither"),
        ("x²", "holds ², which is neither"),
        ("...", "neither a letter nor a digit"),
        ("-_-", "neither a letter nor a digit"),
        ("-rf", "begins with a hyphen"),
        ("3f2a9c", "taken for a ref or an id"),
        ("FACADE", "taken for a ref or an id"),
        ("0" * 40, "taken for a ref or an id"),
        ("s-3f2a9c", "taken for a ref or an id"),
        ("m-" + "0" * 32, "taken for a ref or an id"),
        ("123e4567-e89b-12d3-a456-426614174000", "the id of a conversation"),
        ("human", "is reserved"),
        ("USER", "is reserved"),
        ("systеm", "is reserved"),
        ("xsess1ond", "is reserved"),
    ],
)  # fmt: skip
def test_what_is_no_name(name: str, says: str) -> None:
    """S3, S10: no line end, control, bidi, zero-width, unassigned or half character gets into a name; the refusal
    says which."""
    with pytest.raises(BadName) as caught:
        check_name(name)
    assert says in caught.value.text
    assert caught.value.text.endswith(".")
    assert caught.value.code == "bad_name"
    assert "at most 64" in str(caught.value.hint)


NAMES = st.text(st.characters(categories=["L", "Mn", "Mc", "Nd", "Cf", "Zs"]) | st.sampled_from("aА0-_."), max_size=70)


@given(NAMES)
def test_what_is_accepted_keeps_the_grammar(text: str) -> None:
    """S10: Cc, Cf, Cs, Co, Cn, Zl, Zp and Zs are in no name."""
    try:
        name = check_name(text)
    except BadName:
        event("refused")
        return
    assert check_name(name) == name == unicodedata.normalize("NFC", text)
    assert 1 <= len(name) <= MAX_NAME
    assert all(unicodedata.category(char)[:1] in "LM" or char.isdecimal() or char in "-_." for char in name)
    assert not name.startswith("-")
    name.encode()


# ---------------------------------------------------------------------------------------------------------- comparison


@pytest.mark.parametrize(
    "one, other",
    [("Web", "WEB"), ("STRASSE", "straße"), ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("É", "e\u0301"), ("İx", "i\u0307x"), ("ǅ", "ǆ")],
)
def test_names_are_compared_case_folded(one: str, other: str) -> None:
    assert fold_name(one) == fold_name(other)


@given(ANY_TEXT)
def test_folding_settles(text: str) -> None:
    folded = fold_name(text)
    assert fold_name(folded) == folded
    assert fold_name(unicodedata.normalize("NFD", text)) == folded


@pytest.mark.parametrize(
    "name, double",
    [
        ("paypal", "pаypal"),  # Cyrillic a
        ("scope", "ѕсоре"),  # all Cyrillic
        ("BOT", "ВОТ"),  # all Cyrillic, as capitals only
        ("bot", "ВОТ"),
        ("ATLAS", "ΑΤLΑS"),  # Greek
        ("web-10", "web-lO"),
        ("Info", "lnfo"),
        ("info", "1nfo"),
        ("modem", "modern"),
        ("cafe", "café"),
        ("muller", "MÜLLER"),
        ("web", "ｗｅｂ"),
        ("web", "𝐰𝐞𝐛"),
        ("office", "oﬃce"),
        ("heuo", "һеuо"),
        ("İnfo", "info"),
        ("straße", "STRASSE"),
        ("scope", "sϲope"),  # lunate sigma
    ],
)
def test_look_alikes_share_a_key(name: str, double: str) -> None:
    """S12: a name that looks like a live one can be told from its skeleton."""
    assert set(skeletons(name)) & set(skeletons(double))


@pytest.mark.parametrize(
    "name, other",
    [
        ("web", "wed"), ("bot", "вот"), ("web-1", "web-2"), ("web-api", "web_api"), ("か", "が"), ("पल", "पुल"),
        ("yes", "res"), ("vu", "nu"), ("名前", "名称"), ("web5", "webs"),
    ],
)  # fmt: skip
def test_names_that_differ_to_the_eye_share_none(name: str, other: str) -> None:
    assert not set(skeletons(name)) & set(skeletons(other))


@given(ANY_TEXT)
def test_skeletons_settle_and_cover_the_fold(text: str) -> None:
    for key in skeletons(text):
        assert skeleton(key) == key
    assert set(skeletons(text)) & set(skeletons(fold_name(text)))


def test_the_skeleton_of_every_look_alike_settles() -> None:
    for code, prototype in prototypes().items():
        char = chr(code)
        if unicodedata.normalize("NFD", char) == char:  # others come apart first, as UTS #39 has it
            key = skeleton(char)
            assert skeleton(key) == key == skeleton(prototype)


@given(st.text(st.sampled_from("abcxyzABCXYZ2345-_."), max_size=20))
def test_ascii_names_without_look_alikes_are_their_own_skeleton(text: str) -> None:
    assert skeletons(text) == (text.lower(),)


def test_an_ascii_name_does_not_load_the_table() -> None:
    """The table costs memory in a process that may never see another script."""
    program = (
        "import sys; from xsessiond.core.names import check_name, skeletons; check_name('web'); skeletons('web');"
        "print('xsessiond.core.confusables' in sys.modules); skeletons('веб');"
        "print('xsessiond.core.confusables' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == ["False", "True"]


# -------------------------------------------------------------------------------------------------------------- making


@pytest.mark.parametrize(
    "title, name",
    [
        ("web", "web"),
        ("My Project", "My-Project"),
        ("Fix the flaky login test in the payments service", "Fix-the-flaky-login-test-in-the-payments"),
        ("x" * 300, "x" * 40),
        ("Q&A: foo_bar.py", "QA-foo_bar.py"),
        ("feature/login  --  page", "feature-login-page"),
        (".config", ".config"),
        ("trailing...", "trailing"),
        ("--help", "help"),
        ("नमस्ते दुनिया", "नमस्ते-दुनिया"),
        ("cafe\u0301", "café"),
        ("🦊 fox 🦊", "fox"),
        ("a\u202eb\x1b[2Jc\nd", "ab2Jc-d"),
        ("\u0301x", "x"),
        ("facade", "facade-session"),
        ("user", "user-session"),
        ("3f2a9c1d", "3f2a9c1d-session"),
        ("", "session"),
        ("🦊", "session"),
        ("...", "session"),
        ("- . -", "session"),
    ],
)
def test_a_first_name_out_of_anything(title: str, name: str) -> None:
    assert derive_name(title) == name


@given(ANY_TEXT)
def test_a_first_name_is_always_legal(text: str) -> None:
    name = derive_name(text)
    assert check_name(name) == name
    assert len(name) <= 48


@given(st.one_of(st.just("web"), st.just("x" * 64), st.just("क्षत्रिय" * 8)), st.binary(max_size=12))
def test_two_words_make_a_free_name(base: str, entropy: bytes) -> None:
    """N16: a taken name is answered with one free suggestion."""
    taken = {base}
    for _ in range(3):
        name = free_name(base, taken.__contains__, entropy)
        assert name not in taken
        assert check_name(name) == name
        first, quality, noun = name.rsplit("-", 2)
        assert base.startswith(first)
        assert quality in QUALITIES
        assert noun in NOUNS
        assert free_name(base, taken.__contains__, entropy) == name
        taken.add(name)


def test_a_free_name_stays() -> None:
    assert free_name("web", lambda name: name != "web", b"") == "web"


@pytest.mark.parametrize("entropy", [b"", b"\xff" * 8, b"12345678"])
def test_suggestions_never_repeat_and_never_end(entropy: bytes) -> None:
    pairs = len(QUALITIES) * len(NOUNS)
    names = list(itertools.islice(suggest_names("web", lambda _: False, entropy), 2 * pairs + 1))
    assert len(set(names)) == len(names)
    assert all(name.endswith("-2") for name in names[pairs : 2 * pairs])
    assert names[2 * pairs].endswith("-3")
    assert is_name(names[-1])


# --------------------------------------------------------------------------------------------------------- near misses

LIVE = ["myproj-amber-otter", "myproj-brisk-fox", "myproj-calm-elk", "api", "api-two", "Web", "名前", "paypal"]


@pytest.mark.parametrize(
    "wanted, near",
    [
        ("myproj-amber-oter", ["myproj-amber-otter"]),
        ("myproj-brsik-fox", ["myproj-brisk-fox"]),
        ("myproj-zzz", []),
        ("myproj", ["myproj-calm-elk", "myproj-brisk-fox", "myproj-amber-otter"]),
        ("myproj-calm-elk-2", ["myproj-calm-elk"]),
        ("api-three", ["api"]),
        ("api-tow", ["api-two", "api"]),
        ("wbe", ["Web"]),
        ("WEB1", ["Web"]),
        ("pаypаl", ["paypal"]),
        ("apl", ["api"]),
        ("名", ["名前"]),
        ("nothing-like-it", []),
        ("a", []),
        ("", []),
        ("x" * 100_000, []),
    ],
)  # fmt: skip
def test_near_misses(wanted: str, near: list[str]) -> None:
    """N8: what all names begin with makes none of them near; the nearest stand alone, and there may be none."""
    assert near_names(wanted, LIVE, 8) == near


def test_near_misses_are_capped() -> None:
    """N8: suggestions are capped."""
    names = [f"web-{number}" for number in range(100)]
    assert near_names("web", names, 3) == ["web-0", "web-1", "web-2"]
    assert near_names("web", names, 0) == []


@given(st.lists(st.text("abcdefgh-", min_size=5, max_size=14), min_size=1, unique=True), st.data())
def test_one_slip_is_always_found(names: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(names))
    at = data.draw(st.integers(0, len(name) - 1))
    slipped = data.draw(
        st.sampled_from(
            [
                name[:at] + name[at + 1 :],
                name[:at] + "x" + name[at:],
                name[:at] + "x" + name[at + 1 :],
                name[:at] + name[at : at + 2][::-1] + name[at + 2 :],
            ]
        )
    )
    assert name in near_names(slipped, names, len(names))
