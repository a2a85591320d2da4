"""Objects of the shadow, written and read as git does it, but without starting one.

Each is a file of its own, called after the hash of what it holds: a kind, a length, the data. git
packs them later; what is in a pack is left to git.
"""

from __future__ import annotations

import os
import zlib
from hashlib import sha1
from pathlib import Path
from secrets import token_hex

_MODE, _FOLDER_MODE = 0o400, 0o700
_LITTLE = 1
"""How hard to compress: this is about speed."""


def write_object(repository: Path, kind: bytes, data: bytes) -> str:
    """Its id. There is either all of it or nothing. Raises OSError."""
    head = b"%s %d\0" % (kind, len(data))
    digest = sha1(head, usedforsecurity=False)
    digest.update(data)
    path = _place(repository, digest.hexdigest())
    if path.exists():
        return digest.hexdigest()
    path.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    # Under a name that git removes when it finds it left behind.
    new = path.with_name(f"tmp_obj_{token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(zlib.compress(head + data, _LITTLE))
        new.rename(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return digest.hexdigest()


def read_object(repository: Path, kind: bytes, wanted: str) -> bytes | None:
    """What it holds; None where git has to be asked."""
    try:
        whole = zlib.decompress(_place(repository, wanted).read_bytes())
    except (OSError, zlib.error):
        return None
    head, _, data = whole.partition(b"\0")
    return data if head == b"%s %d" % (kind, len(data)) else None


def _place(repository: Path, name: str) -> Path:
    return repository / "objects" / name[:2] / name[2:]
