"""Recorded conversations as task folders of Roo Code, which joey imports, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from joey.core.events import Record, TaskImported
from joey.core.models import ToolProtocol
from joey.core.modes import DEFAULT_MODE
from joey.core.task_types import RowKind
from joey.errors import UserError
from joey.ports.storage import TaskMetadata
from joey.proxy.call_formats import CallFormat
from joey.proxy.conversation_export import list_messages
from joey.proxy.recordings import RecordedTurn, Recordings
from joey.storage.roo_conversion import (
    assign_row_timestamps,
    build_rows_from_messages,
    convert_messages,
)
from joey.storage.roo_task_directory import detect_protocol, encode_roo_files
from joey.system.files import make_private_directory, replace_files, translate_storage_errors


def write_recorded_task(
    recordings: Recordings,
    session: int,
    directory: Path,
    *,
    force: bool,
    redactor: Callable[[str], str],
) -> None:
    """Write the four files of a task into `directory`. Raises UserError or StoreError if there is
    nothing to write or the directory is not writable."""
    files = _encode_task(recordings, session, redactor)
    with translate_storage_errors(f"could not export session {session}", directory):
        if directory.exists() and not force and any(directory.iterdir()):
            raise UserError(f"{directory} already exists. Use --force to replace its files.")
        make_private_directory(directory)
    replace_files(directory, files)


def _encode_task(
    recordings: Recordings, session: int, redactor: Callable[[str], str]
) -> dict[str, bytes]:
    said = list_messages(recordings, session)
    messages = convert_messages(
        [{"role": each.role, "content": each.content, "ts": each.at} for each in said]
    )
    turns = recordings.list_turns(session)
    requests = [_build_request_row(turn, recordings.exchange(turn).at) for turn in turns]
    said_rows = build_rows_from_messages(messages)
    # At the same time, a message precedes the request that sends it.
    rows = assign_row_timestamps(sorted([*said_rows, *requests], key=lambda row: int(row["ts"])))
    has_text_calls = any(turn.call_format is CallFormat.XML for turn in turns)
    protocol = detect_protocol(messages) or (
        ToolProtocol.XML if has_text_calls else ToolProtocol.NATIVE
    )
    ended = max(row["ts"] for row in rows)
    task_id = f"recorded-{session}"
    event = TaskImported(
        ts=ended + 1,
        task_id=task_id,
        workspace="",
        mode=DEFAULT_MODE,
        tool_protocol=protocol,
        rows=tuple(rows),
        messages=tuple(messages),
    )
    found = next(each for each in recordings.list_sessions() if each.id == session)
    metadata = TaskMetadata(
        id=task_id,
        title=found.title,
        mode=DEFAULT_MODE,
        tool_protocol=protocol,
        model=found.model,
        created=found.first,
        updated=ended,
    )
    return encode_roo_files(metadata, [Record(seq=1, event=event)], redactor)


def _build_request_row(turn: RecordedTurn, at: int) -> dict[str, Any]:
    """Build Roo's chat row for a request: its tokens and its cost."""
    facts: dict[str, Any] = {"cost": turn.cost or 0.0}
    if turn.usage is not None:
        facts |= {
            "tokensIn": turn.usage.input,
            "tokensOut": turn.usage.output,
            "cacheWrites": turn.usage.cache_writes,
            "cacheReads": turn.usage.cache_reads,
        }
    return {"ts": at, "type": "say", "say": RowKind.API_REQ_STARTED, "text": json.dumps(facts)}
