"""Who the session is, from made-up environments and process tables."""

from __future__ import annotations

import pytest

from xsessionctl.shim.identity import Identity, find_harness, is_wrapper

CLAUDE = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "c-1", "CLAUDE_PROJECT_DIR": "/src/project"}
GEMINI = {"GEMINI_CLI": "1", "CLAUDE_PROJECT_DIR": "/src/gemini"}
OPENCODE = {"OPENCODE": "1", "AGENT": "1", "OPENCODE_PID": "7"}


def _identity(environ: dict[str, str], *, client: str | None = None, argv: tuple[str, ...] = ("harness",)) -> Identity:
    identity = Identity(environ, "/where", [(100, list(argv))])
    if client is not None:
        identity.name_client(client)
    return identity


@pytest.mark.parametrize(
    "environ, client, harness, talk, folder",
    [
        ({}, None, "mcp", None, "/where"),
        ({}, "codex-mcp-client", "codex", None, "/where"),
        ({}, "Visual Studio Code", "visual-studio-code", None, "/where"),
        ({}, "日本", "mcp", None, "/where"),
        (CLAUDE, None, "claude", "c-1", "/src/project"),
        (CLAUDE, "claude-code", "claude", "c-1", "/src/project"),
        (CLAUDE, "codex-mcp-client", "codex", None, "/where"),
        (GEMINI, None, "gemini", None, "/where"),
        ({**CLAUDE, **GEMINI}, "gemini-cli-mcp-client", "gemini", None, "/where"),
        ({**CLAUDE, **OPENCODE}, None, "opencode", None, "/where"),
        (OPENCODE, "opencode", "opencode", None, "/where"),
        ({**CLAUDE, "XSESSIOND_HARNESS": "mine"}, "claude-code", "mine", None, "/where"),
    ],
)
def test_the_harness_is_who_speaks_and_nothing_of_an_outer_one_is_taken_over(
    environ: dict[str, str], client: str | None, harness: str, talk: str | None, folder: str
) -> None:
    params = _identity(environ, client=client).as_params()
    assert (params["harness"], params["harness_session_id"], params["cwd"]) == (harness, talk, folder)
    assert params["pid"] == 100
    assert params["delivery"] == "pull"


def test_the_launch_variables_are_passed_on() -> None:
    params = _identity(
        {
            "XSESSIOND_NAME": "api",
            "XSESSIOND_LABEL": " the API ",
            "XSESSIOND_CLASS": "prompting",
            "XSESSIOND_INBOUND": "hold",
        }
    ).as_params()
    assert (params["name"], params["label"], params["class"], params["inbound"]) == (
        "api",
        "the API",
        "prompting",
        "hold",
    )
    assert _identity({"XSESSIOND_CLASS": "root"}).as_params()["class"] is None


@pytest.mark.parametrize(
    "harness, argv, found",
    [
        ("claude", ("claude", "--dangerously-skip-permissions"), "bypass"),
        ("claude", ("claude", "--permission-mode", "bypassPermissions", "-p", "hi"), "bypass"),
        ("claude", ("claude", "--permission-mode", "plan"), None),
        ("claude", ("claude", "-p", "what does --dangerously-skip-permissions do?"), None),
        ("codex", ("codex", "--yolo"), "bypass"),
        ("gemini", ("node", "gemini", "--approval-mode", "yolo"), "bypass"),
        ("gemini", ("node", "gemini"), None),
        ("mcp", ("x", "--yolo"), None),
    ],
)
def test_a_harness_that_was_started_to_ask_nobody_is_bypass(
    harness: str, argv: tuple[str, ...], found: str | None
) -> None:
    assert _identity({"XSESSIOND_HARNESS": harness}, argv=argv).as_params()["class"] == found


@pytest.mark.parametrize("value, off", [("1", True), ("yes", True), ("0", False), ("false", False), ("", False)])
def test_a_session_can_be_switched_off(value: str, *, off: bool) -> None:
    assert _identity({"XSESSIOND_OFF": value}).off == off


def test_a_granted_socket_comes_with_its_token_file() -> None:
    assert _identity({}).granted is None
    granted = _identity({"XSESSIOND_SOCKET": "/run/x.sock", "XSESSIOND_TOKEN_FILE": "/run/token"}).granted
    assert granted == ("/run/x.sock", "/run/token")


def test_the_conversation_of_a_codex_call_wins() -> None:
    identity = _identity({}, client="codex-mcp-client")
    identity.conversation = "t-1"
    assert identity.harness_session_id == "t-1"


@pytest.mark.parametrize(
    "argv, wrapper",
    [
        (["sh", "-c", "xsessionctl mcp; true"], True),
        (["/bin/bash", "-lc", "xsessionctl mcp"], True),
        (["bash", "/opt/start-mcp.sh"], True),
        (["-bash"], False),
        (["bash", "-i", "-l"], False),
        (["npm exec xsessionctl mcp"], True),
        (["node", "/usr/lib/node_modules/npm/bin/npx-cli.js", "x"], True),
        (["node", "/usr/bin/gemini"], False),
        (["/usr/bin/env", "xsessionctl", "mcp"], True),
        (["uvx", "xsessionctl", "mcp"], True),
        (["timeout", "5", "x"], True),
        (["claude"], False),
        (["python3", "client.py"], False),
        ([], False),
    ],
)
def test_a_wrapper_is_told_from_a_harness(argv: list[str], *, wrapper: bool) -> None:
    assert is_wrapper(argv) == wrapper


def test_the_harness_is_found_above_its_wrappers_and_all_are_watched() -> None:
    table = {5: (4, ["sh", "-c", "x"]), 4: (3, ["npm exec x"]), 3: (2, ["claude"]), 2: (1, ["bash"])}
    chain = find_harness(5, table.get)
    assert [pid for pid, _ in chain] == [5, 4, 3]
    identity = Identity({}, "/", chain)
    assert (identity.pid, identity.watched) == (3, [5, 4, 3])


@pytest.mark.parametrize(
    "table, pids",
    [
        ({5: (1, ["sh", "-c", "x"])}, [5]),  # nothing but wrappers up to what cannot be read
        ({}, [5]),  # no process table at all, as on macOS
        ({pid: (pid - 1, ["env", "x"]) for pid in range(1, 6)}, [5]),
    ],
)
def test_without_a_harness_to_be_found_the_parent_is_taken(
    table: dict[int, tuple[int, list[str]]], pids: list[int]
) -> None:
    assert [pid for pid, _ in find_harness(5, table.get)] == pids


@pytest.mark.parametrize("parent", [0, 1])
def test_an_orphan_has_no_harness(parent: int) -> None:
    assert find_harness(parent, lambda pid: None) == []


@pytest.mark.parametrize(
    "client, timeout, hears_progress",
    [
        ("claude-code", 1e5, False),
        ("codex-mcp-client", 300, False),
        ("gemini-cli-mcp-client", 600, False),
        ("opencode", 60, False),
        ("opencode", 300, True),
        ("mcp", 60, False),
        ("mcp", 60, True),
    ],
)
def test_a_call_stays_below_the_harness_s_own_timeout(client: str, timeout: float, *, hears_progress: bool) -> None:
    """8.2: that of opencode begins anew with each word of progress; of others it is not known."""
    longest = _identity({}, client=client).longest_call(hears_progress=hears_progress)
    assert timeout * 0.9 < longest + 5 <= timeout or longest == 290
    assert longest < timeout
