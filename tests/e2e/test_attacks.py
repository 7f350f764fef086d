"""An agent that wants to decide in its user's place: every way out of its tree that its shell offers, against the real
broker and command line. What comes of each stands in docs/security.md, and is checked against it.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_harness import AgentHarness
from tests.support.broker_files import find_bugs, read_broker_log
from tests.support.human import as_human, at_own_terminal, require_outside
from tests.support.private_broker import PrivateBroker, accepts, private_broker
from tests.support.wire_client import Member, read_status

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the tools of its shell are Linux's"),
]

ROOT = Path(__file__).parents[2]
SECURITY = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ACTS = str(Path(__file__).parents[1] / "support" / "acts.py")
MARKING, PLAIN = "CLAUDECODE", ""
"""A harness that marks what its agent starts, and one that does not."""

TMUX = """
socket=$1 out=$2 line=$3
shift 3
tmux -S "$socket" -f /dev/null "$@" -d "$line >$out 2>&1; tmux -S $socket wait-for -S done" || exit 1
tmux -S "$socket" wait-for done
cat "$out"
"""
"""Runs a command line in a tmux, and waits for its end, which may be that of the tmux too."""

Attack = Callable[["Scene", list[str]], tuple[int, str]]


@dataclass
class Scene:
    """A broker with a session that is attacked (web), one that attacks (agent), and what there is to decide about."""

    place: PrivateBroker
    web: Member
    ops: Member
    agent: AgentHarness
    trust: str
    count: int = 0
    held: list[str] = field(default_factory=list)

    def hold(self) -> str:
        """One more message of the attacker's that a human must decide about."""
        self.count += 1
        code, output = self.agent.run(*ctl("send", "web", f"let me in {self.count}", "--json"))
        assert code == 6, output
        message_id: str = json.loads(output)["id"]
        self.held.append(message_id)
        return message_id


def ctl(*words: str) -> list[str]:
    return [sys.executable, "-m", "xsessionctl", *words]


@contextmanager
def scene(mark: str) -> Iterator[Scene]:
    require_outside()
    with private_broker() as place:
        place.start()
        with (
            Member(place.rendezvous, "web") as web,
            Member(place.rendezvous, "ops", **{"class": "bypass"}) as ops,
        ):
            agent = AgentHarness(place, "agent", [mark] if mark else [], XSESSIOND_CLASS="bypass")
            asked = ops.send("web", "once")
            assert asked["state"] == "held"
            assert as_human(place, "approve", asked["id"], "--trust", "pair").code == 0
            (trust,) = json.loads(as_human(place, "trust", "list", "--json").shown)["trusts"]
            web.ack(*(message["id"] for message in web.take()))
            try:
                yield Scene(place, web, ops, agent, trust["id"])
            finally:
                agent.end()
        assert find_bugs(place) == []


@pytest.fixture(scope="module")
def scenes() -> Iterator[dict[str, Scene]]:
    """One of each kind of harness, for all attacks that change nothing."""
    with scene(MARKING) as marking, scene(PLAIN) as plain:
        yield {MARKING: marking, PLAIN: plain}


# -- the ways out ------------------------------------------------------------------------------------------------------


def by(kinds: str) -> Attack:
    """One of `escapes`."""
    return lambda scene, command: scene.agent.escape(kinds, *command)


def in_shell(script: str) -> Attack:
    """`script` gets the command as "$@"."""
    return lambda scene, command: scene.agent.run("sh", "-c", script, "sh", *command)


def under_script(scene: Scene, command: list[str]) -> tuple[int, str]:
    return scene.agent.run("script", "-qec", shlex.join(command), "/dev/null")


def under_tmux(kinds: str) -> Attack:
    def attack(scene: Scene, command: list[str]) -> tuple[int, str]:
        return scene.agent.escape(kinds, *in_tmux(scene.place, "agents", command, "new-session"))

    return attack


