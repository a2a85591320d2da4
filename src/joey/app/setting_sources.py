"""Where what counts in a task comes from: a file of the person, a flag, the project, an answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from joey.app.customs import scopes_for
from joey.app.options import with_permissions
from joey.app.permissions import Flags
from joey.config.files import read_document
from joey.config.home import joey_home, person_home
from joey.config.settings import SETTINGS, load_settings, read_tightening, tightened
from joey.config.untrusted_files import Sightings
from joey.core.settings import Settings
from joey.workspace.files import LocalFiles

DEFAULT = "default"
PROJECT = ".roo/settings.json of the project"
TASK = "for this task"
_NAMES = {field.name: field.encode_name for field in structs.fields(Settings)}


class SettingSources:
    """Of one workspace. Raises ConfigError, WorkspaceError."""

    def __init__(
        self,
        workspace: Path,
        flags: Flags,
        home: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        env = os.environ if env is None else env
        home = home or joey_home(env)
        self._flags = flags
        self._file = _shown(home / SETTINGS, person_home(env))
        self._given = read_document(home / SETTINGS) or {}
        self._own = load_settings(home)
        self._flagged = with_permissions(
            self._own,
            flags.yes,
            flags.require_approval,
            flags.allow,
            flags.deny,
            flags.allow_writes,
        )
        if flags.no_sandbox:
            self._flagged = structs.replace(self._flagged, sandbox="off")
        project = read_tightening(scopes_for(LocalFiles(workspace), home, env), Sightings())
        self.settings = tightened(self._flagged, project)
        """Those of a task that would begin now."""

    def of_value(self, field: str, value: object) -> str:
        """Where a field of the settings has this value from."""
        if getattr(self.settings, field) != value:
            return TASK
        if getattr(self._flagged, field) != value:
            return PROJECT
        if getattr(self._own, field) != value:
            return self._flag(field)
        return self._file if _NAMES[field] in self._given else DEFAULT

    def of_entry(self, field: str, entry: str) -> str:
        """Where a list of the settings has this entry from."""
        if entry in getattr(self._own, field):
            return self._file
        if entry in getattr(self._flagged, field):
            return self._flag(field)
        return PROJECT if entry in getattr(self.settings, field) else TASK

    def _flag(self, field: str) -> str:
        match field:
            case "sandbox":
                return "--no-sandbox"
            case "denied_commands":
                return "--deny"
            case "auto_approval_enabled" if self._flags.require_approval:
                return "-a"
        if self._flags.yes:
            return "-y"
        return "--allow-writes" if self._flags.allow_writes and "write" in field else "--allow"


def _shown(path: Path, home: Path) -> str:
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
