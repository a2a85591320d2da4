"""Explanations of permission decisions, for one call or for the recorded calls of tasks.

The tools state their claims as they do in a task, and the same policy judges them. Nothing in the
workspace is run and nothing is written: no task directory, no index, no file in the user's home.
What a sandbox can confine is probed before the first command by joey's own canary.
`PermissionAudit` reads journals and compares the recorded decisions with those of other rules.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field, structs

from joey.app.customizations import apply_project_restrictions, load_modes
from joey.app.engine_factory import open_store
from joey.app.options import PermissionFlags, resolve_workspace
from joey.app.sandbox import build_boundary, build_sandbox
from joey.config.home import resolve_home_and_env
from joey.config.settings import load_settings
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.modes import choose_fallback_mode
from joey.core.path_access import FileScope, ResolvedPath
from joey.core.permissions.audit import AuditEntry, ReplayableEntry, build_audit
from joey.core.permissions.commands import MAX_COMMAND_CHARS
from joey.core.permissions.policy import Access, Allow, Ask, Claim, Deny, SandboxStatus, decide
from joey.core.permissions.reasons import DeniedError, Reason, format_reason, format_reasons
from joey.core.permissions.shell import parse_plain_commands
from joey.core.settings import Settings
from joey.errors import IgnoredPathError, StoreError, ToolError, UserError
from joey.execution.bash_grammar import BashGrammar
from joey.execution.terminal import LocalTerminal
from joey.ports.storage import Store, TaskMetadata
from joey.ports.tool_context import ToolContext
from joey.tools.base import resolve_visible_path
from joey.tools.registry import AnyTool, Registry, build_default_tools, iter_argument_paths
from joey.workspace.files import LocalFiles
from joey.workspace.search import LocalSearch


class PermissionExplanation(Struct, frozen=True):
    decision: Literal["allow", "ask", "deny"]
    rule: str | None
    """The rule or the settings that allowed or refused it."""
    reason: str
    commands: tuple[tuple[str, ...], ...] = ()
    """The commands of a line as words; none when it is more than plain words."""
    sandbox: SandboxStatus | UnsetType = UNSET
    """Of a command: how far it would be confined."""
    protected: bool | UnsetType = UNSET
    """Of a file that would be changed: only its own switch lets that happen unasked."""
    reasons: tuple[Reason, ...] = ()
    """Why it is asked about or refused, as values."""


class PermissionExplainer:
    """Of one workspace, with one user's settings. Raises ConfigError, WorkspaceError."""

    def __init__(
        self,
        workspace: Path,
        flags: PermissionFlags,
        home: Path | None = None,
        env: Mapping[str, str] | None = None,
        mode: str | None = None,
    ) -> None:
        home, env = resolve_home_and_env(home, env)
        directory = resolve_workspace(workspace)
        flagged = flags.apply_to(load_settings(home))
        self.settings = apply_project_restrictions(LocalFiles(directory), home, env, flagged)
        self._registry = Registry(build_default_tools())
        self._shell_grammar = BashGrammar()
        scope = flags.build_file_scope(home, env)
        self._context = _build_context(directory, home, env, self.settings, scope, mode)

    async def explain_command(self, line: str, cwd: str | None = None) -> PermissionExplanation:
        """`cwd` is the directory to run it in, when that is not the workspace."""
        arguments = {"command": line} if cwd is None else {"command": line, "cwd": cwd}
        try:
            claims = await self._prepare_claims("execute_command", arguments)
        except ToolError as error:
            return explain_error(error)
        return self.explain_claims(
            claims, parse_plain_commands(line) or () if len(line) <= MAX_COMMAND_CHARS else ()
        )

    async def explain_read(self, path: str) -> PermissionExplanation:
        try:
            claims = await self._prepare_claims("read_file", {"path": path})
            await self._check_regular_file(self.resolve_path(path))
        except ToolError as error:
            return explain_error(error)
        return self.explain_claims(claims)

    async def explain_write(self, path: str) -> PermissionExplanation:
        """Tools that write claim the file alone; what would be written makes no difference."""
        try:
            tool = self._find_allowed_tool("write_to_file", {"path": path})
            claims = (Claim(Access.WRITE, path=self.resolve_path(path)),)
            self._registry.check_claimed_paths(tool, self._context.mode, claims)
            await self._check_regular_file(self.resolve_path(path))
        except ToolError as error:
            return explain_error(error)
        protected = self.resolve_path(path).is_protected or UNSET
        return structs.replace(self.explain_claims(claims), protected=protected)

    async def _check_regular_file(self, resolved: ResolvedPath) -> None:
        """Raises ToolError, as reading and writing would: it is a pipe, a socket or a device, or
        links that lead in a circle."""
        if not resolved.is_inside:
            return
        found = await self._context.files.stat(resolved)
        if found.exists and not (found.is_file or found.is_dir):
            raise ToolError(f"{resolved.display_path} is not a regular file.")

    def resolve_path(self, path: str) -> ResolvedPath:
        """Raises ToolError."""
        return resolve_visible_path(self._context, path)

    async def _prepare_claims(self, name: str, arguments: dict[str, Any]) -> tuple[Claim, ...]:
        tool = self._find_allowed_tool(name, arguments)
        prepared = await tool.prepare(tool.parse(arguments), self._context)
        self._registry.check_claimed_paths(tool, self._context.mode, prepared.claims)
        claims: tuple[Claim, ...] = tuple(prepared.claims)
        return claims

    def _find_allowed_tool(self, name: str, arguments: dict[str, Any]) -> AnyTool:
        tool = self._registry.find(name)
        self._registry.check_allowed(tool, self._context.mode, self.settings, arguments)
        return tool

    def explain_claims(
        self, claims: tuple[Claim, ...], commands: tuple[tuple[str, ...], ...] = ()
    ) -> PermissionExplanation:
        sandbox = next((claim.sandbox for claim in claims if claim.sandbox is not None), UNSET)
        match decide(claims, self.settings, self._shell_grammar.parse_chain):
            case Allow(rule):
                return PermissionExplanation("allow", rule, f"allowed by {rule}", commands, sandbox)
            case Ask(reasons):
                text = format_reasons(reasons)
                return PermissionExplanation("ask", None, text, commands, sandbox, reasons=reasons)
            case Deny(reason):
                return PermissionExplanation(
                    "deny", reason.rule, format_reason(reason), commands, sandbox, reasons=(reason,)
                )


