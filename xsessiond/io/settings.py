"""Settings that follow their files: what changes on the disk is in force a moment later.

A change is believed when the files stay as they are for a moment, so that half a file is never read as a whole one. A
file that vanished or was emptied is waited for longer: some editors take a file away before they put the new one there,
and an empty file says that nothing is held.

Laws: a change is noticed by the kernel's report, not by looking now and then; files are read in threads, so that a
folder on a disk that hangs stops nobody else; a reader that fails over a file leaves in force what was, and where
nothing was yet, something that holds. Refuses to know: what settings mean.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from traceback import format_exception
from typing import TypeVar

import msgspec
import trio

from xsessiond.config import Config
from xsessiond.config_files import ProjectFiles, SettingsFiles
from xsessiond.core.policy import NOT_READ, ProjectSettings

if sys.platform == "darwin":
    from xsessiond.io._macos import PathWatch
else:
    from xsessiond.io._inotify import PathWatch

GATHER_S = 0.05
"""How long files must stay as they are; also the shortest time between two looks at a folder in which much happens."""
VANISHED_S = 0.3
"""How long a file must stay away, or empty, until that is believed."""
READERS = 8
"""Threads. Some may hang for ever, on a network's disk that is gone."""
STALE_MOST = 64
"""Projects that are still watched and of interest to nobody, before the watches are set anew."""
FIRST_WITHIN_S = 1.0
"""How long a start waits for what projects say, since until then everything of theirs is held."""
RELOAD_WITHIN_S = 2.0
"""`reload` answers after this also when a project's disk hangs."""

T = TypeVar("T")
Signature = tuple[tuple[int, ...] | None, ...]


class _Group:
    """Files that are read together. about: what to call them. tell: called with what they say; fail: with a sentence,
    where our reader met something that it cannot take. seen: how they looked when they were last read."""

    __slots__ = ("about", "again", "busy", "fail", "files", "idle", "seen", "sessions", "tell")

    def __init__(
        self,
        about: str,
        files: SettingsFiles | ProjectFiles,
        tell: Callable[[object], None],
        fail: Callable[[str], None],
    ) -> None:
        self.about, self.files, self.tell, self.fail = about, files, tell, fail
        self.sessions: set[str] = set()
        self.busy = self.again = False
        self.idle = trio.Event()
        self.seen: Signature = ()

    def look(self) -> Signature:
        """How the files are, as far as it can be told without reading them."""
        return tuple(_look_at(path) for path in self.files.paths())


