"""The broker as a systemd user service, in a real systemd: installed, activated, killed, stuck, restarted, removed.

Each test boots a world of its own (`tests/support/systemd_rig`), in a second; the product in it is a wheel.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.systemd_rig.fixtures import PREFIX, environment, in_a_real_systemd, service, user, world
from tests.support.systemd_rig.service import BROKER_SOCKET, SERVICE, SOCKET, STATE, UNITS, Installed, end, hear
from tests.support.systemd_rig.world import HOME, RUNTIME
from tests.support.wire_client import poll

__all__ = ["environment", "service", "user", "world"]

pytestmark = in_a_real_systemd

ROOT = Path(__file__).parents[2]
OTHER_VERSIONS = 0.4
"""How much the figure of the same unit moves with systemd's version: rows are added, and weights change."""


def mode_of(user: Installed, path: str) -> str:
    return user.world.say("stat", "--format=%a", path)


# -- install -----------------------------------------------------------------------------------------------------------


def test_install_puts_it_in_place_and_asks_it(user: Installed) -> None:
    """15.2, I6: the files, the state directory, the socket, a broker that systemd started; and once more changes
    nothing."""
    with user.world.logged_in():
        first = user.ask("service", "install")
        assert [file["change"] for file in first["files"]] == ["made", "made"]
        assert [file["path"] for file in first["files"]] == [f"{UNITS}/{SOCKET}", f"{UNITS}/{SERVICE}"]
        assert first["started"]
        assert first["broker"]["service"] == "systemd"
        assert first["broker"]["pid"] == user.pid()
        assert first["round_trip_ms"] > 0
        assert any("loginctl enable-linger" in note for note in first["notes"])
        assert [mode_of(user, path) for path in (BROKER_SOCKET, f"{RUNTIME}/xsessiond", STATE)] == ["600", "700", "700"]
        again = user.ask("service", "install")
        assert [file["change"] for file in again["files"]] == ["unchanged", "unchanged"]
        assert again["broker"]["pid"] == first["broker"]["pid"]
        status = user.ask("service", "status")
        assert (status["installed"], status["enabled"], status["linger"]) == (True, True, False)
        assert (status["socket"]["detail"], status["service"]["detail"]) == ("running", "running")
        assert user.ask("status")["broker"]["pid"] == first["broker"]["pid"]
        findings = user.ask("doctor")["findings"]
        assert [one["level"] for one in findings if one["area"] == "service"] == ["ok"]
        user.world.linger(on=True)
        assert user.ask("service", "install")["notes"] == []


def test_a_dry_run_does_nothing(user: Installed) -> None:
    with user.world.logged_in():
        shown = user.ask("service", "install", "--dry-run")
        assert [file["change"] for file in shown["files"]] == ["made", "made"]
        assert "ListenStream=%t/xsessiond/broker.sock" in shown["files"][0]["text"]
        assert f"ExecStart={PREFIX}/bin/python3 -P -m xsessiond --service systemd" in shown["files"][1]["text"]
        assert shown["commands"][-1] == f"systemctl --user enable --now {SOCKET}"
        assert not user.world.exists(UNITS)
        assert not user.world.exists(BROKER_SOCKET)


def test_the_units_verify_and_what_they_expose(service: Installed) -> None:
    """systemd-analyze exits 0 for what it does not know, so it must be silent; its figures stand in docs/service.md."""
    for hardened in (False, True):
        service.ctl("service", "install", *(["--hardened"] if hardened else []))
        verified = service.world.run("systemd-analyze", "--user", "verify", f"{UNITS}/{SOCKET}", f"{UNITS}/{SERVICE}")
        assert verified.stdout + verified.stderr == ""
    text = (ROOT / "docs/service.md").read_text()
    plain, strict = map(float, re.findall(r"exposure \*\*([\d.]+)\*\*", text))
    unit = f"{UNITS}/{SERVICE}"
    service.ctl("service", "install", "--not-hardened")
    assert service.exposure(unit) <= plain + OTHER_VERSIONS
    service.ctl("service", "install", "--hardened")
    assert service.exposure(unit) <= strict + OTHER_VERSIONS


# -- activation, crash, hang -------------------------------------------------------------------------------------------


def test_the_first_who_connects_starts_it(service: Installed) -> None:
    """15.2: no broker, no process of ours, and a client is answered all the same."""
    service.systemctl("stop", SERVICE)
    assert (service.pid(), service.is_active(SOCKET)) == (0, True)
    assert service.ctl("list").returncode == 0
    assert service.ask("status")["broker"]["service"] == "systemd"
    assert service.is_active(SERVICE)


