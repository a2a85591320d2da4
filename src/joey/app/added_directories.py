"""Directories of `--add-dir`: resolved, and rejected if they hold more than a project.

A separate module because few runs use the flag; it is loaded only then.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from joey.config.home import resolve_user_home
from joey.errors import WorkspaceError


def resolve_added_directories(
    names: Sequence[str | Path], home: Path, env: Mapping[str, str]
) -> tuple[Path, ...]:
    """Resolve the directories of `--add-dir`. Raises WorkspaceError if one is not a directory or
    holds more than a project."""
    protected = (resolve_user_home(env), home, tempfile.gettempdir())
    user_home, joey_directory, temp_directory = (Path(os.path.realpath(each)) for each in protected)
    found: dict[Path, None] = {}
    for name in names:
        directory = Path(os.path.realpath(Path(name).expanduser()))
        if problem := _explain_rejected_directory(
            directory, user_home, joey_directory, temp_directory
        ):
            raise WorkspaceError(f"--add-dir {name}: {problem}.")
        found[directory] = None
    return tuple(found)


def _explain_rejected_directory(
    directory: Path, user_home: Path, joey_directory: Path, temp_directory: Path
) -> str:
    if not directory.exists():
        return "there is no such directory"
    if not directory.is_dir():
        return "it is not a directory"
    if directory == user_home:
        return "it is your home directory, with your keys and start-up files; add one inside it"
    if user_home.is_relative_to(directory):
        return "it contains your home directory; add a directory inside that"
    if directory.is_relative_to(joey_directory) or joey_directory.is_relative_to(directory):
        return "joey keeps its own files there (JOEY_HOME)"
    if temp_directory.is_relative_to(directory):
        return "joey keeps temporary files of its tasks there; add a directory inside it"
    return ""
