"""Settings follow their files, on a real file system with the kernel's reports, however an editor saves them."""
# ruff: noqa: ASYNC240 - files are what it is about, and nobody else runs in the loop

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from tests.test_config_files import HOLD, paths, place, repository
from xsessiond.config import Config
from xsessiond.config_files import ProjectFiles, SettingsFiles
from xsessiond.core.policy import ProjectSettings
from xsessiond.io import settings
from xsessiond.io.settings import SettingsSource, find_places
from xsessiond.paths import Paths

__all__ = ["paths", "place", "repository"]

REFUSE = "[inbound]\npolicy = 'refuse'\n"


class Heard:
    """A source that runs, and what it told."""

    def __init__(self, where: Paths) -> None:
        files = SettingsFiles(where)
        self.config = files.read()
        self.told: list[str | None] = []
        self.projects: list[tuple[str, ProjectSettings]] = []
        self.reports: list[str] = []
        self._news = trio.Event()
        self.source = SettingsSource(files, self.config, self._settings, self._project, self.reports.append)

    def _settings(self, config: Config) -> None:
        self.config = config
        self.told.append(inbound_of(config))
        self._wake()

    def _project(self, session_id: str, project: ProjectSettings) -> None:
        self.projects.append((session_id, project))
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def wait_until(self, what: Callable[[], bool], within_s: float = 20.0) -> None:
        """Return when `what` is true of what was told. It comes within a second; a machine that stalls takes longer."""
        with trio.fail_after(within_s):
            while not what():
                await self._news.wait()

    async def hear(self, value: str | None) -> None:
        """Wait until the user's policy is in force."""
        await self.wait_until(lambda: inbound_of(self.config) == value)

    def policies(self, session_id: str) -> list[list[str | None]]:
        """What was told of a session's project."""
        return [[one.value for one in project.inbound] for found, project in self.projects if found == session_id]


def inbound_of(config: Config) -> str | None:
    return config.inbound[-1].value if config.inbound else "unset"


@pytest.fixture
def file(paths: Paths) -> Path:
    """The user's file, not there yet."""
    return Path(paths.config_file)


@pytest.fixture
def managed(paths: Paths) -> Path:
    """The administrator's."""
    return Path(paths.managed_config)


@pytest.fixture
async def heard(paths: Paths, nursery: trio.Nursery) -> Heard:
    found = Heard(paths)
    await nursery.start(found.source.run)
    await settled(found)
    return found


async def settled(heard: Heard) -> None:
    """Return when all is read and watched."""
    with trio.fail_after(20):
        for group in (heard.source._own, *heard.source._projects.values()):
            await group.idle.wait()


# -- the user's and the administrator's files --------------------------------------------------------------------------


async def test_every_way_to_save_is_noticed(heard: Heard, file: Path) -> None:
    """C5, 14.3: made, written in place, renamed over, linked, allowed again, taken away."""
    file.write_text(HOLD)
    await heard.hear("hold")
    descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC)
    os.write(descriptor, REFUSE.encode())
    os.close(descriptor)
    await heard.hear("refuse")
    (file.parent / ".config.toml.swp").write_text(HOLD)
    (file.parent / ".config.toml.swp").rename(file)
    await heard.hear("hold")
    file.rename(file.parent / "config.toml~")  # a backup first, as vim may do it
    file.write_text(REFUSE)
    await heard.hear("refuse")
    file.chmod(0o666)
    await heard.wait_until(lambda: not heard.config.ok)
    assert inbound_of(heard.config) == "refuse"
    file.chmod(0o600)
    await heard.wait_until(lambda: heard.config.ok)
    file.unlink()
    await heard.hear("unset")
    assert heard.told == ["hold", "refuse", "hold", "refuse", "refuse", "refuse", "unset"]


async def test_a_broken_file_changes_nothing_and_is_told(heard: Heard, file: Path) -> None:
    """C1."""
    file.write_text(REFUSE)
    await heard.hear("refuse")
    file.write_text("[inbound]\npolicy = refuse\n")
    await heard.wait_until(lambda: not heard.config.ok)
    assert inbound_of(heard.config) == "refuse"
    assert heard.config.problems[0].startswith(f"{file}:2:10: error:")
    file.write_text(HOLD)
    await heard.hear("hold")
    assert heard.config.ok


