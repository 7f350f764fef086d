"""How much two texts, or two lists of lines, have in common at their beginning, also where they are megabytes long.

Refuses to know: what they say.
"""

from __future__ import annotations

from collections.abc import Sequence


def count_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many characters, or lines, both begin with."""
    least, most = 0, min(len(one), len(other))
    while least < most:  # by halves: whole slices are compared far faster than one after the other
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
