"""Who the session is: what the harness, its environment and its processes say about it.

Laws: everything is found out once, from arguments (environment, process table), so that a test can say what it likes.
What a model could write is no evidence. An identity that was inherited from an outer harness is not taken over. Refuses
to know: the broker, MCP.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CLIENTS = (
    ("claude", "claude"),
    ("codex", "codex"),
    ("gemini", "gemini"),
    ("opencode", "opencode"),
    ("qwen", "qwen"),
    ("cursor", "cursor"),
    ("kimi", "kimi"),
    ("goose", "goose"),
    ("github-copilot", "copilot"),
    ("copilot", "copilot"),
)
"""How the names that MCP clients give themselves begin, and the harness that it is."""
_HOOK_CALLERS = ("claude-code", "codex-mcp")
"""Clients whose hooks can be tool calls, and whose calls by a model carry a mark that a hook's do not."""
_MARKS = (("OPENCODE", "opencode"), ("GEMINI_CLI", "gemini"), ("CLAUDECODE", "claude"))
"""Variables that a harness sets for its children. Claude Code's comes last: others start below it more often than the
reverse."""
_SESSION_VARIABLES = {"claude": "CLAUDE_CODE_SESSION_ID", "gemini": "GEMINI_SESSION_ID"}
_FOLDER_VARIABLES = {"claude": "CLAUDE_PROJECT_DIR", "gemini": "GEMINI_PROJECT_DIR"}
_BYPASS_FLAGS = {
    "claude": ("--dangerously-skip-permissions", "--permission-mode=bypassPermissions"),
    "codex": ("--dangerously-bypass-approvals-and-sandbox", "--yolo"),
    "gemini": ("--yolo", "-y", "--approval-mode=yolo"),
    "opencode": ("--auto",),
    "qwen": ("--yolo", "-y", "--approval-mode=yolo"),
}
"""What a harness is started with so that it asks nobody. Their absence says nothing: modes change while a harness
runs."""
_ALLOW_BYPASS_FLAGS = {"claude": ("--allow-dangerously-skip-permissions",)}
"""What lets it do so later."""
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox"))
_STARTERS = "env nice nohup timeout stdbuf setsid ionice sudo doas uv uvx pipx npx npm pnpm bunx yarn corepack"
_WRAPPERS = frozenset(_STARTERS.split())
_MAX_WRAPPERS = 8
"""How many processes are looked through for the harness above the shim."""


class Identity:
    """What is known of the session. `as_params` gives it as the broker wants it.

    harness: claude, codex, … or mcp. pid: the harness's process or None. watched: the processes whose end is the
    session's end. off: switched off by its user. calls_hooks: its MCP client runs hooks as tool calls. hooked: its
    user's installation says that the harness runs our hooks. granted: (socket, token file) from outside, or None.
    conversation: its id as the harness has said it last, told_class: the permission class as it has said it, each None
    before. guest: it is no session, but part of the one that runs the conversation. delivery, modes: how mail can reach
    its model now.
    """

    __slots__ = (
        "_argv", "_environ", "calls_hooks", "conversation", "cwd", "delivery", "explicit_harness", "granted", "guest",
        "harness", "hooked", "inbound", "label", "modes", "name", "off", "perm_class", "pid", "told_class", "watched",
    )  # fmt: skip

    def __init__(self, environ: Mapping[str, str], cwd: str, chain: list[tuple[int, list[str]]]) -> None:
        """environ: of the shim. cwd: where it was started. chain: see `find_harness`."""
        self._environ = environ
        self.cwd = cwd
        self.watched = [pid for pid, _ in chain]
        self.pid = chain[-1][0] if chain else None
        self._argv = chain[-1][1] if chain else []
        self.name = _text(environ, "XSESSIOND_NAME")
        self.label = _text(environ, "XSESSIOND_LABEL")
        self.perm_class = _text(environ, "XSESSIOND_CLASS")
        self.inbound = _text(environ, "XSESSIOND_INBOUND")
        self.off = _is_on(environ, "XSESSIOND_OFF")
        self.hooked = _is_on(environ, "XSESSIOND_HOOKS")
        socket = _text(environ, "XSESSIOND_SOCKET")
        self.granted = (socket, _text(environ, "XSESSIOND_TOKEN_FILE")) if socket else None
        self.explicit_harness = _text(environ, "XSESSIOND_HARNESS")
        self.conversation: str | None = None
        self.told_class: str | None = None
        self.guest = False
        self.delivery = "pull"
        self.modes: tuple[str, ...] = ("auto",)
        self.calls_hooks = False
        marked = next((name for mark, name in _MARKS if environ.get(mark)), "mcp")
        self.harness = self.explicit_harness or marked

    def name_client(self, client: str) -> bool:
        """Takes over what the MCP client calls itself; says whether that changes the harness."""
        lowered = client.lower()
        self.calls_hooks = lowered.startswith(_HOOK_CALLERS)
        if self.explicit_harness:
            return False
        before = self.harness
        for start, harness in _CLIENTS:
            if lowered.startswith(start):
                self.harness = harness
                break
        else:
            # Somebody else is speaking: marks in the environment belong to a harness further out.
            self.harness = _slug(lowered) or "mcp"
        return self.harness != before

    @property
    def harness_session_id(self) -> str | None:
        """The conversation's own id: as the harness has said it since, or from the environment."""
        if self.conversation:
            return self.conversation
        variable = _SESSION_VARIABLES.get(self.harness)
        return _text(self._environ, variable) if variable else None

    def longest_call(self, *, hears_progress: bool) -> float:
        """Seconds that a tool call may take without the harness giving it up. hears_progress: it is told that the call
        goes on."""
        # Seen: Codex 300 s, Gemini 600 s, Claude Code longer still, whatever they hear. opencode and the official
        # clients' default: 60 s, which opencode begins anew with each word of progress.
        patient = self.harness in ("claude", "codex", "gemini") or (self.harness == "opencode" and hears_progress)
        return 290.0 if patient else 55.0

    def as_params(self) -> dict[str, object]:
        """The params of `register`, without `resume`."""
        variable = _FOLDER_VARIABLES.get(self.harness)
        folder = _text(self._environ, variable) if variable else None
        params: dict[str, object] = {
            "name": self.name,
            "title": None,
            "label": self.label,
            "harness": self.harness,
            "harness_session_id": self.harness_session_id,
            "cwd": folder if folder and folder.startswith("/") else self.cwd,
            "pid": self.pid,
            "class": self.told_class or self._class_at_start(),
            "delivery": self.delivery,
            "can_reply": True,
            "modes": list(self.modes),
        }
        if self.inbound:
            params["inbound"] = self.inbound
        return params

    def _class_at_start(self) -> str | None:
        if self.perm_class in ("bypass", "prompting"):
            return self.perm_class
        return "bypass" if self._was_started_with(_BYPASS_FLAGS) else None

    @property
    def harness_argv(self) -> list[str]:
        """The command line of the harness's process."""
        return self._argv

    @property
    def may_bypass(self) -> bool:
        """Whether the harness was started so that its session may stop asking."""
        return self._was_started_with(_BYPASS_FLAGS) or self._was_started_with(_ALLOW_BYPASS_FLAGS)

    def variable(self, name: str) -> str | None:
        """What the shim was started with, also if its own children do not get it."""
        return _text(self._environ, name)

    def _was_started_with(self, table: Mapping[str, tuple[str, ...]]) -> bool:
        flags = table.get(self.harness, ())
        joined = [f"{a}={b}" for a, b in zip(self._argv, self._argv[1:], strict=False) if a.startswith("--")]
        return any(argument in flags for argument in (*self._argv[1:], *joined))