def explain_error(error: ToolError) -> PermissionExplanation:
    match error:
        case DeniedError(reason=reason):
            return PermissionExplanation("deny", reason.rule, str(error), reasons=(reason,))
        case IgnoredPathError():
            return PermissionExplanation("deny", ".rooignore", str(error))
    return PermissionExplanation("deny", None, str(error))


def _build_context(
    directory: Path,
    home: Path,
    env: Mapping[str, str],
    settings: Settings,
    scope: FileScope,
    mode: str | None,
) -> ToolContext:
    files = LocalFiles(directory, boundary=build_boundary(directory, home, env, settings, scope))
    sandbox = build_sandbox(directory, home, env, settings, scope.added_directories)
    modes = load_modes(directory, home, env, settings)
    return ToolContext(
        files=files,
        search=LocalSearch(files),
        terminal=LocalTerminal(env, sandbox=sandbox),
        settings=settings,
        protocol=ToolProtocol.NATIVE,
        model=ModelInfo(id=""),
        modes=modes,
        mode=choose_fallback_mode(mode or settings.mode, modes),
        todos=(),
        artifacts_directory=home,
        call_id="",
        row_ts=0,
        output_row_ts=0,
        on_output=lambda _: None,
    )


_ACCESS_BY_SWITCH_ONLY_TOOL = {
    "switch_mode": Access.SWITCH_MODE,
    "new_task": Access.DELEGATE,
    "attempt_completion": Access.DELEGATE,
    "browser_action": Access.BROWSER,
    "fetch_instructions": Access.FETCH_INSTRUCTIONS,
    "run_slash_command": Access.FETCH_INSTRUCTIONS,
    "skill": Access.FETCH_INSTRUCTIONS,
}
_READ_TOOLS = frozenset({"read_file", "list_files", "search_files", "list_code_definition_names"})
_READ_TOOLS |= {"codebase_search"}
_EDIT_TOOLS = frozenset({"apply_diff", "apply_patch", "edit", "edit_file", "generate_image"})
_EDIT_TOOLS |= {"insert_content", "search_replace", "write_to_file"}


class TaskAuditReport(Struct, frozen=True):
    id: str
    title: str
    workspace: str
    calls: tuple[AuditEntry, ...] = ()
    problem: str = ""
    """Why its journal could not be read."""


class DecisionDifference(Struct, frozen=True):
    task_id: str = field(name="task")
    recorded_call: AuditEntry = field(name="call")
    new_explanation: PermissionExplanation = field(name="now")


class AuditComparison(Struct, frozen=True):
    """What other rules would decide about the calls of some tasks."""

    compared_count: int
    differences: tuple[DecisionDifference, ...]
    skipped_count: int
    """Calls that cannot be decided about without making them."""


