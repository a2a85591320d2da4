"""Which version of which file the model has seen, so that no change is overwritten blindly."""

from __future__ import annotations

from hashlib import blake2b


class FileMemory:
    """Belongs to one task. Files are named by their absolute path."""

    def __init__(self) -> None:
        self._seen: dict[str, bytes] = {}

    def note(self, path: str, data: bytes) -> None:
        """The model has read or written exactly these bytes."""
        self._seen[path] = _digest(data)

    def forget(self, path: str) -> None:
        self._seen.pop(path, None)

    def is_stale(self, path: str, data: bytes) -> bool:
        """Whether the model has seen this file, and it is another one by now."""
        seen = self._seen.get(path)
        return seen is not None and seen != _digest(data)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
