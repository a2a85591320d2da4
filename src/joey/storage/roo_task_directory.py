"""Roo's task directories: adoption (workspace, mode, protocol, histories), export to one.

Adoption converts the two history files into one record. It is written only when another one
follows: until a user resumes the task, the directory is unchanged. Then it becomes the first record
of a new journal, and the files are copied to `*.roo.json` before joey replaces them; nothing is
deleted. A file that cannot be used is rebuilt from the other one.

An export has the form of an imported task: loose ends are removed, and secrets (keys, tokens,
passwords in addresses) are left out.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.events import ProtocolChanged, Record, TaskCreated, TaskImported
from joey.core.history.api import ApiHistory
from joey.core.history.branch import find_live_branch
from joey.core.history.ui import UiHistory
from joey.core.history.usage_ledger import sum_row_usage
from joey.core.messages import Message, ToolUseBlock, get_blocks
from joey.core.models import ToolProtocol
from joey.core.modes import DEFAULT_MODE
from joey.core.redaction import redact_secrets, remove_secrets
from joey.core.text import compile_regex
from joey.errors import StoreError
from joey.ports.storage import TaskMetadata
from joey.storage.journal import Journal, encode_record
from joey.storage.roo_conversion import (
    assign_message_timestamps,
    build_messages_from_rows,
    build_rows_from_messages,
    convert_messages,
    iter_texts,
    normalize_rows,
    pop_deleted_range,
    to_roo_call_row,
)
from joey.storage.roo_files import (
    RooRow,
    get_text,
    parse_parent_and_children,
    read_json_array,
    read_json_object,
)
from joey.storage.task_directory import (
    API_HISTORY_FILE,
    HISTORY_ITEM_FILE,
    JOURNAL_FILE,
    LEGACY_HISTORY_FILE,
    METADATA_FILE,
    UI_HISTORY_FILE,
)
from joey.system.files import (
    make_private_directory,
    read_regular_file,
    replace_files,
    save_under_numbered_name,
    translate_storage_errors,
)

_log = logging.getLogger(__name__)
_WORKSPACE_RE = compile_regex(r"^# Current Workspace Directory \((.+)\) Files$", re.MULTILINE)
_MODE_SLUG_RE = compile_regex(r"<slug>([A-Za-z0-9-]+)</slug>")
_TOOL_FORMAT_RE = compile_regex(r"<tool_format>(native|xml)</tool_format>")
_XML_FINAL_CALL_RE = compile_regex(
    r"^<(attempt_completion>\s*<result|ask_followup_question>\s*<question)>", re.M
)
"""Calls that may be all that a task has made, so that no result tells of them."""
_XML_RESULT_RE = compile_regex(r"\[\w+[^\n]*\] Result:")


class RooHistories(Struct, frozen=True):
    rows: list[RooRow]
    messages: list[Message]
    rebuilt_file: str | None = None
    """The file that could not be used and was made up for from the other one."""
    truncated_files: tuple[str, ...] = ()
    """Files of which only the beginning could be used."""

    @property
    def problem(self) -> str:
        """What is missing; empty if nothing is."""
        lost = [f"{self.rebuilt_file} is unusable"] if self.rebuilt_file else []
        return "; ".join(
            [*lost, *(f"{name} is cut off or damaged" for name in self.truncated_files)]
        )


def adopt_task(directory: Path, record: Record) -> Journal:
    """Start the journal of a directory that has none, or none that can be read; the caller holds
    the lock. Raises StoreError if the directory is not writable."""
    for name in (UI_HISTORY_FILE, API_HISTORY_FILE):
        _back_up_file(directory, name)
    replace_files(directory, {JOURNAL_FILE: encode_record(record)})
    _log.info("adopted the task in %s", directory)
    return Journal.open_with_record(directory, record)


def read_adoption_record(directory: Path, task_id: str) -> Record:
    """Return the first record that the journal would have; changes nothing. Raises StoreError if
    neither history can be used."""
    return build_adoption_record(directory, task_id, read_histories(directory, task_id))


def build_adoption_record(directory: Path, task_id: str, histories: RooHistories) -> Record:
    rows, messages = histories.rows, histories.messages
    known = read_json_object(directory / METADATA_FILE)
    known |= read_json_object(directory / HISTORY_ITEM_FILE)
    said = list(iter_texts(messages, "user"))
    parent_id, child_ids = parse_parent_and_children(known)
    stamps = [row["ts"] for row in rows] + [m.ts for m in messages if isinstance(m.ts, int)]
    event = TaskImported(
        ts=max(stamps) + 1,
        task_id=task_id,
        workspace=get_text(known, "workspace")
        or get_text(known, "cwdOnTaskInitialization")  # as Cline calls it
        or _search_texts(_WORKSPACE_RE, said)
        or "",
        mode=get_text(known, "mode")
        or _search_texts(_MODE_SLUG_RE, reversed(said))
        or DEFAULT_MODE,
        tool_protocol=_determine_protocol(known, messages, said),
        rows=tuple(rows),
        messages=tuple(messages),
        parent_id=parent_id,
        child_ids=child_ids,
    )
    return Record(seq=1, event=event)


def read_histories(directory: Path, task_id: str) -> RooHistories:
    """Read both histories; an unusable one is rebuilt from the other."""
    ui, api = (read_json_array(directory, name) for name in (UI_HISTORY_FILE, API_HISTORY_FILE))
    lost = None
    rows = normalize_rows(ui.values)
    messages = convert_messages(api.values, pop_deleted_range(rows))
    if not rows or not messages:
        # Claude Dev's name for its UI history; Roo expects an API history under that name.
        old = read_json_array(directory, LEGACY_HISTORY_FILE).values
        rows = rows or normalize_rows([row for row in old if not _is_message(row)])
        messages = messages or convert_messages([row for row in old if _is_message(row)])
    if not messages and rows:
        lost = API_HISTORY_FILE
        messages = convert_messages(build_messages_from_rows(rows))
    if not rows and messages:
        lost = UI_HISTORY_FILE
        rows = build_rows_from_messages(messages)
    if not rows or not messages:
        raise StoreError(
            f"task {task_id} cannot be opened: neither {UI_HISTORY_FILE} nor {API_HISTORY_FILE} in "
            f"{directory} can be used. Put back a copy of one of them; nothing was changed."
        )
    if lost is not None:
        other = UI_HISTORY_FILE if lost == API_HISTORY_FILE else API_HISTORY_FILE
        _log.warning("task %s: no usable %s; rebuilt from %s", task_id, lost, other)
    messages = assign_message_timestamps(messages, rows)
    broken = tuple(
        name
        for name, array in ((UI_HISTORY_FILE, ui), (API_HISTORY_FILE, api))
        if not array.is_complete
    )
    return RooHistories(rows, messages, lost, broken)


def _is_message(row: Any) -> bool:
    return isinstance(row, dict) and "role" in row


def _determine_protocol(
    known: dict[str, Any], messages: list[Message], said: list[str]
) -> ToolProtocol:
    """Determine the protocol: Roo's lock, else by the calls, else by the surrounding texts, else
    native."""
    stated = get_text(known, "toolProtocol") or get_text(known, "protocol")
    if stated in list(ToolProtocol):
        return ToolProtocol(stated)
    if (detected := detect_protocol(messages)) is not None:
        return detected
    if written := _search_texts(_TOOL_FORMAT_RE, reversed(said)):
        return ToolProtocol(written)
    spoke_xml = any(_XML_RESULT_RE.match(text) for text in said) or any(
        _XML_FINAL_CALL_RE.search(text) for text in iter_texts(messages, "assistant")
    )
    return ToolProtocol.XML if spoke_xml else ToolProtocol.NATIVE


def _search_texts(pattern: re.Pattern[str], said: Iterable[str]) -> str | None:
    return next((match[1] for text in said if (match := pattern.search(text))), None)


def _back_up_file(directory: Path, name: str) -> None:
    """Back up an original file; an earlier backup is never overwritten."""
    stem = name.removesuffix(".json")
    with translate_storage_errors(f"could not back up {name}", directory):
        original = read_regular_file(directory / name)
        earlier = read_regular_file(directory / f"{stem}.roo.json")
    if original is None or original == earlier:
        return
    if earlier is None:
        replace_files(directory, {f"{stem}.roo.json": original})
    else:
        save_under_numbered_name(directory, f"{stem}.roo-", original, ".json")


def write_roo_directory(
    task: TaskMetadata,
    records: Sequence[Record],
    parent: Path,
    *,
    force: bool = False,
    redactor: Callable[[str], str] = redact_secrets,
) -> Path:
    """Write `<parent>/<id>/` with the four files of a Roo task, and return it. `redactor` removes
    secrets from messages. Raises StoreError if the name exists, or it cannot be written."""
    directory = parent / task.id
    files = encode_roo_files(task, records, redactor)
    with translate_storage_errors(f"could not export task {task.id}", directory):
        if directory.exists() and not force and any(directory.iterdir()):
            raise StoreError(f"{directory} already exists. Use --force to replace its files.")
        make_private_directory(directory)
    replace_files(directory, files)
    return directory


def encode_roo_files(
    task: TaskMetadata, records: Sequence[Record], redactor: Callable[[str], str] = redact_secrets
) -> dict[str, bytes]:
    """Encode the files of a task, by name. Raises StoreError if the task has no rows yet."""
    rows, messages = _build_redacted_histories(records, redactor)
    if not rows:
        raise StoreError(f"task {task.id} is empty: there is nothing to export")
    ui, api = msgspec.json.encode(rows), msgspec.json.encode(messages)
    item = _build_history_item(task, rows) | {"size": len(ui) + len(api)}
    metadata = {"files_in_context": remove_secrets(list(task.files_in_context), redactor)}
    return {
        UI_HISTORY_FILE: ui,
        API_HISTORY_FILE: api,
        METADATA_FILE: msgspec.json.encode(metadata),
        HISTORY_ITEM_FILE: msgspec.json.encode(item),
    }


def _build_redacted_histories(
    records: Sequence[Record], redactor: Callable[[str], str]
) -> tuple[list[dict[str, Any]], list[Any]]:
    protocols = [
        record.event.tool_protocol
        for record in records
        if isinstance(record.event, TaskCreated | TaskImported | ProtocolChanged)
    ]
    ui, api = UiHistory(), ApiHistory(protocols[-1] if protocols else ToolProtocol.NATIVE)
    for record in find_live_branch(records):
        ui.apply(record.event)
        api.apply(record.event)
    rows = [
        row if isinstance(row, dict) else to_roo_call_row(msgspec.to_builtins(row))
        for row in ui.rows
    ]
    rows = normalize_rows([remove_secrets(row, redactor) for row in rows])
    return rows, [
        _redact_message(msgspec.to_builtins(message), redactor)
        for message in api.list_stored_messages()
    ]


def _redact_message(message: dict[str, Any], redactor: Callable[[str], str]) -> dict[str, Any]:
    """Remove secrets from a message. Thinking that had one no longer matches its signature."""
    result: dict[str, Any] = remove_secrets(message, redactor)
    if isinstance(message["content"], str):
        return result
    for block, original in zip(result["content"], message["content"], strict=True):
        if block["type"] == "thinking" and block != original:
            del block["signature"]
    return result


def _build_history_item(task: TaskMetadata, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Build the item for Roo's list of tasks; fields without a value are left out."""
    item = {
        "id": task.id,
        "parentTaskId": task.parent_id,
        "childIds": list(task.child_ids),
        "number": 1,
        "ts": rows[-1]["ts"],
        "task": str(rows[0].get("text") or "").strip(),
        **build_usage_fields(rows),
        "workspace": task.workspace,
        "mode": task.mode,
        "toolProtocol": task.tool_protocol,
        "apiConfigName": task.profile,
    }
    return {name: value for name, value in item.items() if value not in (None, "", [])}


def build_usage_fields(rows: Iterable[dict[str, Any]]) -> dict[str, int | float]:
    usage = sum_row_usage(rows)
    return {
        "tokensIn": usage.total_tokens_in,
        "tokensOut": usage.total_tokens_out,
        "cacheWrites": usage.total_cache_writes,
        "cacheReads": usage.total_cache_reads,
        "totalCost": usage.total_cost,
    }


def detect_protocol(history: Iterable[Message]) -> ToolProtocol | None:
    """Detect the protocol of another program's history; None if it does not show."""
    for message in reversed(list(history)):
        for block in get_blocks(message) if message.role == "assistant" else ():
            if isinstance(block, ToolUseBlock):
                return ToolProtocol.NATIVE if block.id else ToolProtocol.XML
    return None
