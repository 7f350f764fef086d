"""The cases of the bench, each a module with `run(bench) -> lines of the table`."""

from collections.abc import Callable

from tests.bench.cases import cli, durable, hooks, idle, push, roundtrip, shim, throughput
from tests.bench.machine import Bench
from tests.bench.stats import Line

CASES: dict[str, Callable[[Bench], list[Line]]] = {
    module.CASE: module.run for module in (roundtrip, durable, throughput, shim, cli, hooks, push, idle)
}
