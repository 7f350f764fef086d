"""The broker's log, wherever it went: the journal of a systemd service, else the log file.

Laws: what is read is shown a line at a time and inert; nothing is started or changed by reading. Refuses to know: what
is worth a line.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from time import sleep
from typing import TextIO

from xsessionctl.client import ClientError
from xsessionctl.outcome import fail
from xsessionctl.output import Sink
from xsessionctl.render import one_line
from xsessionctl.service.manager import Command, Manager, find_manager, run
from xsessiond.paths import Paths

LOOK_S = 0.2
"""Between two looks at a log file that is followed."""
OLDER = ".1"
"""What the log file is called once it was full (`xsessiond.io.logs`)."""


def read_log(paths: Paths, lines: int, deadline: float) -> dict[str, object]:
    """The last lines: `{source, lines}`. Raises ClientError."""
    manager = find_manager(paths)
    command = _journal(manager, lines, follow=False)
    if command is not None:
        shown = run(command, manager.environment(), deadline).splitlines()
        return {"source": "journal", "lines": shown}
    found: deque[str] = deque(maxlen=lines)
    for path in (paths.log_file + OLDER, paths.log_file):
        with suppress(FileNotFoundError), _opened(path) as file:
            found.extend(file)
    return {"source": paths.log_file, "lines": [line.rstrip("\n") for line in found]}


def follow_log(paths: Paths, lines: int, sink: Sink, *, as_json: bool) -> int:
    """Shows the last lines and what comes, until nobody reads or Ctrl-C. Returns the exit code."""
    manager = find_manager(paths)
    try:
        command = _journal(manager, lines, follow=True)
        source = _journal_lines(command, manager) if command is not None else _file_lines(paths, lines)
        for line in source:
            if not (sink.document({"line": line}) if as_json else sink.lines([one_line(line)])):
                break
    except ClientError as problem:
        return fail(problem, sink, as_json=as_json)
    return 0


def _journal(manager: Manager, lines: int, *, follow: bool) -> Command | None:
    """The command that reads the journal, if the broker's lines go there."""
    try:
        if not manager.survey()["installed"]:
            return None
    except ClientError:
        return None  # no manager at all
    return manager.log_command(lines, follow=follow)


def _journal_lines(command: Command, manager: Manager) -> Iterator[str]:
    try:
        process = subprocess.Popen(
            command,
            env=manager.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as problem:
        raise ClientError("not_found", f"{command[0]} cannot be run: {problem.strerror or problem}.") from None
    try:
        assert process.stdout is not None
        for line in process.stdout:
            yield line.rstrip("\n")
    finally:
        process.terminate()
        process.wait()


def _file_lines(paths: Paths, lines: int) -> Iterator[str]:
    """What stands in the file, then what is added, also when another takes its place."""
    last: deque[str] = deque(maxlen=lines)
    with suppress(FileNotFoundError), _opened(paths.log_file + OLDER) as older:
        last.extend(older)
    file: TextIO | None = None
    try:
        while True:
            if file is None:
                with suppress(FileNotFoundError):
                    file = _opened(paths.log_file)
            if file is not None:
                last.extend(file)
            while last:
                yield last.popleft().rstrip("\n")
            if file is not None and _replaced(file.fileno(), paths.log_file):
                last = deque(file)  # what was added while we looked; of the next file everything is new
                file.close()
                file = None
                continue
            last = deque()
            sleep(LOOK_S)
    finally:
        if file is not None:
            file.close()


def _opened(path: str) -> TextIO:
    try:
        return open(path, encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise ClientError("not_permitted", f"{path}: {problem.strerror or problem}.", detail=path) from None


def _replaced(fd: int, path: str) -> bool:
    try:
        return not os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return True
