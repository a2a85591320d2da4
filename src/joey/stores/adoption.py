"""Taking over a task folder that somebody else wrote.

Its two history files become one record. It is written when there is another one to follow it: until
somebody goes on with the task, the folder stays as it is. Then it is the first of a new journal,
and copies of the files are kept as `*.roo.json` before anything of ours can replace them; nothing
is deleted. A file that cannot be used is made up for from the other one.
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
from joey.core.regex import regex
from joey.errors import StoreError
from joey.stores.journal import Journal, encode_record
from joey.stores.layout import API, HISTORY_ITEM, JOURNAL, LEGACY, METADATA, UI
from joey.stores.roo_files import read_array, read_object, text_of
from joey.stores.roo_items import family_of
from joey.stores.roo_messages import convert_messages, texts
from joey.stores.roo_rows import (
    Row,
    convert_rows,
    messages_from_rows,
    rows_from_messages,
    take_deleted_range,
)
from joey.stores.roo_times import stamped
from joey.system.files import keep_aside, read_regular, replace_files, storage_error

_log = logging.getLogger(__name__)
_WORKSPACE = regex(r"^# Current Workspace Directory \((.+)\) Files$", re.MULTILINE)
_MODE = regex(r"<slug>([A-Za-z0-9-]+)</slug>")
_FORMAT = regex(r"<tool_format>(native|xml)</tool_format>")
_XML_END = regex(r"^<(attempt_completion>\s*<result|ask_followup_question>\s*<question)>", re.M)
"""Calls that may be all that a task has made, so that no result tells of them."""
_XML_RESULT = regex(r"\[\w+[^\n]*\] Result:")


class Histories(Struct, frozen=True):
    rows: list[Row]
    messages: list[Message]
    lost: str | None = None
    """The file that could not be used and was made up for from the other one."""
    broken: tuple[str, ...] = ()
    """Files of which only the beginning could be used."""

    @property
    def problem(self) -> str:
        """What is missing, in words; empty when nothing is."""
        lost = [f"{self.lost} cannot be used"] if self.lost else []
        return "; ".join([*lost, *(f"{name} is cut off or damaged" for name in self.broken)])


class Facts(Struct, frozen=True):
    """What the folder tells about the task beside its histories."""

    workspace: str
    mode: str
    protocol: ToolProtocol
    parent_id: str | None
    child_ids: tuple[str, ...]


def adopt(folder: Path, record: Record) -> Journal:
    """Begin the journal of a folder that has none, or none that can be read; the caller locks.

    Raises:
        StoreError: the folder cannot be written.
    """
    for name in (UI, API):
        _back_up(folder, name)
    replace_files(folder, {JOURNAL: encode_record(record)})
    _log.info("adopted the task in %s", folder)
    return Journal.of_record(folder, record)


def record_of_histories(folder: Path, task_id: str) -> Record:
    """What the first record of the journal would be; changes nothing.

    Raises:
        StoreError: neither history can be used.
    """
    return adoption_record(folder, task_id, read_histories(folder, task_id))


def adoption_record(folder: Path, task_id: str, histories: Histories) -> Record:
    rows, messages = histories.rows, histories.messages
    facts = _find_facts(folder, messages)
    stamps = [row["ts"] for row in rows] + [m.ts for m in messages if isinstance(m.ts, int)]
    event = TaskAdopted(
        ts=max(stamps) + 1,
        task_id=task_id,
        workspace=facts.workspace,
        mode=facts.mode,
        protocol=facts.protocol,
        rows=tuple(rows),
        messages=tuple(messages),
        parent_id=facts.parent_id,
        child_ids=facts.child_ids,
    )
    return Record(seq=1, event=event)


def read_histories(folder: Path, task_id: str) -> Histories:
    """Both histories, the one made from the other where only one can be used."""
    ui, api, lost = read_array(folder, UI), read_array(folder, API), None
    rows = convert_rows(ui.values)
    messages = convert_messages(api.values, take_deleted_range(rows))
    if not rows or not messages:
        # Claude Dev called its UI history so; Roo looks for an API history under that name.
        old = read_array(folder, LEGACY).values
        rows = rows or convert_rows([row for row in old if not _is_message(row)])
        messages = messages or convert_messages([row for row in old if _is_message(row)])
    if not messages and rows:
        lost = API
        messages = convert_messages(messages_from_rows(rows))
    if not rows and messages:
        lost = UI
        rows = rows_from_messages(messages)
    if not rows or not messages:
        raise StoreError(
            f"task {task_id} cannot be opened: neither {UI} nor {API} in {folder} can be used."
            " Put back a copy of one of them; nothing was changed."
        )
    if lost is not None:
        other = UI if lost == API else API
        _log.warning("task %s: no usable %s; rebuilt from %s", task_id, lost, other)
    messages = stamped(messages, rows)
    broken = tuple(name for name, array in ((UI, ui), (API, api)) if not array.whole)
    return Histories(rows, messages, lost, broken)


def _is_message(row: Any) -> bool:
    return isinstance(row, dict) and "role" in row


def _find_facts(folder: Path, messages: list[Message]) -> Facts:
    known = read_object(folder / METADATA) | read_object(folder / HISTORY_ITEM)
    said = list(texts(messages, "user"))
    parent_id, child_ids = family_of(known)
    return Facts(
        workspace=workspace_of(known) or _search(_WORKSPACE, said) or "",
        mode=text_of(known, "mode") or _search(_MODE, reversed(said)) or DEFAULT_MODE,
        protocol=_find_protocol(known, messages, said),
        parent_id=parent_id,
        child_ids=child_ids,
    )


def workspace_of(item: dict[str, Any]) -> str:
    """Where a task worked, in the words of Roo's history item or of Cline's."""
    return text_of(item, "workspace") or text_of(item, "cwdOnTaskInitialization")


def _find_protocol(known: dict[str, Any], messages: list[Message], said: list[str]) -> ToolProtocol:
    """Roo's lock, else what the calls say, else what the texts around them say, else native."""
    stated = text_of(known, "toolProtocol") or text_of(known, "protocol")
    if stated in list(ToolProtocol):
        return ToolProtocol(stated)
    if (detected := detect_protocol(messages)) is not None:
        return detected
    if written := _search(_FORMAT, reversed(said)):
        return ToolProtocol(written)
    spoke_xml = any(_XML_RESULT.match(text) for text in said) or any(
        _XML_END.search(text) for text in texts(messages, "assistant")
    )
    return ToolProtocol.XML if spoke_xml else ToolProtocol.NATIVE


def _search(pattern: re.Pattern[str], said: Iterable[str]) -> str | None:
    return next((match[1] for text in said if (match := pattern.search(text))), None)


def _back_up(folder: Path, name: str) -> None:
    """Keep a copy of an original; one kept earlier is never overwritten."""
    stem = name.removesuffix(".json")
    try:
        original = read_regular(folder / name)
        earlier = read_regular(folder / f"{stem}.roo.json")
    except OSError as error:
        raise storage_error(f"could not back up {name}", folder, error) from error
    if original is None or original == earlier:
        return
    if earlier is None:
        replace_files(folder, {f"{stem}.roo.json": original})
    else:
        keep_aside(folder, f"{stem}.roo-", original, ".json")
