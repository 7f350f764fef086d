"""The service manager's part: whether what was installed is whole, listens, and is what runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xsessionctl.client import ClientError
from xsessionctl.doctor.findings import Finding, Look
from xsessionctl.render import one_line, part_of, rows_of
from xsessionctl.service.manager import find_manager

AREA = "service"
MANY_RESTARTS = 3
"""A crash now and then is mended and forgotten; more of them have a reason that goes on."""
INSTALL, LOGS = "xsessionctl service install", "xsessionctl service logs"


def examine(look: Look) -> Iterator[Finding]:
    """Yields what is found."""
    broker = look.broker()
    manager = find_manager(look.rule)
    try:
        found = manager.survey()
    except ClientError as problem:
        if problem.code != "not_found":
            raise
        yield Finding(AREA, "ok", f"{one_line(problem.text)} The first client starts the broker.")
        return
    yield from judge(manager.name, found, broker)


def judge(manager: str, found: Mapping[str, object], broker: Mapping[str, object]) -> Iterator[Finding]:
    """What a survey says. broker: the part of `status` about it, empty where none runs."""
    states = {one_line(file.get("path")): one_line(file.get("state")) for file in rows_of(found, "files")}
    if not any(state in ("current", "differs") for state in states.values()):
        yield Finding(AREA, "ok", f"{manager} runs no broker here; the first client starts it.")
        return
    faults = [*_judge_files(manager, found, states), *_judge_running(manager, found, broker)]
    yield from faults
    if not any(fault.level == "problem" for fault in faults):
        pid = part_of(found, "service").get("pid")
        doing = f"runs the broker (pid {one_line(pid)})" if pid else "starts the broker for the first client"
        yield Finding(AREA, "ok", f"{manager} {doing}.")


def _judge_files(manager: str, found: Mapping[str, object], states: Mapping[str, str]) -> Iterator[Finding]:
    if found.get("problem"):
        why = f"What {manager} runs is not what clients from here look for."
        yield Finding(AREA, "problem", one_line(found["problem"]), why, "xsessionctl paths")
    for path, state in states.items():
        if state == "missing":
            yield Finding(
                AREA, "problem", f"{path} is gone.", f"{manager} cannot start the broker without it.", INSTALL
            )
        elif state == "differs" and not found.get("problem"):
            yield Finding(AREA, "note", f"{path} is of another version, or was changed.", None, INSTALL)
    if not found.get("enabled"):
        yield Finding(AREA, "note", "The service is not there after the next login.", "It is not enabled.", INSTALL)
    if found.get("why_not"):
        yield Finding(AREA, "note", f"How the service runs is not known from here: {one_line(found['why_not'])}.")


def _judge_running(manager: str, found: Mapping[str, object], broker: Mapping[str, object]) -> Iterator[Finding]:
    socket, service = part_of(found, "socket"), part_of(found, "service")
    if socket and socket.get("state") != "active":
        yield Finding(
            AREA,
            "problem",
            f"The service's socket does not listen ({one_line(socket.get('state'))}).",
            "Clients start a broker of their own.",
            INSTALL,
        )
    if service.get("state") == "failed":
        what = f"The broker could not be started ({one_line(service.get('result'))})."
        yield Finding(AREA, "problem", what, None, LOGS)
    restarts = service.get("restarts")
    if isinstance(restarts, int) and restarts > MANY_RESTARTS:
        what = f"{manager} had to start the broker again {restarts} times."
        yield Finding(AREA, "problem", what, "It crashed, or was ended since it hung.", LOGS)
    if service and broker and broker.get("service") != manager:
        yield Finding(
            AREA,
            "note",
            f"The broker that runs (pid {one_line(broker.get('pid'))}) was started by a client, not by {manager}.",
            "After a crash it does not come back by itself.",
            "xsessionctl stop && xsessionctl start",
        )