class SettingsSource:
    """Reads and watches the settings files of the user, the administrator, and the projects of sessions.

    config: what was read at the start, of which no more is told. on_settings, on_project: told of what is new, in a
    task of `run`'s. report: a sentence for the log.
    """

    def __init__(
        self,
        files: SettingsFiles,
        config: Config,
        on_settings: Callable[[Config], None],
        on_project: Callable[[str, ProjectSettings], None],
        report: Callable[[str], None],
    ) -> None:
        self._on_settings, self._on_project, self._report = on_settings, on_project, report
        self._config = config
        self._own = _Group("config.toml", files, self._tell_config, self._keep_config)
        self._projects: dict[str, _Group] = {}
        self._folders: dict[str, str] = {}
        self._told: dict[str, ProjectSettings] = {}
        self._stale = 0
        self._failed = self._wanted = self._reloading = False
        self._limiter = trio.CapacityLimiter(READERS)
        self._watch: PathWatch | None = None
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Reads and watches until cancelled."""
        try:
            self._watch = PathWatch()
        except OSError as error:
            self._fail(error)
        try:
            async with trio.open_nursery() as self._nursery:
                for group in (self._own, *self._projects.values()):
                    self._refresh(group)
                if self._wanted:
                    self.reload()
                task_status.started()
                await self._heed_changes()
        finally:
            self._nursery = None
            if self._watch is not None:
                self._watch.close()

    def watch_project(self, session_id: str, cwd: str) -> None:
        """Tells what the project of this folder says, at once and at each change. One folder a session."""
        if self._folders.get(session_id) != cwd:
            self.forget_project(session_id)
        self._told.pop(session_id, None)
        self._folders[session_id] = cwd
        group = self._projects.get(cwd)
        if group is None:
            tell, fail = partial(self._tell_project, cwd), partial(self._keep_project, cwd)
            group = _Group(cwd, ProjectFiles(cwd), tell, fail)
            self._projects[cwd] = group
        group.sessions.add(session_id)
        self._refresh(group)

    async def first_answers(self) -> None:
        """Returns when all projects that were asked for have been read, or after a while: a disk may hang."""
        with trio.move_on_after(FIRST_WITHIN_S):
            for group in list(self._projects.values()):
                await group.idle.wait()

    def forget_project(self, session_id: str) -> None:
        """The session is of no interest any more. Unknown ones are none."""
        cwd = self._folders.pop(session_id, None)
        self._told.pop(session_id, None)
        if cwd is None:
            return
        group = self._projects[cwd]
        group.sessions.discard(session_id)
        if not group.sessions:
            del self._projects[cwd]
            self._stale += 1

    def reload(self) -> None:
        """Reads everything anew, and tells the settings also if nothing changed, after the projects'. Asked again
        meanwhile, it does so again and tells once."""
        self._wanted = True
        if self._nursery is not None and not self._reloading:
            self._reloading = True
            self._nursery.start_soon(self._reload)

    # -- telling -----------------------------------------------------------------------------------------------------

    def _tell_config(self, value: object) -> None:
        assert isinstance(value, Config)
        if value != self._config:
            self._config = value
            if not self._reloading:  # who asked for that is not answered with what was read before
                self._on_settings(value)

    def _tell_project(self, cwd: str, value: object) -> None:
        assert isinstance(value, ProjectSettings)
        group = self._projects.get(cwd)
        for session_id in sorted(group.sessions) if group is not None else ():
            if self._told.get(session_id) != value:
                self._told[session_id] = value
                self._on_project(session_id, value)

    def _keep_config(self, problem: str) -> None:
        """What was in force stays, and says that it is not what the files say."""
        config = self._config
        if problem not in config.problems:
            self._tell_config(replace(config, ok=False, problems=(problem, *config.problems)))

    def _keep_project(self, cwd: str, problem: str) -> None:
        """What was in force stays; of a project that said nothing yet everything is held."""
        unknown = msgspec.structs.replace(NOT_READ, problems=(problem,))
        group = self._projects.get(cwd)
        for session_id in sorted(group.sessions) if group is not None else ():
            if session_id not in self._told:
                self._told[session_id] = unknown
                self._on_project(session_id, unknown)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _refresh(self, group: _Group, *, changed: bool = False) -> None:
        """Has the files read, once more if they are being read. changed: something happened to them a moment ago."""
        if self._nursery is None:
            return  # `run` will
        if group.busy:
            group.again = True
        else:
            group.busy, group.idle = True, trio.Event()
            self._nursery.start_soon(self._read, group, changed)

    async def _read(self, group: _Group, changed: bool) -> None:  # noqa: FBT001 - start_soon has no keywords
        while True:
            try:
                await self._read_until_still(group, changed=changed)
            except Exception as error:
                # A bug of ours that some file has met. It costs what that file says, and not the broker.
                self._report("A bug in reading settings: " + "".join(format_exception(error, limit=-3)).strip())
                group.fail(f"{group.about}: error: a bug of the broker keeps this from being read ({error!r}).")
                with contextlib.suppress(Exception):  # so that the change which mends it is noticed
                    self._arm(await self._in_thread(lambda: find_places(group.files.paths())))
                if group.again:
                    changed = True
                    continue
            group.busy = False
            group.idle.set()
            return

    async def _read_until_still(self, group: _Group, *, changed: bool) -> None:
        while True:
            group.again = False
            seen = await self._in_thread(group.look)
            if group.seen not in ((), seen):
                changed = True
            if not changed:  # whoever asked need not wait for the watches
                group.seen = seen
                group.tell(await self._in_thread(group.files.read))
            self._arm(await self._in_thread(lambda: find_places(group.files.paths())))
            # What happened before the watch was set is seen now, what happens from now on is reported.
            while True:
                seen = await self._settle(group) if changed else await self._in_thread(group.look)
                if not changed and seen == group.seen:
                    break
                value = await self._in_thread(group.files.read)
                if seen == await self._in_thread(group.look):
                    group.seen = seen
                    group.tell(value)
                    break
                changed = True
            if not group.again:
                return
            changed = True

    async def _settle(self, group: _Group) -> Signature:
        """How the files are when they have stayed so for a moment."""
        seen = await self._in_thread(group.look)
        while True:
            await trio.sleep(VANISHED_S if _has_vanished(group.seen, seen) else GATHER_S)
            before, seen = seen, await self._in_thread(group.look)
            if seen == before:
                return seen

    async def _reload(self) -> None:
        while self._wanted:
            self._wanted = False
            self._disarm()
            groups = [self._own, *self._projects.values()]
            for group in groups:
                self._refresh(group)
            with trio.move_on_after(RELOAD_WITHIN_S):
                for group in groups:
                    await group.idle.wait()
        self._reloading = False
        self._on_settings(self._config)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(work, limiter=self._limiter, abandon_on_cancel=True)

    # -- watching ----------------------------------------------------------------------------------------------------

    async def _heed_changes(self) -> None:
        while self._watch is not None:
            await trio.lowlevel.wait_readable(self._watch.fileno())
            relevant = self._watch.take()
            await trio.sleep(GATHER_S)
            if relevant or self._stale > STALE_MOST:
                self._disarm()
                for group in (self._own, *self._projects.values()):
                    self._refresh(group, changed=True)
        await trio.sleep_forever()

    def _disarm(self) -> None:
        self._stale = 0
        if self._watch is not None:
            self._watch.disarm()

    def _arm(self, places: tuple[dict[str, set[str]], set[str]]) -> None:
        if self._watch is None:
            return
        names, folders = places
        try:
            for folder in folders:
                self._watch.watch_itself(folder)
            for folder, wanted in names.items():
                self._watch.watch_names(folder, wanted)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        if not self._failed:
            self._failed = True
            self._report(f"Not all changes of settings files are noticed: {error.strerror}.")


def find_places(paths: Iterable[str]) -> tuple[dict[str, set[str]], set[str]]:
    """Where to watch for what, to learn of any change of what is at these paths (absolute): names by folder, and
    folders that may themselves go away. Symbolic links on the way are followed, and watched too; so is a folder for the
    next one below it that is not there yet."""
    names: dict[str, set[str]] = {}
    folders: set[str] = set()
    for path in paths:
        here, ahead = "/", path.split("/")[::-1]
        steps = 0
        while ahead and steps < 400:  # links may lead in a circle
            steps += 1
            name = ahead.pop()
            if name in ("", "."):
                continue
            if name == "..":
                here = os.path.dirname(here)
                continue
            found = _lstat(full := os.path.join(here, name))
            if found is not None and stat.S_ISDIR(found.st_mode):
                here = full
                folders.add(here)
                continue
            names.setdefault(here, set()).add(name)
            if found is None or not stat.S_ISLNK(found.st_mode):
                break
            try:
                target = os.readlink(full)
            except OSError:
                break  # gone just now, which will be reported
            here = "/" if target.startswith("/") else here
            ahead.extend(target.split("/")[::-1])
    return names, folders


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _look_at(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(found.st_mode):
        return (0, found.st_ino)  # of a folder only whether it is there
    return (found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)


def _has_vanished(before: Sequence[tuple[int, ...] | None], now: Sequence[tuple[int, ...] | None]) -> bool:
    """Whether something that had contents has none now."""
    if len(before) != len(now):
        return bool(before)
    return any(
        was is not None and was[0] > 0 and (is_ is None or is_[0] == 0) for was, is_ in zip(before, now, strict=True)
    )
