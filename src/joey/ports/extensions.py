"""Ports of extensions: what the user, the project or a front end adds to a task.

These are modes, rules, commands and skills (`Customizations`), permission rules from "always"
answers (`RuleStore`), hooks, custom tools and MCP servers. `FrontEndResources` is what a front end
supplies for its task. `TrustItem` is one thing of a workspace that would run, or loosen rules, once
the user trusts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from joey.core.hooks import Hook, HookInput, HookReport
from joey.core.mcp import McpResult, McpServer
from joey.core.modes import Instructions, Mode, Skill, SlashCommand
from joey.ports.workspace import Files

if TYPE_CHECKING:
    from joey.core.permissions.granted_rules import GrantedRule, RuleSetting
    from joey.core.permissions.hosts import NetworkSetting
    from joey.core.permissions.policy import PersistentRule
    from joey.core.task_types import RuleScope


class Customizations(Protocol):
    """What was on disk when it was last read: the same objects until `refresh` says otherwise."""

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Built-in and custom ones, in the order they are offered; never empty."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be used, and why: for the user, one line each."""

    def get_instructions(self, mode: Mode) -> Instructions: ...

    def list_commands(self) -> Sequence[SlashCommand]:
        """One for each name, sorted by name; a project's own hide the person's."""

    def list_skills(self, mode: Mode) -> Sequence[Skill]:
        """Those that may be used in this mode: one for each name, sorted by name."""

    def read_skill(self, skill: Skill) -> str:
        """The instructions themselves, without front matter. Raises ToolError: the file is gone or
        cannot be read."""

    def refresh(self) -> bool:
        """Look whether a file was changed, and if so read everything again: a run begins. True when
        something is different now. It looks at files: call it in a thread."""


class RuleStore(Protocol):
    """Rules of one directory, and of the user's settings. It reads and writes files: call all but
    `read_directory_rules` in a thread."""

    def would_enable_only(self, rule: PersistentRule) -> bool:
        """Whether adding the rule to the settings would allow what it says and nothing else."""

    def add(self, rule: PersistentRule, scope: RuleScope, *, by: str, task_id: str) -> None:
        """For the directory or everywhere. Raises ConfigError: it could not be written, or would
        allow more than it says."""

    def add_host(self, host: str, *, by: str, task_id: str) -> None:
        """For commands in the directory. Raises ConfigError."""

    def read_directory_rules(self) -> tuple[GrantedRule, ...]:
        """Looks whether a file has changed, which takes microseconds."""

    def list_rules(self) -> tuple[GrantedRule, ...]:
        """Of the directory and of the settings. Raises ConfigError."""

    def revoke(self, setting: RuleSetting, text: str, scope: RuleScope) -> bool:
        """Whether there was such a rule. Raises ConfigError."""


class NetworkPolicy(Protocol):
    """What the commands of a task may reach, as the user has it set now."""

    @property
    def ceiling(self) -> NetworkSetting:
        """What the project allows at most."""

    def read(self) -> NetworkSetting:
        """Looks whether a file has changed, which takes microseconds."""

    def explain_fixed(self) -> str:
        """Why no hosts can be added; empty: they can."""


class ProjectHooks(Struct, frozen=True):
    """What a project wants to have run, trusted or not."""

    hooks: tuple[Hook, ...] = ()
    trust_items: tuple[TrustItem, ...] = ()
    """What trust in them is bound to."""
    warnings: tuple[str, ...] = ()


class Hooks(Protocol):
    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not used, and why: for the user."""

    async def refresh(self) -> None:
        """Look at the project's hooks again: a run begins."""

    async def run(self, hook_input: HookInput, tool_names: Sequence[str]) -> HookReport:
        """Run the hooks for this moment and tool one after the other, until one blocks.
        `tool_names` are all that the tool goes by. Raises nothing; cancelling it kills what runs.
        """


class CustomToolInfo(Struct, frozen=True, omit_defaults=True):
    name: str
    description: str
    schema: dict[str, Any]
    """JSON Schema of the arguments."""
    path: str
    """The file that it is in, as people know it."""
    source: Literal["project", "global"] = "project"


class CustomTools(Protocol):
    @property
    def tools(self) -> tuple[CustomToolInfo, ...]:
        """The very same tuple until files change; empty before they have been looked at."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with files that are no tools, for people."""

    async def refresh(self) -> None:
        """Look at the files again, where they have changed."""

    async def run(self, name: str, arguments: dict[str, Any], mode: str) -> str:
        """Raises ToolError: the tool failed, took too long or said too much."""


class Mcp(Protocol):
    """The servers that one task may use."""

    @property
    def servers(self) -> tuple[McpServer, ...]:
        """How things stand: the very same tuple until something changes."""

    async def wait_until_ready(self, timeout_s: float) -> None:
        """Notice what changed in the settings, start what is to be started, and wait while a
        server connects for the first time, at most `timeout_s` seconds since it was started."""

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        on_progress: Callable[[str], None] | None = None,
    ) -> McpResult:
        """Cancelling tells the server. Raises ToolError: not connected, timed out or died; the text
        says which, and what comes next."""

    async def read_resource(self, server: str, uri: str) -> McpResult:
        """A resource. Raises ToolError like `call_tool`."""

    async def close(self) -> None:
        """The task is done with them; a server that nobody uses any more is stopped."""


class FrontEndResources(Struct, frozen=True, kw_only=True):
    wrap_files: Callable[[Files], Files] | None = None
    """Stands between the task and the files of its workspace: an editor knows what is not saved
    yet. What may be read and written is decided before it is asked."""
    mcp_servers: dict[str, Any] = {}
    """MCP servers, in the shape of `mcp.json`. They count as the user's own, for whom the front
    end speaks."""


class TrustItem(Struct, frozen=True):
    """One thing of a workspace that would run, or loosen rules, once it is trusted."""

    name: str
    """Unique within the workspace: `mcp:weather`."""
    title: str
    content: bytes
    """All that makes it what it is; other bytes need new trust."""
    details: tuple[str, ...] = ()
    """Lines that tell the user what exactly would happen."""
    needs_trust_only_unattended: bool = False
    """It needs trust only where nobody is asked about anything."""
