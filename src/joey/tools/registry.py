"""The registry of tools, those of MCP servers too: found by any name, offered by mode, byte-stable.

`ToolSet` adds the tools of MCP servers and the user's custom tools, and finds them under the
altered names that models use.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from joey.core.edits.patch_parser import iter_named_paths
from joey.core.mcp import McpServer, fold_tool_name
from joey.core.models import ToolSpec
from joey.core.modes import Grant, Mode, ToolGroup
from joey.core.parsing.call_names import ToolNames
from joey.core.parsing.xml_elements import parse_args_xml
from joey.core.permissions.policy import Access, Claim
from joey.core.permissions.reasons import DeniedError, Reason, ReasonKind
from joey.core.settings import Settings
from joey.errors import ToolError
from joey.ports.extensions import CustomToolInfo
from joey.tools.access_mcp_resource import AccessMcpResource
from joey.tools.apply_diff import ApplyDiff
from joey.tools.apply_patch import ApplyPatch
from joey.tools.ask_followup_question import AskFollowupQuestion
from joey.tools.attempt_completion import AttemptCompletion
from joey.tools.base import AvailabilityContext, ExternalTool, Tool
from joey.tools.browser_action import BrowserAction
from joey.tools.codebase_search import CodebaseSearch
from joey.tools.custom_tool import CustomTool
from joey.tools.edit import Edit
from joey.tools.edit_file import EditFile
from joey.tools.execute_command import ExecuteCommand
from joey.tools.fetch_instructions import FetchInstructions
from joey.tools.generate_image import GenerateImage
from joey.tools.insert_content import InsertContent
from joey.tools.list_code_definition_names import ListCodeDefinitionNames
from joey.tools.list_files import ListFiles
from joey.tools.mcp_tool import iter_server_tools
from joey.tools.new_task import NewTaskTool
from joey.tools.read_command_output import ReadCommandOutput
from joey.tools.read_file import ReadFile
from joey.tools.run_slash_command import RunSlashCommand
from joey.tools.search_files import SearchFiles
from joey.tools.search_replace import SearchReplace
from joey.tools.skill import SkillTool
from joey.tools.switch_mode import SwitchModeTool
from joey.tools.update_todo_list import UpdateTodoList
from joey.tools.use_mcp_tool import UseMcpTool
from joey.tools.write_to_file import WriteToFile

AnyTool = Tool[Any, Any]

_PATH_KEYS = ("path", "file_path")
_WRAPPER_PARAMETERS = ("args", "file")


class Registry:
    """The registry. Its order is the order in which the model sees the tools."""

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._by_name = {
            name: tool for tool in self._tools.values() for name in (tool.name, *tool.aliases)
        }
        self._spec_cache: dict[tuple[int, ...], tuple[ToolSpec, ...]] = {}
        self._tool_names_cache: dict[int, ToolNames] = {}

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        return tuple(self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The tools by their own names, without aliases."""
        return tuple(self._tools)

    def find(self, name: str, offered: Iterable[ToolSpec] | None = None) -> AnyTool:
        """Find the tool called `name`, which may be an alias. Raises ToolError, which lists the
        offered tools, or all."""
        tool = self.get(name)
        if tool is None:
            names = self.names if offered is None else [spec.name for spec in offered]
            raise ToolError(f'Unknown tool "{name}". Available tools: {", ".join(names)}.')
        return tool

    def get(self, name: str) -> AnyTool | None:
        return self._by_name.get(name)

    def list_specs(self, mode: Mode, context: AvailabilityContext) -> tuple[ToolSpec, ...]:
        """List the specifications for this mode: the same tuple for the same tools, so that its
        bytes can be cached."""
        granted = {ToolGroup.ALWAYS, *(grant.group for grant in mode.grants)}
        tools = [
            tool
            for tool in self._tools.values()
            if tool.group in granted
            and not _is_disabled(tool, context.settings)
            and tool.is_offered(context)
        ]
        if context.model.has_small_window and mode.grants:
            specs = _select_lean_specs(tools)
        else:
            specs = tuple(tool.select_spec(context) for tool in tools)
        # Each is kept by its tool, so that its number is its own.
        return self._spec_cache.setdefault(tuple(map(id, specs)), specs)

    def find_xml_usage(self, spec: ToolSpec) -> str | None:
        """Find the hand-written example of a call, which belongs to the full form of a tool."""
        tool = self.find(spec.name)
        return tool.xml_usage if spec.strict is tool.strict else None

    def build_tool_names(
        self, mode: Mode | None = None, context: AvailabilityContext | None = None
    ) -> ToolNames:
        """Build all tools for the parsers. Calls leaked into text count only for tools offered in
        this mode, or equivalent ones."""
        if mode is None or context is None:
            return ToolNames(tool.describe_to_parser(name) for name, tool in self._by_name.items())
        specs = self.list_specs(mode, context)
        if id(specs) not in self._tool_names_cache:
            offered = {spec.name for spec in specs}
            edits = any(self._tools[name].group is ToolGroup.EDIT for name in offered)
            self._tool_names_cache[id(specs)] = ToolNames(
                tool.describe_to_parser(
                    name,
                    is_callable=tool.name in offered or (edits and tool.group is ToolGroup.EDIT),
                )
                for name, tool in self._by_name.items()
            )
        return self._tool_names_cache[id(specs)]

    def check_allowed(
        self,
        tool: AnyTool,
        mode: Mode,
        settings: Settings,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Check a call. Raises ToolError for a tool that is switched off or not granted by the
        mode, and for paths that the mode may not change; the text names the tool and the mode, and
        for a path also what would be allowed."""
        if _is_disabled(tool, settings):
            said = f'Tool "{tool.name}" is switched off in the settings.'
            reason = Reason(ReasonKind.DISABLED_TOOL, subject=tool.name, rule="disabledTools")
            raise DeniedError(said, reason)
        grant = mode.find_grant(tool.group)
        if grant is None:
            said = f'Tool "{tool.name}" is not allowed in {mode.slug} mode.'
            raise DeniedError(said, _build_mode_reason(mode, tool.name))
        if tool.group is ToolGroup.EDIT:
            for path in iter_argument_paths(arguments or {}):
                _check_path(tool, mode, grant, path)

    def check_claimed_paths(self, tool: AnyTool, mode: Mode, claims: Iterable[Claim]) -> None:
        """Check the files that a prepared call will change, with links resolved."""
        grant = mode.find_grant(tool.group)
        for claim in claims:
            if grant is not None and claim.access is Access.WRITE and claim.path is not None:
                _check_path(tool, mode, grant, claim.path.display_path)


def build_default_tools() -> tuple[AnyTool, ...]:
    """Build all tools, in the order in which they are offered."""
    return (
        ReadFile(),
        FetchInstructions(),
        SearchFiles(),
        ListFiles(),
        ListCodeDefinitionNames(),
        CodebaseSearch(),
        ApplyDiff(),
        ApplyPatch(),
        Edit(),
        SearchReplace(),
        EditFile(),
        WriteToFile(),
        GenerateImage(),
        InsertContent(),
        ExecuteCommand(),
        ReadCommandOutput(),
        AskFollowupQuestion(),
        AttemptCompletion(),
        SwitchModeTool(),
        NewTaskTool(),
        UpdateTodoList(),
        BrowserAction(),
        UseMcpTool(),
        AccessMcpResource(),
        RunSlashCommand(),
        SkillTool(),
    )


def _select_lean_specs(tools: Iterable[AnyTool]) -> tuple[ToolSpec, ...]:
    """Select the short forms of joey's own tools; other tools are unchanged."""
    from joey.tools.lean_specs import LEAN_SPECS  # few models need them

    return tuple(
        LEAN_SPECS.get(tool.name, tool.spec)
        for tool in tools
        if tool.name in LEAN_SPECS or isinstance(tool, ExternalTool)
    )


def _is_disabled(tool: AnyTool, settings: Settings) -> bool:
    off = settings.disabled_tools
    return bool(off) and not {tool.name, *tool.aliases}.isdisjoint(off)


def _check_path(tool: AnyTool, mode: Mode, grant: Grant, path: str) -> None:
    with suppress(re.error):
        if grant.covers(path):
            return
    what = f" ({grant.description})" if grant.description else ""
    raise DeniedError(
        f'Tool "{tool.name}" in mode "{mode.name}" may only change files that match'
        f" {grant.file_regex}{what}, not {path}.",
        _build_mode_reason(mode, path),
    )


def _build_mode_reason(mode: Mode, subject: str) -> Reason:
    return Reason(ReasonKind.NOT_IN_MODE, subject=subject, rule=f"{mode.slug} mode")


def iter_argument_paths(arguments: object) -> Iterator[str]:
    """Iterate over every path in the arguments of a call, in either protocol."""
    pending = [arguments]
    while pending:
        match pending.pop():
            case dict() as named:
                for key, inner in named.items():
                    if key in _PATH_KEYS:
                        paths = inner if isinstance(inner, list) else [inner]
                        yield from (path for path in paths if isinstance(path, str))
                    if key == "patch" and isinstance(inner, str):
                        yield from iter_named_paths(inner)
                    is_xml = key in _WRAPPER_PARAMETERS and isinstance(inner, str)
                    pending.append(parse_args_xml(inner) if is_xml else inner)
            case list() as items:
                pending += items


_MAX_CACHED_TOOL_SETS = 64

McpServers = tuple[McpServer, ...]
CustomToolInfos = tuple[CustomToolInfo, ...]


class ToolSet(Registry):
    """A registry with tools of servers and the user after its own."""

    def __init__(
        self, registry: Registry, servers: McpServers, custom: CustomToolInfos = ()
    ) -> None:
        own = {name for tool in registry.tools for name in (tool.name, *tool.aliases)}
        brought = [tool for tool in iter_server_tools(servers) if tool.name not in own]
        taken = own | {tool.name for tool in brought}
        added = [CustomTool(info) for info in custom if info.name not in taken]
        super().__init__((*registry.tools, *brought, *added))
        self._by_folded_name: dict[str, list[AnyTool]] = {}
        for tool in brought:
            self._by_folded_name.setdefault(fold_tool_name(tool.name) or tool.name, []).append(tool)

    def find(self, name: str, offered: Iterable[ToolSpec] | None = None) -> AnyTool:
        """Find a tool, also by altered names: `mcp__server__tool`, `server__tool`, `-` and `_`
        confused (decision D2)."""
        if name in self._by_name:
            return self._by_name[name]
        meant = self._by_folded_name.get(fold_tool_name(name) or "", [])
        if len(meant) > 1:
            listed = ", ".join(tool.name for tool in meant)
            raise ToolError(f'"{name}" may be any of these tools: {listed}. Use one of the names.')
        return meant[0] if meant else super().find(name, offered)


class _CachedToolSet(NamedTuple):
    registry: Registry
    servers: McpServers
    custom_tools: CustomToolInfos
    tool_set: Registry


class ToolSetCache:
    """Tool sets created so far, shared by tasks with the same servers. A server that disconnects
    and returns changes nothing as long as its tools are the same."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[int, int, int], _CachedToolSet] = OrderedDict()

    def get_or_create(
        self, registry: Registry, servers: McpServers, custom: CustomToolInfos = ()
    ) -> Registry:
        if not servers and not custom:
            return registry
        key = (id(registry), id(servers), id(custom))
        known = self._entries.get(key)
        if known is None:
            offered = _build_server_keys(servers)
            same = (
                made.tool_set
                for made in self._entries.values()
                if made.registry is registry
                and made.custom_tools == custom
                and _build_server_keys(made.servers) == offered
            )
            box = next(same, None) or ToolSet(registry, servers, custom)
            # Keeping all of them alive prevents reuse of their ids.
            known = self._entries[key] = _CachedToolSet(registry, servers, custom, box)
            if len(self._entries) > _MAX_CACHED_TOOL_SETS:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return known.tool_set


def _build_server_keys(servers: Sequence[McpServer]) -> list[tuple[object, ...]]:
    """Build the keys of servers from everything that the model is told about them."""
    return [
        (
            server.name,
            server.command_or_url,
            server.instructions,
            server.enabled_tools,
            server.resources,
        )
        for server in servers
        if server.enabled_tools or server.resources
    ]
