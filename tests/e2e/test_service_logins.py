"""The service over logins and logouts, and from every environment that its user may call from, in a real systemd."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.systemd_rig.fixtures import environment, in_a_real_systemd, service, user, world
from tests.support.systemd_rig.service import BROKER_SOCKET, SOCKET, STATE, UNITS, Installed, hear
from tests.support.systemd_rig.world import HOME, PATH, RUNTIME, UID
from tests.support.wire_client import poll

__all__ = ["environment", "service", "user", "world"]

pytestmark = in_a_real_systemd

BARE = {"HOME": HOME, "LOGNAME": "rig", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
"""What cron gives a job."""
FALLBACK = f"{STATE}/run"
"""Where the runtime dir is while nobody is logged in."""

# -- logging out and in ------------------------------------------------------------------------------------------------


def test_what_waits_survives_a_logout(user: Installed) -> None:
    """P5: the runtime directory goes with the last login, and the broker with it; the next login finds the queue."""
    with user.world.logged_in():
        user.ctl("service", "install")
        member = user.act("member")
        session = hear(member)["id"]
        assert member.stdin is not None
        member.stdin.close()
        member.wait(20)
        (sent,) = user.send("for later")
        assert sent["state"] == "queued"
    user.world.until_gone()
    with user.world.logged_in():
        assert user.is_active(SOCKET)
        assert user.pid() == 0  # until somebody asks
        assert user.ask("log")["entries"][0]["id"] == sent["id"]
        checked = user.ask("check", sent["id"])
        assert (checked["state"], checked["to"]["id"]) == ("queued", session)
        assert user.ask("status")["broker"]["service"] == "systemd"


def test_with_linger_it_outlives_the_login(user: Installed) -> None:
    """And serves a job that runs while nobody is there."""
    with user.world.logged_in():
        user.world.linger(on=True)
        user.ctl("service", "install")
        pid = user.pid()
    user.world.until(
        "nobody is logged in", "sh", "-c", "! loginctl show-user rig -p Sessions | grep -q =.", user="root"
    )
    assert user.ask("status", env=BARE)["broker"]["pid"] == pid
    assert user.world.exists(RUNTIME)
    user.world.linger(on=False)
    assert not user.world.exists(RUNTIME)


def test_it_is_there_from_the_boot_on_with_linger(user: Installed) -> None:
    """The manager's own restart is as a boot: enabled is what counts."""
    user.world.linger(on=True)
    user.ctl("service", "install")
    user.world.run("systemctl", "restart", f"user@{UID}", user="root")
    user.world.until("the socket is there", "test", "-S", BROKER_SOCKET)
    assert user.ask("status", env=BARE)["broker"]["service"] == "systemd"


# -- brokers that were there before ------------------------------------------------------------------------------------


def test_the_service_takes_over_from_a_broker_that_cron_started(user: Installed) -> None:
    """P1, 15.2: started while nobody was logged in, elsewhere; at the login both would want the store."""
    first = user.ask("start", env=BARE)["broker"]
    assert first["service"] is None
    assert user.world.exists(f"{FALLBACK}/broker.sock")
    with user.world.logged_in():
        installed = user.ask("service", "install")
        assert installed["broker"]["service"] == "systemd"
        assert installed["broker"]["pid"] != first["pid"]
        assert not user.world.exists(f"/proc/{first['pid']}")
        assert user.ask("paths")["runtime_dir"] == f"{RUNTIME}/xsessiond"


def test_the_service_takes_over_at_the_next_login_too(user: Installed) -> None:
    """The one that cron started in between makes room for the first who connects to systemd's socket."""
    with user.world.logged_in():
        user.ctl("service", "install")
    user.world.until_gone()
    between = user.ask("start", env=BARE)["broker"]
    assert between["service"] is None
    with user.world.logged_in():
        now = user.ask("status")["broker"]
        assert (now["service"], now["pid"]) == ("systemd", user.pid())
        assert not user.world.exists(f"/proc/{between['pid']}")


