"""The server's log: one JSON object per line, about what happened and never about what was said.

Messages are fixed words, details are fields. Values of secrets that are known are blotted out
wherever they turn up.
"""

from __future__ import annotations

import logging
import traceback
from datetime import UTC, datetime
from typing import TextIO

import msgspec

FIELDS = ("client", "command", "task", "request", "ms", "code", "reason", "path", "address")
LONGEST = 10_000


class JsonLines(logging.Formatter):
    def __init__(self, secret: str = "") -> None:
        super().__init__()
        self._secret = secret

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage()[:LONGEST],
        }
        for name in FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = value
        if record.exc_info is not None:
            line["error"] = "".join(traceback.format_exception(*record.exc_info))[-LONGEST:]
        text = msgspec.json.encode(line).decode()
        return text.replace(self._secret, "[token]") if self._secret else text


def log_to(stream: TextIO, level: int, secret: str = "") -> None:
    """Everything that joey logs from here on; of its libraries only what went wrong."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(secret))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("joey").setLevel(level)
