"""`xsessionctl send`, `list --json` and `list`, whole processes, in pairs with a bare Python and with hcom."""

from tests.bench import commands, ear, hcom, machine
from tests.bench.commands import Command
from tests.bench.machine import Bench, BenchError
from tests.bench.ours import Broker
from tests.bench.peers import BODY
from tests.bench.stats import Fact, Line, Row, at_most, percentile

CASE = "cli"
TURNS = 6
EACH = 3
BARE = "python -c pass"
MINE = ("send", "list --json", "list")


def run(bench: Bench) -> list[Line]:
    """Measures all commands in turn, a few starts of each at a time, with one session connected on either side."""
    lines: list[Line] = []
    sides = {BARE: commands.bare_python()}
    try:
        peer = hcom.prepare(bench)
        a, b = peer.start(), peer.start()
        sides["hcom send"] = Command(peer.send_argv(a, b, machine.text(BODY)), peer.env)
        sides["hcom list --json"] = Command([peer.program, "list", "--json", "--name", a], peer.env)
    except BenchError as absent:
        lines.append(Fact(CASE, "beside hcom", None, note=f"skipped: {absent}"))
    with Broker("full").start(bench) as running, ear.listening(running, "ear") as to:
        program = commands.beside("xsessionctl")
        for name in MINE:
            words = ["send", to, machine.text(BODY)] if name == "send" else name.split()
            sides[name] = Command([program, *words], running.place.environ())
        cwd = running.place.home
        for command in sides.values():
            commands.start(bench, command, 1, cwd)
        got: dict[str, list[float]] = {name: [] for name in sides}
        for _ in bench.rounds(CASE):
            took: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(bench.effort.count(TURNS, least=1)):
                for name, command in sides.items():
                    took[name] += commands.start(bench, command, EACH, cwd)
            for name, runs in took.items():
                got[name].append(percentile(runs, 0.5))
    for name in MINE:
        ours = f"xsessionctl {name}"
        goal = at_most(4) if name == "list" else at_most(1.25, stretch=0.95)
        lines.append(Row(CASE, ours, "ms", got[name], got[BARE], BARE, goal))
        if f"hcom {name}" in got:
            goal = at_most(1.6, stretch=1.2)
            lines.append(Row(CASE, ours, "ms", got[name], got[f"hcom {name}"], f"hcom {name}", goal))
    return lines