def test_sessions_and_mail_go_over_with_it(user: Installed) -> None:
    """15.4: a broker that a session started serves at the very path that systemd then listens on."""
    with user.world.logged_in():
        first = user.ask("start")["broker"]
        member = user.act("member")
        session = hear(member)["id"]
        (sent,) = user.send("before")
        assert hear(member)["message"] == sent["id"]
        second = user.ask("service", "install")["broker"]
        assert (second["service"], second["pid"] == first["pid"]) == ("systemd", False)
        assert hear(member) == {"back": session}
        (sent,) = user.send("after")
        assert hear(member)["message"] == sent["id"]
        assert [row["id"] for row in user.ask("list")["sessions"]] == [session]


# -- where the manager cannot be reached -------------------------------------------------------------------------------


def test_without_a_manager_it_is_in_place_for_the_next_login(user: Installed) -> None:
    done = user.ctl("service", "install", env=BARE)
    assert "Not started now: there is no /run/user/" in done.stdout
    assert "in place for your next login" in done.stdout
    assert user.ask("service", "status", env=BARE)["enabled"]
    with user.world.logged_in():
        assert user.is_active(SOCKET)
        assert user.systemctl("is-enabled", SOCKET) == "enabled"
        assert user.ask("status")["broker"]["service"] == "systemd"
    user.world.until_gone()
    gone = user.ask("service", "uninstall", env=BARE)
    assert [file["change"] for file in gone["files"]] == ["removed", "removed"]
    assert user.world.run("find", UNITS, "-not", "-type", "d").stdout == ""
    with user.world.logged_in():
        assert not user.world.exists(BROKER_SOCKET)


def test_a_machine_without_systemd_is_told_so(user: Installed) -> None:
    """As WSL without systemd, or a container: what systemd says is not there, and what happens then."""
    hide = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run/systemd && exec "$@"', "sh"]
    become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--init-groups"]
    done = user.world.run(
        *hide, *become, str(user.programs / "xsessionctl"), "service", "install", user="root", env=BARE, check=False
    )
    assert done.returncode == 3
    assert "systemd does not run this machine" in done.stderr
    assert "/etc/wsl.conf" in done.stderr
    assert not user.world.exists(UNITS)
    user.ctl("service", "install", env=BARE)  # and what was installed while it had one can be taken away
    gone = user.world.run(
        *hide, *become, str(user.programs / "xsessionctl"), "service", "uninstall", "--json", user="root", env=BARE
    )
    assert [file["change"] for file in json.loads(gone.stdout)["files"]] == ["removed", "removed"]
    assert user.world.run("find", UNITS, "-not", "-type", "d").stdout == ""


# -- every environment -------------------------------------------------------------------------------------------------

ROOTS_OWN = {"HOME": "/root", "USER": "root", "LOGNAME": "root", "PATH": PATH, "XDG_RUNTIME_DIR": "/run/user/0",
             "XDG_STATE_HOME": "/srv/state", "LANG": "C"}  # fmt: skip
"""What root's terminal has, some of which `su` and `sudo` leave to the program."""
SSH = {**BARE, "USER": "rig", "SSH_CONNECTION": "::1 1 ::1 22", "SSH_CLIENT": "::1 1 22", "TERM": "xterm"}
RUN_AS = ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--property=User=rig"]
ENVIRONMENTS: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "a login shell": ("root", {"PATH": PATH}, [*RUN_AS, "--property=PAMName=login", "bash", "-lc", '"$@"', "bash"]),
    "env -i": ("rig", {}, []),
    "cron": ("rig", BARE, []),
    "ssh without a session manager": ("rig", SSH, []),
    "su": ("root", ROOTS_OWN, ["su", "rig", "--session-command", '"$@"', "--", "su"]),
    "su -m": ("root", ROOTS_OWN, ["su", "-m", "rig", "--session-command", '"$@"', "--", "su"]),
    "su -": ("root", ROOTS_OWN, ["su", "-", "rig", "--session-command", '"$@"', "--", "su"]),
    "runuser": ("root", ROOTS_OWN, ["runuser", "-u", "rig", "--"]),
    "sudo -u": ("root", ROOTS_OWN, ["sudo", "-u", "rig", "--"]),
    "sudo -E -u": ("root", ROOTS_OWN, ["sudo", "-E", "-u", "rig", "--"]),
    "sudo -i -u": ("root", ROOTS_OWN, ["sudo", "-i", "-u", "rig", "--"]),
    "a service of the system": ("root", {"PATH": PATH}, RUN_AS),
    "a service of the user": ("rig", {"PATH": PATH, "XDG_RUNTIME_DIR": RUNTIME}, [
        "systemd-run", "--user", "--quiet", "--wait", "--pipe", "--collect",
    ]),
}  # fmt: skip
"""Who calls, with what environment, by what way."""
ASKED = ("runtime_dir", "broker_socket", "session_dir", "state_dir", "config_dir", "log_file")


