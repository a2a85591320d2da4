"""Secrets that must turn up nowhere, and where to look for them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

KEY = "canary.0f1e2d3c4b5a/6978+8796=="
"""A provider's key that looks like nothing in particular."""
OTHER_KEY = "second.canary/1122+3344556677=="
SERVERS_SECRET = "canary-of-a-server-998877"


def spellings(secret: str) -> set[bytes]:
    return {form.encode() for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1])}


def traces(secrets: Iterable[str], said: dict[str, bytes]) -> list[str]:
    """Where any of these is found, and in what surroundings."""
    found = []
    for place, data in said.items():
        for secret in secrets:
            for form in spellings(secret):
                if (at := data.find(form)) >= 0:
                    found.append(f"{place}: {data[max(0, at - 80) : at + 20]!r}")
    return found


def files_under(*directories: Path, except_for: Iterable[Path] = ()) -> dict[str, bytes]:
    """Names and contents of all files."""
    left_out = set(except_for)
    paths = (path for directory in directories for path in directory.rglob("*"))
    return {
        str(path): path.read_bytes()
        for path in paths
        if path.is_file() and not path.is_symlink() and path not in left_out
    }
