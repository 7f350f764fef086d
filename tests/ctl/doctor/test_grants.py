"""The doctor on what is granted to containers: each fault is made, found, and mended by what it says."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.support.doctor import examine, find_problem
from tests.support.human import as_human, run_apart
from tests.support.private_broker import PrivateBroker, accepts

DOES = {
    "others may enter": lambda given: given.chmod(0o755),
    "others may write": lambda given: given.chmod(0o777),
    "something in the socket's place": lambda given: (given / "session.sock").symlink_to("/dev/null"),
    "the directory is gone": shutil.rmtree,
}


@pytest.mark.parametrize("fault", DOES)
def test_what_keeps_a_container_from_its_socket(broker: PrivateBroker, fault: str) -> None:
    """13.4: after the next start of the broker, which opens none there."""
    process = broker.start()
    done = as_human(broker, "grant", "box", "--class", "prompting", "--json")
    given = Path(json.loads(done.shown)["directory"])
    assert examine(broker).of("ok", "grants")
    process.kill()
    process.wait(20)
    if "socket" in fault:
        (given / "session.sock").unlink()
    DOES[fault](given)
    broker.start()
    problem = find_problem(broker, "grants")
    assert str(given) in problem["what"]
    for command in problem["mend"].partition("  #")[0].split("; "):
        if command.startswith("xsessionctl "):
            assert as_human(broker, *words_of(command)).code == 0
        else:
            run(broker, command)
    assert examine(broker).problems() == []
    assert accepts(given / "session.sock") == given.exists()


def words_of(command: str) -> list[str]:
    return shlex.split(command)[1:]


def run(broker: PrivateBroker, command: str) -> None:
    done = run_apart(["/bin/sh", "-ec", command], env=broker.environ(), cwd=broker.home)
    assert done.returncode == 0, done.stderr
