"""Explanations of permission decisions.

The tools state their claims as they do in a task, and the same policy judges them. Nothing in the
workspace is run, and nothing is written: no task directory, no index, no file in the user's home.
Before the first command, joey's own canary probes what a sandbox can confine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, structs

from joey.app.customizations import apply_project_restrictions, load_modes
from joey.app.options import PermissionFlags, resolve_workspace
from joey.app.sandbox import build_boundary, build_sandbox
from joey.config.home import resolve_home_and_env
from joey.config.settings import load_settings
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.modes import choose_fallback_mode
from joey.core.path_access import FileScope, ResolvedPath
from joey.core.permissions.commands import MAX_COMMAND_CHARS
from joey.core.permissions.policy import Access, Allow, Ask, Claim, Deny, SandboxStatus, decide
from joey.core.permissions.reasons import DeniedError, Reason, format_reason, format_reasons
from joey.core.permissions.shell import parse_plain_commands
from joey.core.settings import Settings
from joey.errors import IgnoredPathError, ToolError
from joey.execution.bash_grammar import BashGrammar
from joey.execution.terminal import LocalTerminal
from joey.ports.tool_context import ToolContext
from joey.tools.base import resolve_visible_path
from joey.tools.registry import AnyTool, Registry, build_default_tools
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
    """Explains permission decisions for one workspace and one user's settings. Raises ConfigError,
    WorkspaceError."""

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
        """Explain a command; `cwd` is the directory to run it in, if not the workspace."""
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
        """Explain a write. Tools that write only claim the file; the content makes no
        difference."""
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
        """Check that a path is a regular file. Raises ToolError, as reading and writing would, for
        a pipe, a socket, a device or a symlink loop."""
        if not resolved.is_inside:
            return
        found = await self._context.files.stat(resolved)
        if found.exists and not (found.is_file or found.is_dir):
            raise ToolError(f"{resolved.display_path} is not a regular file.")

    def resolve_path(self, path: str) -> ResolvedPath:
        """Resolve a path. Raises ToolError."""
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
        on_output=lambda _: None,
    )
