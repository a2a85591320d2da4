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
from msgspec import UNSET, Struct, UnsetType, structs

from joey.app.customizations import modes_for, settings_within
from joey.app.engine import open_store
from joey.app.options import added_directories, usable, with_permissions
from joey.app.sandbox import boundary_for, sandbox_for
from joey.config.home import joey_home
from joey.config.settings import load_settings
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.modes import usual_mode
from joey.core.paths import FileScope
from joey.core.permissions.audit import AuditEntry, ReplayableEntry, recorded
from joey.core.permissions.commands import MAX_COMMAND_CHARS
from joey.core.permissions.policy import Access, Allow, Ask, Claim, Deny, SandboxStatus, decide
from joey.core.permissions.shell import plain_commands
from joey.core.settings import Settings
from joey.errors import DeniedError, IgnoredPathError, StoreError, ToolError, UserError
from joey.execution.bash_grammar import BashGrammar
from joey.execution.terminal import LocalTerminal
from joey.ports import ResolvedPath, Store, TaskMetadata, ToolContext
from joey.tools.file_edit import locate
from joey.tools.registry import AnyTool, Registry, default_tools, paths_in
from joey.workspace.files import LocalFiles
from joey.workspace.search import LocalSearch


class PermissionFlags(Struct, frozen=True, kw_only=True):
    """What a run could have been started with."""

    yes: bool = False
    require_approval: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_writes: bool = False
    no_sandbox: bool = False
    add_dirs: tuple[str, ...] = ()


def scope_of(
    flags: PermissionFlags, home: Path | None = None, env: Mapping[str, str] | None = None
) -> FileScope:
    """Raises WorkspaceError."""
    env = os.environ if env is None else env
    added = added_directories(flags.add_dirs, home or joey_home(env), env)
    return FileScope(added=added, as_sandboxed=flags.yes)


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


class PermissionExplainer:
    """Of one workspace, with one person's settings.

    Raises:
        ConfigError, WorkspaceError
    """

    def __init__(
        self,
        workspace: Path,
        flags: PermissionFlags,
        home: Path | None = None,
        env: Mapping[str, str] | None = None,
        mode: str | None = None,
    ) -> None:
        env = os.environ if env is None else env
        home = home or joey_home(env)
        directory = usable(workspace)
        asked: Settings = with_permissions(
            load_settings(home),
            flags.yes,
            flags.require_approval,
            flags.allow,
            flags.deny,
            flags.allow_writes,
        )
        if flags.no_sandbox:
            asked = structs.replace(asked, sandbox="off")
        self.settings = settings_within(LocalFiles(directory), home, env, asked)
        self._registry = Registry(default_tools())
        self._shell = BashGrammar()
        scope = scope_of(flags, home, env)
        self._context = _context(directory, home, env, self.settings, scope, mode)

    async def command(self, line: str, cwd: str | None = None) -> PermissionExplanation:
        """`folder` is the one to run it in, when that is not the workspace."""
        asked = {"command": line} if cwd is None else {"command": line, "cwd": cwd}
        try:
            claims = await self._claims("execute_command", asked)
        except ToolError as error:
            return refused(error)
        return self.judge(
            claims, plain_commands(line) or () if len(line) <= MAX_COMMAND_CHARS else ()
        )

    async def read(self, path: str) -> PermissionExplanation:
        try:
            claims = await self._claims("read_file", {"path": path})
            await self._check_ordinary(self.place(path))
        except ToolError as error:
            return refused(error)
        return self.judge(claims)

    async def write(self, path: str) -> PermissionExplanation:
        """Tools that write claim the file alone; what would be written makes no difference."""
        try:
            tool = self._allowed("write_to_file", {"path": path})
            claims = (Claim(Access.WRITE, place=self.place(path)),)
            self._registry.check_places(tool, self._context.mode, claims)
            await self._check_ordinary(self.place(path))
        except ToolError as error:
            return refused(error)
        protected = self.place(path).protected or UNSET
        return structs.replace(self.judge(claims), protected=protected)

    async def _check_ordinary(self, place: ResolvedPath) -> None:
        """Raises ToolError, as reading and writing would: it is a pipe, a socket or a device, or
        links that lead in a circle."""
        if not place.inside:
            return
        found = await self._context.files.stat(place)
        if found.exists and not (found.is_file or found.is_dir):
            raise ToolError(f"{place.shown} is not a regular file.")

    def place(self, path: str) -> ResolvedPath:
        """Raises ToolError."""
        return locate(self._context, path)

    async def _claims(self, name: str, arguments: dict[str, Any]) -> tuple[Claim, ...]:
        tool = self._allowed(name, arguments)
        prepared = await tool.prepare(tool.parse(arguments), self._context)
        self._registry.check_places(tool, self._context.mode, prepared.claims)
        claims: tuple[Claim, ...] = tuple(prepared.claims)
        return claims

    def _allowed(self, name: str, arguments: dict[str, Any]) -> AnyTool:
        tool = self._registry.find(name)
        self._registry.check_allowed(tool, self._context.mode, self.settings, arguments)
        return tool

    def judge(
        self, claims: tuple[Claim, ...], commands: tuple[tuple[str, ...], ...] = ()
    ) -> PermissionExplanation:
        sandbox = next((claim.sandbox for claim in claims if claim.sandbox is not None), UNSET)
        match decide(claims, self.settings, self._shell.chain):
            case Allow(rule):
                return PermissionExplanation("allow", rule, f"allowed by {rule}", commands, sandbox)
            case Ask(reason):
                return PermissionExplanation("ask", None, reason, commands, sandbox)
            case Deny(rule, reason):
                return PermissionExplanation("deny", rule, reason, commands, sandbox)


