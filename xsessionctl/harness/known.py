"""The harnesses that `install` knows. A new one gets its line here."""

from __future__ import annotations

from collections.abc import Mapping

from xsessionctl.harness import claude, codex, gemini, opencode
from xsessionctl.harness.base import Harness

_ALL = (claude.HARNESS, codex.HARNESS, opencode.HARNESS, gemini.HARNESS)
HARNESSES: Mapping[str, Harness] = {one.name: one for one in _ALL}
"""By name, in the order in which they are listed."""
