"""What Codex tells its MCP servers: where a call came from, and whether a server is the first of its process."""

from __future__ import annotations

import os
from typing import Any

import pytest

from xsessionctl.shim.codex import Origin, has_elder, is_app_server, list_processes

MAIN = {
    "callId": "call_1",
    "threadId": "t-main",
    "sessionId": "t-main",
    "x-codex-turn-metadata": {"thread_source": "user", "sandbox_mode": "workspace-write"},
}
SUBAGENT = {
    "threadId": "t-sub",
    "sessionId": "t-main",
    "x-codex-turn-metadata": {"thread_source": "subagent", "parent_thread_id": "t-main"},
}
FORK = {**MAIN, "sessionId": "t-forked-from"}


@pytest.mark.parametrize(
    "meta, session_id, expected",
    [
        (MAIN, None, ("t-main", "t-main", False, False)),
        (SUBAGENT, None, ("t-sub", "t-main", True, None)),
        ({**SUBAGENT, "x-codex-turn-metadata": {"thread_source": "subagent"}}, None, ("t-sub", "t-main", True, None)),
        ({"threadId": "t-main"}, "t-main", ("t-main", "t-main", False, None)),
        ({"threadId": "t-sub"}, "t-main", ("t-sub", "t-main", True, None)),
        (FORK, None, ("t-main", "t-forked-from", False, False)),
        ({}, None, (None, None, False, None)),
        ({"threadId": 7, "x-codex-turn-metadata": 7}, 7, (None, None, False, None)),
        ({"x-codex-turn-metadata": {"sandbox_mode": "danger-full-access"}}, None, (None, None, False, True)),
    ],
)
def test_where_a_call_came_from(meta: dict[str, Any], session_id: object, expected: tuple[object, ...]) -> None:
    origin = Origin(meta, session_id)
    assert (origin.thread, origin.session, origin.subagent, origin.unsandboxed) == expected


def test_a_server_of_conversations_is_told_from_one_conversation() -> None:
    assert is_app_server(["/x/codex", "app-server", "--listen", "unix://"])
    assert not is_app_server(["/x/codex", "exec", "-"])
    assert not is_app_server(["app-server"])
    assert not is_app_server([])


def test_a_second_server_of_a_process_knows_that_it_is_not_the_first() -> None:
    processes = {
        5: (1, ["codex", "exec"]),
        7: (5, ["/bin/python", "-SP", "/bin/xsessionctl", "mcp"]),
        8: (5, ["/bin/other", "mcp"]),
        9: (5, ["/bin/xsessionctl", "mcp"]),
    }

    def read(pid: int) -> tuple[int, list[str]] | None:
        return processes.get(pid)

    pids = [*processes, 99]
    assert not has_elder(5, 7, lambda: pids, read)
    assert has_elder(5, 9, lambda: pids, read)
    assert not has_elder(6, 9, lambda: pids, read)


def test_the_processes_of_the_machine_can_be_listed() -> None:
    assert os.getpid() in list_processes()
