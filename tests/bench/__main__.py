"""Measures the product beside its anchors and prints one table of ratios. usage: python -m tests.bench [CASE ...]

docs/benchmarks.md says how to read it. Nothing here passes or fails: a goal that is missed is printed as missed.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import traceback

from tests.bench import machine
from tests.bench.cases import CASES
from tests.bench.machine import Bench, BenchError
from tests.bench.stats import Fact, Line, table


def main(argv: list[str] | None = None) -> int:
    """Runs the chosen cases; returns 1 when one of them could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("case", nargs="*", metavar="CASE", help=f"of: {' '.join(CASES)} (default: all)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="fewer rounds and messages: the order of magnitude")
    length.add_argument("--smoke", action="store_true", help="hardly any: does every case still run?")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write every round's figures here")
    chosen = parser.parse_args(argv)
    if unknown := set(chosen.case) - set(CASES):
        parser.error(f"no case {', '.join(sorted(unknown))}; there are: {' '.join(CASES)}")
    effort = machine.SMOKE if chosen.smoke else machine.QUICK if chosen.quick else machine.FULL
    machine.lift_descriptor_limit()
    lines: list[Line] = []
    failed = False
    with tempfile.TemporaryDirectory(prefix="xb-", dir=machine.SCRATCH) as work:
        bench = Bench(pathlib.Path(work), effort)
        for name in chosen.case or CASES:
            try:
                lines += CASES[name](bench)
            except (BenchError, OSError, AssertionError) as error:
                failed = True
                machine.note(f"{name} was not measured: {error}")
                if not isinstance(error, BenchError):
                    traceback.print_exc()
                lines.append(Fact(name, "not measured", None, note="its error is on stderr"))
    print(f"{machine.describe()}\n\n{table(lines)}")
    if chosen.json:
        document = {"machine": machine.describe(), "lines": [line.as_json() for line in lines]}
        chosen.json.write_text(json.dumps(document, indent=1))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
