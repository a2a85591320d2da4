"""Taking over a task folder that somebody else wrote.

Its two history files become one record, the first of a new journal. Copies of the files are kept
as `*.roo.json` before anything of ours can replace them; nothing is deleted. A file that cannot
be used is made up for from the other one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from joey.core.events import Record, TaskAdopted
from joey.core.messages import Message
from joey.core.modes import DEFAULT_MODE
from joey.core.protocol import ToolProtocol, detect_protocol
from joey.errors import StoreError
from joey.stores.journal import encode_record
from joey.stores.layout import API, HISTORY_ITEM, JOURNAL, LEGACY_API, METADATA, UI
from joey.stores.private_files import keep_aside, read_regular, replace_files, storage_error
from joey.stores.roo_calls import calls_as_text, pair_calls
from joey.stores.roo_files import read_array, read_object, text_of
from joey.stores.roo_messages import convert_messages, texts
from joey.stores.roo_rows import Row, convert_rows, messages_from_rows, rows_from_messages

_log = logging.getLogger(__name__)
_WORKSPACE = re.compile(r"^# Current Workspace Directory \((.+)\) Files$", re.MULTILINE)
_MODE = re.compile(r"<slug>([A-Za-z0-9-]+)</slug>")
_FORMAT = re.compile(r"<tool_format>(native|xml)</tool_format>")
_XML_RESULT = re.compile(r"\[\w+[^\n]*\] Result:")


class Facts(Struct, frozen=True):
    """What the folder tells about the task beside its histories."""

    workspace: str
    mode: str
    protocol: ToolProtocol


def adopt(folder: Path, task_id: str) -> Record:
    """Write a journal for a folder that has none, or none that can be read; the caller locks.

    Raises:
        StoreError: neither history can be used, or the folder cannot be written.
    """
    record = record_of_histories(folder, task_id)
    for name in (UI, API):
        _back_up(folder, name)
    replace_files(folder, {JOURNAL: encode_record(record)})
    _log.info("adopted task %s", task_id)
    return record


def record_of_histories(folder: Path, task_id: str) -> Record:
    """What the first record of the journal would be; changes nothing."""
    rows, messages = read_histories(folder, task_id)
    facts = _find_facts(folder, messages)
    fix = pair_calls if facts.protocol is ToolProtocol.NATIVE else calls_as_text
    stamps = [row["ts"] for row in rows] + [m.ts for m in messages if isinstance(m.ts, int)]
    event = TaskAdopted(
        ts=max(stamps) + 1,
        task_id=task_id,
        workspace=facts.workspace,
        mode=facts.mode,
        protocol=facts.protocol,
        rows=tuple(rows),
        messages=tuple(fix(messages)),
    )
    return Record(seq=1, event=event)


def read_histories(folder: Path, task_id: str) -> tuple[list[Row], list[Message]]:
    """Both histories, the one made from the other where only one can be used."""
    rows = convert_rows(read_array(folder, UI) or [])
    messages = convert_messages(read_array(folder, API, LEGACY_API) or [])
    if not messages and rows:
        _log.warning("task %s: no usable %s; rebuilt from %s", task_id, API, UI)
        messages = convert_messages(messages_from_rows(rows))
    if not rows and messages:
        _log.warning("task %s: no usable %s; rebuilt from %s", task_id, UI, API)
        rows = rows_from_messages(messages)
    if not rows or not messages:
        raise StoreError(
            f"task {task_id} cannot be opened: neither {UI} nor {API} in {folder} can be used."
            " Put back a copy of one of them; nothing was changed."
        )
    return rows, messages


def _find_facts(folder: Path, messages: list[Message]) -> Facts:
    known = read_object(folder / METADATA) | read_object(folder / HISTORY_ITEM)
    said = list(texts(messages, "user"))
    return Facts(
        workspace=text_of(known, "workspace") or _search(_WORKSPACE, said) or "",
        mode=text_of(known, "mode") or _search(_MODE, reversed(said)) or DEFAULT_MODE,
        protocol=_find_protocol(known, messages, said),
    )


def _find_protocol(known: dict[str, Any], messages: list[Message], said: list[str]) -> ToolProtocol:
    """Roo's lock, else what the calls say, else what the texts around them say, else native."""
    stated = text_of(known, "toolProtocol") or text_of(known, "protocol")
    if stated in list(ToolProtocol):
        return ToolProtocol(stated)
    if (detected := detect_protocol(messages)) is not None:
        return detected
    if written := _search(_FORMAT, reversed(said)):
        return ToolProtocol(written)
    spoke_xml = any(_XML_RESULT.match(text) for text in said)
    return ToolProtocol.XML if spoke_xml else ToolProtocol.NATIVE


def _search(pattern: re.Pattern[str], said: Iterable[str]) -> str | None:
    return next((match[1] for text in said if (match := pattern.search(text))), None)


def _back_up(folder: Path, name: str) -> None:
    """Keep a copy of an original; one kept earlier is never overwritten."""
    try:
        original = read_regular(folder / name)
        stem = name.removesuffix(".json")
        earlier = read_regular(folder / f"{stem}.roo.json")
    except OSError as error:
        raise storage_error(f"could not back up {name}", folder, error) from error
    if original is None or original == earlier:
        return
    if earlier is None:
        replace_files(folder, {f"{stem}.roo.json": original})
    else:
        keep_aside(folder, f"{stem}.roo-", original, ".json")
