"""What the units' sandbox lets the broker do and what not, and what goes into the journal, in a real systemd."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tests.support.systemd_rig.fixtures import environment, in_a_real_systemd, service, user, world
from tests.support.systemd_rig.service import BROKER_SOCKET, SERVICE, STATE, Installed, end, hear
from tests.support.systemd_rig.world import HOME, ROOT, RUNTIME

__all__ = ["environment", "service", "user", "world"]

pytestmark = in_a_real_systemd

CONFIG = f"{HOME}/.config/xsessiond/config.toml"
TELLS = """
[inbound]
policy = "hold"
[approvals]
notify = ["sh", "-c", "touch ~/told ~/.local/state/xsessiond/told"]
"""


@pytest.fixture
def hardened(service: Installed) -> Installed:
    """The service with the stricter sandbox."""
    service.ctl("service", "install", "--hardened")
    return service


def set_up(service: Installed, settings: str) -> None:
    """Write the settings; return once they are in force."""
    service.world.write(CONFIG, settings)
    policy = re.search(r'policy = "(\w+)"', settings)
    assert policy
    script = f"{service.programs}/xsessionctl config get inbound.policy | grep -q {policy[1]}"
    service.world.until("the settings are in force", "sh", "-c", script)


def hold_one(service: Installed, settings: str = TELLS) -> str:
    """Have a message held for the session api; return its id."""
    set_up(service, settings)
    hear(service.act("member"))
    (sent,) = service.send("please look at it")
    assert sent["state"] == "held"
    return str(sent["id"])


# -- the default -------------------------------------------------------------------------------------------------------


def test_the_sandbox_is_on(service: Installed) -> None:
    status = service.world.run("cat", f"/proc/{service.pid()}/status").stdout
    assert re.search(r"^Seccomp:\s*2$", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\s*1$", status, re.MULTILINE)


def test_a_person_is_still_told_from_an_agent(service: Installed) -> None:
    """5.2: the broker reads the ancestry and the environment of who decides; and it tells the user, with a program."""
    held = hold_one(service)
    service.world.until("the user was told", "test", "-e", f"{HOME}/told")
    assert service.ctl("approve", held, check=False).returncode == 10  # without a terminal
    approved = service.at_terminal("approve", held)
    assert approved["code"] == 0, approved["shown"]
    assert service.ask("check", held)["state"] in ("queued", "delivered")


def test_the_end_of_a_harness_is_seen(service: Installed) -> None:
    """1.4, D2: pidfds pass the filter of system calls; were they refused, the session would stay for 30 s."""
    harness = service.act("harness")
    told = hear(harness)
    assert [row["id"] for row in service.ask("list")["sessions"]] == [told["id"]]
    service.world.run("kill", "-KILL", str(told["pid"]))
    listed = f"{service.programs}/xsessionctl list --json"
    service.world.until("it is not listed any more", "sh", "-c", f"! {listed} | grep -q {told['id']}", within_s=10)
    assert "cannot" not in service.world.journal("--unit", "user@5000.service", "--grep", "xsessiond")


def test_a_command_that_goes_on_for_nobody_ends_with_the_broker(service: Installed) -> None:
    """11.1: it is the broker's to end until the conversation is there, with all that it started."""
    service.world.run("mkdir", "-p", "/src/web", user="root")
    talk = service.act("harness", "talk-1")
    session = hear(talk)["id"]
    end(talk)
    resume = ["sh", "-c", "sleep 1000 & trap '' TERM; wait", "{harness_session_id}"]
    set_up(service, f'[inbound]\npolicy = "accept"\n[harness.test]\nresume = {json.dumps(resume)}\n')
    service.world.spawn(str(service.programs / "xsessionctl"), "send", session, "x", "--when-offline", "resume")
    service.world.until("it runs", "pgrep", "-f", "sleep 1000")
    service.systemctl("stop", SERVICE)
    assert service.world.run("pgrep", "-f", "sleep 1000", check=False).returncode == 1


# -- hardened ----------------------------------------------------------------------------------------------------------


