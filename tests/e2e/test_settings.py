"""A settings file is saved, and the real broker does as it says: at once, at a start, and when it is broken."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Json, Member, Refused, ask_once, await_status, poll, read_status

pytestmark = pytest.mark.slow

WITHIN_S = 1.0
"""What is promised, on a machine that does not stall; `timely` says how that is measured."""

HOLD, REFUSE, ACCEPT = (f"[inbound]\npolicy = '{word}'\n" for word in ("hold", "refuse", "accept"))


@pytest.fixture
def file(broker: PrivateBroker) -> Path:
    return broker.config_dir / "config.toml"


@pytest.fixture
def running(broker: PrivateBroker) -> PrivateBroker:
    broker.start()
    return broker


def write_over(file: Path, text: str) -> None:
    """As editors do that write a new file and rename it."""
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)


def write_in_place(file: Path, text: str) -> None:
    """As editors do that truncate."""
    file.write_text(text)


def inbound(broker: PrivateBroker) -> Json:
    values = ask_once(broker.rendezvous, "config")["values"]
    return next(row for row in values if row["key"] == "inbound.policy")


def timely(do: Callable[[], object], question: Callable[[], Json], until: Callable[[Json], object]) -> Json:
    """Do something and wait for what follows. A machine that stalls is told by what else takes long."""
    began = time.monotonic()
    do()
    found = poll(question, until)
    took = time.monotonic() - began
    began = time.monotonic()
    for _ in range(20):
        question()
    assert took < max(WITHIN_S, 20 * (time.monotonic() - began)), f"it took {took:.2f} s"
    return found


@pytest.mark.parametrize("save", [write_over, write_in_place])
def test_a_saved_change_is_in_force_within_a_second(
    running: PrivateBroker, file: Path, save: Callable[[Path, str], None]
) -> None:
    """C5, 14.3: edited, deleted, made again, broken, mended."""
    for text, value in [(HOLD, "hold"), (REFUSE, "refuse"), ("", None), (ACCEPT, "accept")]:
        row = timely(lambda: save(file, text), lambda: inbound(running), lambda row: row["value"] == value)  # noqa: B023
        assert row["where"] == (f"{file}:2" if value else None)
    timely(file.unlink, lambda: inbound(running), lambda row: row["value"] is None)
    timely(lambda: save(file, HOLD), lambda: inbound(running), lambda row: row["value"] == "hold")
    status = timely(
        lambda: save(file, "[inbound]\npolicy = accept\n"),
        lambda: read_status(running.rendezvous),
        lambda status: not status["config"]["ok"],
    )
    assert status["config"]["problems"] == [
        f"{file}:2:10: error: The file cannot be parsed: Invalid value. What it said before stays in force."
    ]
    assert inbound(running)["value"] == "hold"
    timely(lambda: save(file, ACCEPT), lambda: read_status(running.rendezvous), lambda status: status["config"]["ok"])
    assert inbound(running)["value"] == "accept"


def test_reload_answers_when_it_is_in_force(running: PrivateBroker, file: Path) -> None:
    for text, value in [(HOLD, "hold"), (REFUSE, "refuse")] * 3:
        write_over(file, text)
        rows = ask_once(running.rendezvous, "reload")["values"]
        assert next(row["value"] for row in rows if row["key"] == "inbound.policy") == value


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(running: PrivateBroker) -> Iterator[tuple[Member, Member]]:
    """A sender and a receiver, both prompting, in one folder."""
    with (
        Member(running.rendezvous, "api", cwd=str(running.home)) as api,
        Member(running.rendezvous, "web", cwd=str(running.home)) as web,
    ):
        yield api, web


def state_of(sender: Member, sent: Json) -> Callable[[], Json]:
    return lambda: sender.call("check", message_id=sent["id"])


def test_held_messages_follow_the_settings(running: PrivateBroker, file: Path, pair: tuple[Member, Member]) -> None:
    """5.6, 14.3, H5: released when it is allowed, dropped when it is refused; the sender sees each within a second."""
    api, web = pair
    write_over(file, HOLD)
    poll(lambda: inbound(running), lambda row: row["value"] == "hold")
    first = api.send("web", "one")
    assert first["state"] == "held"
    assert f"{file}:2" in first["rule"]
    timely(lambda: write_over(file, ACCEPT), state_of(api, first), lambda found: found["state"] == "queued")
    assert [message["text"] for message in web.take()] == ["one"]
    write_over(file, HOLD)
    poll(lambda: inbound(running), lambda row: row["value"] == "hold")
    second = api.send("web", "two")
    assert second["state"] == "held"
    timely(
        lambda: write_over(file, REFUSE), state_of(api, second), lambda found: found["state"] in ("refused", "dropped")
    )
    with pytest.raises(Refused) as refused:
        api.send("web", "three")
    assert refused.value.code == "refused"


@pytest.mark.parametrize(
    "text",
    [
        "[inbound]\npolicy = 'hodl'\n",
        "[inbound]\npolcy = 'accept'\n",
        "[inbond]\npolicy = 'accept'\n",
        "[inbound\n",
        "\x00",
        "policy = 'accept'",
    ],
    ids=["value", "key", "table", "syntax", "byte", "place"],
)
def test_at_a_cold_start_what_is_broken_holds(broker: PrivateBroker, file: Path, text: str) -> None:
    """C1, C3, C4, 14.2: and `status` is red with file, line and column."""
    file.write_text(text)
    broker.start()
    config = read_status(broker.rendezvous)["config"]
    assert config["ok"] is False
    assert config["problems"][0].startswith(f"{file}:")
    assert ": error: " in config["problems"][0]
    with Member(broker.rendezvous, "api") as api, Member(broker.rendezvous, "web") as web:
        sent = api.send("web", "hello")
        assert sent["state"] == "held"
        assert web.take() == []
        timely(lambda: write_over(file, ""), state_of(api, sent), lambda found: found["state"] == "queued")
        assert [message["text"] for message in web.take()] == ["hello"]


def test_a_restart_on_a_file_that_broke_meanwhile_lets_nothing_through(broker: PrivateBroker, file: Path) -> None:
    """C1, 14.2: what is held stays held, and what comes is held."""
    file.write_text(HOLD)
    process = broker.start()
    with Member(broker.rendezvous, "api") as api, Member(broker.rendezvous, "web") as web:
        held = api.send("web", "one")
        assert held["state"] == "held"
        file.write_text("[inbound\npolicy = 'accept'\n")
        poll(lambda: read_status(broker.rendezvous), lambda status: not status["config"]["ok"])
        assert api.send("web", "two")["state"] == "held"
        process.kill()
        process.wait(20)
        broker.start()
        api.rejoin()
        web.rejoin()
        await_status(broker.rendezvous, held=2)
        assert api.send("web", "three")["state"] == "held"
        assert web.take() == []


def test_a_file_that_others_can_write_is_not_believed(running: PrivateBroker, file: Path) -> None:
    write_over(file, HOLD)
    poll(lambda: inbound(running), lambda row: row["value"] == "hold")
    file.chmod(0o666)
    poll(lambda: read_status(running.rendezvous), lambda status: not status["config"]["ok"])
    file.write_text(ACCEPT)
    assert (
        next(row for row in ask_once(running.rendezvous, "reload")["values"] if row["key"] == "inbound.policy")["value"]
        == "hold"
    )


# -- projects ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(running: PrivateBroker) -> Path:
    (running.home / "p/.git").mkdir(parents=True)
    (running.home / "p/sub").mkdir()
    return Path(os.path.realpath(running.home / "p"))


def test_a_project_tightens_for_its_sessions_only(running: PrivateBroker, file: Path, repository: Path) -> None:
    """H10, 14.1: a project's `hold` holds, its `accept` does nothing, its garbage holds, and others notice nothing."""
    write_over(file, ACCEPT)
    (repository / ".xsessiond.toml").write_text(HOLD)
    with (
        Member(running.rendezvous, "api", cwd=str(running.home)) as api,
        Member(running.rendezvous, "web", cwd=str(repository / "sub")) as web,
    ):
        sent = api.send("web", "one")
        assert sent["state"] == "held"
        assert f"{repository}/.xsessiond.toml:2" in sent["rule"]
        assert web.send("api", "back")["state"] in ("queued", "handed", "delivered")
        project = repository / ".xsessiond.toml"
        timely(lambda: write_over(project, ACCEPT), state_of(api, sent), lambda found: found["state"] == "queued")
        write_over(file, HOLD)
        poll(lambda: inbound(running), lambda row: row["value"] == "hold")
        assert api.send("web", "two")["state"] == "held"  # the project's accept loosens nothing
        write_over(file, ACCEPT)
        await_status(running.rendezvous, held=0)
        write_over(repository / "sub/.xsessiond.local.toml", "[inbound]\npolicy = maybe\n")
        explained = poll(
            lambda: ask_once(running.rendezvous, "explain", sender="api", receiver="web"),
            lambda found: found["verdict"] == "hold",
        )
        assert explained["cause"] == "invalid-setting"
        assert f"{repository}/sub/.xsessiond.local.toml:2" in explained["rule"]
        assert api.send("web", "three")["state"] == "held"
        project.unlink()
        (repository / "sub/.xsessiond.local.toml").unlink()
        await_status(running.rendezvous, held=0)


