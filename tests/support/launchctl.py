"""A launchctl for machines that have none: it takes an agent's file as launchd does, and really runs the program.

`stand_in(folder)` puts it there under that name. It knows the words that we use, writes each call down, and refuses
what launchctl refuses: to load twice, to stop what is not loaded, to look at a domain that is not there. What it cannot
show is launchd itself: that the real one reads the file so.
"""

from __future__ import annotations

import json
import os
import plistlib
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRON = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "XPC_SERVICE_NAME": "local.xsessiond"}
"""All that launchd gives an agent, besides the user's names and what the file says."""


def stand_in(folder: Path, *, logged_in: bool = True) -> Path:
    """Put a launchctl into `folder`; return the file of its calls, one JSON list a line. logged_in: the domain of a
    graphical login is there."""
    folder.mkdir(exist_ok=True)
    state = folder / "launchd"
    state.mkdir()
    script = folder / "launchctl"
    python = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.support.launchctl import main; "
    python += f"sys.exit(main({str(state)!r}, {logged_in!r}, sys.argv[1:]))"
    script.write_text(f"#!{sys.executable}\n{python}\n")
    script.chmod(0o755)
    return state / "calls"


def main(state: str, logged_in: bool, words: list[str]) -> int:  # noqa: FBT001 - called by the script only
    """One call."""
    here = Path(state)
    with (here / "calls").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    domain = f"gui/{os.geteuid()}"
    match words:
        case ["print", what] if what == domain:
            return 0 if logged_in else fail(113, f"Could not find domain for {domain}")
        case ["enable", what] if what.startswith(domain + "/"):
            return 0
        case ["bootstrap", what, file] if what == domain:
            return bootstrap(here, Path(file))
        case [("print" | "bootout" | "kickstart") as verb, what] if what.startswith(domain + "/"):
            loaded = here / what.rpartition("/")[2]
            if not loaded.exists():
                return fail(113, f'Could not find service "{loaded.name}" in domain for {domain}')
            return {"print": show, "bootout": bootout, "kickstart": kickstart}[verb](loaded)
    return fail(64, f"Unrecognized subcommand: {words}")


def fail(code: int, text: str) -> int:
    """What launchctl says, and its exit code."""
    print(text, file=sys.stderr)
    return code


def bootstrap(here: Path, file: Path) -> int:
    """Load an agent, and start it if it wants that."""
    agent = plistlib.loads(file.read_bytes())
    loaded = here / agent["Label"]
    if loaded.exists():
        return fail(5, "Bootstrap failed: 5: Input/output error")
    loaded.write_text(json.dumps({"agent": agent, "pid": None, "runs": 0}))
    return kickstart(loaded) if agent["RunAtLoad"] else 0


def kickstart(loaded: Path) -> int:
    """Start the program, unless it runs."""
    known = json.loads(loaded.read_text())
    if runs(known["pid"]):
        return 0
    agent = known["agent"]
    errors = os.open(agent["StandardErrorPath"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    known["pid"] = subprocess.Popen(
        agent["ProgramArguments"],
        env={**ENVIRON, "HOME": os.environ["HOME"], **agent.get("EnvironmentVariables", {})},
        cwd=agent["WorkingDirectory"],
        umask=agent["Umask"],
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        start_new_session=True,
    ).pid
    known["runs"] += 1
    loaded.write_text(json.dumps(known))
    return 0


def show(loaded: Path) -> int:
    """What is known about it, in launchctl's own words as far as we read them."""
    known = json.loads(loaded.read_text())
    print(f"gui/{os.geteuid()}/{loaded.name} = {{\n\tstate = {'running' if runs(known['pid']) else 'not running'}\n")
    print(f"\truns = {known['runs']}")
    if runs(known["pid"]):
        print(f"\tpid = {known['pid']}")
    print("\tlast exit code = (never exited)\n}")
    return 0


def bootout(loaded: Path) -> int:
    """End the program and forget the agent."""
    known = json.loads(loaded.read_text())
    if runs(known["pid"]):
        os.kill(known["pid"], signal.SIGTERM)
    deadline = time.monotonic() + known["agent"]["ExitTimeOut"]
    while runs(known["pid"]) and time.monotonic() < deadline:
        time.sleep(0.01)  # not our child any more; bounded by the agent's own ExitTimeOut
    loaded.unlink()
    return 0


def runs(pid: int | None) -> bool:
    """Whether that process is there. A zombie, whose starter has ended, is not."""
    try:
        return pid is not None and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
