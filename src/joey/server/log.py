"""The server's log: one JSON object per line, about what happened and never about what was said.

Messages are fixed words, details are fields. Secrets are blotted out wherever they turn up.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from joey.core.redaction import blotted, blotted_line

FIELDS = ("client", "command", "task", "request", "ms", "code", "reason", "path", "address")
LONGEST = 10_000


class JsonLines(logging.Formatter):
    def __init__(self, blot: Callable[[str], str] = blotted) -> None:
        super().__init__()
        self._blot = blot

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": self._clean(record.getMessage()[:LONGEST]),
        }
        for name in FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = self._clean(value) if isinstance(value, str) else value
        if record.exc_info is not None:
            text = "".join(traceback.format_exception(*record.exc_info))
            line["error"] = self._clean(text)[-LONGEST:]
        return msgspec.json.encode(line).decode()

    def _clean(self, text: str) -> str:
        return blotted_line(text, self._blot)


def log_to(stream: TextIO, level: int, blot: Callable[[str], str] = blotted) -> None:
    """Everything that joey logs from here on; of its libraries only what went wrong."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(blot))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("joey").setLevel(level)