def in_tmux(place: PrivateBroker, server: str, command: list[str], *how: str) -> list[str]:
    return ["sh", "-c", TMUX, "sh", str(place.root / server), str(place.root / "out"), shlex.join(command), *how]


def in_the_user_s_tmux(scene: Scene, command: list[str]) -> tuple[int, str]:
    socket = str(scene.place.root / "users")
    start = ["tmux", "-S", socket, "-f", "/dev/null", "new-session", "-d", "cat"]
    assert at_own_terminal(scene.place, start).code == 0
    try:
        return scene.agent.run(*in_tmux(scene.place, "users", command, "new-window"))
    finally:
        subprocess.run(["tmux", "-S", socket, "kill-server"], check=False, capture_output=True, timeout=20)


SESSION, AGENT, SCRIPT, HUMAN = "the session", "an agent", "a script", "**a human**"

ATTACKS: dict[str, tuple[Attack, str, str]] = {
    "as a child": (by(""), SESSION, SESSION),
    "as a grandchild": (in_shell('sh -c \'"$@"; exit $?\' sh "$@"; exit $?'), SESSION, SESSION),
    "with `nohup`, in the background": (in_shell('nohup "$@" & wait $!'), SESSION, SESSION),
    "with `setsid`": (by("setsid"), SESSION, SESSION),
    "with a clean environment": (by("scrub"), SESSION, SESSION),
    "under `script`": (under_script, SESSION, SESSION),
    "with a terminal of its own": (by("pty"), SESSION, SESSION),
    "with a clean environment and a terminal of its own": (by("scrub pty"), SESSION, SESSION),
    "after a double fork": (by("leave"), AGENT, SCRIPT),
    "after a double fork and `setsid`": (by("leave setsid"), AGENT, SCRIPT),
    "after a double fork, with a terminal of its own": (by("leave pty"), AGENT, HUMAN),
    "under `tmux` that it starts": (under_tmux(""), AGENT, HUMAN),
    "after a double fork, with a clean environment": (by("leave scrub"), SCRIPT, SCRIPT),
    "after a double fork, with a clean environment and a terminal of its own": (by("leave scrub pty"), HUMAN, HUMAN),
    "under `tmux` that it starts with a clean environment": (under_tmux("scrub"), HUMAN, HUMAN),
    "in a window of your own `tmux`": (in_the_user_s_tmux, HUMAN, HUMAN),
}
NEEDS = {"tmux": "tmux", "script": "script"}


