"""Every verb keeps the promises that all of them make: a test that walks the command tree."""

from __future__ import annotations

import json

import click
import pytest

from tests.support.generate_cli_reference import TARGET, every_verb, make_reference
from tests.support.private_broker import PrivateBroker
from xsessionctl import cli
from xsessionctl.cli import PROGRAM, VERBS, tree
from xsessionctl.options import EXIT_MEANINGS, Verb
from xsessiond.core.errors import CODES, EXIT_CODES

WORDS = {
    "send": ["nobody", "hello"],
    "show": ["m-5f0c"],
    "approve": ["--all"],
    "deny": ["--all"],
    "trust revoke": ["t-5f0c"],
    "explain": ["--from", "human", "--to", "api"],
    "rename": ["other"],
    "config get": ["inbound.policy"],
    "config set": ["inbound.policy", "hold"],
    "completion": ["bash"],
    "service install": ["--dry-run"],
    "service uninstall": ["--dry-run"],
    "run": ["gemini"],
    "install": ["claude", "--dry-run"],
    "list": [],
    "grant": ["--list"],
}
"""What a verb needs besides its name."""
NOT_RUN_HERE = {"mcp", "hook", "bridge", "demo"}
"""mcp, hook and bridge speak other protocols on standard output; demo has its own test."""
ALL = every_verb()
ASKED = sorted(ALL.keys() - NOT_RUN_HERE, key=lambda name: (name == "stop", name))


def verb_of(name: str) -> Verb:
    return ALL[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_verb_has_help_with_an_example(name: str, broker: PrivateBroker) -> None:
    done = broker.ctl(*name.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Usage: xsessionctl {name}" in done.stdout
    examples = done.stdout.partition("Examples:")[2].partition("Exit codes:")[0]
    assert "xsession" in examples
    assert name in examples
    assert not broker.rendezvous.exists(), "help must not start a broker"


@pytest.mark.parametrize("name", ALL)
def test_every_verb_has_the_common_options(name: str) -> None:
    options = {word for param in verb_of(name).params for word in param.opts}
    assert {"--json", "--color"} <= options
    assert ("--timeout" in options) == (
        name not in {"mcp", "hook", "bridge", "demo", "completion", "config check", "install", "uninstall", "run"}
    )


@pytest.mark.parametrize("name", ALL)
def test_every_verb_says_how_it_exits(name: str) -> None:
    verb = verb_of(name)
    assert verb.examples
    assert list(verb.exits) == sorted(set(verb.exits))
    assert set(verb.exits) <= EXIT_MEANINGS.keys() - {0, 1, 2}


@pytest.mark.parametrize("name", VERBS)
def test_the_overview_says_what_the_verbs_own_help_says(name: str) -> None:
    command = tree.get_command(click.Context(tree, info_name=PROGRAM), name)
    assert command is not None
    first = (command.help or "").splitlines()[0]
    assert first == VERBS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_json_is_one_document_alone_on_standard_output(name: str, shared: PrivateBroker) -> None:
    """O3: the human header contaminates JSON."""
    done = shared.ctl(*name.split(), *WORDS.get(name, []), "--json")
    document = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert done.stdout.isascii()
    assert done.stderr == ""
    assert ("error" in document) == (done.returncode != 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_a_failure_without_json_is_on_standard_error(name: str, broker: PrivateBroker) -> None:
    """O5: each error has its cause and the next step."""
    done = broker.ctl(*name.split(), "--no-such-option")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("xsessionctl: ")
    assert f"See `xsessionctl {name} --help`." in done.stderr


@pytest.mark.parametrize("name", ASKED)
def test_a_failure_with_json_is_a_document(name: str, broker: PrivateBroker) -> None:
    """O5: also as JSON."""
    done = broker.ctl(*name.split(), "--json", "--no-such-option")
    assert (done.returncode, done.stderr) == (2, "")
    error = json.loads(done.stdout)["error"]
    assert error.keys() == {"code", "text", "hint", "candidates", "retry_after_s", "detail"}
    assert error["code"] == "usage"


def test_every_error_code_has_an_exit_code_of_the_table() -> None:
    """O4: a failure is never exit 0."""
    assert EXIT_CODES.keys() == set(CODES)
    assert set(EXIT_CODES.values()) <= EXIT_MEANINGS.keys() - {0}


def test_the_reference_is_what_the_tree_says() -> None:
    """O8: documented commands exist, and commands are documented."""
    assert TARGET.read_text(encoding="utf-8") == make_reference(), "run: python -m tests.support.generate_cli_reference"


def test_an_unknown_verb_is_refused_with_the_nearest(broker: PrivateBroker) -> None:
    done = broker.ctl("lsit")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean `list`?" in done.stderr


@pytest.mark.parametrize(
    "words, text",
    [
        (("rename",), "Missing argument 'NEW'."),
        (("completion",), "Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish"),
        (("--color", "never"), "--color stands after the verb, as in `xsessionctl list --color never`."),
        (("--timeout", "3", "list"), "--timeout stands after the verb, as in `xsessionctl list --timeout 5`."),
        (("--jsn", "list"), "No such option '--jsn'."),
        (("list", "--jsn"), "No such option '--jsn'. Did you mean '--json'?"),
    ],
)
def test_wrong_usage_says_what_to_write(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str) -> None:
    """O5: each in one sentence, with the next step."""
    assert cli.run(words) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"xsessionctl: {text}")
    assert second.startswith("  See `xsessionctl ")


def test_help_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["help"]) == 0
    assert "Verbs:" in capsys.readouterr().out
    assert cli.run(["help", "send"]) == 0
    assert capsys.readouterr().out.startswith("Usage: xsessionctl send ")


def test_without_a_verb_there_is_the_overview(broker: PrivateBroker) -> None:
    done = broker.ctl()
    assert done.returncode == 2
    assert all(f"  {name}" in done.stdout for name in VERBS)


def test_version_names_both_programs(broker: PrivateBroker) -> None:
    """O8: `--version` shows both, and starts nothing."""
    without = broker.ctl("--version")
    assert (without.returncode, without.stderr) == (0, "")
    assert without.stdout.splitlines()[1] == "xsessiond not running"
    process = broker.start()
    lines = broker.ctl("--version").stdout.splitlines()
    assert lines[0].startswith("xsessionctl ")
    assert lines[1] == f"xsessiond {lines[0].split()[1]} (pid {process.pid})"
