"""Overview of the permissions of a task: each kind of call, its decision, rule and source.

The policy itself judges a call of each kind, so the overview cannot differ from it. A source is a
user's file, a flag, the project, or an answer given in the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from joey.app.customizations import build_config_scopes
from joey.app.options import PermissionFlags
from joey.config.home import resolve_home_and_env, resolve_user_home
from joey.config.json_documents import read_document
from joey.config.settings import SETTINGS_FILE, load_settings, read_restrictions, restrict_settings
from joey.config.untrusted_files import UntrustedFileReader
from joey.core.modes import Mode, ToolGroup
from joey.core.path_access import FileScope, ResolvedPath
from joey.core.permissions.policy import (
    ALLOW_ALL_RULE,
    WORKSPACE_EDITS_TEXT,
    Access,
    Allow,
    Ask,
    Claim,
    Deny,
    SandboxStatus,
    decide,
)
from joey.core.permissions.reasons import Reason, ReasonKind, format_cause
from joey.core.settings import Settings
from joey.workspace.files import LocalFiles
from joey.workspace.ignore import IGNORE_FILE_NAME as IGNORE_FILE

_FIELD_BY_SETTING = {field.encode_name: field.name for field in structs.fields(Settings)}
_SETTING_BY_FIELD = {field: name for name, field in _FIELD_BY_SETTING.items()}
_WORKSPACE_PATH = ResolvedPath(path_as_given="", path=Path("/x"), display_path="", is_inside=True)
_OUTSIDE_PATH = structs.replace(_WORKSPACE_PATH, is_inside=False)
_READABLE_OUTSIDE_PATH = structs.replace(_OUTSIDE_PATH, can_read_without_approval=True)
_PROTECTED_PATH = structs.replace(_WORKSPACE_PATH, is_protected=True)
_CALL_KINDS = (
    ("reading files here", ToolGroup.READ, Claim(Access.READ, path=_WORKSPACE_PATH)),
    ("reading files elsewhere", ToolGroup.READ, Claim(Access.READ, path=_OUTSIDE_PATH)),
    ("changing files here", ToolGroup.EDIT, Claim(Access.WRITE, path=_WORKSPACE_PATH)),
    ("changing files elsewhere", ToolGroup.EDIT, Claim(Access.WRITE, path=_OUTSIDE_PATH)),
    ("changing protected files", ToolGroup.EDIT, Claim(Access.WRITE, path=_PROTECTED_PATH)),
    ("another mode", ToolGroup.ALWAYS, Claim(Access.SWITCH_MODE)),
    ("subtasks", ToolGroup.ALWAYS, Claim(Access.DELEGATE)),
    ("slash commands", ToolGroup.ALWAYS, Claim(Access.FETCH_INSTRUCTIONS)),
    ("skills", ToolGroup.ALWAYS, Claim(Access.SKILL)),
    ("tools of your own", ToolGroup.ALWAYS, Claim(Access.CUSTOM_TOOL)),
    ("the browser", ToolGroup.BROWSER, Claim(Access.BROWSER)),
)

DEFAULT_FILE_SCOPE = FileScope()


class PermissionLine(Struct, frozen=True):
    subject: str
    decision: Literal["allow", "ask", "deny"]
    rule: str
    """What allows or refuses it, or why it is asked."""
    source: str = ""
    """Where that is said; nothing where it cannot be said otherwise."""


class PermissionOverview:
    def __init__(
        self,
        sources: SettingSources,
        settings: Settings,
        mode: Mode,
        sandbox: SandboxStatus,
        workspace: Path,
        *,
        edits_granted: bool = False,
        scope: FileScope = DEFAULT_FILE_SCOPE,
    ) -> None:
        self._sources = sources
        self._settings = settings
        self._mode = mode
        self._sandbox = sandbox
        self._workspace = workspace
        self._has_edit_grant = edits_granted
        self._file_scope = scope

    def build_lines(self) -> list[PermissionLine]:
        kinds = [self._build_kind_line(*kind) for kind in _CALL_KINDS]
        rest = (*self._iter_scope_lines(), *self._iter_command_lines(), *self._iter_mcp_lines())
        lines = [*kinds, *rest]
        if (self._workspace / IGNORE_FILE).exists():
            lines.append(PermissionLine("hidden files", "deny", IGNORE_FILE))
        return lines

    def _build_kind_line(self, about: str, group: ToolGroup, claim: Claim) -> PermissionLine:
        grant = self._mode.find_grant(group)
        if grant is None:
            return self._build_mode_denial(about)
        decision = decide((claim,), self._settings, edits_granted=self._has_edit_grant)
        line = self._build_line(about, decision)
        if grant.file_regex is None:
            return line
        which = grant.description or grant.file_regex
        return structs.replace(line, subject=f"{about} ({which})")

    def _build_line(self, about: str, decision: Allow | Ask | Deny) -> PermissionLine:
        match decision:
            case Allow(rule) if rule == WORKSPACE_EDITS_TEXT:
                return PermissionLine(about, "allow", rule)
            case Allow(rule):
                return PermissionLine(about, "allow", rule, self._find_source(rule.split(" + ")))
            case Deny(reason):
                return PermissionLine(about, "deny", reason.rule)
            case Ask(reasons):
                reason = reasons[0]
                source = self._find_source([reason.setting])
                return PermissionLine(about, "ask", format_cause(reason), source)

    def _find_source(self, switches: Sequence[str]) -> str:
        fields = [_FIELD_BY_SETTING[name] for name in switches if name in _FIELD_BY_SETTING]
        found = (
            self._sources.find_value_source(each, getattr(self._settings, each)) for each in fields
        )
        return ", ".join(dict.fromkeys(found))

    def _build_mode_denial(self, about: str) -> PermissionLine:
        return PermissionLine(about, "deny", f"the mode {self._mode.slug} does not have it")

    # Commands

    def _iter_command_lines(self) -> Iterator[PermissionLine]:
        if self._mode.find_grant(ToolGroup.COMMAND) is None:
            yield self._build_mode_denial("commands")
            return
        yield from self._iter_rule_list_lines("denied_commands", "commands", "deny")
        if self._sandbox == "none" and self._settings.sandbox == "required":
            yield PermissionLine("commands", "deny", "sandbox is required, and none works here")
            return
        if (disabled := self._find_disabled_switch("commands", "alwaysAllowExecute")) is not None:
            yield disabled
            return
        if self._sandbox == "none":
            yield PermissionLine("commands", "ask", format_cause(Reason(ReasonKind.NO_SANDBOX)))
            return
        yield from self._iter_rule_list_lines("allowed_commands", "commands", "allow")
        if ALLOW_ALL_RULE not in self._settings.allowed_commands:
            yield PermissionLine("other commands", "ask", "no rule of allowedCommands names them")

    # MCP

    def _iter_mcp_lines(self) -> Iterator[PermissionLine]:
        if self._mode.find_grant(ToolGroup.MCP) is None:
            yield self._build_mode_denial("MCP tools")
            return
        if (disabled := self._find_disabled_switch("MCP tools", "alwaysAllowMcp")) is not None:
            yield disabled
            return
        yield from self._iter_rule_list_lines("allowed_mcp_tools", "MCP tools", "allow")
        if ALLOW_ALL_RULE in self._settings.allowed_mcp_tools:
            return
        source = self._find_source(["alwaysAllowMcp"])
        yield PermissionLine(
            "MCP tools in alwaysAllow of their server", "allow", "alwaysAllowMcp", source
        )
        yield PermissionLine("other MCP tools", "ask", "neither list names them")

    def _iter_scope_lines(self) -> Iterator[PermissionLine]:
        for directory in self._file_scope.added_directories:
            about = f"{directory}, as part of the workspace"
            yield PermissionLine(about, "allow", "for this run", "--add-dir")
        if self._file_scope.matches_sandbox:
            claim = Claim(Access.READ, path=_READABLE_OUTSIDE_PATH)
            line = self._build_kind_line(
                "reading what sandboxed commands see", ToolGroup.READ, claim
            )
            yield structs.replace(line, source="-y") if line.decision == "allow" else line

    def _find_disabled_switch(self, about: str, switch: str) -> PermissionLine | None:
        for name in ("autoApprovalEnabled", switch):
            if not getattr(self._settings, _FIELD_BY_SETTING[name]):
                return PermissionLine(about, "ask", f"{name} is off", self._find_source([name]))
        return None

    def _iter_rule_list_lines(
        self, field: str, subject: str, decision: Literal["allow", "deny"]
    ) -> Iterator[PermissionLine]:
        """Iterate over the lines of a rule list, grouped by source."""
        rule = _SETTING_BY_FIELD[field]
        by_source: dict[str, list[str]] = {}
        for entry in getattr(self._settings, field):
            by_source.setdefault(self._sources.find_entry_source(field, entry), []).append(entry)
        for source, entries in by_source.items():
            label = "" if source == TASK_SOURCE else source
            listed = f"{subject} {', '.join(f'`{entry}`' for entry in entries)}"
            yield PermissionLine(
                listed, decision, rule if label else f"{rule}, {TASK_SOURCE}", label
            )


DEFAULT_SOURCE = "default"
PROJECT_SOURCE = ".roo/settings.json of the project"
TASK_SOURCE = "for this task"


class SettingSources:
    """Sources of settings in one workspace. Raises ConfigError, WorkspaceError."""

    def __init__(
        self,
        workspace: Path,
        flags: PermissionFlags,
        home: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        home, env = resolve_home_and_env(home, env)
        self._flags = flags
        path, user_home = home / SETTINGS_FILE, resolve_user_home(env)
        is_below = path.is_relative_to(user_home)
        self._settings_file = f"~/{path.relative_to(user_home)}" if is_below else str(path)
        self._file_values = read_document(path) or {}
        self._user_settings = load_settings(home)
        self._settings_with_flags = flags.apply_to(self._user_settings)
        project = read_restrictions(
            build_config_scopes(LocalFiles(workspace), home, env), UntrustedFileReader()
        )
        self.settings = restrict_settings(self._settings_with_flags, project)
        """Those of a task that would begin now."""

    def find_value_source(self, field: str, value: object) -> str:
        """Find the source of a setting's value."""
        if getattr(self.settings, field) != value:
            return TASK_SOURCE
        if getattr(self._settings_with_flags, field) != value:
            return PROJECT_SOURCE
        if getattr(self._user_settings, field) != value:
            return self._find_flag(field)
        return (
            self._settings_file if _SETTING_BY_FIELD[field] in self._file_values else DEFAULT_SOURCE
        )

    def find_entry_source(self, field: str, entry: str) -> str:
        """Find the source of an entry in a list setting."""
        if entry in getattr(self._user_settings, field):
            return self._settings_file
        if entry in getattr(self._settings_with_flags, field):
            return self._find_flag(field)
        return PROJECT_SOURCE if entry in getattr(self.settings, field) else TASK_SOURCE

    def _find_flag(self, field: str) -> str:
        match field:
            case "sandbox":
                return "--no-sandbox"
            case "sandbox_network":
                return "--network"
            case "denied_commands":
                return "--deny"
            case "auto_approval_enabled" if self._flags.require_approval:
                return "-a"
        if self._flags.yes:
            return "-y"
        return "--allow-writes" if self._flags.allow_writes and "write" in field else "--allow"