async def test_the_managed_file_and_new_folders_are_noticed(heard: Heard, file: Path, managed: Path) -> None:
    shutil.rmtree(managed.parent)
    shutil.rmtree(file.parent)
    file.parent.mkdir()
    file.write_text(HOLD)
    await heard.hear("hold")
    managed.parent.mkdir()
    managed.write_text(REFUSE)
    await heard.wait_until(lambda: heard.config.inbound[0].source == "managed")
    file.parent.rename(file.parent.with_name("moved"))
    await heard.wait_until(lambda: len(heard.config.inbound) == 1)
    file.parent.with_name("moved").rename(file.parent)
    await heard.wait_until(lambda: len(heard.config.inbound) == 2)


async def test_linked_files_are_noticed_where_they_are(heard: Heard, file: Path, place: Path) -> None:
    """Dotfiles that are links into a repository, and folders that are switched by one link."""
    for name, text in (("one", HOLD), ("two", REFUSE)):
        (place / "dots" / name).mkdir(parents=True)
        (place / "dots" / name / "x.toml").write_text(text)
    (place / "dots/now").symlink_to("one")
    file.symlink_to("../dots/now/x.toml")
    await heard.hear("hold")
    (place / "dots/one/x.toml").write_text(REFUSE)
    await heard.hear("refuse")
    (place / "dots/one/x.toml").write_text(HOLD)
    await heard.hear("hold")
    (place / "dots/next").symlink_to("two")
    (place / "dots/next").rename(place / "dots/now")
    await heard.hear("refuse")


@pytest.mark.slow
async def test_a_file_that_is_away_for_a_moment_loosens_nothing(heard: Heard, file: Path) -> None:
    """14.2: between the old file and the new one there is a time without any, and one with an empty one."""
    file.write_text(HOLD)
    await heard.hear("hold")
    await settled(heard)
    for text in (REFUSE, HOLD, REFUSE):
        file.unlink()
        await trio.sleep(2 * settings.GATHER_S)  # longer than anything else is waited for
        file.write_text("")
        await trio.sleep(2 * settings.GATHER_S)
        file.write_text(text)
        await heard.hear(inbound_word(text))
    assert "unset" not in heard.told


def inbound_word(text: str) -> str:
    return text.split("'")[1]


async def test_half_a_file_is_not_read(heard: Heard, file: Path) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    for part in (b"[inbound]\n", b"policy =", b" 'hold'\n", b"[outbound]\n", b"policy = 'refuse'\n"):
        os.write(descriptor, part)
        await trio.sleep(settings.GATHER_S / 2)
    os.close(descriptor)
    await heard.hear("hold")
    assert heard.told == ["hold"]
    assert heard.config.ok


async def test_what_happens_beside_it_is_of_no_interest(heard: Heard, file: Path, repository: Path) -> None:
    """15.6: a folder in which much happens costs a look now and then, and no reading."""
    heard.source.watch_project("s-1", str(repository))
    await heard.wait_until(lambda: bool(heard.projects))
    await settled(heard)
    read = []
    real = ProjectFiles.read
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProjectFiles, "read", lambda files: read.append(files) or real(files))  # type: ignore[func-returns-value]
        for number in range(2000):
            (repository / f"{number}.o").write_text("x")
        (repository / ".git/index").write_text("x")
        file.write_text(HOLD)
        await heard.hear("hold")
    assert len(read) <= 2
    assert heard.told == ["hold"]
    assert len(heard.projects) == 1


async def test_reloading_tells_in_any_case(heard: Heard) -> None:
    heard.source.reload()
    await heard.wait_until(lambda: heard.told == ["unset"])
    for _ in range(50):
        heard.source.reload()
    await heard.wait_until(lambda: len(heard.told) >= 2)
    await settled(heard)
    assert len(heard.told) <= 3


