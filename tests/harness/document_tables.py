"""Tables in documents that are made from the code: held to it, or written anew on demand."""

from __future__ import annotations

import os
from pathlib import Path

RENEW = bool(os.environ.get("JOEY_RENEW"))


def hold(document: Path, begin: str, end: str, made: str, test: str) -> None:
    """What stands between the two marks is `made`; with JOEY_RENEW it becomes so."""
    text = document.read_text(encoding="utf-8")
    before, found, rest = text.partition(begin)
    old, closed, after = rest.partition(end)
    assert found, f"{document.name} lacks {begin!r}"
    assert closed, f"{document.name} lacks {end!r}"
    new = f"\n{made}\n"
    if RENEW and old != new:
        document.write_text(f"{before}{begin}{new}{end}{after}", encoding="utf-8")
        return
    assert old == new, f"run JOEY_RENEW=1 python -m pytest {test}"
