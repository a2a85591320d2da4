"""What one task works with: its model, its tools, its view of the world, its own settings."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

from joey.core.file_memory import FileMemory
from joey.core.models import ToolSpec
from joey.core.modes import Mode
from joey.core.prompts.system import ToolDoc, system_prompt
from joey.core.protocol import ToolProtocol
from joey.core.settings import Limits, Route, Settings
from joey.ports import Clock, Environment, Extras, Files, Provider, Search, Terminal
from joey.tools.base import Offer
from joey.tools.registry import Registry


class Workbench(Struct, frozen=True, kw_only=True):
    """Ready-made collaborators, given to a task when it is opened. Nothing is shared but code."""

    provider: Provider
    registry: Registry
    files: Files
    search: Search
    terminal: Terminal
    environment: Environment
    clock: Clock
    settings: Settings
    modes: tuple[Mode, ...]
    limits: Limits = Limits()
    route: Route = Route()
    system_prompt: str | None = None
    """The person's own, in place of ours."""
    extras: Extras = Extras()
    memory: FileMemory = field(default_factory=FileMemory)
    prompts: dict[tuple[Mode, ToolProtocol], str] = field(default_factory=dict)
    """System prompts made so far."""

    @property
    def workspace(self) -> Path:
        return self.files.root

    def tool_specs(self, mode: Mode) -> tuple[ToolSpec, ...]:
        offer = Offer(self.settings, self.provider.model, self.extras)
        return self.toolbox.specs(mode, offer)

    @property
    def toolbox(self) -> Registry:
        """All tools as things stand now."""
        return self.registry

    def system(self, mode: Mode, protocol: ToolProtocol) -> str:
        """The same bytes for the same mode and protocol: prompt caches depend on it."""
        if self.system_prompt is not None:
            return self.system_prompt
        if (mode, protocol) not in self.prompts:
            self.prompts[mode, protocol] = self._compose_system(mode, protocol)
        return self.prompts[mode, protocol]

    def _compose_system(self, mode: Mode, protocol: ToolProtocol) -> str:
        docs = tuple(
            ToolDoc(spec=spec, xml_usage=self.toolbox.find(spec.name).xml_usage)
            for spec in self.tool_specs(mode)
        )
        return system_prompt(
            mode=mode,
            modes=self.modes,
            protocol=protocol,
            tools=docs,
            facts=self.environment.system_facts(),
            custom_instructions=self.settings.custom_instructions,
        )