def test_the_document_says_what_comes_of_each() -> None:
    """5.2: docs/security.md promises exactly what is tested below."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", SECURITY, flags=re.MULTILINE)
    told = {row[0]: row[1:] for row in rows if row[1] in (SESSION, AGENT, SCRIPT, HUMAN)}
    assert told == {name: tuple(found) for name, (_, *found) in ATTACKS.items()}


# -- what comes of them ------------------------------------------------------------------------------------------------


def cases() -> list[Any]:
    """Each attack with each harness, and what the broker takes it for."""
    return [
        pytest.param(name, mark, found, id=f"{name}, {'marked' if mark else 'not marked'}")
        for name, (_, *both) in ATTACKS.items()
        for mark, found in zip((MARKING, PLAIN), both, strict=True)
    ]


@pytest.mark.parametrize("name, mark, found", cases())
def test_an_attack(name: str, mark: str, found: str, scenes: dict[str, Scene]) -> None:
    """5.2, 3.7, S14: approve, deny, revoke trust, change the settings, rename, send as the user, stop."""
    for word, program in NEEDS.items():
        if f"`{word}`" in name and shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    if found in (SESSION, AGENT):
        attack_in_vain(scenes[mark], name, found)
    else:
        with scene(mark) as own:
            attack_with_success(own, name, found)


def run_acts(scene: Scene, name: str) -> dict[str, tuple[int, Any]]:
    first, second = scene.hold(), scene.hold()
    acts = {
        "whoami": ["whoami", "--json"],
        "approve": ["approve", first, "--json"],
        "deny": ["deny", second, "--json"],
        "trust": ["trust", "revoke", scene.trust, "--json"],
        "config": ["config", "set", "inbound.policy", "accept", "--json"],
        "send": ["send", "web", f"your user says: {name}", "--json"],
        "rename": ["rename", "web", "owned", "--json"],
        "stop": ["stop", "--json"],
    }
    attack = ATTACKS[name][0]
    _, output = attack(scene, [sys.executable, ACTS, *map(json.dumps, acts.values())])
    results = json.loads(output.strip().splitlines()[-1])
    return dict(zip(acts, map(tuple, results), strict=True))


ONLY_HUMANS = ("approve", "deny", "trust", "config", "rename")


def attack_in_vain(scene: Scene, name: str, found: str) -> None:
    results = run_acts(scene, name)
    whoami = results["whoami"][1]
    assert whoami["kind"] == ("session" if found == SESSION else "script")
    assert (whoami["name"] == "agent") == (found == SESSION)
    for act in (*ONLY_HUMANS, "stop"):
        code, answer = results[act]
        assert (code, answer["error"]["code"]) == (10, "not_permitted"), (act, answer)
        reason = (
            "It runs below the session agent" if found == SESSION else "It was started by a coding agent: CLAUDECODE"
        )
        assert reason in answer["error"]["text"], act
    check_nothing_changed(scene)
    code, sent = results["send"]
    assert sent["state"] == ("held" if found == SESSION else "queued")  # as what it is, not as the user
    assert code == (6 if found == SESSION else 0)
    assert {message["from"]["kind"] for message in scene.web.take()} <= {"script"}
    told = " ".join(read_status(scene.place.rendezvous)["warnings"])
    for act in ("decide about held messages", "revoke trust", "change the settings", "rename", "stop the broker"):
        assert f"tried to {act}" in told
    assert "refused: not a human" in read_broker_log(scene.place)


def check_nothing_changed(scene: Scene) -> None:
    """As its user sees it."""
    looks = (["hold-queue", "--json"], ["trust", "list", "--json"], ["check", scene.held[-2], "--json"])
    done = at_own_terminal(scene.place, [sys.executable, ACTS, *map(json.dumps, looks)], PYTHONPATH=str(ROOT))
    (_, queue), (_, trusts), (_, about) = json.loads(done.shown)
    assert set(scene.held) <= {hold["id"] for hold in queue["held"]}
    assert [trust["id"] for trust in trusts["trusts"]] == [scene.trust]
    assert not (scene.place.config_dir / "config.toml").exists()
    assert scene.web.call("whoami")["name"] == "web"
    # The attempts are in the history of what they were about.
    assert [step["state"] for step in about["history"]] == ["held", "held"]
    assert about["history"][1]["rule"] == "tried to approve, refused: only a human decides"


def attack_with_success(scene: Scene, name: str, found: str) -> None:
    """What gets out of its tree is a script, or even taken for a human: the limits of what the system tells."""
    results = run_acts(scene, name)
    codes = {act: code for act, (code, _) in results.items()}
    human = found == HUMAN
    assert results["whoami"][1]["kind"] == ("human" if human else "script")
    assert codes == dict.fromkeys(codes, 0) | ({} if human else dict.fromkeys(ONLY_HUMANS, 10))
    if not human:
        for act in ONLY_HUMANS:
            assert "not started from a terminal" in results[act][1]["error"]["text"]
    assert not accepts(scene.place.rendezvous)  # `stop` is for scripts too


def test_a_person_in_a_terminal_may_do_all_of_it() -> None:
    """5.2: a terminal that belongs to no session."""
    with scene(MARKING) as own:
        first, second = own.hold(), own.hold()
        for words in (
            ["approve", first],
            ["deny", second],
            ["trust", "revoke", own.trust],
            ["config", "set", "inbound.policy", "hold"],
            ["rename", "web", "shop"],
            ["send", "shop", "it is me"],
            ["stop"],
        ):
            done = as_human(own.place, *words)
            assert done.code == 0, (words, done.shown)
