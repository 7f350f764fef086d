"""The harnesses that `install` knows. A new one gets its line here."""

from __future__ import annotations

from collections.abc import Mapping

from xsessionctl.harness import claude
from xsessionctl.harness.base import Harness

HARNESSES: Mapping[str, Harness] = {one.name: one for one in (claude.HARNESS,)}
"""By name, in the order in which they are listed."""