def test_a_crash_is_mended_and_nothing_is_lost(service: Installed) -> None:
    """P3, 3.3: kill -9; the session comes back by its token, to the mail that was accepted before."""
    member = service.act("member")
    session = hear(member)["id"]
    before, restarts = service.pid(), service.restarts()
    service.world.run("kill", "-KILL", str(before))
    (sent,) = service.send("while it was down")
    assert hear(member) == {"back": session}
    assert hear(member) == {"message": sent["id"], "text": "while it was down"}
    service.until_restarted(restarts)
    assert service.pid() not in (0, before)
    assert service.is_active(SOCKET)


def test_a_crash_loop_leaves_the_socket(service: Installed) -> None:
    """Whoever connects during it waits, and is answered once the program is mended."""
    service.drop_in("broken", "ExecStart=", "ExecStart=/bin/false", "RestartSec=50ms")
    service.systemctl("restart", SERVICE, check=False)
    waiting = service.world.spawn(str(service.programs / "xsessionctl"), "list", "--timeout", "60")
    script = f'[ "$(systemctl --user show -p NRestarts --value {SERVICE})" -ge 25 ]'
    service.world.until("25 starts in vain", "sh", "-c", script)
    assert service.is_active(SOCKET)
    assert service.world.exists(BROKER_SOCKET)
    service.drop_out("broken")
    assert waiting.wait(60) == 0
    assert service.is_active(SERVICE)


@pytest.mark.parametrize("what", ["all", "thread"])
def test_a_broker_whose_disk_hangs_is_ended_by_the_watchdog(service: Installed, what: str) -> None:
    """A loop that is stuck; and one that runs and answers `status` while the store's writer is stuck."""
    service.make_faulty()
    member = service.act("member")
    session = hear(member)["id"]
    before, restarts = service.pid(), service.restarts()
    service.world.write(f"{HOME}/hang-{what}", "")
    if what == "thread":
        assert service.ask("status")["broker"]["pid"] == before
    script = f'[ "$(systemctl --user show -p NRestarts --value {SERVICE})" -gt {restarts} ]'
    service.world.until("it was ended", "sh", "-c", script)
    service.world.run("rm", f"{HOME}/hang-{what}")
    assert "Watchdog timeout" in service.world.journal()
    service.until_restarted(restarts)
    assert hear(member) == {"back": session}


def test_a_healthy_broker_is_left_alone_by_its_watchdog(service: Installed) -> None:
    """F1: for four of its intervals, with nothing to do."""
    service.make_faulty()
    before, restarts = service.pid(), service.restarts()
    deadline_passed = service.world.run("sleep", "8", check=False)  # four intervals of 2 s
    assert deadline_passed.returncode == 0
    assert (service.pid(), service.restarts()) == (before, restarts)


# -- restarts and the end ----------------------------------------------------------------------------------------------

UNPACED = """
[pacing]
target_burst = 1000000
target_per_second = 1000000
sender_burst = 1000000
sender_per_second = 1000000
queue_per_session = 10000
"""


def take_off_the_pace(service: Installed) -> None:
    """The running broker has no limits that the load would meet."""
    service.world.write(f"{HOME}/.config/xsessiond/config.toml", UNPACED)
    poll(lambda: service.ask("config", "get", "pacing.queue_per_session")["value"], lambda value: value == "10000")


def test_restarts_under_load_refuse_nobody_and_lose_nothing(service: Installed) -> None:
    """15.4, 3.3, 3.4: connections wait at the socket; what was broken off goes through with its key, once."""
    take_off_the_pace(service)
    load = service.act("load")
    session = hear(load)["session"]
    for _ in range(5):
        before = service.pid()
        service.world.run("sleep", "0.5")
        service.systemctl("restart", SERVICE)
        assert service.pid() != before
    service.world.run("sleep", "0.5")
    told = end(load)
    assert told["refused"] == []
    assert len(told["accepted"]) > 100
    assert told["received"] == told["accepted"]
    assert (told["session"], told["longest_s"] < 10) == (session, True)


@pytest.mark.parametrize("how", ["--not-hardened", "--hardened"])
def test_handing_over_under_load_is_one_process_for_systemd(service: Installed, how: str) -> None:
    """15.4: `xsessionctl restart`: the same pid, no restart that systemd counts, and it stays ready and fed."""
    service.ctl("service", "install", how)
    take_off_the_pace(service)
    before, restarts = service.pid(), service.restarts()
    load = service.act("load")
    session = hear(load)["session"]
    instances = set()
    for _ in range(5):
        service.world.run("sleep", "0.3")
        done = service.ask("restart")
        assert (done["how"], done["broker"]["pid"], done["broker"]["service"]) == ("handed over", before, "systemd")
        instances.add(done["broker"]["instance"])
    told = end(load)
    assert told["refused"] == []
    assert len(told["accepted"]) > 100
    assert told["received"] == told["accepted"]
    assert (told["session"], len(instances)) == (session, 5)
    assert (service.pid(), service.restarts()) == (before, restarts)
    assert service.is_active(SERVICE)
    assert service.show("StatusText") == "ready"
    service.systemctl("stop", SERVICE)
    assert service.is_active(SOCKET)
    assert service.ask("list")["sessions"] is not None  # which starts it again