def test_hardened_it_writes_its_own_directories_and_nothing_else(hardened: Installed) -> None:
    """Looked at from where the broker is: everything else is read-only there, also for root."""
    before = hardened.pid()
    for path, may in ((HOME, False), ("/tmp", True), (STATE, True), (f"{RUNTIME}/xsessiond", True), ("/var/tmp", True)):
        touched = hardened.world.run(
            "nsenter", f"--target={before}", "--mount", "touch", f"{path}/touched", user="root", check=False
        )
        assert (touched.returncode == 0) == may, (path, touched.stderr)
    assert not hardened.world.exists("/tmp/touched")  # it has one of its own
    hardened.world.run("rm", "-rf", f"{RUNTIME}/xsessiond", user="root")
    hardened.world.until("the socket is there again", "test", "-S", BROKER_SOCKET)
    assert hardened.ask("status")["broker"]["pid"] == before


@pytest.mark.parametrize("how", ["--not-hardened", "--hardened"])
def test_what_the_user_has_it_start_is_not_confined(service: Installed, how: str) -> None:
    """11.1: a harness that is resumed has a compiler and a sandbox of its own, and outlives the broker."""
    service.ctl("service", "install", how)
    words = ["$HOME", "${HOME}", "%h", "a b", 'it\'s \\ "so"', "$$"]
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.support.systemd_rig.actors", "resumed"]
    resume = json.dumps([*command, "{harness_session_id}", *words])
    set_up(service, f'[inbound]\npolicy = "accept"\n[harness.test]\nresume = {resume}\n')
    service.world.run("mkdir", "-p", "/src/web", user="root")
    talk = service.act("harness", "talk-1")
    session = hear(talk)["id"]
    end(talk)
    sent = service.ask("send", session, "are you there?", "--when-offline", "resume")
    assert sent.get("state") in ("queued", "handed"), sent
    note = json.loads(service.world.run("cat", f"{HOME}/resumed").stdout)
    assert note["words"] == words
    assert (note["seccomp"], note["new_privileges"], note["compiles"]) == ("0", True, True)
    assert (note["cwd"], note["ours"]) == ("/src/web", [])
    assert "xsessiond.service" not in note["group"]
    assert "xsessiond-run-" in note["group"]
    service.systemctl("stop", SERVICE)
    assert service.world.exists(f"/proc/{note['pid']}")


def test_a_command_that_brings_nobody_is_ended_and_told(service: Installed) -> None:
    """11.1: with the last line that it wrote; what cannot be started says so."""
    service.world.run("mkdir", "-p", "/src/web", user="root")
    talk = service.act("harness", "talk-1")
    session = hear(talk)["id"]
    end(talk)
    for command, told in (
        (["sh", "-c", "echo it is broken; exit 3", "{harness_session_id}"], "it is broken"),
        (["no-such-program", "{harness_session_id}"], "no-such-program"),
    ):
        service.world.write(CONFIG, f"[harness.test]\nresume = {json.dumps(command)}\n")
        script = f"{service.programs}/xsessionctl config get harness.test.resume | grep -q {command[0]}"
        service.world.until("the settings are in force", "sh", "-c", script)
        service.world.run("sleep", "0.1")
        refused = service.ask("send", session, "x" + told, "--when-offline", "resume")["error"]
        assert refused["code"] in ("not_running", "rate_limited"), refused
        assert told in json.dumps(refused), refused
        service.systemctl("restart", SERVICE)  # forgets that it was tried a moment ago
    units = service.systemctl("list-units", "--all", "--plain", "--no-legend", "xsessiond-run-*")
    assert units == ""


def test_hardened_nobody_is_a_human_and_the_passphrase_decides(service: Installed) -> None:
    """5.2, and docs/security.md: a broker that cannot see is told nothing by what it sees."""
    done = service.at_terminal("passphrase", replies=[("New passphrase: ", "correct horse battery\n")] * 2)
    assert done["code"] == 0, done["shown"]
    hardened = service
    hardened.ctl("service", "install", "--hardened")
    held = hold_one(hardened, TELLS + "passphrase = true\n")
    assert hardened.ctl("approve", held, check=False).returncode == 10
    approved = hardened.at_terminal("approve", held, replies=[("assphrase", "correct horse battery\n")])
    assert approved["code"] == 0, approved["shown"]
    assert hardened.ask("check", held)["state"] in ("queued", "delivered")


