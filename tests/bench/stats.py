"""Figures of the bench: percentiles, paired ratios, goals, and the one table they end in.

A series holds one figure a round. Ours and its anchor take turns within a round, so the ratio of
two figures of the same round is what a busy moment disturbs least; a row shows the median of those
ratios and their range. Throughput is told by the best round of each side instead: what disturbs it
only ever lowers it.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from typing import Literal


def percentile(values: Iterable[float], q: float) -> float:
    """Returns the value below which the share `q` (0 to 1) of `values` lies; raises ValueError on none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


@dataclasses.dataclass(frozen=True, slots=True)
class Goal:
    """A limit on a ratio, and optionally one that is only aimed at."""

    sense: Literal["<=", ">="]
    limit: float
    stretch: float | None = None

    def met_by(self, ratio: float) -> bool:
        """Whether `ratio` is on the right side of the limit."""
        return ratio <= self.limit if self.sense == "<=" else ratio >= self.limit

    def __str__(self) -> str:
        aim = "" if self.stretch is None else f" (stretch {self.stretch:g})"
        return f"{self.sense} {self.limit:g}{aim}"


def at_most(limit: float, stretch: float | None = None) -> Goal:
    """A goal that smaller ratios meet."""
    return Goal("<=", limit, stretch)


def at_least(limit: float, stretch: float | None = None) -> Goal:
    """A goal that larger ratios meet."""
    return Goal(">=", limit, stretch)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: ours beside an anchor, round by round, in the same unit."""

    case: str
    measure: str
    unit: str
    ours: Sequence[float]
    anchor: Sequence[float]
    against: str
    goal: Goal | None = None
    best_of: bool = False

    @property
    def ratios(self) -> list[float]:
        """Ours as a multiple of the anchor, a figure for each round."""
        return [a / b for a, b in zip(self.ours, self.anchor, strict=True)]

    @property
    def ratio(self) -> float:
        """The figure the goal is held against."""
        if self.best_of:
            return max(self.ours) / max(self.anchor)
        return statistics.median(self.ratios)

    def cells(self) -> list[str]:
        """The row as it is printed."""
        pick = max if self.best_of else statistics.median
        spread = f"{_ratio(min(self.ratios))} to {_ratio(max(self.ratios))}" if len(self.ratios) > 1 else ""
        met = "" if self.goal is None else "yes" if self.goal.met_by(self.ratio) else "**no**"
        return [
            self.case,
            self.measure,
            f"{_figure(pick(self.ours))} {self.unit}".rstrip(),
            self.against,
            f"{_figure(pick(self.anchor))} {self.unit}".rstrip(),
            _ratio(self.ratio),
            spread,
            "" if self.goal is None else str(self.goal),
            met,
        ]

    def as_json(self) -> dict[str, object]:
        """The row with every round's figures."""
        return {
            "case": self.case,
            "measure": self.measure,
            "unit": self.unit,
            "against": self.against,
            "ours": list(self.ours),
            "anchor": list(self.anchor),
            "ratio": self.ratio,
            "goal": None if self.goal is None else str(self.goal),
            "met": None if self.goal is None else self.goal.met_by(self.ratio),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Fact:
    """A line of the table that has no anchor: a figure held against a plain limit, or a note."""

    case: str
    measure: str
    value: float | None
    unit: str = ""
    goal: Goal | None = None
    note: str = ""

    def cells(self) -> list[str]:
        """The fact as it is printed."""
        shown = "" if self.value is None else f"{_figure(self.value)} {self.unit}".rstrip()
        goal = "" if self.goal is None else f"{self.goal} {self.unit}".rstrip()
        met = "" if self.goal is None or self.value is None else "yes" if self.goal.met_by(self.value) else "**no**"
        return [self.case, self.measure, shown, self.note, "", "", "", goal, met]

    def as_json(self) -> dict[str, object]:
        """The fact as plain values."""
        return {
            "case": self.case,
            "measure": self.measure,
            "unit": self.unit,
            "value": self.value,
            "note": self.note,
            "goal": None if self.goal is None else str(self.goal),
            "met": None if self.goal is None or self.value is None else self.goal.met_by(self.value),
        }


Line = Row | Fact

HEAD = ["case", "measure", "ours", "anchor", "its figure", "ratio", "rounds", "goal", "met"]


def table(lines: Sequence[Line]) -> str:
    """The lines as a Markdown table."""
    cells = [HEAD, *(line.cells() for line in lines)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEAD))]
    out = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    out.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(out)


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