class PermissionAudit:
    def __init__(self, home: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._env = os.environ if env is None else env
        self._home = home
        self._store: Store = open_store(home, self._env)
        self._registry = Registry(build_default_tools())
        self._explainers: dict[tuple[str, str], PermissionExplainer | None] = {}

    def list_latest_tasks(self, count: int, workspace: Path | None = None) -> list[TaskMetadata]:
        tasks = self._store.list_tasks()
        directory = None if workspace is None else str(workspace)
        return [task for task in tasks if directory in (None, task.workspace)][:count]

    def find_tasks_by_prefix(self, start: str) -> list[TaskMetadata]:
        """Tasks whose id begins like this."""
        start = start.removeprefix("task_")
        return [task for task in self._store.list_tasks() if start and task.id.startswith(start)]

    def list_task_ids(self) -> Sequence[str]:
        return self._store.list_ids()

    def iter_reports(self, tasks: Sequence[TaskMetadata]) -> Iterator[TaskAuditReport]:
        for task in tasks:
            calls, problem = self._read_calls(task)
            entries = tuple(each.entry for each in calls)
            yield TaskAuditReport(task.id, task.title, task.workspace, entries, problem)

    async def compare_decisions(
        self, tasks: Sequence[TaskMetadata], flags: PermissionFlags
    ) -> AuditComparison:
        differences: list[DecisionDifference] = []
        compared = skipped = 0
        for task in tasks:
            for each in self._read_calls(task)[0]:
                now = await self._explain_call(each, task.workspace, flags)
                if now is None:
                    skipped += 1
                    continue
                compared += 1
                if now.decision != each.entry.decision:
                    differences.append(DecisionDifference(task.id, each.entry, now))
        return AuditComparison(compared, tuple(differences), skipped)

    def _read_calls(self, task: TaskMetadata) -> tuple[list[ReplayableEntry], str]:
        try:
            return build_audit(self._store.read_records(task.id)), ""
        except StoreError as error:
            return [], str(error)

    async def _explain_call(
        self, each: ReplayableEntry, workspace: str, flags: PermissionFlags
    ) -> PermissionExplanation | None:
        explainer = self._open_explainer(workspace, each.entry.mode, flags)
        if explainer is None:
            return None
        if each.entry.tool == "execute_command":
            return await explainer.explain_command(each.entry.subject, _extract_cwd(each))
        try:
            claims = self._build_claims(each, explainer)
        except ToolError as error:
            return explain_error(error)
        return explainer.explain_claims(claims) if claims else None

    def _build_claims(
        self, each: ReplayableEntry, explainer: PermissionExplainer
    ) -> tuple[Claim, ...]:
        """Raises ToolError."""
        name, subject = self._resolve_tool_name(each.entry.tool), each.entry.subject
        if name in _ACCESS_BY_SWITCH_ONLY_TOOL:
            return (Claim(_ACCESS_BY_SWITCH_ONLY_TOOL[name], subject=subject),)
        if name in _READ_TOOLS or name in _EDIT_TOOLS:
            access = Access.READ if name in _READ_TOOLS else Access.WRITE
            paths = dict.fromkeys(iter_argument_paths(each.call.input)) or {
                each.entry.path or ".": None
            }
            return tuple(Claim(access, path=explainer.resolve_path(path)) for path in paths)
        return _build_external_claims(each)

    def _resolve_tool_name(self, name: str) -> str:
        try:
            return self._registry.find(name).name
        except ToolError:
            return name  # of a server, or the user's own

    def _open_explainer(
        self, workspace: str, mode: str, flags: PermissionFlags
    ) -> PermissionExplainer | None:
        """None where the folder is gone, or cannot be looked at."""
        key = (workspace, mode)
        if key not in self._explainers:
            try:
                explainer = PermissionExplainer(
                    Path(workspace), flags, self._home, self._env, mode or None
                )
                self._explainers[key] = explainer
            except UserError:
                self._explainers[key] = None
        return self._explainers[key]


def _build_external_claims(each: ReplayableEntry) -> tuple[Claim, ...]:
    """Tools of servers, and of the user's own."""
    try:
        row = msgspec.json.decode(each.row_text or "{}")
    except msgspec.DecodeError:
        return ()
    kind = (row.get("type") or row.get("tool")) if isinstance(row, dict) else None
    if kind in ("use_mcp_tool", "access_mcp_resource"):
        # Whether its server had it on a list is not recorded; what ran by a rule had leave.
        listed = kind == "access_mcp_resource" or each.entry.decision == "allow"
        return (Claim(Access.MCP, subject=each.entry.subject, is_always_allowed=listed),)
    if kind == "customTool":
        return (Claim(Access.CUSTOM_TOOL, subject=f"the custom tool {each.entry.tool}"),)
    return ()


def _extract_cwd(each: ReplayableEntry) -> str | None:
    cwd = each.call.input.get("cwd")
    return cwd if isinstance(cwd, str) else None