def find_harness(parent: int, read: Callable[[int], tuple[int, list[str]] | None]) -> list[tuple[int, list[str]]]:
    """The processes from the shim's parent up to the harness, each with its command line; wrappers in between are kept.

    parent: the parent's pid. read: pid → (its parent's pid, its command line), or None if that cannot be known.
    """
    chain: list[tuple[int, list[str]]] = []
    pid = parent
    while pid > 0 and len(chain) <= _MAX_WRAPPERS:
        found = read(pid)
        if found is None:
            break
        above, argv = found
        chain.append((pid, argv))
        if not is_wrapper(argv):
            return chain
        pid = above
    # Nothing but wrappers up to the top: then the nearest is as good as any.
    return chain[:1] or ([(parent, [])] if parent > 1 else [])


def is_wrapper(argv: list[str]) -> bool:
    """Whether a process only stands between a harness and what it starts: `sh -c …`, `npx …`, `uvx …`."""
    if not argv:
        return False
    name = _base(argv[0].split(" ")[0]).lstrip("-")
    if name in _SHELLS:
        # With a command or a script. An interactive shell is where a person sits.
        return any(not argument.startswith("-") for argument in argv[1:])
    if name in ("node", "nodejs", "bun"):
        script = _base(argv[1]) if len(argv) > 1 else ""
        return script.startswith(("npx", "npm", "pnpm", "yarn"))
    return name in _WRAPPERS


def runs_words(argv: list[str]) -> bool:
    """Whether a process is a shell that was given words to run, as agents start their commands: `bash -c …`."""
    if len(argv) < 3 or _base(argv[0]).lstrip("-") not in _SHELLS:
        return False
    return any(word.startswith("-") and not word.startswith("--") and word.endswith("c") for word in argv[1:-1])


def read_process(pid: int) -> tuple[int, list[str]] | None:
    """`find_harness`'s view of a process on Linux; None elsewhere and for what is gone or hidden."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = file.read()
    except (OSError, ValueError, IndexError):
        return None
    return parent, [part.decode("utf-8", "replace") for part in line.rstrip(b"\0").split(b"\0")]


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _slug(name: str) -> str:
    kept = "".join(char if char.isascii() and char.isalnum() else "-" for char in name)
    return "-".join(part for part in kept.split("-") if part)[:32]


def _is_on(environ: Mapping[str, str], name: str) -> bool:
    return (_text(environ, name) or "0").lower() not in ("0", "false", "no", "off")


def _text(environ: Mapping[str, str], name: str) -> str | None:
    value = environ.get(name, "").strip()
    return value or None
