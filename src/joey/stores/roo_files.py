"""Reading files that somebody else wrote: Roo's own, or an earlier joey's snapshots.

Everything here answers with what could be read, or with nothing; what was passed over is logged.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from joey.stores.private_files import read_regular

_log = logging.getLogger(__name__)
_MAX_SAFE = 2**53


def read_array(folder: Path, *names: str) -> list[Any] | None:
    """The first file of these that holds a JSON array with something in it.

    Roo saves by writing `.<name>.new_…`, moving the old file to `.<name>.bak_…` and the new one
    into its place; when that was cut short, one of the two is the best there is.
    """
    for path in _candidates(folder, names):
        value = _read_json(path)
        if isinstance(value, list) and value:
            return value
        if value is not None:
            _log.warning("%s holds no list of messages", path)
    return None


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; an empty one when it is missing or something else."""
    value = _read_json(path)
    return value if isinstance(value, dict) else {}


def whole_number(value: Any) -> int | None:
    """A count or a time as JavaScript may have written it; None for anything else."""
    if not isinstance(value, int | float) or not 0 <= value < _MAX_SAFE:
        return None
    return int(value)


def text_of(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


def decode_loosely(data: bytes) -> Any:
    """JSON as JavaScript writes it: half of a surrogate pair or a byte-order mark is no error.

    Raises:
        ValueError, RecursionError: it is not JSON.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = data.decode("utf-8-sig", "replace")
        value = json.loads(text, parse_constant=lambda _: None)
        valid = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        return msgspec.json.decode(valid)


def _candidates(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    for name in names:
        yield folder / name
        leftovers = [*folder.glob(f".{name}.bak_*"), *folder.glob(f".{name}.new_*")]
        yield from sorted(leftovers, key=os.path.getmtime, reverse=True)


def _read_json(path: Path) -> Any:
    try:
        data = read_regular(path)
        return None if data is None else decode_loosely(data)
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("%s cannot be read: %s", path, error)
        return None
