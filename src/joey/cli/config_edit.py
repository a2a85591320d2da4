"""`joey config edit`: a copy goes into the editor, and becomes the file when it can be one.

So no moment has settings that cannot be read, and going back is only to throw the copy away.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from joey.app.personal_settings import PersonalSettings
from joey.cli.exit_codes import ExitCode, UsageError
from joey.errors import ConfigError
from joey.presentation.text import sanitise
from joey.system.files import make_folder


def edit_settings(settings: PersonalSettings) -> ExitCode:
    """Raises ConfigError, UsageError."""
    before = settings.text()
    make_folder(settings.path.parent)
    with tempfile.TemporaryDirectory(prefix=".joey-edit-", dir=settings.path.parent) as folder:
        copy = Path(folder, settings.path.name)
        copy.write_text(before, encoding="utf-8")
        while True:
            after = _edited(copy)
            if after == before:
                print("nothing was changed", file=sys.stderr)
                return ExitCode.DONE
            try:
                settings.replace_text(after, before)
            except ConfigError as error:
                _edit_again(error, settings.path)
                continue
            print(f"{settings.path} is changed", file=sys.stderr)
            for remark in settings.remarks():
                print(f"joey: {sanitise(remark)}", file=sys.stderr)
            return ExitCode.DONE


def _edit_again(error: ConfigError, path: Path) -> None:
    """Ask; whoever does not want to gets the file back as it was.

    Raises:
        ConfigError
    """
    back = f"{path} is as it was before."
    if not sys.stdin.isatty():
        raise ConfigError(f"{error} {back}") from error
    print(f"joey: {sanitise(str(error))}", file=sys.stderr)
    try:
        answer = input("Edit again, or go back to what it was? [E/b] ").strip().lower()
    except EOFError:
        answer = "b"
    if answer.startswith("b"):
        raise ConfigError(back)


def _edited(file: Path) -> str:
    """Raises UsageError."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(named), str(file)], check=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the editor {named!r} cannot be started ({error}): name another in EDITOR"
        ) from error
    if done.returncode:
        raise UsageError(f"the editor {named!r} ended with {done.returncode}; nothing was changed")
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the editor {named!r} left no file that can be read ({error}); nothing was changed"
        ) from error
