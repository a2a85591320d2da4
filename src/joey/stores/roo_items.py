"""History items: what Roo and Cline remember of a task outside of its conversation.

Since April 2026 Roo keeps one beside each conversation. Before that they were all in one list: in
the editor's own database, in Cline in a file, for the command line in its copy of that database.
The protocol of an older task is told there and nowhere else.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

from joey.stores.layout import HISTORY_ITEM
from joey.stores.roo_files import decode_loosely, read_object, read_value, text_of

_log = logging.getLogger(__name__)
Item = dict[str, Any]


def listed_items(tasks: Path) -> dict[str, Item]:
    """The items of a folder of tasks, by id, from every list there is; the surest list wins."""
    storage = tasks.parent
    lists = [
        _editors_list(storage.parent / "state.vscdb", storage.name),
        read_object(storage / "global-state.json").get("taskHistory"),
        read_value(storage / "state" / "taskHistory.json"),
        read_object(tasks / "_index.json").get("entries"),
    ]
    items: dict[str, Item] = {}
    for each in lists:
        for item in each if isinstance(each, list) else ():
            if isinstance(item, dict) and isinstance(item.get("id"), str):
                items[item["id"]] = items.get(item["id"], {}) | item
    return items


def item_of(folder: Path, listed: dict[str, Item]) -> Item:
    """All that is known of one task."""
    return listed.get(folder.name, {}) | read_object(folder / HISTORY_ITEM)


def family_of(item: Item) -> tuple[str | None, tuple[str, ...]]:
    """The ids of the task above and of those below, in Roo's words or in joey's."""
    parent = text_of(item, "parentTaskId") or text_of(item, "parentId") or None
    children = item.get("childIds")
    named = children if isinstance(children, list) else []
    return parent, tuple(name for name in named if isinstance(name, str))


def _editors_list(database: Path, extension: str) -> Any:
    """What the editor keeps for an extension; its database is opened so that nothing is written."""
    if not database.is_file():
        return None
    import sqlite3

    address = f"file:{quote(str(database))}?mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(address, uri=True)
        try:
            query = "SELECT value FROM ItemTable WHERE lower(key) = ?"
            row = connection.execute(query, (extension.lower(),)).fetchone()
        finally:
            connection.close()
        value = row[0] if row else "{}"
        state = decode_loosely(value if isinstance(value, bytes) else str(value).encode())
    except (sqlite3.Error, ValueError, RecursionError) as error:
        _log.warning("%s cannot be read: %s", database, error)
        return None
    return state.get("taskHistory") if isinstance(state, dict) else None
