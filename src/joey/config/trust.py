"""Trust: the workspaces that the user trusts, and the exact content that was trusted.

Opening a directory runs nothing that it brings along: servers, tools, hooks, modes that loosen
rules. They run once the user has seen and trusted them. Trust is bound to the real path of the
directory and to the bytes of each thing, so that a change needs new trust.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from joey.config.files import convert_document, read_document, write_document
from joey.system.files import changing

TRUST_FILE = "trust.json"


class Trusted(Struct, frozen=True):
    """Everything that is wanted was agreed to, as it is now."""


class Untrusted(Struct, frozen=True):
    """Names of what was never agreed to, and of what is no longer what was agreed to."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class _TrustDocument(Struct, frozen=True):
    workspaces: dict[str, dict[str, str]] = {}


class TrustStore:
    """Every method may raise ConfigError: a file that cannot be read is no trust."""

    def __init__(self, home: Path) -> None:
        self.path = home / TRUST_FILE

    def check(self, workspace: Path, wanted: Mapping[str, bytes]) -> Trusted | Untrusted:
        """Whether all of this was agreed to, byte for byte."""
        agreed = self._load().get(_canonical(workspace), {})
        new = tuple(name for name in wanted if name not in agreed)
        changed = tuple(
            name
            for name, content in wanted.items()
            if name in agreed and agreed[name] != _digest(content)
        )
        return Untrusted(new, changed) if new or changed else Trusted()

    def grant(self, workspace: Path, wanted: Mapping[str, bytes]) -> None:
        """Agree to this and to nothing else in this workspace."""
        digests = {name: _digest(content) for name, content in wanted.items()}
        with changing(self.path):
            self._save({**self._load(), _canonical(workspace): digests})

    def revoke(self, workspace: Path) -> bool:
        """Whether there was anything to take back."""
        place = _canonical(workspace)
        if place not in self._load():
            return False
        with changing(self.path):
            self._save({each: agreed for each, agreed in self._load().items() if each != place})
        return True

    def _load(self) -> dict[str, dict[str, str]]:
        document = read_document(self.path) or {}
        return dict(convert_document(document, _TrustDocument, self.path).workspaces)

    def _save(self, workspaces: dict[str, dict[str, str]]) -> None:
        write_document(self.path, {"workspaces": workspaces})


def _canonical(workspace: Path) -> str:
    return str(workspace.resolve())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
