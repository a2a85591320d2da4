"""The tools there are: found by name, offered by mode, and kept to what the mode allows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from joey.core.edits.patch_parser import named_paths
from joey.core.models import ToolSpec
from joey.core.modes import Grant, Group, Mode
from joey.core.parsing.xml_arguments import parse_args_xml
from joey.core.permissions.policy import Access, Claim
from joey.core.settings import Settings
from joey.errors import RefusedError, ToolError
from joey.tools.access_mcp_resource import AccessMcpResource
from joey.tools.apply_diff import ApplyDiff
from joey.tools.apply_patch import ApplyPatch
from joey.tools.ask_followup_question import AskFollowupQuestion
from joey.tools.attempt_completion import AttemptCompletion
from joey.tools.base import Offer, Tool
from joey.tools.browser_action import BrowserAction
from joey.tools.codebase_search import CodebaseSearch
from joey.tools.edit import Edit
from joey.tools.edit_file import EditFile
from joey.tools.execute_command import ExecuteCommand
from joey.tools.fetch_instructions import FetchInstructions
from joey.tools.generate_image import GenerateImage
from joey.tools.insert_content import InsertContent
from joey.tools.list_code_definition_names import ListCodeDefinitionNames
from joey.tools.list_files import ListFiles
from joey.tools.new_task import NewTask
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
_WRAPPERS = ("args", "file")


class Registry:
    """Order matters: it is the order in which the model sees the tools."""

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._by_name = {
            name: tool for tool in self._tools.values() for name in (tool.name, *tool.aliases)
        }
        self._offered: dict[tuple[int, ...], tuple[ToolSpec, ...]] = {}

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        return tuple(self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The tools by their own names, without aliases."""
        return tuple(self._tools)

    def find(self, name: str) -> AnyTool:
        """The tool that is called `name`, be it by an alias.

        Raises:
            ToolError: there is none; the text lists those there are.
        """
        tool = self._by_name.get(name)
        if tool is None:
            raise ToolError(f'Unknown tool "{name}". Available tools: {", ".join(self.names)}.')
        return tool

    def specs(self, mode: Mode, offer: Offer) -> tuple[ToolSpec, ...]:
        """What the model is offered in this mode: the same tuple for the same tools, so that its
        bytes can be kept."""
        granted = {Group.ALWAYS, *(grant.group for grant in mode.grants)}
        specs = tuple(
            tool.spec_for(offer)
            for tool in self._tools.values()
            if tool.group in granted
            and not _is_disabled(tool, offer.settings)
            and tool.offered(offer)
        )
        # Each is kept by its tool, so that its number is its own.
        return self._offered.setdefault(tuple(map(id, specs)), specs)

    def xml_tools(self) -> Mapping[str, frozenset[str]]:
        """For every name that opens a call in XML, the tags that its parameters may have."""
        return {name: tool.xml_tags for name, tool in self._by_name.items()}

    def check_allowed(
        self,
        tool: AnyTool,
        mode: Mode,
        settings: Settings,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Refuse a tool that is switched off or not granted by the mode, and paths that the mode
        may not change.

        Raises:
            ToolError: naming the tool and the mode, and for a path also what would be allowed.
        """
        if _is_disabled(tool, settings):
            said = f'Tool "{tool.name}" is switched off in the settings.'
            raise RefusedError(said, "disabledTools")
        grant = mode.grant(tool.group)
        if grant is None:
            said = f'Tool "{tool.name}" is not allowed in {mode.slug} mode.'
            raise RefusedError(said, f"{mode.slug} mode")
        if tool.group is Group.EDIT:
            for path in paths_in(arguments or {}):
                _check_path(tool, mode, grant, path)

    def check_places(self, tool: AnyTool, mode: Mode, claims: Iterable[Claim]) -> None:
        """The same for the files that a prepared call will change, links resolved."""
        grant = mode.grant(tool.group)
        for claim in claims:
            if grant is not None and claim.access is Access.WRITE and claim.place is not None:
                _check_path(tool, mode, grant, claim.place.shown)


def default_tools() -> tuple[AnyTool, ...]:
    """All tools, in the order in which they are offered."""
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
        NewTask(),
        UpdateTodoList(),
        BrowserAction(),
        UseMcpTool(),
        AccessMcpResource(),
        RunSlashCommand(),
        SkillTool(),
    )


def _is_disabled(tool: AnyTool, settings: Settings) -> bool:
    off = settings.disabled_tools
    return bool(off) and not {tool.name, *tool.aliases}.isdisjoint(off)


def _check_path(tool: AnyTool, mode: Mode, grant: Grant, path: str) -> None:
    if _covers(grant, path):
        return
    what = f" ({grant.description})" if grant.description else ""
    raise RefusedError(
        f'Tool "{tool.name}" in mode "{mode.name}" may only change files that match'
        f" {grant.file_regex}{what}, not {path}.",
        f"{mode.slug} mode",
    )


def _covers(grant: Grant, path: str) -> bool:
    try:
        return grant.covers(path)
    except re.error:
        return False


def paths_in(arguments: object) -> Iterator[str]:
    """Every path that the arguments of a call name, wherever the protocol has put it."""
    pending = [arguments]
    while pending:
        match pending.pop():
            case dict() as named:
                for key, inner in named.items():
                    if key in _PATH_KEYS:
                        paths = inner if isinstance(inner, list) else [inner]
                        yield from (path for path in paths if isinstance(path, str))
                    if key == "patch" and isinstance(inner, str):
                        yield from named_paths(inner)
                    is_xml = key in _WRAPPERS and isinstance(inner, str)
                    pending.append(parse_args_xml(inner) if is_xml else inner)
            case list() as items:
                pending += items
