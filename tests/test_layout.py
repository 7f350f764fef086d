"""The house rules that no linter knows: which files there are, how long they get, and what must not stand in them.

The import rules are in pyproject.toml (import-linter); `.ci/run` checks those and the coverage of the core.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("xsessiond", "xsessionctl")
LONGEST_FILE = 400
NOT_OURS = {".git", ".venv", "node_modules", "build", "dist", "htmlcov"}

# Each pattern is written so that it does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w.$}/~-])/(?:work|farm|root|home/\w+|Users/\w+|tmp/venv)/")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|NotImplemented" + r"Error)\b")
SKIPPED = re.compile(r"pytest\.mark\.(?:skip\b|xf" + r"ail)")
REAL_SLEEP = re.compile(r"\btime\.sle" + r"ep\(")


@cache
def own_files() -> tuple[Path, ...]:
    """Return every file of the repository, relative to its root, new ones included and ignored ones not."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        found = {Path(name) for name in listing.stdout.split("\0") if name}
    else:  # an unpacked archive: there is no list to ask, so everything that does not look made counts
        found = {path.relative_to(ROOT) for path in ROOT.rglob("*")}
        found = {path for path in found if not _looks_made(path)}
    return tuple(sorted(path for path in found if (ROOT / path).is_file()))


def _looks_made(path: Path) -> bool:
    return any(
        part in NOT_OURS or part == "__pycache__" or part.endswith(("_cache", ".egg-info")) or part == ".hypothesis"
        for part in path.parts
    )


def text_of(path: Path) -> str:
    """Return the text of an own file, or nothing for one that is not text."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def python_files(*, below: tuple[str, ...]) -> list[Path]:
    """Return the own Python files below the given top-level folders."""
    return [path for path in own_files() if path.suffix == ".py" and path.parts[0] in below]


def lines_that_match(pattern: re.Pattern[str], paths: list[Path] | tuple[Path, ...]) -> list[str]:
    """Return `file:line: text` of every line that the pattern is found in."""
    return [
        f"{path}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if pattern.search(line)
    ]


def test_every_core_module_has_its_own_test_file() -> None:
    modules = {path.stem for path in python_files(below=("xsessiond",)) if path.parts[1] == "core"} - {"__init__"}
    tested = {path.stem.removeprefix("test_") for path in python_files(below=("tests",)) if path.parts[1] == "core"}
    assert sorted(modules - tested) == []


def test_source_files_stay_short() -> None:
    lengths = {str(path): len(text_of(path).splitlines()) for path in python_files(below=PACKAGES)}
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_every_module_opens_with_a_docstring() -> None:
    modules = [path for path in python_files(below=(*PACKAGES, "tests")) if text_of(path).strip()]
    assert [str(path) for path in modules if not ast.get_docstring(ast.parse(text_of(path)))] == []


def test_packages_import_nothing_by_themselves() -> None:
    """Importing one small module must not bring in a room: the fast way in pays for every package above it."""
    inits = [path for path in python_files(below=PACKAGES) if path.name == "__init__.py"]
    imports = [
        str(path)
        for path in inits
        for node in ast.walk(ast.parse(text_of(path)))
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", None) != "__future__"
    ]
    assert imports == []


def test_no_path_of_a_machine_stands_in_the_repository() -> None:
    assert lines_that_match(MACHINE_PATH, own_files()) == []


def test_nothing_is_left_unfinished() -> None:
    assert lines_that_match(UNFINISHED, python_files(below=(*PACKAGES, "tests"))) == []


def test_no_test_is_switched_off() -> None:
    """A test may be skipped where a platform or a program is missing; none is skipped or expected to fail always."""
    assert lines_that_match(SKIPPED, python_files(below=("tests",))) == []


def test_no_test_waits_by_sleeping() -> None:
    """tests/support may poll in a bounded loop where another process gives no event; tests wait through it."""
    tests = [path for path in python_files(below=("tests",)) if path.name.startswith("test_")]
    assert lines_that_match(REAL_SLEEP, tests) == []


def test_scripts_are_executable() -> None:
    scripts = [path for path in own_files() if path.suffix != ".py" and text_of(path).startswith("#!")]
    assert [str(path) for path in scripts if not (ROOT / path).stat().st_mode & 0o100] == []


def test_the_readme_has_its_two_commands_once_each() -> None:
    """`.ci/run` runs what stands there; here only that there is exactly one of each, on one line, for any shell."""
    blocks = re.findall(r"^```sh (\w+)\n(.*?)^```$", text_of(Path("README.md")), flags=re.MULTILINE | re.DOTALL)
    assert sorted(name for name, _ in blocks) == ["demo", "test"]
    for _, command in blocks:
        assert command.count("\n") == 1
        subprocess.run(["sh", "-n", "-c", command], check=True)


def test_links_in_the_documents_lead_somewhere() -> None:
    broken = [
        f"{path}: {target}"
        for path in own_files()
        if path.suffix == ".md"
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(path))
        if "://" not in target and not (ROOT / path.parent / target).exists()
    ]
    assert broken == []


def test_documents_that_the_code_names_are_there() -> None:
    named = {
        target
        for path in python_files(below=(*PACKAGES, "tests"))
        for target in re.findall(r"docs/[\w/.-]+\.md", text_of(path))
    }
    assert sorted(target for target in named if not (ROOT / target).exists()) == []


def test_the_index_of_decisions_is_whole() -> None:
    records = {path.name for path in own_files() if path.parent == Path("docs/decisions")} - {"README.md"}
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", text_of(Path("docs/decisions/README.md")))
    assert sorted(listed) == sorted(records)
    assert [int(name[:4]) for name in sorted(records)] == list(range(1, len(records) + 1))


def test_the_changelog_names_the_version() -> None:
    version = re.search(r'^__version__ = "(.+)"$', text_of(Path("xsessiond/__init__.py")), flags=re.MULTILINE)
    assert version is not None
    headings = re.findall(r"^## \[(.+?)\]", text_of(Path("CHANGELOG.md")), flags=re.MULTILINE)
    assert headings[0] in ("Unreleased", version[1])
    assert len(headings) == len(set(headings))


def test_the_commands_on_path_are_the_two_of_the_contract() -> None:
    project = tomllib.loads(text_of(Path("pyproject.toml")))
    assert project["project"]["scripts"] == {"xsessiond": "xsessiond.__main__:main"}
    scripts = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-scripts"]
    assert scripts == {"xsessionctl/bin/xsessionctl": "xsessionctl"}


HEAVY = ("asyncio", "click", "mcp", "msgspec", "psutil", "rich", "sqlite3", "trio")


@pytest.mark.parametrize("module", ["xsessionctl.__main__", "xsessionctl.fast", "xsessionctl.shim.mcp"])
def test_what_starts_often_starts_light(module: str) -> None:
    """The import rules see what our modules name; this sees what Python then really loads."""
    loaded = subprocess.run(
        [sys.executable, "-c", f"import {module}, sys; print(*sorted(sys.modules))"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout.split()
    assert [name for name in loaded if name in HEAVY] == []
