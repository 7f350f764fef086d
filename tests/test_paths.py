"""The rule for every path: one answer for one user, whatever the environment."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.users import NAMELESS, STRANGER, as_user, needs_root
from xsessiond import paths
from xsessiond.paths import HomeUnknown, SocketPathTooLong, UnsafePath, recorded_runtime_dir, resolve_paths

UID = os.geteuid()
ROOT = Path(__file__).parent.parent


class Machine:
    """A made-up machine below one directory: /run/user, a home, a place for short directories."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run_user = root / "run"
        self.login = self.run_user / str(UID)
        self.home = root / "home"
        self.tmp = root / "tmp"
        for path in (self.run_user, self.login, self.home, self.tmp):
            path.mkdir(mode=0o700)
        self.run_user.chmod(0o755)
        self.tmp.chmod(0o1777)
        root.chmod(0o755)

    @property
    def default(self) -> str:
        return f"{self.home}/.local/state/xsessiond/run"


@pytest.fixture
def machine(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(short_dir)
    monkeypatch.setattr(paths, "RUN_USER", str(made.run_user))
    monkeypatch.setattr(paths, "SHORT_BASE", str(made.tmp))
    return made


ENVIRONMENTS = {
    "login": {"HOME": "{home}", "XDG_RUNTIME_DIR": "{login}", "LANG": "en_US.UTF-8", "XDG_SESSION_ID": "3"},
    "login, with a slash at the end": {"HOME": "{home}", "XDG_RUNTIME_DIR": "{login}/"},
    "cron": {"HOME": "{home}", "LOGNAME": "u", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"},
    "ssh without a session manager": {"HOME": "{home}", "SSH_CONNECTION": "::1 1 ::1 22"},
    "service": {"HOME": "{home}", "XDG_RUNTIME_DIR": "{login}", "INVOCATION_ID": "1"},
    "empty": {},
    "LANG=C": {"HOME": "{home}", "LANG": "C", "LC_ALL": "C"},
    "su, which keeps the variable of who called it": {"HOME": "{home}", "XDG_RUNTIME_DIR": "{run_user}/1"},
    "sudo, which clears it": {"HOME": "{home}", "SUDO_UID": "1000"},
    "a variable that leads nowhere": {"HOME": "{home}", "XDG_RUNTIME_DIR": "{root}/missing"},
    "a variable that is no path": {"HOME": "{home}", "XDG_RUNTIME_DIR": "run/user/1000"},
    "an empty variable": {"HOME": "{home}", "XDG_RUNTIME_DIR": ""},
}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_environment_finds_the_same_place(
    machine: Machine, environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1, 15.3: login, cron, su, ssh and a service have one rendezvous."""
    monkeypatch.setattr(paths, "_home_of", lambda uid: str(machine.home))
    fields = vars(machine)
    environ = {name: value.format(**fields) for name, value in ENVIRONMENTS[environment].items()}
    found = resolve_paths(environ, platform="linux")
    assert found.runtime_dir == f"{machine.login}/xsessiond"
    assert found.broker_socket == f"{machine.login}/xsessiond/broker.sock"
    assert found.session_dir == f"{machine.login}/xsessiond/s"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_environment_finds_the_same_place_without_logind(
    machine: Machine, environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1, P5: nobody is logged in, or the system has no /run/user."""
    monkeypatch.setattr(paths, "_home_of", lambda uid: str(machine.home))
    machine.login.rmdir()
    fields = vars(machine)
    environ = {name: value.format(**fields) for name, value in ENVIRONMENTS[environment].items()}
    found = resolve_paths(environ, platform="linux")
    assert found.runtime_dir == machine.default
    assert found.state_dir == f"{machine.home}/.local/state/xsessiond"
    assert found.config_file == f"{machine.home}/.config/xsessiond/config.toml"
    assert found.managed_config == "/etc/xsessiond/config.toml"


@needs_root
def test_what_su_left_behind_is_passed_over(machine: Machine) -> None:
    """I1: the runtime, state and config dir of the user that called `su`, and its HOME, are not ours."""
    theirs = machine.root / "theirs"
    theirs.mkdir(mode=0o755)
    os.chown(theirs, STRANGER, STRANGER)
    environ = {
        "HOME": str(theirs),
        "XDG_RUNTIME_DIR": str(theirs),
        "XDG_STATE_HOME": str(theirs / "state"),
        "XDG_CONFIG_HOME": str(theirs),
    }
    found = resolve_paths(environ, platform="linux")
    home = pwd.getpwuid(UID).pw_dir
    assert found.runtime_dir == f"{machine.login}/xsessiond"
    assert found.state_dir == f"{home}/.local/state/xsessiond"
    assert found.config_dir == f"{home}/.config/xsessiond"
    assert found.notes == (
        f"XDG_RUNTIME_DIR={theirs} is passed over: it belongs to uid {STRANGER}, not to uid {UID}.",
        f"XDG_STATE_HOME={theirs}/state is passed over: {theirs} belongs to uid {STRANGER}.",
        f"HOME={theirs} is passed over for {home}: it does not belong to uid {UID}.",
        f"XDG_CONFIG_HOME={theirs} is passed over: {theirs} belongs to uid {STRANGER}.",
    )


@needs_root
def test_a_user_without_an_entry_uses_the_home_it_was_given(machine: Machine) -> None:
    """A container's made-up uid."""
    os.chown(machine.home, NAMELESS, NAMELESS)
    with as_user(NAMELESS):
        assert resolve_paths({"HOME": str(machine.home)}).state_dir == f"{machine.home}/.local/state/xsessiond"
        assert resolve_paths({"HOME": "/"}).state_dir == "/.local/state/xsessiond"
        with pytest.raises(HomeUnknown, match=r"Neither HOME .* uid 54321.* Set HOME, or"):
            resolve_paths({})
        given = {f"XSESSIOND_{name}_DIR": f"/{name}" for name in ("RUNTIME", "STATE", "CONFIG")}
        assert resolve_paths(given).config_dir == "/CONFIG"


def test_without_home_the_user_database_is_asked() -> None:
    """I1: `env -i`."""
    try:
        home = pwd.getpwuid(UID).pw_dir
    except KeyError:
        pytest.skip("the user that runs this has no entry")
    assert resolve_paths({}).config_dir == f"{home.rstrip('/')}/.config/xsessiond"


def test_the_first_rule_that_applies_wins(machine: Machine) -> None:
    given = machine.root / "given"
    environ = {
        "HOME": str(machine.home),
        "XSESSIOND_RUNTIME_DIR": f"{given}//r/",
        "XDG_RUNTIME_DIR": str(machine.login),
    }
    found = resolve_paths(environ, platform="linux")
    assert (found.runtime_dir, found.sources["runtime_dir"]) == (f"{given}/r", "XSESSIOND_RUNTIME_DIR")
    assert found.explicit
    del environ["XSESSIOND_RUNTIME_DIR"]
    found = resolve_paths(environ, platform="linux")
    assert found.sources["runtime_dir"] == "XDG_RUNTIME_DIR"
    assert not found.explicit
    del environ["XDG_RUNTIME_DIR"]
    assert resolve_paths(environ, platform="linux").sources["runtime_dir"] == str(machine.login)
    machine.login.rmdir()
    assert resolve_paths(environ, platform="linux").sources["runtime_dir"] == "default"


def test_a_custom_runtime_dir_counts_if_it_is_ours_and_private(machine: Machine) -> None:
    custom = machine.root / "custom"
    custom.mkdir(mode=0o700)
    environ = {"HOME": str(machine.home), "XDG_RUNTIME_DIR": str(custom)}
    assert resolve_paths(environ, platform="linux").runtime_dir == f"{custom}/xsessiond"
    custom.chmod(0o750)
    found = resolve_paths(environ, platform="linux")
    assert found.runtime_dir == f"{machine.login}/xsessiond"
    assert found.notes == (f"XDG_RUNTIME_DIR={custom} is passed over: its mode is 0750, not 0700.",)


def test_state_and_config_follow_their_variables(machine: Machine) -> None:
    environ = {"HOME": str(machine.home), "XDG_STATE_HOME": f"{machine.home}/a", "XDG_CONFIG_HOME": f"{machine.home}/b"}
    found = resolve_paths(environ)
    assert (found.state_dir, found.config_dir) == (f"{machine.home}/a/xsessiond", f"{machine.home}/b/xsessiond")
    environ |= {"XSESSIOND_STATE_DIR": "/c", "XSESSIOND_CONFIG_DIR": "/d", "XSESSIOND_MANAGED_CONFIG": "/e.toml"}
    found = resolve_paths(environ)
    assert (found.state_dir, found.config_dir, found.managed_config) == ("/c", "/d", "/e.toml")
    assert (found.store_file, found.log_file) == ("/c/store.db", "/c/xsessiond.log")


@pytest.mark.parametrize(
    "name",
    [
        "XSESSIOND_RUNTIME_DIR",
        "XSESSIOND_STATE_DIR",
        "XSESSIOND_CONFIG_DIR",
        "XSESSIOND_MANAGED_CONFIG",
        "XDG_STATE_HOME",
    ],
)
def test_a_relative_path_is_ignored_and_said(machine: Machine, name: str) -> None:
    plain = {"HOME": str(machine.home)}
    found = resolve_paths({**plain, name: "~/here"}, platform="linux")
    assert f"{name}=~/here is ignored: it is not an absolute path." in found.notes
    expected = resolve_paths(plain, platform="linux")
    assert (found.runtime_dir, found.state_dir) == (expected.runtime_dir, expected.state_dir)
    assert (found.config_dir, found.managed_config) == (expected.config_dir, expected.managed_config)


def test_macos(machine: Machine) -> None:
    """There is no /run/user; Finder, Terminal and ssh share the user's Library."""
    found = resolve_paths({"HOME": str(machine.home)}, platform="darwin")
    assert found.runtime_dir == f"{machine.home}/Library/Application Support/xsessiond/run"


# ------------------------------------------------------------------------------------------------- what others prepared


def make_link(path: Path) -> None:
    (path.parent / "elsewhere").mkdir()
    path.symlink_to("elsewhere")


def make_writable(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def make_foreign(path: Path) -> None:
    path.mkdir()
    os.chown(path, STRANGER, STRANGER)


HOSTILE = [
    pytest.param(make_link, "it is a symbolic link", id="link"),
    pytest.param(make_writable, "others can write in it (mode 0777)", id="writable"),
    pytest.param(make_foreign, f"it belongs to uid {STRANGER}, not to uid {UID}", id="foreign", marks=needs_root),
    pytest.param(Path.touch, "it is not a directory", id="file"),
]


@pytest.mark.parametrize("make, reason", HOSTILE)
def test_a_prepared_candidate_is_passed_over(machine: Machine, make, reason: str) -> None:
    """S17: each candidate that somebody else could have made is refused, the home is left, and why is said."""
    custom = machine.root / "custom"
    custom.mkdir(mode=0o700)
    make(custom / "xsessiond")
    make(machine.login / "xsessiond")
    found = resolve_paths({"HOME": str(machine.home), "XDG_RUNTIME_DIR": str(custom)}, platform="linux")
    assert found.runtime_dir == machine.default
    assert found.notes == (
        f"{custom}/xsessiond is passed over: {reason}.",
        f"{machine.login}/xsessiond is passed over: {reason}.",
    )


@pytest.mark.parametrize("make, reason", HOSTILE)
def test_what_was_named_is_never_replaced(machine: Machine, make, reason: str) -> None:
    """S17: who sets the variable wants that broker or none; using it is refused later, by `ensure_private_dir`."""
    make(machine.root / "named")
    environ = {"HOME": str(machine.home), "XSESSIOND_RUNTIME_DIR": f"{machine.root}/named"}
    assert resolve_paths(environ).runtime_dir == f"{machine.root}/named"


@pytest.mark.parametrize("mode", [0o775, 0o777, 0o1777])
def test_a_login_dir_that_others_can_write_is_not_used(machine: Machine, mode: int) -> None:
    machine.login.chmod(mode)
    assert resolve_paths({"HOME": str(machine.home)}, platform="linux").runtime_dir == machine.default


# --------------------------------------------------------------------------------------------------------- long paths


@pytest.fixture
def long_home(machine: Machine) -> Iterator[Path]:
    machine.login.rmdir()
    home = machine.root / ("h" * 150)
    home.mkdir()
    yield home
    shutil.rmtree(home)


def test_a_long_path_moves_and_is_not_cut(machine: Machine, long_home: Path) -> None:
    """P8: a HOME of 150 characters."""
    wanted = f"{long_home}/.local/state/xsessiond/run"
    found = resolve_paths({"HOME": str(long_home)}, platform="linux")
    assert Path(found.runtime_dir).parent == machine.tmp
    assert found.sources["runtime_dir"] == (
        f"default, moved from {wanted} ({len(wanted)} bytes; sockets leave room for 83)"
    )
    assert found.state_dir == f"{long_home}/.local/state/xsessiond"  # files have no such limit
    paths.check_socket_path(found.session_socket("f" * paths.LONGEST_REF), platform="darwin")


def test_both_sides_move_to_the_same_place_and_different_paths_to_different_ones(machine: Machine) -> None:
    """P8."""
    base = f"{machine.root}/{'x' * 120}"
    first, again, other, explicit = (
        resolve_paths(environ, platform="linux").runtime_dir
        for environ in (
            {"XSESSIOND_RUNTIME_DIR": f"{base}/a", "HOME": "/"},
            {"XSESSIOND_RUNTIME_DIR": f"{base}//a/", "HOME": "/"},
            {"XSESSIOND_RUNTIME_DIR": f"{base}/b", "HOME": "/"},
            {"XSESSIOND_RUNTIME_DIR": base, "HOME": "/"},
        )
    )
    assert first == again
    assert len({first, other, explicit}) == 3


@pytest.mark.parametrize("platform, limit", [("linux", 107), ("darwin", 103)])
def test_the_border_is_the_platform_s(machine: Machine, platform: str, limit: int) -> None:
    """P8: the longest socket just fits, and one byte more moves."""
    room = limit - len("/s/" + "f" * 16 + ".sock")
    fits = "/" + "d" * (room - 1)
    found = resolve_paths({"XSESSIOND_RUNTIME_DIR": fits, "HOME": "/"}, platform=platform)
    assert found.runtime_dir == fits
    assert len(found.session_socket("f" * 16)) == limit
    with pytest.raises(SocketPathTooLong) as refused:
        found.session_socket("f" * 17)
    assert refused.value.reason == (
        f"The path of the socket {fits}/s/{'f' * 17}.sock has {limit + 1} bytes, and this system allows {limit}. "
        "Set XSESSIOND_RUNTIME_DIR to a shorter directory."
    )
    moved = resolve_paths({"XSESSIOND_RUNTIME_DIR": fits + "d", "HOME": "/"}, platform=platform)
    assert Path(moved.runtime_dir).parent == machine.tmp


def test_bytes_count_and_not_characters(machine: Machine) -> None:
    """P8."""
    found = resolve_paths({"XSESSIOND_RUNTIME_DIR": "/" + "ü" * 60, "HOME": "/"}, platform="linux")
    assert Path(found.runtime_dir).parent == machine.tmp


@needs_root
def test_a_taken_short_directory_is_passed_over(machine: Machine, long_home: Path) -> None:
    """S17, P8: another account cannot keep us out by guessing the name."""
    environ = {"HOME": str(long_home)}
    taken = []
    for _ in range(paths.SHORT_TRIES):
        short = resolve_paths(environ, platform="linux").runtime_dir
        assert short not in taken
        make_foreign(Path(short))
        taken.append(short)
    with pytest.raises(
        UnsafePath, match=r"too long for sockets, and every short directory .* Set XSESSIOND_RUNTIME_DIR"
    ):
        resolve_paths(environ, platform="linux")


# ------------------------------------------------------------------------------------------------- where a broker runs


@pytest.fixture
def elsewhere(machine: Machine) -> Path:
    """A runtime dir where a broker of this user ran, and the word about it in the state dir."""
    place = machine.root / "elsewhere"
    place.mkdir(mode=0o700)
    state = machine.home / ".local/state/xsessiond"
    state.mkdir(parents=True)
    (state / "rendezvous").symlink_to(place)
    return place


def test_a_broker_that_runs_elsewhere_is_found(machine: Machine, elsewhere: Path) -> None:
    """P5: started before the login, or where XDG_RUNTIME_DIR is another one."""
    found = resolve_paths({"HOME": str(machine.home)}, platform="linux")
    assert recorded_runtime_dir(found) == str(elsewhere)
    moved = found.at_runtime_dir(str(elsewhere), "recorded by the broker")
    assert moved.broker_socket == f"{elsewhere}/broker.sock"
    assert (moved.state_dir, moved.config_dir) == (found.state_dir, found.config_dir)
    assert moved.sources["runtime_dir"] == "recorded by the broker"
    assert recorded_runtime_dir(moved) is None  # it is where we are


def test_who_named_a_place_is_not_sent_elsewhere(machine: Machine, elsewhere: Path) -> None:
    environ = {"HOME": str(machine.home), "XSESSIOND_RUNTIME_DIR": f"{machine.root}/mine"}
    assert recorded_runtime_dir(resolve_paths(environ)) is None


def test_a_recorded_place_that_is_gone_or_not_safe_is_not_followed(machine: Machine, elsewhere: Path) -> None:
    """S17."""
    found = resolve_paths({"HOME": str(machine.home)}, platform="linux")
    elsewhere.chmod(0o755)
    assert recorded_runtime_dir(found) is None
    elsewhere.rmdir()
    assert recorded_runtime_dir(found) is None
    word = Path(found.recorded_link)
    word.unlink()
    assert recorded_runtime_dir(found) is None
    word.symlink_to("relative")
    assert recorded_runtime_dir(found) is None


@needs_root
def test_a_word_that_somebody_else_left_is_not_followed(machine: Machine, elsewhere: Path) -> None:
    """S17."""
    found = resolve_paths({"HOME": str(machine.home)}, platform="linux")
    os.chown(found.recorded_link, STRANGER, STRANGER, follow_symlinks=False)
    assert recorded_runtime_dir(found) is None


# ------------------------------------------------------------------------------------------------------ real programs


def run(program: str, **environ: str) -> str:
    return subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {program}"],
        env={"LC_ALL": "C", **environ},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout.strip()


def test_the_locale_does_not_matter(short_dir: Path) -> None:
    """I1: LANG=C, and a home whose name is not ASCII; the short directory depends on the bytes alone."""
    home = f"{short_dir}/" + "ü" * 100
    program = "import os; from xsessiond.paths import resolve_paths; print(os.fsencode(resolve_paths().runtime_dir))"
    answers = {
        run(program, HOME=home, LC_ALL=locale, PYTHONUTF8=utf8, XDG_RUNTIME_DIR=f"{short_dir}/none")
        for locale in ("C", "POSIX", "C.UTF-8")
        for utf8 in ("0", "1")
    }
    assert len(answers) == 1


def test_what_a_hook_pays_for_is_little() -> None:
    loaded = set(run("import xsessiond.paths; print(*sys.modules)").split())
    before = set(run("print(*sys.modules)").split())
    assert loaded - before == {"xsessiond", "xsessiond.paths"}
