"""Settings files on a real disk: whose they are, where a project ends, and what was good the last time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.users import NAMELESS, STRANGER, as_user, needs_root
from xsessiond.config_files import ProjectFiles, SettingsFiles
from xsessiond.core.admission import Setting
from xsessiond.core.policy import ProjectSettings
from xsessiond.paths import Paths, resolve_paths
from xsessiond.settings_reading import MAX_BYTES, find_project, read_file

HOLD = "[inbound]\npolicy = 'hold'\n"


@pytest.fixture
def place(short_dir: Path) -> Path:
    return Path(os.path.realpath(short_dir))


@pytest.fixture
def paths(place: Path) -> Paths:
    """Those of a private broker below `place`."""
    found = resolve_paths(
        {
            "HOME": str(place),
            "XSESSIOND_RUNTIME_DIR": f"{place}/r",
            "XSESSIOND_STATE_DIR": f"{place}/s",
            "XSESSIOND_CONFIG_DIR": f"{place}/c",
            "XSESSIOND_MANAGED_CONFIG": f"{place}/etc/config.toml",
        }
    )
    (place / "c").mkdir()
    (place / "etc").mkdir()
    return found


def inbound(files: SettingsFiles) -> list[tuple[str | None, str]]:
    return [(setting.value, setting.source) for setting in files.read().inbound]


# -- the user's and the administrator's --------------------------------------------------------------------------------


def test_no_file_is_no_fault(paths: Paths) -> None:
    config = SettingsFiles(paths).read()
    assert config.ok
    assert config.inbound == ()


def test_both_files_are_read_the_managed_one_first(paths: Paths) -> None:
    Path(paths.config_file).write_text("inbound.policy = 'accept'")
    Path(paths.managed_config).write_text("\ufeff" + HOLD)  # a mark that some editors put there
    assert inbound(SettingsFiles(paths)) == [("hold", "managed"), ("accept", "user")]
    assert SettingsFiles(paths).paths() == [paths.managed_config, paths.config_file]


def test_a_broken_file_keeps_what_was_good_and_holds_at_a_cold_start(paths: Paths) -> None:
    """C1, 14.2."""
    user = Path(paths.config_file)
    user.write_text("[inbound]\npolicy = 'refuse'\n[pacing]\ntarget_burst = 5\n")
    files = SettingsFiles(paths)
    files.read()
    user.write_text("[inbound]\npolicy = accept\n")
    for _ in range(2):
        config = files.read()
        assert not config.ok
        assert config.problems == (
            f"{user}:2:10: error: The file cannot be parsed: Invalid value. What it said before stays in force.",
        )
        assert config.inbound == (Setting("refuse", "user", f"{user}:2"),)
        assert config.pacing.target_burst == 5
    assert inbound(SettingsFiles(paths)) == [(None, "user")]
    user.write_text("")
    assert files.read().ok
    assert inbound(files) == []
    user.write_text("[")
    assert inbound(files) == []  # the last good one was empty
    user.unlink()
    assert files.read().ok
    user.write_text("[")
    assert inbound(files) == [(None, "user")]


def test_a_value_that_cannot_be_is_not_the_last_good_one(paths: Paths) -> None:
    """C4: it parses, so it holds at once."""
    Path(paths.config_file).write_text("inbound.policy = 'refuse'")
    files = SettingsFiles(paths)
    files.read()
    Path(paths.config_file).write_text("inbound.policy = 'refused'")
    assert inbound(files) == [(None, "user")]


def unusable(path: str, *, project: bool = False) -> str:
    """What is said of a file that is not used."""
    file = read_file(path, project=project)
    assert file is not None
    assert file.broken
    assert set(file.unclear) >= {"inbound", "outbound", "scope"}
    return str(file.problems[0]).removeprefix(f"{path}:")


def test_what_cannot_be_read_is_broken(paths: Paths, place: Path) -> None:
    path = paths.config_file
    os.mkdir(path)
    assert unusable(path).startswith("1:1: error: The file is no ordinary file.")
    os.rmdir(path)
    os.mkfifo(path)
    assert "is no ordinary file." in unusable(path)
    os.unlink(path)
    os.symlink(f"{place}/nowhere", path)
    assert "is a link to a file that is not there." in unusable(path)
    os.unlink(path)
    os.symlink(path, path)
    assert "cannot be read: Too many levels of symbolic links." in unusable(path)
    os.unlink(path)
    Path(path).write_bytes(b"# ok\n# \xc3\xa4 \xff\n")
    assert unusable(path).startswith("2:5: error: The file is not UTF-8.")
    Path(path).write_bytes(b"#" * (MAX_BYTES + 1))
    assert "has more than" in unusable(path)


def test_a_file_that_everybody_can_write_is_broken(paths: Paths) -> None:
    path = Path(paths.config_file)
    path.write_text(HOLD)
    path.chmod(0o666)
    assert f"can be written by everybody. Run: chmod o-w '{path}'." in unusable(str(path))
    assert "can be written by everybody" in unusable(str(path), project=True)
    path.chmod(0o664)
    assert read_file(str(path)) is not None


def test_a_folder_that_everybody_can_write_makes_it_so(paths: Paths) -> None:
    """Whoever can take the file away could do that, too."""
    folder = Path(paths.config_dir)
    folder.chmod(0o777)
    for text in (HOLD, None):
        if text is None:
            os.unlink(paths.config_file)
        else:
            Path(paths.config_file).write_text(text)
        assert f"is in a folder that everybody can write in. Run: chmod o-w '{folder}'." in unusable(paths.config_file)
    folder.chmod(0o1777)
    assert read_file(paths.config_file) is None
    folder.rmdir()
    assert read_file(paths.config_file) is None
    folder.write_text("")
    assert read_file(paths.config_file) is None


@needs_root
def test_files_and_folders_of_others(paths: Paths, place: Path) -> None:
    path = paths.config_file
    Path(path).write_text(HOLD)
    os.chown(place, NAMELESS, -1)
    os.chmod(place, 0o755)
    with as_user(NAMELESS):
        assert "is in a folder" not in str(read_file(path))  # root's are the system's
    os.chown(path, STRANGER, -1)
    with as_user(NAMELESS):
        assert f"belongs to uid {STRANGER}." in unusable(path)
        project = read_file(path, project=True)
        assert project is not None
        assert (project.broken, project.ok, project.unclear) == (False, True, {})
        assert str(project.problems[0]).endswith(f"warning: The file belongs to uid {STRANGER}. It is passed over.")
    os.chown(path, 0, -1)
    os.chmod(path, 0o600)
    with as_user(NAMELESS):
        assert "cannot be read: Permission denied." in unusable(path)
        assert "cannot be read: Permission denied." in unusable(path, project=True)
    os.unlink(path)
    os.chown(paths.config_dir, STRANGER, -1)
    with as_user(NAMELESS):
        assert f"is in a folder that belongs to uid {STRANGER}." in unusable(path)
    os.chmod(place, 0o700)
    os.chown(place, STRANGER, -1)
    with as_user(NAMELESS):
        assert "Permission denied." in unusable(path)


# -- projects ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(place: Path) -> Path:
    """A repository with a folder in it."""
    (place / "p/.git").mkdir(parents=True)
    (place / "p/a/b").mkdir(parents=True)
    return place / "p"


def test_a_project_reaches_from_the_folder_up_to_its_repository(repository: Path, place: Path) -> None:
    root = str(repository)
    assert find_project(f"{root}/a/b") == ([root, f"{root}/a", f"{root}/a/b"], root)
    assert find_project(root) == ([root], root)
    (place / "link").symlink_to(repository / "a")
    assert find_project(f"{place}/link") == ([root, f"{root}/a"], root)
    (repository / "a/.git").write_text("gitdir: elsewhere")  # a work tree or a submodule
    assert find_project(f"{root}/a/b") == ([f"{root}/a", f"{root}/a/b"], f"{root}/a")


def test_without_a_repository_it_is_the_folder_alone(place: Path) -> None:
    (place / "x/y").mkdir(parents=True)
    (place / "x/.xsessiond.toml").write_text(HOLD)
    assert find_project(f"{place}/x/y") == ([f"{place}/x/y"], f"{place}/x/y")
    assert ProjectFiles(f"{place}/x/y").read() == ProjectSettings(root=f"{place}/x/y")


@pytest.mark.parametrize("cwd", ["", "relative", "/nowhere/at/all", "/a\0b", "/\ud800"])
def test_a_folder_that_is_none_is_no_project(cwd: str) -> None:
    assert find_project(cwd) == ([], None)
    files = ProjectFiles(cwd)
    assert files.read() == ProjectSettings()
    assert isinstance(files.paths(), list)


@pytest.mark.parametrize("cwd", ["/proc/1/root", "/proc/1/cwd/x"])
def test_a_link_that_may_not_be_read_stops_nobody(cwd: str) -> None:
    """Anybody may claim such a folder; what the system lets us see of it is its project, or it has none."""
    folders, root = find_project(cwd)
    assert ProjectFiles(cwd).read().root == root
    assert bool(folders) is (root is not None)


@needs_root
def test_a_repository_of_somebody_else_does_not_say_what_belongs_together(repository: Path) -> None:
    os.chown(repository / ".git", STRANGER, -1)
    assert find_project(f"{repository}/a/b") == ([f"{repository}/a/b"], f"{repository}/a/b")


def test_all_files_of_a_project_tighten(repository: Path) -> None:
    """H10."""
    (repository / ".xsessiond.toml").write_text("[inbound]\npolicy = 'accept'\nscope = 'project'\n")
    (repository / "a/.xsessiond.local.toml").write_text(HOLD)
    (repository / "a/b/.xsessiond.toml").write_text("[outbound]\npolicy = 'refuse'\n[sessions]\noff = true\n")
    found = ProjectFiles(f"{repository}/a/b").read()
    assert found.root == str(repository)
    assert found.inbound == (Setting("hold", "project", f"{repository}/a/.xsessiond.local.toml:2"),)
    assert found.scope == (Setting("project", "project", f"{repository}/.xsessiond.toml:3"),)
    assert found.outbound == (Setting("refuse", "project", f"{repository}/a/b/.xsessiond.toml:2"),)
    assert found.off
    assert len(found.problems) == 1


def test_a_broken_project_file_holds_beside_what_was_good(repository: Path) -> None:
    """H10, C1: at once, and it loosens nothing that the file said before."""
    file = repository / ".xsessiond.toml"
    files = ProjectFiles(str(repository))
    file.write_text("[")
    assert [setting.value for setting in files.read().inbound] == [None]
    file.write_text("inbound.policy = 'refuse'")
    assert [setting.value for setting in files.read().inbound] == ["refuse"]
    file.write_text("[")
    for _ in range(2):
        found = files.read()
        assert [setting.value for setting in found.inbound] == ["refuse", None]
        assert [setting.value for setting in found.outbound] == [None]
        assert len(found.problems) == 1
    file.unlink()
    assert files.read() == ProjectSettings(root=str(repository))


def test_a_folder_that_was_moved_keeps_what_it_said(repository: Path, place: Path) -> None:
    (repository / ".xsessiond.toml").write_text(HOLD)
    files = ProjectFiles(str(repository / "a"))
    before = files.read()
    assert before.inbound
    repository.rename(place / "q")
    assert files.read() == before