def refused(error: ToolError) -> PermissionExplanation:
    match error:
        case DeniedError(rule=rule):
            return PermissionExplanation("deny", rule, str(error))
        case IgnoredPathError():
            return PermissionExplanation("deny", ".rooignore", str(error))
    return PermissionExplanation("deny", None, str(error))


def _context(
    directory: Path,
    home: Path,
    env: Mapping[str, str],
    settings: Settings,
    scope: FileScope,
    mode: str | None,
) -> ToolContext:
    files = LocalFiles(directory, boundary=boundary_for(directory, home, env, settings, scope))
    sandbox = sandbox_for(directory, home, env, settings, scope.added)
    modes = modes_for(directory, home, env, settings)
    return ToolContext(
        files=files,
        search=LocalSearch(files),
        terminal=LocalTerminal(env, sandbox=sandbox),
        settings=settings,
        protocol=ToolProtocol.NATIVE,
        model=ModelInfo(id=""),
        modes=modes,
        mode=usual_mode(mode or settings.mode, modes),
        todos=(),
        artifacts=home,
        call_id="",
        row_ts=0,
        output_ts=0,
        on_output=lambda _: None,
    )


_SWITCH_ONLY_TOOLS = {
    "switch_mode": Access.SWITCH_MODE,
    "new_task": Access.DELEGATE,
    "attempt_completion": Access.DELEGATE,
    "browser_action": Access.BROWSER,
    "fetch_instructions": Access.FETCH_INSTRUCTIONS,
    "run_slash_command": Access.FETCH_INSTRUCTIONS,
    "skill": Access.FETCH_INSTRUCTIONS,
}
"""Tools about which the switches alone decide."""
_READ_TOOLS = frozenset({"read_file", "list_files", "search_files", "list_code_definition_names"})
_READ_TOOLS |= {"codebase_search"}
_EDIT_TOOLS = frozenset({"apply_diff", "apply_patch", "edit", "edit_file", "generate_image"})
_EDIT_TOOLS |= {"insert_content", "search_replace", "write_to_file"}


class TaskReport(Struct, frozen=True):
    id: str
    title: str
    workspace: str
    calls: tuple[AuditEntry, ...] = ()
    problem: str = ""
    """Why its journal could not be read."""


class DecisionDifference(Struct, frozen=True):
    task: str
    call: AuditEntry
    now: PermissionExplanation


class AuditComparison(Struct, frozen=True):
    """What other rules would decide about the calls of some tasks."""

    judged: int
    differences: tuple[DecisionDifference, ...]
    left_out: int
    """Calls that cannot be decided about without making them."""


