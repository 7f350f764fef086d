"""What is wrong with the settings files, as the broker or, without one, this program reads them."""

from __future__ import annotations

from collections.abc import Iterator

from xsessionctl.doctor.findings import Finding, Look
from xsessiond.settings_reading import read_file

MEND = "xsessionctl config edit"


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    status = look.status()
    config = status.get("config") if status else None
    if isinstance(config, dict):
        problems = config.get("problems")
        told = [str(text) for text in problems] if isinstance(problems, list) else []
    else:
        told = []
        for path in (look.paths.managed_config, look.paths.config_file):
            file = read_file(path)
            told += [str(problem) for problem in file.problems] if file is not None else []
    if not told:
        yield Finding("settings", "ok", "The settings can be read, and nothing in them is unknown.")
    for text in told:
        error = ": warning: " not in text
        why = "Messages are held, or what the file said before stays in force." if error else "It is left out."
        yield Finding("settings", "problem" if error else "note", text, why, MEND)
