"""The draft in the user's own editor.

A separate module because it runs another program that takes over the whole terminal.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from textual.app import App, SuspendNotSupported

from joey.errors import UserError
from joey.system.subprocess import run_in_terminal

_DEFAULT_EDITOR = "vi"
_DRAFT_FILE_NAME = "message.md"


class EditorError(UserError):
    """The editor could not be used; the draft is unchanged."""


async def edit_externally(app: App[Any], text: str, env: Mapping[str, str] = os.environ) -> str:
    """Return the edited text; the screen waits, but the task continues. Raises EditorError."""
    command = env.get("VISUAL") or env.get("EDITOR") or _DEFAULT_EDITOR
    try:
        # The screen is left in an orderly way only when nothing is raised inside.
        with app.suspend(), app.batch_update():
            outcome = await asyncio.to_thread(_run_editor, command, text, env)
    except SuspendNotSupported:
        raise EditorError("this terminal cannot be suspended for an editor") from None
    if isinstance(outcome, EditorError):
        raise outcome
    return outcome


def _run_editor(command: str, text: str, env: Mapping[str, str]) -> str | EditorError:
    with TemporaryDirectory(prefix="joey-") as directory:
        file = Path(directory, _DRAFT_FILE_NAME)
        try:
            file.write_text(text, encoding="utf-8")
            code = run_in_terminal([*shlex.split(command), str(file)], env)
            changed = file.read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return EditorError(f"{command} cannot be used: {reason}; set EDITOR to your editor")
    if code != 0:
        return EditorError(f"{command} ended with code {code}, so nothing was changed")
    return changed
