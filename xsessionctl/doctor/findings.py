"""What an area of the doctor gets, and what it gives.

Laws: a problem has the command or the act that mends it; nothing here changes anything. Refuses to know: the areas, how
findings are shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.requests import ask_running
from xsessiond.paths import Paths

Level = Literal["ok", "note", "problem"]
"""ok: looked at, nothing to do. note: worth knowing. problem: something does not work, or is not safe."""

ANSWER_S = 5.0
"""How long a broker may take to say how it is; it answers from memory."""


ELSEWHERE = "xsessionctl paths  # names the variable that gives the place; set it to one of your own"
"""The way out where nothing at a place itself is to be mended."""


def quote(path: str) -> str:
    """A path as a word of a command, always within quotes, as one is used to see it."""
    return "'" + path.replace("'", "'\\''") + "'"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. what, why: sentences. mend: a command, or what to do; None where there is nothing
    to mend."""

    area: str
    level: Level
    what: str
    why: str | None = None
    mend: str | None = None

    def to_json(self) -> dict[str, object]:
        """As `doctor --json` prints it."""
        return {"area": self.area, "level": self.level, "what": self.what, "why": self.why, "mend": self.mend}


def tell_nobody(_: str) -> None:
    """Where nobody looks on."""


@dataclass(slots=True)
class Look:
    """What all areas look at. rule: the paths as they are worked out here. paths: the same, at the runtime dir where
    the broker runs. deadline: on the monotonic clock, for all of them. try_doors: whether sessions may be sent a
    test. tell: called with what is being tried, since it takes a while."""

    rule: Paths
    paths: Paths
    deadline: float
    try_doors: bool = False
    tell: Callable[[str], None] = tell_nobody
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    trouble: ClientError | None = None
    """Why a broker that seems to be there did not answer `status`."""
    _status: dict[str, object] | None = None
    _asked: bool = False

    def status(self) -> dict[str, object] | None:
        """The broker's own account of itself; None where no broker runs, or none that answers (`trouble`)."""
        if not self._asked:
            self._asked = True
            self._status, self.trouble = read_status(self.paths)
        return self._status

    def renew(self, status: dict[str, object] | None, trouble: ClientError | None) -> None:
        """The broker was asked again, since it was about to start."""
        self._asked, self._status, self.trouble = True, status, trouble

    def ask(self, method: str, params: Mapping[str, object] | None = None) -> dict[str, object] | None:
        """The broker's answer; None without a broker, and where it refuses or is of a version that does not know it."""
        if self.status() is None:
            return None
        try:
            return ask_running(self.paths, method, params or {}, deadline_in(ANSWER_S))
        except ClientError:
            return None

    def broker(self) -> dict[str, object]:
        """The part of `status` about the program; empty without one."""
        found = (self.status() or {}).get("broker")
        return found if isinstance(found, dict) else {}


def read_status(paths: Paths) -> tuple[dict[str, object] | None, ClientError | None]:
    """What the broker of these paths says of itself, or why nothing came. None twice: there is none."""
    try:
        return ask_running(paths, "status", {}, deadline_in(ANSWER_S)), None
    except ClientError as problem:
        return None, problem
