"""Settings: what is right is in force, and whatever is wrong is told and changes nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xsessiond.config import KEYS, BadValue, Config, load_config, parse_duration, read_config
from xsessiond.core.limits import KEEP_MS
from xsessiond.core.pacing import PaceSettings

EVERYTHING = """
[pacing]
target_burst = 5
target_per_second = 0.25
sender_burst = 0
sender_per_second = 2
duplicate_window = 10
queue_per_session = 7
[offline]
default = "queue"
keep = "2d"
[store]
durability = "normal"
"""


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load_config(str(tmp_path / "config.toml")) == Config()
    assert Config().ok
    assert Config().pacing == PaceSettings()
    assert (Config().durability, Config().keep_ms, Config().offline_default) == ("full", KEEP_MS, "refuse")


def test_every_key_is_in_force_and_knows_its_file() -> None:
    config = read_config(EVERYTHING, "c.toml")
    assert config.ok
    assert config.problems == ()
    assert config.pacing == PaceSettings(
        target_burst=5, target_per_second=0.25, sender_burst=0, sender_per_second=2, duplicate_window=10,
        queue_per_session=7,
    )  # fmt: skip
    assert (config.durability, config.keep_ms, config.offline_default) == ("normal", 2 * 86400 * 1000, "queue")
    assert config.sources == {f"{section}.{key}": "c.toml" for section, keys in KEYS.items() for key in keys}


def test_every_key_of_the_table_is_tried_above() -> None:
    for section, keys in KEYS.items():
        assert f"[{section}]" in EVERYTHING
        for key in keys:
            assert f"\n{key} = " in EVERYTHING


def test_a_syntax_error_changes_nothing_and_is_told_with_its_place() -> None:
    """C1: file, line and column; nothing of the file is in force, not even what stands before it."""
    config = read_config("[store]\ndurability = 'normal'\n[pacing\n", "/etc/c.toml")
    assert not config.ok
    (problem,) = config.problems
    assert problem.startswith("/etc/c.toml: ")
    assert "line 3" in problem
    assert "column" in problem
    assert config.durability == "full"
    assert config.sources == {}


@pytest.mark.parametrize(
    "text, told",
    [
        ("[pacing]\ntarget_brust = 5", 'pacing.target_brust is unknown; did you mean "target_burst"?'),
        ("[stroe]\ndurability = 'full'", '[stroe] is unknown; did you mean "store"?'),
        ("[qqqq]\nx = 1", "[qqqq] is unknown."),
        ("[store]\nqqqq = 1", "store.qqqq is unknown."),
        ("durability = 'normal'", "[durability] is unknown."),
        ("store = 1", "[store] is unknown"),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest_one(text: str, told: str) -> None:
    """C3: mis-nested ones too; the rest of the file holds."""
    config = read_config(text + "\n[offline]\nkeep = 60\n" if "\n" in text else text, "c.toml")
    (problem,) = config.problems
    assert problem.startswith(f"c.toml: {told}")
    assert config.ok
    assert config.keep_ms in (60_000, KEEP_MS)


@pytest.mark.parametrize(
    "key, value",
    [
        *(("store.durability", value) for value in ('"fast"', "1", "true", '"FULL"', "[]")),
        *(("offline.default", value) for value in ('"accept"', "0", '""')),
        *(
            ("offline.keep", value)
            for value in ('"7 days"', '"-1d"', "0", "-5", "true", '"d"', '""', '"1w"', "[1]", "inf", "nan", "1e99")
        ),
        *(("pacing.target_burst", value) for value in ("-1", '"5"', "true", "nan", "inf", "1e300")),
        *(("pacing.queue_per_session", value) for value in ("0", "1.5", "-3", "true", "10000000", '"50"')),
    ],
)
def test_a_bad_value_leaves_the_default_and_is_told(key: str, value: str) -> None:
    """C4: never a guess at what was meant."""
    section, _, name = key.partition(".")
    config = read_config(f"[{section}]\n{name} = {value}\n", "c.toml")
    assert not config.ok
    (problem,) = config.problems
    assert problem.startswith(f"c.toml: {key} must be ")
    assert "the default holds" in problem
    assert (config.pacing, config.durability, config.keep_ms, config.offline_default) == (
        PaceSettings(), "full", KEEP_MS, "refuse",
    )  # fmt: skip
    assert config.sources == {}


@pytest.mark.parametrize("section", ["inbound", "outbound", "approvals", "remote", "harness"])
def test_a_section_that_has_no_effect_yet_is_an_error(section: str) -> None:
    """C3: nothing may look as if it were protected."""
    config = read_config(f"[{section}]\npolicy = 'hold'\n", "c.toml")
    assert not config.ok
    assert config.problems == (f"c.toml: [{section}] has no effect in this version.",)


@pytest.mark.parametrize(
    "value, seconds",
    [("90s", 90), ("5m", 300), ("1h", 3600), ("7d", 604800), (90, 90), (0.5, 0.5), ("0007d", 604800)],
)
def test_times(value: object, seconds: float) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value", ["", "s", "0s", "1.5h", "1 h", "h1", "٣d", "9" * 999 + "d", float("inf"), 10**999, None, True, -1, 0, []]
)
def test_what_is_no_time(value: object) -> None:
    with pytest.raises(BadValue, match="must be a time"):
        parse_duration(value)


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xef\xbb\xbf[store]\r\ndurability = 'normal'\r\n")
    assert load_config(str(path)).durability == "normal"


@pytest.mark.parametrize("data", [b"\xff\xfe[\x00s\x00", b"[store]\ndurability = '\xe9'\n", bytes(range(256))])
def test_a_file_that_is_not_utf8_is_ignored_and_told(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(data)
    config = load_config(str(path))
    assert not config.ok
    assert config.problems == (f"{path} is not UTF-8; it was ignored.",)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.mkdir()
    config = load_config(str(path))
    assert not config.ok
    (problem,) = config.problems
    assert problem.startswith(f"{path} cannot be read: ")
    path.rmdir()
    os.symlink(path, path)
    assert not load_config(str(path)).ok