def test_projects_can_be_set_to_hold_each_other(running: PrivateBroker, file: Path, repository: Path) -> None:
    """S8, 4.7: a session of another project waits for a human; inside of one project it does not."""
    write_over(file, "[inbound]\nscope = 'project'\n")
    ask_once(running.rendezvous, "reload")
    with (
        Member(running.rendezvous, "root", cwd=str(repository)),
        Member(running.rendezvous, "sub", cwd=str(repository / "sub")) as sub,
        Member(running.rendezvous, "other", cwd=str(running.home)) as other,
    ):
        assert sub.send("root", "inside")["state"] != "held"
        sent = other.send("root", "outside")
        assert sent["state"] == "held"
        assert "scope = project" in sent["rule"]
        (running.home / ".git").mkdir()
        assert other.send("sub", "still outside")["state"] == "held"


def test_a_project_can_switch_its_sessions_off(running: PrivateBroker, repository: Path) -> None:
    """14.4."""
    (repository / ".xsessiond.toml").write_text("[sessions]\noff = true\n")
    with pytest.raises(Refused) as refused:
        Member(running.rendezvous, "web", cwd=str(repository / "sub"))
    assert refused.value.code == "feature_off"
    with Member(running.rendezvous, "api", cwd=str(running.home)):
        assert read_status(running.rendezvous)["sessions"] == 1
