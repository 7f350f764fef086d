"""What a session pays for its shim: memory, and the time from the start of its process to the first MCP answer."""

import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

from tests.bench import commands, machine, ours
from tests.bench.commands import Command
from tests.bench.machine import Bench, BenchError
from tests.bench.stats import Fact, Line, Row, at_most, percentile

CASE = "shim"
SDK = [sys.executable, str(pathlib.Path(__file__).parents[1] / "sdk_server.py")]
RSS_GOAL_MIB = 16
STARTS = 3


def frame(method: str, params: dict[str, object], request: int | None) -> bytes:
    """One MCP message, as an era from 2024-11-05 to 2025-11-25 has it."""
    return ours.line(method, params, request)


def initialize() -> bytes:
    """The first request of a client."""
    client: dict[str, object] = {"name": "bench", "version": "1"}
    params: dict[str, object] = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    return frame("initialize", params, 1)


def resident_mib(command: Command, cwd: pathlib.Path) -> float:
    """Memory of a server that has answered `initialize`, `tools/list` and one call, and now waits."""
    proc = subprocess.Popen(
        command.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=command.env, cwd=cwd
    )
    assert proc.stdin is not None
    assert proc.stdout is not None
    try:
        call: dict[str, object] = {"name": "list_agents", "arguments": {}}
        for request, data in enumerate((
            initialize(),
            frame("notifications/initialized", {}, None) + frame("tools/list", {}, 2),
            frame("tools/call", call, 3),
        ), start=1):  # fmt: skip
            proc.stdin.write(data)
            proc.stdin.flush()
            while True:
                line = proc.stdout.readline()
                if not line:
                    raise BenchError(f"{command.argv[0]} ended at request {request}")
                answer = json.loads(line)
                if answer.get("id") == request:
                    break
            if "error" in answer or answer["result"].get("isError"):
                raise BenchError(f"{command.argv[0]} refused request {request}: {line[:200]!r}")
        return machine.usage(proc.pid).rss_kib / 1024
    finally:
        proc.stdin.close()
        try:
            proc.wait(10)
        except subprocess.TimeoutExpired:
            proc.kill()
            proc.wait()
        proc.stdout.close()


@contextlib.contextmanager
def shim_command(bench: Bench) -> Iterator[tuple[Command, pathlib.Path]]:
    """`xsessionctl mcp` beside a running broker, and the folder to run it in."""
    with ours.Broker("full").start(bench) as running:
        env = {**running.place.environ(), "XSESSIOND_NAME": "bench"}
        yield Command([commands.beside("xsessionctl"), "mcp"], env, initialize()), running.place.home


def run(bench: Bench) -> list[Line]:
    """Measures our shim, the official SDK's server and a bare Python."""
    bare = commands.bare_python()
    sdk = Command(SDK, bare.env, initialize())
    first: dict[str, list[float]] = {"ours": [], "sdk": [], "bare": []}
    rss: dict[str, list[float]] = {"ours": [], "sdk": []}
    with shim_command(bench) as (shim, cwd):
        sides = {"bare": bare, "ours": shim, "sdk": sdk}
        for command in sides.values():
            commands.start(bench, command, 1, cwd)
        for _ in bench.rounds(CASE):
            took: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(STARTS):
                for name, command in sides.items():
                    took[name] += commands.start(bench, command, 1 if name == "sdk" else 3, cwd)
            for name, runs in took.items():
                first[name].append(percentile(runs, 0.5))
            rss["ours"].append(resident_mib(shim, cwd))
            rss["sdk"].append(resident_mib(sdk, cwd))
    return [
        Row(CASE, "first MCP answer", "ms", first["ours"], first["bare"], "python -c pass", at_most(3.5)),
        Row(CASE, "first MCP answer", "ms", first["ours"], first["sdk"], "official SDK's server"),
        Fact(CASE, "resident", max(rss["ours"]), "MiB", at_most(RSS_GOAL_MIB)),
        Row(CASE, "resident", "MiB", rss["ours"], rss["sdk"], "official SDK's server"),
    ]
