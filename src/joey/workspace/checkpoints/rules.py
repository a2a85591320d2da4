"""Which files of a workspace are kept.

All that git does not ignore. Beside the `.gitignore` files of the workspace, which git reads
itself, these count: folders that programs fill and nobody edits; `.gitignore` files above the
workspace, when it is a part of a repository; joey's own folder.
"""

from __future__ import annotations

import logging
import os
import stat
from fnmatch import fnmatchcase
from pathlib import Path

from joey.errors import CheckpointError
from joey.workspace.files import is_too_wide
from joey.workspace.git_process import repository_top
from joey.workspace.gitignore import GitIgnore

log = logging.getLogger(__name__)

LARGEST_FILE = 10 * 1024 * 1024
_LARGEST_RULES = 1024 * 1024
_FILLED_BY_PROGRAMS = """
    node_modules bower_components __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache
    .ruff_cache .gradle .next .nuxt .svelte-kit .parcel-cache .turbo .terraform
""".split()  # noqa: SIM905 (a table)
_NO_PROJECTS = ("Desktop", "Documents", "Downloads")


def check_folder(root: Path, home: Path) -> None:
    """Raises CheckpointError: the files of this folder are not kept, and why."""
    if is_too_wide(root) or root in _homes_of_many():
        raise CheckpointError(
            f"the files of {root} are not kept: it is no project, but a home of many things."
            " Work in a folder of its own to have checkpoints."
        )
    if not root.is_dir():
        raise CheckpointError(f"the folder {root} is not there. Bring it back, and try again.")
    if root == home or home.joinpath("checkpoints") in (root, *root.parents):
        raise CheckpointError(f"the files of {root} are not kept: they are joey's own.")


def _homes_of_many() -> set[Path]:
    try:
        person = Path.home()
    except RuntimeError:  # a user without a home
        return set()
    return {Path(os.path.realpath(person / name)) for name in _NO_PROJECTS}


def own_folder(root: Path, home: Path) -> tuple[str, ...]:
    """Arguments of `ls-files` by which joey's folder is never looked into."""
    if root not in home.parents:
        return ()
    return (f"--exclude=/{_escaped(home.relative_to(root).as_posix())}/",)


def rules_text(root: Path) -> bytes:
    """For `info/exclude`, which counts for less than every `.gitignore` of the workspace."""
    rules = [f"{name}/".encode() for name in _FILLED_BY_PROGRAMS]
    return b"\n".join([*rules, *_rules_above(root), b""])


def _rules_above(root: Path) -> list[bytes]:
    top = repository_top(root)
    if top is None or top == root:
        return []
    folders = [folder for folder in reversed(root.parents) if top in (folder, *folder.parents)]
    found: list[bytes] = []
    for folder in folders:
        lines = _read_rules(folder / ".gitignore")
        below = root.relative_to(folder)
        if _ignores(lines, below):
            # The whole workspace is ignored: somebody keeps only a few files of a home in git.
            return []
        found += (rule for line in lines if (rule := _moved(line, below.parts)))
    return found


def _moved(line: bytes, below: tuple[str, ...]) -> bytes | None:
    """A rule from above as it reads some folders below; None when it speaks of others."""
    rule = line.removeprefix(b"!")
    mark = line[: len(line) - len(rule)]
    if b"/" not in rule.rstrip(b"/") or rule.startswith(b"**/"):
        return line
    pieces = os.fsdecode(rule.removeprefix(b"/")).split("/")
    for name in below:
        if len(pieces) < 2 or not fnmatchcase(name, pieces[0]):
            return None
        if pieces[0] == "**":
            break
        pieces = pieces[1:]
    return mark + b"/" + os.fsencode("/".join(pieces)) if any(pieces) else None


def _read_rules(path: Path) -> list[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        # There is none, or it may not be read: then git would not follow it either.
        return []
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_RULES:
            log.warning("%s is not followed: it is no file of reasonable size", path)
            return []
        lines = file.read().splitlines()
    return [line for line in lines if line.strip() and not line.startswith(b"#")]


def _ignores(lines: list[bytes], below: Path) -> bool:
    try:
        return GitIgnore(b"\n".join(lines)).ignores(os.fsencode(below), is_dir=True)
    except ValueError as error:
        log.warning("rules above %s are not understood: %s", below, error)
        return True


def _escaped(path: str) -> str:
    return "".join(f"\\{char}" if char in "\\*?[]!# " else char for char in path)
