"""The runtime of a task: its id, models, tools, adapters and settings.

`TaskRuntime` is passed to a task when it is opened; tasks share nothing in it but code.
`ModeProviders` creates the models of other profiles when a mode or a summary needs them.
`build_tool_context` selects the parts of the runtime that one tool call gets. Task ids are UUIDs of
version 7, which sort by creation time.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from joey.core.file_state import ReadTracker
from joey.core.models import ToolProtocol, ToolSpec
from joey.core.modes import BUILT_IN_MODES, Instructions, Mode, ToolGroup
from joey.core.parsing.call_names import ToolNames
from joey.core.path_access import FileScope
from joey.core.permissions.policy import SandboxStatus
from joey.core.prompts.conditions import WorkingConditions
from joey.core.prompts.configured_sections import render_tool_usage
from joey.core.prompts.system import ToolDoc, build_system_prompt
from joey.core.settings import Limits, ModelRoute, Settings
from joey.errors import UserError
from joey.ports.execution import Terminal
from joey.ports.extensions import NetworkPolicy
from joey.ports.model import Provider, RequestGate, RequestRecorder
from joey.ports.tool_context import Capabilities, ToolContext
from joey.ports.workspace import Clock, Environment, Files, Search
from joey.tools.base import AvailabilityContext
from joey.tools.registry import Registry, ToolSetCache

if TYPE_CHECKING:
    from joey.engine.outcomes import OutputRow
    from joey.engine.result_schema import ResultValidator
    from joey.engine.task import Task


log = logging.getLogger(__name__)

MCP_START_TIMEOUT_S = 10.0
MAX_CACHED_PROMPTS = 16


class TaskRuntime(Struct, frozen=True, kw_only=True):
    """Collaborators passed to a task when it is opened. Nothing is shared but code."""

    provider: Provider
    """The task's own; `select_provider` is the one to ask."""
    tool_registry: Registry
    files: Files
    search: Search
    terminal: Terminal
    environment: Environment
    clock: Clock
    settings: Settings
    network: NetworkPolicy | None = None
    """What commands may reach now; None: what the settings say."""
    restrict_settings: Callable[[Settings], Settings] = lambda settings: settings
    """What the project makes stricter, whatever answers and levels add."""
    find_sandbox: Callable[[], SandboxStatus] = lambda: "off"
    """How commands are likely to be confined; may take a few milliseconds."""
    file_scope: FileScope = FileScope()
    limits: Limits = Limits()
    route: ModelRoute = ModelRoute()
    base_url: str | None = None
    """Where the model is, if not at the provider's own address; unlike that of the route, also one
    that comes from the environment."""
    system_prompt: str | None = None
    """The user's own, in place of ours."""
    result_validator: ResultValidator | None = None
    """The form that the result must have."""
    capabilities: Capabilities = Capabilities()
    request_gate: RequestGate | None = None
    """Waits before each request where other processes use the same service."""
    request_recorder: RequestRecorder | None = None
    """Records what is sent to models; its failures are for the user."""
    mode_providers: ModeProviders | None = None
    """Models that modes have in place of the task's own."""
    tool_set_cache: ToolSetCache = field(default_factory=ToolSetCache)
    """Shared by tasks that may have the same MCP servers."""
    read_tracker: ReadTracker = field(default_factory=ReadTracker)
    system_prompt_cache: dict[tuple[Mode, ToolProtocol, Registry, str], str] = field(
        default_factory=dict
    )

    @property
    def workspace(self) -> Path:
        return self.files.root

    @property
    def modes(self) -> tuple[Mode, ...]:
        customizations = self.capabilities.customizations
        return BUILT_IN_MODES if customizations is None else customizations.modes

    def select_provider(self, mode: Mode) -> Provider:
        """Return the mode's own model, if the settings name a usable one."""
        others = self.mode_providers
        return (others and others.find(mode.slug)) or self.provider

    async def wait_for_mcp(self, mode: Mode) -> None:
        """Wait briefly for MCP servers that are connecting, so that the model sees their tools at
        once."""
        if self.capabilities.mcp is not None and mode.find_grant(ToolGroup.MCP) is not None:
            await self.capabilities.mcp.wait_until_ready(MCP_START_TIMEOUT_S)

    async def close(self) -> None:
        """Close everything that outlives a request; a failure does not stop the rest."""
        resources = (self.terminal, self.provider, self.mode_providers, self.environment)
        capabilities = (
            self.capabilities.mcp,
            self.capabilities.code_index,
            self.capabilities.browser,
            self.capabilities.checkpoints,
        )
        closing = [thing.close() for thing in (*resources, *capabilities) if thing is not None]
        for problem in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(problem, BaseException):
                log.error("something of a task could not be closed", exc_info=problem)

    def build_tool_specs(
        self, mode: Mode, protocol: ToolProtocol, working: WorkingConditions
    ) -> tuple[ToolSpec, ...]:
        return self.tool_set.list_specs(mode, self._build_availability(mode, protocol, working))

    def build_tool_names(
        self, mode: Mode, protocol: ToolProtocol, working: WorkingConditions
    ) -> ToolNames:
        availability = self._build_availability(mode, protocol, working)
        return self.tool_set.build_tool_names(mode, availability)

    def _build_availability(
        self, mode: Mode, protocol: ToolProtocol, working: WorkingConditions
    ) -> AvailabilityContext:
        model = self.select_provider(mode).model
        return AvailabilityContext(
            self.settings, model, self.capabilities, protocol, working.is_unattended
        )

    @property
    def tool_set(self) -> Registry:
        """Return all current tools: the same object until the offered tools change."""
        mcp, custom = self.capabilities.mcp, self.capabilities.custom_tools
        servers = () if mcp is None else mcp.servers
        return self.tool_set_cache.get_or_create(
            self.tool_registry, servers, () if custom is None else custom.tools
        )

    def build_system_prompt(
        self, mode: Mode, protocol: ToolProtocol, working: WorkingConditions
    ) -> str:
        """Build the system prompt: the same bytes for the same mode and protocol, because prompt
        caches depend on it."""
        if self.system_prompt is not None:
            return self.system_prompt
        is_lean = self._is_lean(mode)
        key = (mode, protocol, self.tool_set, f"{working.fingerprint} {is_lean}")
        if key not in self.system_prompt_cache:
            if len(self.system_prompt_cache) >= MAX_CACHED_PROMPTS:
                self.system_prompt_cache.clear()
            self.system_prompt_cache[key] = self._render_system_prompt(mode, protocol, working)
        return self.system_prompt_cache[key]

    def render_xml_usage(self, name: str | None) -> str | None:
        """Render how a tool is called in XML; None if there is no such tool."""
        tool = self.tool_set.get(name or "")
        return None if tool is None else render_tool_usage(tool.spec, tool.xml_usage)

    def _render_system_prompt(
        self, mode: Mode, protocol: ToolProtocol, working: WorkingConditions
    ) -> str:
        docs = tuple(
            ToolDoc(spec=spec, xml_usage=self.tool_set.find_xml_usage(spec))
            for spec in self.build_tool_specs(mode, protocol, working)
        )
        customizations, mcp = self.capabilities.customizations, self.capabilities.mcp
        has_servers = protocol is ToolProtocol.XML and mode.find_grant(ToolGroup.MCP) is not None
        return build_system_prompt(
            mode=mode,
            modes=self.modes,
            protocol=protocol,
            tools=docs,
            system_info=self.environment.get_system_info(),
            custom_instructions=self.settings.custom_instructions,
            language=self.settings.language,
            instructions=customizations.get_instructions(mode)
            if customizations is not None
            else Instructions(),
            skills=customizations.list_skills(mode) if customizations is not None else (),
            servers=mcp.servers if mcp is not None and has_servers else (),
            working=working,
            is_lean=self._is_lean(mode),
        )

    def _is_lean(self, mode: Mode) -> bool:
        return self.select_provider(mode).model.has_small_window


