"""Trust: the workspaces that the user trusts, and the exact content that was trusted.

Opening a directory runs nothing in it: no servers, tools, hooks, or modes that loosen rules. They
run once the user has seen and trusted them. Trust is bound to the directory's real path and the
bytes of each item, so a change needs new trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from joey.config.json_documents import load_document, write_document
from joey.system.locks import lock_for_update

TRUST_FILE = "trust.json"


class Trusted(Struct, frozen=True):
    """Everything was trusted in its current form."""


class Untrusted(Struct, frozen=True):
    """Names of items that were never trusted, and of those that have changed since."""

    new_names: tuple[str, ...] = ()
    changed_names: tuple[str, ...] = ()


class _TrustDocument(Struct, frozen=True):
    workspaces: dict[str, dict[str, str]] = {}


class TrustStore:
    """Stores trust. Every method may raise ConfigError: an unreadable file means no trust."""

    def __init__(self, home: Path) -> None:
        self.path = home / TRUST_FILE

    def check(self, workspace: Path, items: Mapping[str, bytes]) -> Trusted | Untrusted:
        """Whether all of this was trusted, byte for byte."""
        agreed = self._load().get(_canonicalize_path(workspace), {})
        new = tuple(name for name in items if name not in agreed)
        changed = tuple(
            name
            for name, content in items.items()
            if name in agreed and agreed[name] != _compute_digest(content)
        )
        return Untrusted(new, changed) if new or changed else Trusted()

    def grant(self, workspace: Path, items: Mapping[str, bytes]) -> None:
        """Trust exactly these items in this workspace."""
        digests = {name: _compute_digest(content) for name, content in items.items()}
        with lock_for_update(self.path):
            agreed = {**self._load(), _canonicalize_path(workspace): digests}
            write_document(self.path, {"workspaces": agreed})

    def revoke(self, workspace: Path) -> bool:
        """Revoke trust; False if there was none."""
        workspace_path = _canonicalize_path(workspace)
        if workspace_path not in self._load():
            return False
        with lock_for_update(self.path):
            left = {each: agreed for each, agreed in self._load().items() if each != workspace_path}
            write_document(self.path, {"workspaces": left})
        return True

    def _load(self) -> dict[str, dict[str, str]]:
        return dict(load_document(self.path, _TrustDocument).workspaces)


def _canonicalize_path(workspace: Path) -> str:
    return str(workspace.resolve())


def _compute_digest(content: bytes) -> str:
    from hashlib import sha256

    return sha256(content).hexdigest()
