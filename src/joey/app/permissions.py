"""What the engine would decide about a call, found out without making it.

The tools state their claims as they do for a task, and the same policy judges them. Nothing of the
workspace is run and nothing is written: no folder of a task, no index, no file in the person's
home. What a sandbox can hold here is found out before the first command, by joey's own canary.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, structs

from joey.app.customs import modes_for, settings_within
from joey.app.options import added_directories, usable, with_permissions
from joey.app.sandboxing import boundary_for, sandbox_for
from joey.config.home import joey_home
from joey.config.settings import load_settings
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.modes import usual_mode
from joey.core.paths import FileScope
from joey.core.permissions.commands import LONGEST
from joey.core.permissions.policy import Access, Allow, Ask, Claim, Confinement, Deny, decide
from joey.core.permissions.shell import plain_commands
from joey.core.settings import Settings
from joey.errors import HiddenError, RefusedError, ToolError
from joey.execution.bash_grammar import BashGrammar
from joey.execution.terminal import LocalTerminal
from joey.ports import Place, ToolContext
from joey.tools.file_edit import locate
from joey.tools.registry import AnyTool, Registry, default_tools
from joey.workspace.files import LocalFiles
from joey.workspace.search import LocalSearch


class Flags(Struct, frozen=True, kw_only=True):
    """What a run could have been started with."""

    yes: bool = False
    require_approval: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_writes: bool = False
    no_sandbox: bool = False
    add_dirs: tuple[str, ...] = ()


def scope_of(
    flags: Flags, home: Path | None = None, env: Mapping[str, str] | None = None
) -> FileScope:
    """Raises WorkspaceError."""
    env = os.environ if env is None else env
    added = added_directories(flags.add_dirs, home or joey_home(env), env)
    return FileScope(added=added, as_sandboxed=flags.yes)


class Explanation(Struct, frozen=True):
    decision: Literal["allow", "ask", "deny"]
    rule: str | None
    """The rule or the settings that allowed or refused it."""
    reason: str
    commands: tuple[tuple[str, ...], ...] = ()
    """The commands of a line as words; none when it is more than plain words."""
    sandbox: Confinement | UnsetType = UNSET
    """Of a command: how far it would be confined."""
    protected: bool | UnsetType = UNSET
    """Of a file that would be changed: only its own switch lets that happen unasked."""


class Explainer:
    """Of one workspace, with one person's settings.

    Raises:
        ConfigError, WorkspaceError
    """

    def __init__(
        self,
        workspace: Path,
        flags: Flags,
        home: Path | None = None,
        env: Mapping[str, str] | None = None,
        mode: str | None = None,
    ) -> None:
        env = os.environ if env is None else env
        home = home or joey_home(env)
        folder = usable(workspace)
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
        self.settings = settings_within(LocalFiles(folder), home, env, asked)
        self._registry = Registry(default_tools())
        self._shell = BashGrammar()
        scope = scope_of(flags, home, env)
        self._context = _context(folder, home, env, self.settings, scope, mode)

    async def command(self, line: str, folder: str | None = None) -> Explanation:
        """`folder` is the one to run it in, when that is not the workspace."""
        asked = {"command": line} if folder is None else {"command": line, "cwd": folder}
        try:
            claims = await self._claims("execute_command", asked)
        except ToolError as error:
            return refused(error)
        return self.judge(claims, plain_commands(line) or () if len(line) <= LONGEST else ())

    async def read(self, path: str) -> Explanation:
        try:
            claims = await self._claims("read_file", {"path": path})
            await self._check_ordinary(self.place(path))
        except ToolError as error:
            return refused(error)
        return self.judge(claims)

    async def write(self, path: str) -> Explanation:
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

    async def _check_ordinary(self, place: Place) -> None:
        """Raises ToolError, as reading and writing would: it is a pipe, a socket or a device, or
        links that lead in a circle."""
        if not place.inside:
            return
        found = await self._context.files.stat(place)
        if found.exists and not (found.is_file or found.is_dir):
            raise ToolError(f"{place.shown} is not a regular file.")

    def place(self, path: str) -> Place:
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
    ) -> Explanation:
        sandbox = next((claim.sandbox for claim in claims if claim.sandbox is not None), UNSET)
        match decide(claims, self.settings, self._shell.chain):
            case Allow(rule):
                return Explanation("allow", rule, f"allowed by {rule}", commands, sandbox)
            case Ask(reason):
                return Explanation("ask", None, reason, commands, sandbox)
            case Deny(rule, reason):
                return Explanation("deny", rule, reason, commands, sandbox)


def refused(error: ToolError) -> Explanation:
    match error:
        case RefusedError(rule=rule):
            return Explanation("deny", rule, str(error))
        case HiddenError():
            return Explanation("deny", ".rooignore", str(error))
    return Explanation("deny", None, str(error))


def _context(
    folder: Path,
    home: Path,
    env: Mapping[str, str],
    settings: Settings,
    scope: FileScope,
    mode: str | None,
) -> ToolContext:
    files = LocalFiles(folder, boundary=boundary_for(folder, home, env, settings, scope))
    sandbox = sandbox_for(folder, home, env, settings, scope.added)
    modes = modes_for(folder, home, env, settings)
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
