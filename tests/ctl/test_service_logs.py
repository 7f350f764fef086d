"""The log file, read and followed, also when another takes its place. The journal is read in a real systemd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.private_broker import PrivateBroker
from xsessionctl.client import ClientError
from xsessionctl.service.logs import _file_lines, read_log
from xsessiond.io.logs import MOST_BYTES, Log
from xsessiond.paths import Paths, resolve_paths


@pytest.fixture
def paths(broker: PrivateBroker, monkeypatch: pytest.MonkeyPatch) -> Paths:
    for name, value in broker.environ().items():
        monkeypatch.setenv(name, value)
    return resolve_paths()


def test_the_last_lines_of_both_files(paths: Paths) -> None:
    Path(paths.log_file + ".1").write_text("one\ntwo\n")
    Path(paths.log_file).write_text("three\nfour\n")
    assert read_log(paths, 3, float("inf")) == {"source": paths.log_file, "lines": ["two", "three", "four"]}
    assert read_log(paths, 50, float("inf"))["lines"] == ["one", "two", "three", "four"]


def test_without_a_log_there_is_nothing(broker: PrivateBroker) -> None:
    done = broker.ctl("service", "logs")
    assert (done.returncode, done.stdout) == (0, f"Nothing was logged ({broker.state_dir}/xsessiond.log).\n")
    assert json.loads(broker.ctl("service", "logs", "--json").stdout)["lines"] == []


def test_what_cannot_be_read_is_named(paths: Paths) -> None:
    Path(paths.log_file).mkdir()
    with pytest.raises(ClientError, match=paths.log_file):
        read_log(paths, 3, float("inf"))


@pytest.mark.slow
def test_it_is_followed_over_its_rotation(paths: Paths) -> None:
    """Nothing is left out between the old file and the new one, and nothing comes twice."""
    Path(paths.log_file + ".1").write_text("older\n")
    Path(paths.log_file).write_text("old\n")
    log = Log(paths.log_file, "warning", journal=False)
    lines = _file_lines(paths, 2)
    assert [next(lines), next(lines)] == ["older", "old"]
    told = [f"number {number} " + "x" * (MOST_BYTES // 3) for number in range(8)]
    seen = []
    for text in told:
        log.write("error", text, {})
        seen.append(next(lines))
    log.close()
    assert [line.partition("error: ")[2] for line in seen] == told
    assert Path(paths.log_file).stat().st_size < 2 * MOST_BYTES
    lines.close()


def test_a_file_that_comes_later_is_followed_from_its_beginning(paths: Paths) -> None:
    lines = _file_lines(paths, 5)
    Path(paths.log_file).write_text("first\n")
    assert next(lines) == "first"
    Path(paths.log_file).unlink()
    Path(paths.log_file).write_text("second\n")
    assert next(lines) == "second"
    lines.close()


def test_escapes_in_the_log_stay_in_it(broker: PrivateBroker) -> None:
    (broker.state_dir / "xsessiond.log").write_text("a\x1b[31mred\n")
    shown = broker.ctl("service", "logs").stdout
    assert "\x1b" not in shown
    assert "red" in shown