def test_the_successor_goes_on_feeding_the_watchdog(service: Installed) -> None:
    """P9: and is started again after a crash, as the one before was."""
    service.drop_in("watched", "WatchdogSec=1s")
    service.systemctl("restart", SERVICE)
    before, restarts = service.pid(), service.restarts()
    assert service.ask("restart")["how"] == "handed over"
    service.world.run("sleep", "4")
    assert (service.pid(), service.restarts()) == (before, restarts)
    service.world.run("kill", "-KILL", str(before))
    assert service.ask("status")["broker"]["service"] == "systemd"
    service.until_restarted(restarts)


def test_stop_ends_the_broker_and_the_next_client_starts_it(service: Installed) -> None:
    before = service.pid()
    stopped = service.ctl("stop")
    assert f"(pid {before})" in stopped.stdout
    assert "systemctl --user stop xsessiond.socket" in stopped.stdout
    assert (service.pid(), service.is_active(SOCKET)) == (0, True)
    assert service.ctl("list").returncode == 0
    assert service.pid() not in (0, before)


def test_start_asks_the_manager_when_the_socket_was_stopped(service: Installed) -> None:
    """What would be started beside it would have to make room again."""
    service.systemctl("stop", SOCKET)
    assert not service.world.exists(BROKER_SOCKET)
    assert service.ask("start")["broker"]["service"] == "systemd"
    assert service.is_active(SOCKET)


def test_a_socket_file_that_was_deleted_is_made_again(service: Installed) -> None:
    """15.3: the descriptor that systemd keeps is of no use then; the broker binds its own."""
    before = service.pid()
    service.world.run("rm", "-r", f"{RUNTIME}/xsessiond")
    service.world.until("it is there again", "test", "-S", BROKER_SOCKET)
    assert service.ask("status")["broker"]["pid"] == before
    service.systemctl("restart", SERVICE)  # systemd still passes the one that is gone
    assert service.ask("status")["broker"]["pid"] == service.pid() != before
    before, restarts = service.pid(), service.restarts()
    service.world.run("kill", "-KILL", str(before))  # and now a dead socket lies there
    service.until_restarted(restarts)
    assert service.ask("status")["broker"]["pid"] == service.pid() != before
    service.systemctl("restart", SOCKET)
    assert service.ask("status")["broker"]["pid"] == service.pid()
    assert service.show("SubState", SOCKET) == "running"


def test_uninstall_takes_away_what_is_ours(service: Installed) -> None:
    """I3: a drop-in of the user's and what is stored stay; a second time there is nothing to do."""
    member = service.act("member")
    session = hear(member)["id"]
    (sent,) = service.send("kept")
    assert hear(member)["message"] == sent["id"]
    service.drop_in("mine", "Nice=5")
    service.ctl("service", "install", "--hardened")
    assert hear(member) == {"back": session}
    done = service.ask("service", "uninstall")
    assert [file["change"] for file in done["files"]] == ["removed", "removed", "removed"]
    left = service.world.run("find", UNITS, "-not", "-type", "d").stdout.split()
    assert left == [f"{UNITS}/{SERVICE}.d/mine.conf"]
    assert not service.is_active(SOCKET)
    assert service.show("LoadState") in ("not-found", "loaded")  # loaded: of the drop-in alone
    assert "No service of ours is installed." in service.ctl("service", "uninstall").stdout
    assert service.ask("service", "status")["installed"] is False
    log = service.ask("log")  # starts a broker of its own again
    assert [entry["id"] for entry in log["entries"]] == [sent["id"]]
    assert service.ask("status")["broker"]["service"] is None
    assert hear(member) == {"back": session}


def test_files_that_are_not_ours_are_left_alone(user: Installed) -> None:
    """I3."""
    with user.world.logged_in():
        user.world.write(f"{UNITS}/{SERVICE}", "[Service]\nExecStart=/bin/true\n")
        refused = user.ctl("service", "install", check=False)
        assert refused.returncode == 5
        assert f"{UNITS}/{SERVICE} was not made by" in refused.stderr
        assert not user.world.exists(f"{UNITS}/{SOCKET}")
        assert user.ask("service", "uninstall")["files"] == [{"path": f"{UNITS}/{SERVICE}", "change": "left"}]
