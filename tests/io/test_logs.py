"""Lines for people: one event is one line, the file is private and bounded, and nothing that goes wrong is raised."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from xsessiond.io.logs import MOST_BYTES, Log, is_journal, shorten_errors

STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.log"


def lines(path: Path) -> list[str]:
    """Return what was told, without the times."""
    told = path.read_text(encoding="utf-8").splitlines()
    assert all(STAMP.match(line) for line in told)
    return [STAMP.sub("", line) for line in told]


def test_an_event_is_a_line_of_its_level_and_facts(path: Path) -> None:
    log = Log(str(path), "info", journal=False)
    log.write("info", "session came", {"session": "s-1", "pid": 7, "nothing": None, "harness": "claude code"})
    log.write("debug", "too much", {})
    log.close()
    assert lines(path) == ["info: session came session=s-1 pid=7 harness='claude code'"]


def test_a_quiet_log_tells_only_what_is_wrong(path: Path) -> None:
    log = Log(str(path), "warning", journal=False)
    log.write("info", "all is well", {})
    log.write("error", "it is not", {})
    log.close()
    assert lines(path) == ["error: it is not"]


@pytest.mark.parametrize("text", ["two\nlines", "a\rb", "\x1b[31mred", "a\u2028b", "\u202eback", "half \ud800"])
def test_nothing_that_is_told_can_look_like_another_line(path: Path, text: str) -> None:
    log = Log(str(path), "warning", journal=False)
    log.write("error", f"met {text}", {"fact": text})
    log.close()
    (line,) = lines(path)
    assert line.isprintable()
    assert line.startswith("error: met ")


def test_the_file_is_for_its_user_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        Log(str(path), "warning", journal=False).close()
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_file_is_bounded_and_the_last_one_kept(path: Path) -> None:
    log = Log(str(path), "warning", journal=False)
    for number in range(5):
        log.write("error", f"number {number} " + "x" * (MOST_BYTES // 2), {})
    log.close()
    old = path.with_name("x.log.1")
    assert path.stat().st_size <= MOST_BYTES * 1.6
    assert old.stat().st_size <= MOST_BYTES * 1.6
    told = [line.split()[2] for line in (*lines(old), *lines(path))]
    assert told == ["0", "1", "2", "3", "4"][-len(told) :]
    assert sorted(file.name for file in path.parent.iterdir()) == ["x.log", "x.log.1"]


def test_an_old_file_is_continued(path: Path) -> None:
    for word in ("first", "second"):
        log = Log(str(path), "warning", journal=False)
        log.write("error", word, {})
        log.close()
    assert lines(path) == ["error: first", "error: second"]


def test_a_symbolic_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    path.symlink_to(victim)
    log = Log(str(path), "warning", journal=False)
    log.write("error", "not there", {})
    log.close()
    assert victim.read_text() == "mine"


def test_without_a_place_nothing_is_raised_and_it_comes_when_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "later" / "x.log"
    log = Log(str(path), "warning", journal=False)
    log.write("error", "lost", {})
    path.parent.mkdir()
    log.write("error", "told", {})
    log.close()
    assert lines(path) == ["error: told"]
    Log(None, "warning", journal=False).write("error", "nowhere", {})


def test_a_line_is_told_though_no_descriptor_is_left(path: Path) -> None:
    """The lack of them is itself worth a line."""
    log = Log(str(path), "warning", journal=False)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        log.write("warning", "no descriptors", {})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    log.close()
    assert lines(path) == ["warning: no descriptors"]


FULL = """
import resource, signal, sys
from xsessiond.io.logs import Log
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = Log(sys.argv[1], "warning", journal=False)
log.write("error", "before", {})
resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
for _ in range(1000):
    log.write("error", "during" + "x" * 1000, {})
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.write("error", "after", {})
"""


def test_a_full_disk_loses_lines_and_nothing_else(path: Path) -> None:
    subprocess.run([sys.executable, "-c", FULL, str(path)], check=True, timeout=20)
    text = path.read_text()
    assert "error: before\n" in text
    assert text.endswith("error: after\n")
    assert len(text) < 2000  # nothing had gathered meanwhile


def test_the_journal_gets_its_priorities_and_no_file_is_made(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Log(str(path), "info", journal=True)
    for level in ("info", "warning", "error"):
        log.write(level, "told", {"to": "journal"})
    assert (
        capsys.readouterr().err == "<6>info: told to=journal\n<4>warning: told to=journal\n<3>error: told to=journal\n"
    )
    assert not path.exists()


def test_the_journal_is_told_by_the_descriptor_and_not_by_the_variable(tmp_path: Path) -> None:
    """systemd.exec(5): a terminal that a service started hands the variable on to all that is started in it."""
    with (tmp_path / "stream").open("w") as stream:
        found = os.fstat(stream.fileno())
        environ = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        assert is_journal(environ, stream.fileno())
        assert not is_journal({}, stream.fileno())
        assert not is_journal({"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino + 1}"}, stream.fileno())
        closed = os.dup(stream.fileno())
        os.close(closed)
        assert not is_journal(environ, closed)


@pytest.mark.parametrize("size, left", [(MOST_BYTES, MOST_BYTES), (MOST_BYTES + 1, 0)])
def test_the_file_of_standard_error_is_bounded(tmp_path: Path, size: int, left: int) -> None:
    """launchd opens it to append, and never looks at it again."""
    path = tmp_path / "launchd.err"
    path.write_bytes(b"x" * size)
    with path.open("ab") as errors:
        shorten_errors(errors.fileno())
        assert path.stat().st_size == left
        errors.write(b"new\n")
    assert path.read_bytes().endswith(b"new\n")
    reading, writing = os.pipe()
    for fd in (writing, reading):  # a terminal, a pipe, and nothing at all are left alone
        shorten_errors(fd)
        os.close(fd)
        shorten_errors(fd)
