"""The settings files of the user, the administrator and the projects, with what was good in them the last time.

A file that cannot be used leaves in force what it said when it last could be; the first time there is no such, and
`config` puts something that holds in its place.

Laws: a file that is gone says nothing, one that is broken says what it said. Blocking; for a thread. Refuses to know:
what the values mean, trio.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from xsessiond.config import Config, Layer, merge_layers, merge_project
from xsessiond.core.policy import ProjectSettings
from xsessiond.core.settings_text import NOT_USED, FileSettings
from xsessiond.paths import Paths
from xsessiond.settings_reading import PROJECT_FILES, REPOSITORY, find_project, read_file


class SettingsFiles:
    """The administrator's file and the user's, with the last good ones."""

    def __init__(self, paths: Paths) -> None:
        self._files: dict[Literal["managed", "user"], str] = {
            "managed": paths.managed_config,
            "user": paths.config_file,
        }
        self._good: dict[str, FileSettings] = {}

    def paths(self) -> list[str]:
        """The files, whether they are there or not."""
        return list(self._files.values())

    def read(self) -> Config:
        """What is in force now."""
        layers = []
        for source, path in self._files.items():
            file = read_file(path)
            if file is None:
                self._good.pop(path, None)
                continue
            good = self._good.get(path)
            if not file.broken:
                self._good[path] = file
            elif good is not None:
                file = _keep(good, file)
            layers.append(Layer(source, file))
        return merge_layers(layers)


class ProjectFiles:
    """The files of one folder's project, with the last good ones. cwd: a session's folder."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self._good: dict[str, FileSettings] = {}
        self._last = ProjectSettings()

    def paths(self) -> list[str]:
        """What a change of would change the answer, whether it is there or not."""
        folders, _ = find_project(self.cwd)
        return [f"{folder}/{name}" for folder in folders for name in (*PROJECT_FILES, REPOSITORY)]

    def read(self) -> ProjectSettings:
        """What the project says now. A folder that is gone, or not on this machine, says what it said last."""
        folders, root = find_project(self.cwd)
        if not folders:
            return self._last
        files = []
        for folder in folders:
            for name in PROJECT_FILES:
                path = f"{folder}/{name}"
                file = read_file(path, project=True)
                if file is None:
                    self._good.pop(path, None)
                    continue
                good = self._good.get(path)
                if not file.broken:
                    self._good[path] = file
                elif good is not None:
                    files.append(replace(good, problems=()))  # beside what holds: whichever is tighter
                files.append(file)
        self._last = merge_project(files, root)
        return self._last


def _keep(good: FileSettings, broken: FileSettings) -> FileSettings:
    """What was good last, with what is wrong now."""
    told = broken.problems[0]
    text = told.text.replace(NOT_USED, "What it said before stays in force.")
    return replace(good, problems=(told._replace(text=text),), broken=True)
