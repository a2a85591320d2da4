"""The output of a command that was too long to be told, as the screen shows it unfolded."""

from __future__ import annotations

import logging
from pathlib import Path

from joey.core.terminal_text import format_size

log = logging.getLogger(__name__)

MOST_READ = 1024 * 1024
"""Bytes; of more the beginning and the end."""


def read_kept_output(task_folder: Path, row_ts: int) -> str | None:
    """None when nothing is kept: a short output stands whole in its row."""
    path = task_folder / "command-output" / f"cmd-{row_ts}.txt"
    if path.is_symlink() or not path.is_file():
        return None
    try:
        return _read(path)
    except OSError as error:
        log.warning("%s cannot be shown: %s", path, error)
        return None


def _read(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(MOST_READ)
        rest = path.stat().st_size - len(data)
        if rest <= 0:
            return _decode(data)
        half = MOST_READ // 2
        file.seek(-half, 2)
        left_out = format_size(len(data) + rest - 2 * half)
        last = _decode(file.read(half))
        return f"{_decode(data[:half])}\n[... {left_out} left out; all is in {path} ...]\n{last}"


def _decode(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