def call(user: Installed, way: tuple[str, dict[str, str], list[str]], words: Sequence[str]) -> Any:
    """What `xsessionctl … --json` says there."""
    who, env, before = way
    done = user.world.run(*before, str(user.programs / "xsessionctl"), *words, "--json", user=who, env=env, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def ways(user: Installed, *without: str) -> dict[str, tuple[str, dict[str, str], list[str]]]:
    """Those that this machine has."""
    has_sudo = user.world.exists("/usr/bin/sudo")
    return {
        name: way
        for name, way in ENVIRONMENTS.items()
        if name not in without and (has_sudo or not name.startswith("sudo"))
    }


def test_every_environment_finds_the_service(user: Installed) -> None:
    """I1, P14, 15.3: login, `env -i`, cron, ssh, su, sudo, services: one answer of the path rule, one broker."""
    user.world.run("mkdir", "-m", "700", "-p", "/run/user/0", "/srv/state", user="root")
    user.world.linger(on=True)
    user.ctl("service", "install")
    answers = {name: call(user, way, ["paths"]) for name, way in ways(user).items()}
    expected = user.ask("paths")
    assert expected["runtime_dir"] == f"{RUNTIME}/xsessiond"
    assert {name: [found[key] for key in ASKED] for name, found in answers.items()} == {
        name: [expected[key] for key in ASKED] for name in answers
    }
    pids = {name: call(user, way, ["status"])["broker"]["pid"] for name, way in ways(user).items()}
    assert pids == dict.fromkeys(pids, user.pid())


def test_every_environment_finds_the_broker_of_one_when_nobody_is_logged_in(user: Installed) -> None:
    """I1, P5: `su` and its like open a login where PAM has them do so, and the rule leads elsewhere then; the record in
    the state dir leads to the one that runs."""
    user.world.run("mkdir", "-m", "700", "-p", "/run/user/0", "/srv/state", user="root")
    without_login = {name: ENVIRONMENTS[name] for name in ("env -i", "cron", "ssh without a session manager")}
    answers = {name: call(user, way, ["paths"])["runtime_dir"] for name, way in without_login.items()}
    assert answers == dict.fromkeys(answers, FALLBACK)
    first = call(user, ENVIRONMENTS["cron"], ["start"])["broker"]["pid"]
    these = ways(user, "a service of the user")
    pids = {name: call(user, way, ["status"])["broker"]["pid"] for name, way in these.items()}
    assert pids == dict.fromkeys(pids, first)


@pytest.mark.parametrize("name", ["env -i", "cron", "su", "runuser"])
def test_the_service_can_be_installed_from_there(user: Installed, name: str) -> None:
    """The manager is found without the variable that a login has."""
    user.world.run("mkdir", "-m", "700", "-p", "/run/user/0", "/srv/state", user="root")
    user.world.linger(on=True)
    done = call(user, ENVIRONMENTS[name], ["service", "install"])
    assert done["started"], done
    assert done["broker"]["pid"] == user.pid()
    assert call(user, ENVIRONMENTS[name], ["service", "uninstall"])["commands"]


# -- explicit and hostile places ---------------------------------------------------------------------------------------


def test_the_units_carry_what_is_set_here(user: Installed) -> None:
    """A separate broker stays separate, and the service is the one that this environment means."""
    env = {**BARE, "XDG_RUNTIME_DIR": RUNTIME, "XDG_STATE_HOME": f"{HOME}/my state"}
    env |= {"XSESSIOND_RUNTIME_DIR": f"{HOME}/my run", "XSESSIOND_CONFIG_DIR": f"{HOME}/50%"}
    with user.world.logged_in():
        done = user.ask("service", "install", env=env)
        assert done["started"], done
        assert user.ask("status", env=env)["broker"]["pid"] == user.pid()
        assert user.world.exists(f"{HOME}/my run/broker.sock")
        assert user.world.exists(f"{HOME}/my state/xsessiond/store.db")
        assert not user.world.exists(BROKER_SOCKET)
        for name, value in (("RUNTIME", "my run"), ("STATE", "my state/xsessiond"), ("CONFIG", "50%")):
            assert f"The units carry XSESSIOND_{name}_DIR={HOME}/{value}, as it is here." in done["notes"]
        user.world.write(f"{HOME}/50%/config.toml", "[inbound]\npolicy = 'hold'\n")
        poll(lambda: user.ask("config", "get", "inbound.policy", env=env)["value"], lambda value: value == "hold")
        again = user.ask("service", "install")  # now as everybody: the socket moves
        assert [file["change"] for file in again["files"]] == ["replaced", "replaced"]
        assert user.world.exists(BROKER_SOCKET)
        assert not user.world.exists(f"{HOME}/my run/broker.sock")


HOSTILE = {
    "a link": (f"mkdir -m 700 {HOME}/x; ln -s {HOME}/x {RUNTIME}/xsessiond", "rig", "it is a symbolic link"),
    "open to all": (
        f"mkdir -m 777 {RUNTIME}/xsessiond; chmod 777 {RUNTIME}/xsessiond",
        "rig",
        "others can write in it",
    ),
    "another's": (f"mkdir -m 700 {RUNTIME}/xsessiond", "root", "it belongs to uid 0"),
    "a file": (f"touch {RUNTIME}/xsessiond", "rig", "it is not a directory"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_runtime_dir_that_was_prepared_is_refused_with_the_reason(user: Installed, kind: str) -> None:
    """S17, I1: no socket is put where clients would pass it over."""
    make, who, reason = HOSTILE[kind]
    with user.world.logged_in():
        user.world.run("sh", "-c", make, user=who)
        done = user.ctl("service", "install", check=False)
        assert done.returncode == 5
        assert reason in done.stderr
        assert f"{RUNTIME}/xsessiond/broker.sock" in done.stderr
        assert not user.world.exists(UNITS)


def test_another_home_than_the_manager_s_is_refused(user: Installed) -> None:
    with user.world.logged_in():
        user.world.run("mkdir", "/tmp/home")
        done = user.ctl(
            "service", "install", env={**BARE, "HOME": "/tmp/home", "XDG_RUNTIME_DIR": RUNTIME}, check=False
        )
        assert done.returncode == 5
        assert f"Run this with HOME={HOME}." in done.stderr


def test_a_home_that_is_too_deep_for_sockets(user: Installed) -> None:
    """P8: a runtime dir that is too long moves to a short place, for the unit as for clients."""
    long = f"{HOME}/" + "d" * 100
    env = {**BARE, "XDG_RUNTIME_DIR": RUNTIME, "XSESSIOND_RUNTIME_DIR": long}
    with user.world.logged_in():
        done = user.ask("service", "install", env=env)
        assert done["started"], done
        short = user.ask("paths", env=env)["broker_socket"]
        assert Path(short).parent.parent == Path("/tmp")
        assert user.world.exists(short)
        assert user.ask("status", env=env)["broker"]["service"] == "systemd"
