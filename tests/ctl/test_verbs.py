"""The verbs against a real broker: what they say, what they store, and how they exit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ctl.terminal import at_terminal
from tests.support.private_broker import PrivateBroker
from tests.support.wire_client import Member, ask_once, poll, read_status
from xsessionctl.commands.log import moment
from xsessiond.core.limits import MAX_FRAME


def ask(place: PrivateBroker, *words: str, **more: Any) -> Any:
    """The document of a verb that succeeds."""
    done = place.ctl(*words, "--json", **more)
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)


def refuse(place: PrivateBroker, *words: str, **more: Any) -> tuple[int, Any]:
    """Exit code and error object of a verb that fails."""
    done = place.ctl(*words, "--json", **more)
    return done.returncode, json.loads(done.stdout)["error"]


# -- list, whoami ------------------------------------------------------------------------------------------------------


def test_list_has_every_identifier_that_users_hold(running: PrivateBroker) -> None:
    """D10: broker id, harness session id, name, cwd, pid and harness."""
    with Member(running.rendezvous, "api", harness="claude", harness_session_id="conv-1", cwd="/src/api") as api:
        (row,) = ask(running, "list")["sessions"]
    assert row.keys() >= {"id", "ref", "name", "label", "harness", "harness_session_id", "pid", "cwd", "state", "class"}
    assert (row["id"], row["harness_session_id"]) == (api.id, "conv-1")
    assert (row["name"], row["cwd"], row["harness"]) == ("api", "/src/api", "claude")


def test_list_all_shows_what_does_not_run_too(running: PrivateBroker) -> None:
    with Member(running.rendezvous, "api", harness_session_id="conv-1") as api:
        api.call("end")
    assert ask(running, "list")["sessions"] == []
    assert [row["name"] for row in ask(running, "list", "--all")["sessions"]] == ["api"]


@pytest.mark.slow
def test_list_watch_tells_each_change(running: PrivateBroker) -> None:
    """N12: one who only looks is not listed."""
    with subprocess.Popen(
        [sys.executable, "-m", "xsessionctl", "list", "--watch", "--json"],
        stdout=subprocess.PIPE,
        cwd=running.home,
        env=running.environ(),
    ) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["sessions"] == []
        with Member(running.rendezvous, "api"):
            (row,) = json.loads(watching.stdout.readline())["sessions"]
            assert row["name"] == "api"
        watching.terminate()


def test_list_watch_is_a_screen_at_a_terminal(running: PrivateBroker, api: Member) -> None:
    code, seen = at_terminal(running, "list", "--watch", interrupt_at=api.session["ref"])
    assert code == 130
    assert "Traceback" not in seen
    assert seen.rstrip().endswith("\x1b[?1049l"), "the screen that was there before must come back"


def test_whoami_without_a_terminal_is_a_script(running: PrivateBroker) -> None:
    assert ask(running, "whoami")["kind"] == "script"
    assert ask(running, "whoami")["session"] is None


# -- send --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_verb_takes_every_form_of_address(running: PrivateBroker) -> None:
    """N4, D10: all verbs share one resolver, and each unambiguous identifier is taken."""
    with Member(running.rendezvous, "api", harness_session_id="conv-1") as api:
        for form in ("{name}", "{NAME}", "{name} [{ref}]", "{ref}", "{id}", "conv-1"):
            address = form.format(name="api", NAME="API", ref=api.session["ref"], id=api.id)
            assert ask(running, "send", address, f"to {form}")["to"]["id"] == api.id
            code, shown = at_terminal(running, "rename", address, "other")
            assert (code, shown) == (0, f"It is called other [{api.session['ref']}] now.\n")
            assert at_terminal(running, "rename", "other", "api")[0] == 0
            for message in api.take():
                api.ack(message["id"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "address, code, exit_code",
    [("apu", "not_found", 3), ("ap", "ambiguous", 4), ("m-1", "not_found", 3), ("gone", "not_running", 3)],
)
def test_every_verb_refuses_the_same_addresses(
    running: PrivateBroker, api: Member, address: str, code: str, exit_code: int
) -> None:
    """N4, N6, N8: nothing is stored; the refusal says which kind it is, with candidates that say where they are."""
    with Member(running.rendezvous, "gone") as gone:
        gone.call("end")
    before = running.ctl("log", "--json").stdout
    status, error = refuse(running, "send", address, "hello")
    assert (status, error["code"]) == (exit_code, code)
    assert all(candidate.keys() >= {"name", "ref", "cwd", "state", "age_s"} for candidate in error["candidates"])
    assert len(error["candidates"]) <= 8
    assert at_terminal(running, "rename", address, "hello")[0] == exit_code
    assert running.ctl("log", "--json").stdout == before
    assert read_status(running.rendezvous)["queued"] == 0


def test_a_person_at_a_terminal_is_the_human(running: PrivateBroker, api: Member) -> None:
    """3.7: found through the kernel, whatever the arguments say."""
    assert "The human" in at_terminal(running, "whoami")[1]
    assert at_terminal(running, "send", "api", "hello")[0] == 0
    (message,) = api.take()
    assert message["from"]["kind"] == "human"
    assert at_terminal(running, "inbox") == (0, "Nothing waits.\n")


def test_the_roster_fits_a_terminal(running: PrivateBroker) -> None:
    """O7: and is coloured there, unless NO_COLOR is set."""
    with Member(running.rendezvous, "a-rather-long-name-for-a-session", cwd="/a/long/path/to/the/folder/of/my-project"):
        _, colored = at_terminal(running, "list")
        _, plain = at_terminal(running, "list", NO_COLOR="1")
    assert "\x1b[" in colored
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) == 80
    assert "my-project" in plain


def test_send_answers_with_what_the_contract_says(running: PrivateBroker, api: Member) -> None:
    document = ask(running, "send", "api", "héllo", "there")
    assert document.keys() >= {"id", "state", "to", "rule", "expires_at", "bytes", "sha256", "reply", "notice"}
    assert document["state"] == "queued"
    assert document["bytes"] == len("héllo there".encode())
    (message,) = api.take()
    assert (message["text"], message["sha256"]) == ("héllo there", document["sha256"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "stdin, text", [("a\nb\n", "a\nb"), ("no end", "no end"), ("two\n\n", "two\n"), ("dos\r\n", "dos")]
)
@pytest.mark.parametrize("words", [[], ["-"]])
def test_the_text_may_come_from_standard_input(
    running: PrivateBroker, api: Member, words: list[str], stdin: str, text: str
) -> None:
    ask(running, "send", "api", *words, stdin=stdin)
    assert [message["text"] for message in api.take()] == [text]


def test_a_text_that_begins_with_a_dash(running: PrivateBroker, api: Member) -> None:
    assert running.ctl("send", "api", "--", "--json is an option").returncode == 0
    assert [message["text"] for message in api.take()] == ["--json is an option"]


def test_a_large_text_arrives_whole(running: PrivateBroker, api: Member) -> None:
    text = "日本\n" * 100_000
    document = ask(running, "send", "api", "-", stdin=text)
    (message,) = api.take()
    assert message["text"] == text[:-1]
    assert document["bytes"] == len(text.encode()) - 1


@pytest.mark.parametrize("size", [MAX_FRAME, 3 * MAX_FRAME, 20 * MAX_FRAME])
def test_a_text_that_is_too_large_is_refused(running: PrivateBroker, api: Member, size: int) -> None:
    status, error = refuse(running, "send", "api", "-", stdin="x" * size)
    assert (status, error["code"]) == (2, "too_large")
    assert api.take() == []


@pytest.mark.parametrize("text", ["", " ", "\x00\x01"])
def test_what_is_no_text_is_refused(running: PrivateBroker, api: Member, text: str) -> None:
    status, error = refuse(running, "send", "api", "-", stdin=text)
    assert status == 2
    assert error["code"] in {"empty", "not_text"}
    assert api.take() == []


@pytest.mark.parametrize("words", [["send", "api", b"caf\xe9"], ["send", "api", "-"]])
def test_bytes_that_are_no_text_are_refused(running: PrivateBroker, api: Member, words: list[str | bytes]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "xsessionctl", *words],
        input=b"caf\xe9",
        capture_output=True,
        env=running.environ(),
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Nothing was sent" in done.stderr or b"nothing was sent" in done.stderr
    assert api.take() == []


@pytest.mark.slow
def test_a_wish_to_be_told_reads_no_standard_input(running: PrivateBroker) -> None:
    """9.1: which in an agent's shell may be a pipe that nobody writes to. A person is told on the desktop and by
    `inbox`."""
    shown = running.root / "shown"
    script = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + chr(10))"
    notify = json.dumps([sys.executable, "-c", script, str(shown), "{title}"])
    (running.config_dir / "config.toml").write_text(f"[approvals]\nnotify = {notify}\n")
    ask(running, "config", "get", "approvals.notify")  # read by now
    with Member(running.rendezvous, "web", delivery="push", pid=None) as web:
        web.call("turn", phase="started")
        code, seen = at_terminal(running, "send", "web", "--notify-when-idle")
        assert code == 0
        assert "waiting for web" in seen
        assert "Type the message" not in seen
        web.call("turn", phase="ended")
        poll(lambda: shown.read_text() if shown.exists() else "", lambda text: text == "web is idle\n")
        assert "is idle: it has finished" in at_terminal(running, "inbox")[1]
        assert "is idle: it has finished" in at_terminal(running, "inbox", "--take")[1]
        assert "Nothing waits." in at_terminal(running, "inbox")[1]


def test_a_wish_to_be_told_goes_with_a_text(running: PrivateBroker) -> None:
    with Member(running.rendezvous, "web", delivery="push") as web, Member(running.rendezvous, "plain"):
        code, seen = at_terminal(running, "send", "web", "hello", "--notify-when-idle")
        assert code == 0
        assert "You are told once, when it is idle." in seen
        assert [message["text"] for message in web.take()] == ["hello"]
        code, seen = at_terminal(running, "send", "plain", "--notify-when-idle")
        assert code == 2
        assert "its harness does not tell" in seen
    status, error = refuse(running, "send", "web", "--notify-when-idle", stdin="")
    assert (status, error["code"]) == (10, "not_permitted"), "nobody could tell a script"


def test_a_key_makes_a_repeat_harmless(running: PrivateBroker, api: Member) -> None:
    """L3: the same key gives the same id and one delivery; with another body it is refused."""
    first = ask(running, "send", "api", "once", "--key", "k1")
    again = ask(running, "send", "api", "once", "--key", "k1")
    assert again["id"] == first["id"]
    assert len(api.take()) == 1
    assert refuse(running, "send", "api", "other", "--key", "k1")[1]["code"] == "key_reused"


def test_a_repeat_is_refused_as_a_duplicate(running: PrivateBroker, api: Member) -> None:
    """O4: 8 for rate and duplicate."""
    ask(running, "send", "api", "the same")
    status, error = refuse(running, "send", "api", "the same")
    assert (status, error["code"]) == (8, "duplicate")


def test_waiting_for_a_reply_that_does_not_come_is_exit_7(running: PrivateBroker, api: Member) -> None:
    """O4: 7 timeout. The message stays sent."""
    done = running.ctl("send", "api", "question", "--wait", "0.2", "--json")
    assert done.returncode == 7
    assert json.loads(done.stdout)["reply"] is None
    assert [message["text"] for message in api.take()] == ["question"]


def test_the_reply_comes_with_the_answer(running: PrivateBroker) -> None:
    with (
        Member(running.rendezvous, "api", push=True) as api,
        subprocess.Popen(
            [sys.executable, "-m", "xsessionctl", "send", "api", "which port?", "--wait", "20", "--json"],
            stdout=subprocess.PIPE,
            env=running.environ(),
        ) as asking,
    ):
        message = api.wire.note("message")["message"]
        api.call("ack", ids=[message["id"]])
        api.call("send", reply_to=message["id"], message="5173")
        output, _ = asking.communicate(timeout=30)
    assert asking.returncode == 0
    document = json.loads(output)
    assert document["reply"]["text"] == "5173"
    assert document["reply"]["from_name"] == "api"
    assert api_log(running)[-1] == ("5173", "delivered"), "the reply was shown"


def api_log(place: PrivateBroker) -> list[tuple[str, str]]:
    """Text and state of each message."""
    return [(entry["text"], entry["state"]) for entry in ask(place, "log")["entries"]]


def ask_from_a_terminal(place: PrivateBroker, api: Member, answer: str) -> str:
    """The human asks `api`, which answers when nobody waits for it any more. Returns the id of the answer."""
    assert at_terminal(place, "send", "api", f"what about {answer}?")[0] == 0
    (question,) = api.take()
    api.ack(question["id"])
    sent: str = api.call("send", reply_to=question["id"], message=answer)["id"]
    return sent


def test_a_person_reads_what_was_answered_and_it_is_delivered(running: PrivateBroker, api: Member) -> None:
    """W2: `queued` is said while nobody has it, `delivered` once it was shown."""
    answer = ask_from_a_terminal(running, api, "it \x1b[31mis\nred")
    code, seen = at_terminal(running, "inbox")
    assert code == 0
    assert answer in seen
    assert "`xsessionctl inbox --take` shows the texts" in seen
    assert re.search(r"  api → \S+ \(human\)  queued  " + answer, running.ctl("log").stdout)
    assert api_log(running)[-1][1] == "queued", "looking takes nothing"
    code, seen = at_terminal(running, "inbox", "--take", NO_COLOR="1")
    head, *text = seen.splitlines()
    assert re.fullmatch(rf"\d\d:\d\d:\d\d  api \[{api.session['ref']}]  {answer}  answers m-[0-9a-f]{{32}}", head)
    assert text == ["    it \\x1b[31mis", "    red"]
    assert api_log(running)[-1][1] == "delivered"
    assert at_terminal(running, "inbox", "--take") == (0, "Nothing waits.\n")
    assert "--take" not in at_terminal(running, "inbox")[1]


def test_a_person_takes_all_as_one_document(running: PrivateBroker, api: Member) -> None:
    ask_from_a_terminal(running, api, "one")
    code, seen = at_terminal(running, "inbox", "--take", "--json")
    assert code == 0
    assert [message["text"] for message in json.loads(seen)["messages"]] == ["one"]


def test_mail_that_nobody_could_see_still_waits(running: PrivateBroker, api: Member) -> None:
    """W9: taking is two steps. Standard output was closed, so nothing was shown."""
    ask_from_a_terminal(running, api, "one")
    assert at_terminal(running, "inbox", "--take", closed_output=True)[0] == 0
    assert api_log(running)[-1] == ("one", "queued")
    assert "one" in at_terminal(running, "inbox", "--take")[1]


def test_only_a_person_takes(running: PrivateBroker) -> None:
    assert refuse(running, "inbox", "--take")[1]["code"] == "not_permitted"


# -- check, inbox, log -------------------------------------------------------------------------------------------------


def test_check_tells_the_history(running: PrivateBroker, api: Member) -> None:
    sent = ask(running, "send", "api", "hello")
    assert ask(running, "check", sent["id"])["state"] == "queued"
    (message,) = api.take()
    api.ack(message["id"])
    document = ask(running, "check", sent["id"])
    assert document["state"] == "delivered"
    assert document["history"][0]["state"] == "queued"
    assert document["history"][-1]["state"] == "delivered"
    assert [row["id"] for row in ask(running, "check")["messages"]] == [sent["id"]]
    assert refuse(running, "check", "m-" + "0" * 32)[1]["code"] == "not_found"


def test_check_answers_after_a_restart(running: PrivateBroker, api: Member) -> None:
    """Behaviour 6.5: from the store."""
    sent = ask(running, "send", "api", "hello")
    running.ctl("stop")
    assert ask(running, "check", sent["id"])["state"] == "queued"


def test_inbox_looks_and_takes_nothing(running: PrivateBroker) -> None:
    assert ask(running, "inbox")["messages"] == []
    assert running.ctl("inbox").stdout == "Nothing waits.\n"


def test_log_shows_what_was_said(running: PrivateBroker, api: Member) -> None:
    sent = ask(running, "send", "api", "first line\nsecond \x1b[31mline")
    (entry,) = ask(running, "log")["entries"]
    assert (entry["id"], entry["to"]["name"]) == (sent["id"], "api")
    shown = running.ctl("log").stdout.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  script → api  queued  " + sent["id"], shown[0])
    assert shown[1:] == ["    first line", "    second \\x1b[31mline"]


@pytest.mark.slow
def test_log_follows_a_thread_and_begins_where_it_is_told(running: PrivateBroker, api: Member) -> None:
    """8.5: replies form a thread."""
    first = ask(running, "send", "api", "question")
    other = ask(running, "send", "api", "something else")
    for message in api.take():
        api.ack(message["id"])
    reply = ask_once(api.socket, "list") and api.call("send", reply_to=first["id"], message="answer")
    ids = [entry["id"] for entry in ask(running, "log", "--thread", first["id"])["entries"]]
    assert ids == [first["id"], reply["id"]]
    assert other["id"] in [entry["id"] for entry in ask(running, "log", "--since", "1h")["entries"]]
    assert ask(running, "log", "--since", "2999-01-01")["entries"] == []
    assert [entry["id"] for entry in ask(running, "log", "--limit", "1")["entries"]] == [reply["id"]]


@pytest.mark.parametrize("since", ["yesterday", "", "5", "5y", "999999999999d"])
def test_a_time_that_is_none_is_a_usage_error(broker: PrivateBroker, since: str) -> None:
    done = broker.ctl("log", "--since", since)
    assert done.returncode == 2
    assert "is no time" in done.stderr


def test_times_are_sent_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    assert moment("2026-01-31T12:00+01:00") == "2026-01-31T11:00:00.000Z"
    assert moment("10m").endswith("Z")


def test_log_follow_tells_what_comes(running: PrivateBroker, api: Member) -> None:
    ask(running, "send", "api", "before")
    with subprocess.Popen(
        [sys.executable, "-m", "xsessionctl", "log", "--follow", "--json"],
        stdout=subprocess.PIPE,
        cwd=running.home,
        env=running.environ(),
    ) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["text"] == "before"
        ask(running, "send", "api", "after")
        assert json.loads(following.stdout.readline())["text"] == "after"
        running.ctl("stop")
        last = json.loads(following.stdout.readline())
        assert (following.wait(20), last["error"]["code"]) == (9, "no_broker")


# -- the broker itself -------------------------------------------------------------------------------------------------


def test_status_has_what_the_contract_says(running: PrivateBroker, api: Member) -> None:
    document = ask(running, "status")
    assert document.keys() >= {"broker", "sessions", "queued", "held", "store", "config", "warnings"}
    assert document["broker"].keys() >= {"pid", "version", "protocol", "instance", "uptime_s"}
    assert document["sessions"] == 1


def test_settings_that_cannot_be_used_are_red(broker: PrivateBroker) -> None:
    """14.2: `status` is red, and its exit code says so."""
    (broker.config_dir / "config.toml").write_text("[inbound\npolicy = ")
    broker.start()
    done = broker.ctl("status")
    assert done.returncode == 11
    assert "not ok" in done.stdout


def test_paths_are_those_of_the_broker(running: PrivateBroker) -> None:
    """I6: what a sandbox must be granted is printed, and is there."""
    document = ask(running, "paths")
    for folder in ("runtime_dir", "session_dir"):
        assert Path(document[folder]).stat().st_mode & 0o777 == 0o700
    assert document["broker_socket"] == str(running.rendezvous)
    assert document["sources"]["runtime_dir"] == "XSESSIOND_RUNTIME_DIR"
    assert str(running.state_dir) in running.ctl("paths").stdout


def test_paths_name_the_project_s_settings_for_this_folder(broker: PrivateBroker) -> None:
    """They are among all that are read, there or not: from the repository's folder down, the one that counts last."""
    repository = broker.home / "repository"
    (repository / ".git").mkdir(parents=True)
    folder = repository / "sub"
    folder.mkdir()
    (folder / ".xsessiond.toml").write_text('[inbound]\npolicy = "hold"\n')
    paths = [
        str(where / name) for where in (repository, folder) for name in (".xsessiond.toml", ".xsessiond.local.toml")
    ]
    argv = [sys.executable, "-m", "xsessionctl", "paths"]
    said = [
        subprocess.run(
            [*argv, *more], cwd=folder, env=broker.environ(), capture_output=True, text=True, check=True
        ).stdout
        for more in (["--json"], [])
    ]
    assert json.loads(said[0])["project_config"] == paths
    lines = [line for line in said[1].splitlines() if line.startswith("project_config")]
    assert [line.split()[1] for line in lines] == paths
    assert ["not there" in line for line in lines] == [True, True, False, True]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(broker: PrivateBroker, shell: str) -> None:
    script = broker.ctl("completion", shell).stdout
    assert "_XSESSIONCTL_COMPLETE" in script


@pytest.mark.parametrize(
    "words, expected",
    [("xsessionctl sen", ["send"]), ("xsessionctl send ap", ["api"]), ("xsessionctl list --al", ["--all"])],
)
def test_the_shell_completes_verbs_options_and_live_names(
    running: PrivateBroker, api: Member, words: str, expected: list[str]
) -> None:
    done = running.ctl(_XSESSIONCTL_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
    assert done.returncode == 0
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == expected


def test_completion_without_a_broker_starts_none(broker: PrivateBroker) -> None:
    done = broker.ctl(_XSESSIONCTL_COMPLETE="bash_complete", COMP_WORDS="xsessionctl send a", COMP_CWORD="2")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
    assert not broker.rendezvous.exists()


def test_a_hook_outside_of_a_session_does_nothing(broker: PrivateBroker) -> None:
    done = broker.ctl("hook", "gemini", "AfterTool", stdin="{}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not broker.rendezvous.exists()
    assert broker.ctl("hook", "gemini").returncode == 2