def test_hardened_without_a_passphrase_a_person_is_told_why_not(hardened: Installed) -> None:
    held = hold_one(hardened)
    refused = hardened.at_terminal("approve", held)
    assert refused["code"] == 10
    assert "passphrase" in refused["shown"]


def test_the_sandbox_goes_as_it_came(hardened: Installed) -> None:
    before = hardened.pid()
    again = hardened.ask("service", "install")
    assert [file["change"] for file in again["files"]] == ["unchanged"] * 3
    assert hardened.pid() == before
    without = hardened.ask("service", "install", "--not-hardened")
    assert [file["change"] for file in without["files"]] == ["unchanged", "unchanged", "removed"]
    assert hardened.show("PrivateUsers") == "no"
    assert hardened.pid() not in (0, before)


# -- the journal -------------------------------------------------------------------------------------------------------

SECRET = "nobody but the receiver is to read this"


def test_a_quiet_broker_says_nothing(service: Installed) -> None:
    """All is well: a session comes, gets mail, and goes; the journal has systemd's own lines only."""
    member = service.act("member")
    hear(member)
    service.send(SECRET)
    hear(member)
    end(member)
    assert service.world.journal(f"_SYSTEMD_USER_UNIT={SERVICE}", "--output=cat") == ""
    assert not service.world.exists(f"{STATE}/xsessiond.log")


def test_no_line_of_the_journal_holds_a_text_or_a_token(service: Installed) -> None:
    """7: also of a broker that tells all it does, and of mail that is held, denied, too long, from nowhere."""
    python = f"{service.programs}/python3"
    service.drop_in("verbose", "ExecStart=", f"ExecStart={python} -P -m xsessiond --service systemd --verbose")
    service.systemctl("restart", SERVICE)
    member = service.act("member")
    came = hear(member)
    service.send(SECRET)
    hear(member)
    set_up(service, '[inbound]\npolicy = "hold"\n')
    (held,) = service.send(f"{SECRET}, held")
    assert held["state"] == "held"
    set_up(service, '[inbound]\npolicy = "refuse"\n')
    service.world.run(
        "sh", "-c", f"{service.programs}/xsessionctl send nobody '{SECRET}'; "
        f"printf '%s\\n' '{SECRET}' | {python} -c 'import socket,sys; s=socket.socket(socket.AF_UNIX); "
        f's.connect("{BROKER_SOCKET}"); s.sendall(sys.stdin.buffer.read()); s.recv(1)\'', check=False,
    )  # fmt: skip
    service.ctl("rename", "api", SECRET, check=False)
    told = service.world.journal(f"_SYSTEMD_USER_UNIT={SERVICE}", "--output=json")
    lines = service.world.journal(f"_SYSTEMD_USER_UNIT={SERVICE}", "--output=cat")
    assert f"info: session came session={came['id']}" in lines
    assert SECRET not in lines
    assert came["token"] not in lines
    assert '"PRIORITY":"6"' in told.replace(" ", "")
    assert "<6>" not in lines  # the journal took the priority off


def test_the_log_is_read_where_it_is(service: Installed) -> None:
    """The journal of the service, line by line and as it comes; without the service the file."""
    service.world.write(CONFIG, "[inbound]\npolcy = 'hold'\n")
    script = f"journalctl --quiet _SYSTEMD_USER_UNIT={SERVICE} --output=cat | grep -q polcy"
    service.world.until("the journal has it", "sh", "-c", script, user="root")
    read = service.ask("service", "logs")
    assert read["source"] == "journal"
    assert any("polcy" in line for line in read["lines"])
    assert "polcy" in service.ctl("service", "logs", "--lines", "20").stdout
    following = service.world.spawn(str(service.programs / "xsessionctl"), "service", "logs", "--follow", "--json")
    assert following.stdout is not None
    while b"polcy" not in following.stdout.readline():
        pass
    service.world.write(CONFIG, "[inbound]\npolicies = 'hold'\n")
    while b"policies" not in following.stdout.readline():
        pass
    service.ctl("service", "uninstall")
    service.world.write(CONFIG, "[inbound]\npolicee = 'hold'\n")
    service.ctl("start")
    service.world.until("the file has it", "grep", "-q", "policee", f"{STATE}/xsessiond.log")
    read = service.ask("service", "logs")
    assert read["source"] == f"{STATE}/xsessiond.log"
    assert "policee" in read["lines"][-1]