async def test_what_was_asked_before_it_runs_is_done_then(
    paths: Paths, file: Path, repository: Path, nursery: trio.Nursery
) -> None:
    found = Heard(paths)
    file.write_text(HOLD)
    found.source.watch_project("s-1", str(repository))
    found.source.reload()
    await nursery.start(found.source.run)
    await found.hear("hold")
    await found.wait_until(lambda: bool(found.projects))


async def test_without_watches_it_is_said_and_reloading_still_works(
    paths: Paths, file: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(settings, "PathWatch", fail)
    found = Heard(paths)
    await nursery.start(found.source.run)
    assert found.reports == ["Not all changes of settings files are noticed: Too many open files."]
    file.write_text(HOLD)
    found.source.reload()
    await found.hear("hold")


async def test_a_full_table_of_watches_is_said_once(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(settings.PathWatch, "watch_names", fail)
    for count in (1, 2):
        heard.source.reload()
        await heard.wait_until(lambda: len(heard.told) == count)  # noqa: B023 - it is waited for here
    assert heard.reports == ["Not all changes of settings files are noticed: No space left on device."]


# -- projects ----------------------------------------------------------------------------------------------------------


async def test_a_projects_files_are_told_at_once_and_at_each_change(heard: Heard, repository: Path) -> None:
    """H10, C5, 14.3."""
    (repository / ".xsessiond.toml").write_text(HOLD)
    heard.source.watch_project("s-1", f"{repository}/a")
    heard.source.watch_project("s-2", f"{repository}/a/b")
    await heard.wait_until(lambda: len(heard.projects) == 2)
    assert heard.policies("s-1") == heard.policies("s-2") == [["hold"]]
    (repository / "a/b/.xsessiond.local.toml").write_text(REFUSE)
    await heard.wait_until(lambda: heard.policies("s-2")[-1] == ["hold", "refuse"])
    assert heard.policies("s-1") == [["hold"]]
    (repository / ".xsessiond.toml").write_text("[")
    await heard.wait_until(lambda: heard.policies("s-1")[-1] == ["hold", None])
    (repository / ".xsessiond.toml").unlink()
    await heard.wait_until(lambda: heard.policies("s-1")[-1] == [])
    assert heard.told == []


async def test_a_repository_that_begins_nearer_ends_the_project_there(heard: Heard, repository: Path) -> None:
    heard.source.watch_project("s-1", f"{repository}/a/b")
    await heard.wait_until(lambda: bool(heard.projects))
    await settled(heard)
    (repository / "a/.git").mkdir()
    await heard.wait_until(lambda: heard.projects[-1][1].root == f"{repository}/a")
    (repository / "a/.git").rmdir()
    await heard.wait_until(lambda: heard.projects[-1][1].root == str(repository))


async def test_each_session_is_answered(heard: Heard, repository: Path) -> None:
    """Also a second one in the same folder, one that asks again, and one whose folder is none."""
    root = str(repository)
    for session_id, cwd in [("s-1", root), ("s-2", root), ("s-3", "/nowhere"), ("s-4", "relative")]:
        heard.source.watch_project(session_id, cwd)
        await heard.wait_until(lambda: bool(heard.policies(session_id)))  # noqa: B023 - it is waited for here
    heard.source.watch_project("s-1", str(repository))
    await heard.wait_until(lambda: len(heard.projects) == 5)
    assert [project.root for _, project in heard.projects] == [str(repository)] * 2 + [None, None, str(repository)]


async def test_a_session_that_moves_or_goes_is_followed_or_forgotten(heard: Heard, repository: Path) -> None:
    heard.source.watch_project("s-1", str(repository))
    heard.source.watch_project("s-2", str(repository))
    await heard.wait_until(lambda: len(heard.projects) == 2)
    heard.source.watch_project("s-1", f"{repository}/a")
    await heard.wait_until(lambda: len(heard.projects) == 3)
    heard.source.forget_project("s-1")
    heard.source.forget_project("s-1")
    heard.source.forget_project("s-9")
    assert set(heard.source._projects) == {str(repository)}
    await settled(heard)
    (repository / ".xsessiond.toml").write_text(HOLD)
    await heard.wait_until(lambda: heard.policies("s-2")[-1] == ["hold"])
    assert heard.policies("s-1") == [[], []]


async def test_projects_of_the_past_are_not_watched_for_ever(heard: Heard, place: Path) -> None:
    for number in range(settings.STALE_MOST + 2):
        folder = place / f"old{number}"
        folder.mkdir()
        heard.source.watch_project("s-1", str(folder))
        await heard.wait_until(lambda: len(heard.projects) == number + 1)  # noqa: B023 - it is waited for here
        await settled(heard)
    disarmed = trio.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heard.source, "_disarm", disarmed.set)
        (place / "old0/.xsessiond.toml").write_text(HOLD)  # any report is the occasion
        with trio.fail_after(20):
            await disarmed.wait()
    await settled(heard)
    assert [project for _, project in heard.projects if project.inbound] == []


# -- where to watch ----------------------------------------------------------------------------------------------------


def test_places_are_all_that_could_change_the_answer(place: Path) -> None:
    (place / "real/deep").mkdir(parents=True)
    (place / "real/deep/x.toml").write_text("")
    (place / "way").symlink_to("real")
    (place / "x.toml").symlink_to("./way/../real//deep/x.toml")
    (place / "round").symlink_to("round")
    root = str(place)
    names, folders = find_places([f"{root}/x.toml"])
    assert names == {root: {"x.toml", "way"}, f"{root}/real/deep": {"x.toml"}}
    assert {f"{root}/real", f"{root}/real/deep", root} <= folders
    assert find_places([f"{root}/real/no/such/x.toml"])[0] == {f"{root}/real": {"no"}}
    assert find_places([f"{root}/round/x"])[0] == {root: {"round"}}
    assert find_places([f"{root}/a\0b", "/\ud800"])[0] == {root: {"a\0b"}, "/": {"\ud800"}}


# -- a bug of ours -----------------------------------------------------------------------------------------------------


class Stumbling(SettingsFiles):
    """The user's files, read by a reader that a bug ends while `stumbles`."""

    stumbles = False

    def read(self) -> Config:
        if self.stumbles:
            raise AssertionError("nobody thought of this file")
        return super().read()


async def test_a_reader_that_fails_leaves_in_force_what_was_and_is_tried_again(
    paths: Paths, file: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """14.2: the broker goes on, `status` is red, and the next change is read."""
    monkeypatch.setattr("tests.io.test_settings.SettingsFiles", Stumbling)
    monkeypatch.setattr(settings, "GATHER_S", 0.001)
    file.write_text(HOLD)
    heard = Heard(paths)
    await nursery.start(heard.source.run)
    await settled(heard)
    Stumbling.stumbles = True
    try:
        file.write_text(REFUSE)
        await heard.wait_until(lambda: not heard.config.ok)
        assert inbound_of(heard.config) == "hold"
        assert "nobody thought of this file" in heard.config.problems[0]
        assert heard.reports[0].startswith("A bug in reading settings:")
        heard.source.reload()  # who asked is answered all the same
        await heard.wait_until(lambda: len(heard.told) >= 2)
    finally:
        Stumbling.stumbles = False
    file.write_text("[inbound]\npolicy = 'accept'\n")
    await heard.hear("accept")
    assert heard.config.ok


async def test_of_a_project_whose_reader_fails_everything_is_held(
    heard: Heard, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """14.2: nothing fails open, and who waits to become a session is answered."""

    def stumble(files: ProjectFiles) -> ProjectSettings:
        raise AssertionError("nobody thought of this folder")

    with monkeypatch.context() as patch:
        patch.setattr(ProjectFiles, "read", stumble)
        heard.source.watch_project("s-1", str(place))
        await heard.wait_until(lambda: bool(heard.projects))
        ((_, project),) = heard.projects
        assert [setting.value for setting in (*project.inbound, *project.outbound)] == [None, None]
        assert "nobody thought of this folder" in project.problems[0]
        await settled(heard)
    (place / ".xsessiond.toml").write_text(HOLD)
    await heard.wait_until(lambda: heard.policies("s-1")[-1] == ["hold"])