class PermissionAudit:
    def __init__(self, home: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._env = os.environ if env is None else env
        self._home = home
        self._store: Store = open_store(home, self._env)
        self._names = Registry(default_tools())
        self._explainers: dict[tuple[str, str], PermissionExplainer | None] = {}

    def latest(self, count: int, workspace: Path | None = None) -> list[TaskMetadata]:
        tasks = self._store.list()
        place = None if workspace is None else str(workspace)
        return [task for task in tasks if place in (None, task.workspace)][:count]

    def starting(self, start: str) -> list[TaskMetadata]:
        """Tasks whose id begins like this."""
        start = start.removeprefix("task_")
        return [task for task in self._store.list() if start and task.id.startswith(start)]

    def ids(self) -> Sequence[str]:
        return self._store.ids()

    def report(self, tasks: Sequence[TaskMetadata]) -> Iterator[TaskReport]:
        for task in tasks:
            calls, problem = self._calls(task)
            judged = tuple(each.judged for each in calls)
            yield TaskReport(task.id, task.title, task.workspace, judged, problem)

    async def compare(
        self, tasks: Sequence[TaskMetadata], flags: PermissionFlags
    ) -> AuditComparison:
        differences: list[DecisionDifference] = []
        judged = left_out = 0
        for task in tasks:
            for each in self._calls(task)[0]:
                now = await self._decide(each, task.workspace, flags)
                if now is None:
                    left_out += 1
                    continue
                judged += 1
                if now.decision != each.judged.decision:
                    differences.append(DecisionDifference(task.id, each.judged, now))
        return AuditComparison(judged, tuple(differences), left_out)

    def _calls(self, task: TaskMetadata) -> tuple[list[ReplayableEntry], str]:
        try:
            return recorded(self._store.read(task.id)), ""
        except StoreError as error:
            return [], str(error)

    async def _decide(
        self, each: ReplayableEntry, workspace: str, flags: PermissionFlags
    ) -> PermissionExplanation | None:
        explainer = self._explainer(workspace, each.judged.mode, flags)
        if explainer is None:
            return None
        if each.judged.tool == "execute_command":
            return await explainer.command(each.judged.about, _extract_cwd(each))
        try:
            claims = self._claims(each, explainer)
        except ToolError as error:
            return refused(error)
        return explainer.judge(claims) if claims else None

    def _claims(self, each: ReplayableEntry, explainer: PermissionExplainer) -> tuple[Claim, ...]:
        """Raises ToolError."""
        name, subject = self._tool(each.judged.tool), each.judged.about
        if name in _SWITCH_ONLY_TOOLS:
            return (Claim(_SWITCH_ONLY_TOOLS[name], subject=subject),)
        if name in _READ_TOOLS or name in _EDIT_TOOLS:
            access = Access.READ if name in _READ_TOOLS else Access.WRITE
            paths = dict.fromkeys(paths_in(each.call.input)) or {each.judged.path or ".": None}
            return tuple(Claim(access, place=explainer.place(path)) for path in paths)
        return _foreign(each)

    def _tool(self, name: str) -> str:
        try:
            return self._names.find(name).name
        except ToolError:
            return name  # of a server, or the person's own

    def _explainer(
        self, workspace: str, mode: str, flags: PermissionFlags
    ) -> PermissionExplainer | None:
        """None where the folder is gone, or cannot be looked at."""
        key = (workspace, mode)
        if key not in self._explainers:
            try:
                made = PermissionExplainer(
                    Path(workspace), flags, self._home, self._env, mode or None
                )
                self._explainers[key] = made
            except UserError:
                self._explainers[key] = None
        return self._explainers[key]


def _foreign(each: ReplayableEntry) -> tuple[Claim, ...]:
    """Tools of servers, and of the person's own."""
    try:
        row = msgspec.json.decode(each.row or "{}")
    except msgspec.DecodeError:
        return ()
    kind = (row.get("type") or row.get("tool")) if isinstance(row, dict) else None
    if kind in ("use_mcp_tool", "access_mcp_resource"):
        # Whether its server had it on a list is not recorded; what ran by a rule had leave.
        listed = kind == "access_mcp_resource" or each.judged.decision == "allow"
        return (Claim(Access.MCP, subject=each.judged.about, listed=listed),)
    if kind == "customTool":
        return (Claim(Access.CUSTOM_TOOL, subject=f"the custom tool {each.judged.tool}"),)
    return ()


def _extract_cwd(each: ReplayableEntry) -> str | None:
    cwd = each.call.input.get("cwd")
    return cwd if isinstance(cwd, str) else None
