"""What the `config` verbs do: reading what is in force, checking files, and changing one value in place.

Laws: the text of the file is the user's; one value is changed in it and nothing else. Only a human changes settings,
and who is one the broker says. What a file means is said by the same code that the broker reads it with. Refuses to
know: options, printing.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence

from xsessionctl.client import ClientError, deadline_in
from xsessionctl.held import ask_human
from xsessionctl.lifecycle import find_paths
from xsessionctl.render import rows_of
from xsessionctl.requests import ask
from xsessionctl.user_file import UserFile
from xsessiond.core.setting_keys import AT_ONCE, KEYS, BadValue, Key, find_key
from xsessiond.core.settings_edit import EditFailed, remove_value, set_value
from xsessiond.core.settings_text import FileSettings, read_settings
from xsessiond.core.toml_spots import read_key, write_key
from xsessiond.settings_reading import PROJECT_FILES, find_project, read_file

Document = dict[str, object]


def read_values(deadline: float) -> Document:
    """The settings in force: `config` of the protocol. Raises ClientError."""
    return ask("config", {}, deadline)


def require_human(timeout: float) -> Document:
    """The same, for a human only, who may be asked for the passphrase. timeout: in seconds. Raises ClientError:
    not_permitted."""
    return ask_human("config", {"to_change": True}, timeout)


def name_setting(name: str) -> tuple[tuple[str, ...], Key]:
    """The setting that a person calls so. Raises ClientError."""
    path = read_key(name)
    key = None if path is None else find_key(path)
    if path is None or key is None:
        from difflib import get_close_matches

        names = [known.name for known in KEYS]
        near = (
            [known for known in names if known.startswith(f"{name}.")]  # a table: any of its settings may be meant
            or get_close_matches(name, names, 1)
            or [known for known in names if known.endswith(f".{name}")][:1]
        )
        meant = " or ".join(filter(None, (", ".join(near[:-1]), *near[-1:])))
        raise ClientError(
            "usage",
            f"There is no setting {name!r}." + (f" Did you mean {meant}?" if near else ""),
            "`xsessionctl config show` lists them.",
        )
    return path, key


def read_value(name: str, deadline: float) -> Document:
    """One setting as it is in force. Raises ClientError."""
    path, _ = name_setting(name)
    return find_value(read_values(deadline), path)


def find_value(document: Document, path: tuple[str, ...]) -> Document:
    """One row of `values`. What stands there for harnesses only once it is set is unset."""
    name = write_key(path)
    unset: Document = {"key": name, "value": None, "source": "default", "where": None}
    return next((dict(row) for row in rows_of(document, "values") if row.get("key") == name), unset)


# -- changing ----------------------------------------------------------------------------------------------------------


def change_value(name: str, words: Sequence[str] | None, timeout: float) -> Document:
    """Sets a value in the user's file, or takes it out where `words` is None, and has the broker read it. timeout: in
    seconds, for each request. Raises ClientError."""
    path, key = name_setting(name)
    value = None if words is None else _as_toml(name, key, words)
    require_human(timeout)
    file = UserFile(find_paths().config_file)
    try:
        text = remove_value(file.text, path) if value is None else set_value(file.text, path, value)
    except tomllib.TOMLDecodeError as error:
        raise ClientError(
            "bad_config",
            f"{file.path} cannot be parsed, so that nothing can be put in: {error}.",
            "`xsessionctl config edit` opens it.",
        ) from None
    except EditFailed as problem:
        raise ClientError("bad_config", str(problem), "`xsessionctl config edit` opens it.") from None
    if text != file.text:
        file.replace(text)
    found = ask("reload", {}, deadline_in(timeout))
    row = find_value(found, path)
    own = str(row.get("where")).startswith(f"{file.path}:")
    return {**row, "file": file.path, "in_force": own if value is not None else not own, "applies": key.applies}


def install_text(file: UserFile, text: str, timeout: float) -> Document:
    """Puts a whole text in the file's place, and has the broker read it. Raises ClientError."""
    file.replace(text)
    return ask("reload", {}, deadline_in(timeout))


def _as_toml(name: str, key: Key, words: Sequence[str]) -> str:
    """What was typed, as TOML: as it is where that is a value that fits, else as a text, else as a list of texts."""
    wrong: BadValue | None = None
    for value in _readings(words):
        try:
            key.check(value)
        except BadValue as problem:
            wrong = problem
            continue
        return write_value(value)
    raise ClientError("usage", f"{name} {wrong}.", f"It may be: {key.may_be.replace('`', '')}.")


def write_value(value: object) -> str:
    """A value in TOML, on one line."""
    import tomli_w

    if isinstance(value, list):
        return "[" + ", ".join(map(write_value, value)) + "]"
    return tomli_w.dumps({"x": value}).partition("=")[2].strip()


def _readings(words: Sequence[str]) -> list[object]:
    found: list[object] = [list(words)]
    if len(words) == 1:
        found.insert(0, words[0])
        try:
            table = tomllib.loads(f"x = {words[0]}")
        except (tomllib.TOMLDecodeError, RecursionError, ValueError):
            return found
        if len(table) == 1:
            found.insert(0, table["x"])
    return found


# -- checking ----------------------------------------------------------------------------------------------------------


def check_files(path: str | None) -> Document:
    """All that is wrong with one file, or with those of the administrator, the user, and the project that this is.
    Raises ClientError."""
    if path is not None:
        project = os.path.basename(path) in PROJECT_FILES
        found = read_file(os.path.abspath(path), project=project)
        if found is None:
            raise ClientError("not_found", f"There is no file {path}.", "Without a name, the usual ones are checked.")
        return _checked([found])
    paths = find_paths()
    files = [read_file(name) for name in (paths.managed_config, paths.config_file)]
    files += [read_file(name, project=True) for name in project_files()]
    return _checked([file for file in files if file is not None])


def project_files() -> list[str]:
    """The settings files of the project that this folder is in, there or not, from the project's own folder downwards;
    all of them count."""
    folders, _ = find_project(_working_folder())
    return [f"{folder}/{name}" for folder in folders for name in PROJECT_FILES]


def check_text(text: str, path: str) -> Document:
    """All that would be wrong with a file of this text."""
    return _checked([read_settings(text, path)])


def _checked(files: list[FileSettings]) -> Document:
    problems = [problem for file in files for problem in file.problems]
    return {
        "files": [file.path for file in files],
        "problems": [problem._asdict() for problem in problems],
        "ok": all(file.ok for file in files),
    }


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""  # it was removed


def applies_later(document: Mapping[str, object]) -> bool:
    """Whether what was set has no effect yet."""
    return document.get("applies") != AT_ONCE
