"""Where a task can be taken back to, and how far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from joey.core.file_state import FileChange
from joey.core.history.ui import Row
from joey.core.rewind import USER_FEEDBACK, RewindPreview, say_of, ts_of
from joey.presentation.phrases import FATES
from joey.presentation.text import one_line
from joey.tui.host import Entry
from joey.tui.ran_before import in_short

Rows = Sequence[Row | dict[str, Any]]
MOST_NAMED = 4
"""Files of others that are named before they are given up."""


def earlier_words(rows: Rows) -> list[Entry]:
    """What the person has said, the latest first; the task itself is the last."""
    said = reversed(list(_said(rows)))
    return [Entry(str(ts), one_line(in_short(text), 300), _time(ts)) for ts, text in said]


def words_at(rows: Rows, wanted: int) -> str:
    return next((text for ts, text in _said(rows) if ts == wanted), "")


def rewind_choices(changes: RewindPreview) -> list[Entry]:
    """Whether the files come along."""
    choices = [Entry("talk", "the conversation", "files stay as they are")]
    if changes.files:
        about = ", ".join(_fates(changes.files))
        if changes.conflicts:
            about = f"{len(changes.conflicts)} not joey's (asks); {about}"
        choices.append(Entry("files", "the conversation and the files", about))
    return [*choices, Entry("leave", "not at all")]


def giving_up(changes: RewindPreview) -> str:
    """Which files that somebody else has changed go along, and what becomes of each."""
    fates = {each.path: FATES[each.kind] for each in changes.files}
    paths = changes.conflicts[:MOST_NAMED]
    named = [f"{one_line(path)} ({fates[path]})" for path in paths]
    if more := len(changes.conflicts) - len(named):
        named.append(f"and {more} more")
    return f"somebody else has changed them: {', '.join(named)}"


def _fates(files: Sequence[FileChange]) -> Iterator[str]:
    for kind, fate in FATES.items():
        if count := sum(each.kind == kind for each in files):
            yield f"{count} {'file' if count == 1 else 'files'} {fate}"


def _said(rows: Rows) -> Iterator[tuple[int, str]]:
    for number, row in enumerate(rows):
        if number == 0 or say_of(row) == USER_FEEDBACK:
            text = row.get("text") if isinstance(row, dict) else row.text
            yield ts_of(row), str(text or "")


def _time(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000).astimezone().strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return ""