SUMMARY_PROFILE_KEY = "<summaries>"
"""No mode has such a slug."""


class ModeProviders:
    """Providers by profile, kept until the task is closed."""

    def __init__(
        self, profiles: Mapping[str, str], make_provider: Callable[[str], Provider]
    ) -> None:
        self._profile_names_by_mode = profiles
        """Names of profiles by the slugs of modes, or by `SUMMARY_PROFILE_KEY`."""
        self._make_provider = make_provider
        self._providers: dict[str, Provider | None] = {}
        self._errors_by_profile: dict[str, str] = {}

    def find(self, key: str) -> Provider | None:
        """Find the provider of a mode, or of `SUMMARY_PROFILE_KEY`; None if it has none of its own,
        or none that can be used."""
        profile = self._profile_names_by_mode.get(key)
        if profile is None:
            return None
        if profile not in self._providers:
            try:
                self._providers[profile] = self._make_provider(profile)
            except UserError as error:
                self._providers[profile] = None
                self._errors_by_profile[profile] = str(error)
        return self._providers[profile]

    def take_error(self, key: str) -> str | None:
        """Return once why `find` returned none."""
        return self._errors_by_profile.pop(self._profile_names_by_mode.get(key, ""), None)

    async def close(self) -> None:
        providers = [provider for provider in self._providers.values() if provider is not None]
        self._providers.clear()
        await asyncio.gather(*(provider.close() for provider in providers))


def build_tool_context(task: Task, call_id: str, row_ts: int, output_row: OutputRow) -> ToolContext:
    return ToolContext(
        files=task.runtime.files,
        search=task.runtime.search,
        terminal=task.runtime.terminal,
        settings=task.settings,
        read_network=lambda: task.settings.sandbox_network,
        protocol=task.protocol,
        model=task.provider.model,
        modes=task.runtime.modes,
        mode=task.mode,
        todos=task.recorder.projection.todos,
        artifacts_directory=task.recorder.task_log.directory / "command-output",
        call_id=call_id,
        row_ts=row_ts,
        on_output=output_row.append,
        read_tracker=task.runtime.read_tracker,
        capabilities=task.runtime.capabilities,
        subtask_depth=task.recorder.projection.depth,
        add_row=output_row.add_row,
    )


def generate_task_id(now_ms: int) -> str:
    random = f"{secrets.randbits(76):019x}"
    stamp = f"{now_ms & (1 << 48) - 1:012x}"
    variant = "89ab"[int(random[3], 16) & 3]
    return f"{stamp[:8]}-{stamp[8:]}-7{random[:3]}-{variant}{random[4:7]}-{random[7:]}"


def build_system_prompt_and_tools(task: Task) -> tuple[str, tuple[ToolSpec, ...]]:
    """Build the beginning of every request in the task's current mode."""
    protocol, working = task.protocol, task.working_conditions
    tools = (
        task.runtime.build_tool_specs(task.mode, protocol, working)
        if protocol is ToolProtocol.NATIVE
        else ()
    )
    system = task.runtime.build_system_prompt(task.mode, protocol, working)
    validator = task.runtime.result_validator
    return system if validator is None else f"{system}\n\n====\n\n{validator.instructions}", tools
