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
    """The customizations last read from disk: the same objects until `refresh` reports a change."""

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Built-in and custom modes, in the order they are offered; never empty."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems for the user, one line each."""

    def get_instructions(self, mode: Mode) -> Instructions: ...

    def list_commands(self) -> Sequence[SlashCommand]:
        """List one command per name, sorted; a project's hide the user's."""

    def list_skills(self, mode: Mode) -> Sequence[Skill]:
        """List one skill per name, sorted, for this mode."""

    def read_skill(self, skill: Skill) -> str:
        """Read the instructions without front matter. Raises ToolError if the file is gone or
        cannot be read."""

    def refresh(self) -> bool:
        """Read everything again if a file has changed, as at the start of a run; True if anything
        is different. Reads files: call it in a thread."""


class RuleStore(Protocol):
    """Rules of one directory, and of the user's settings. Reads and writes files: call all but
    `read_directory_rules` in a thread."""

    def would_enable_only(self, rule: PersistentRule) -> bool:
        """Whether adding the rule to the settings would allow exactly what it says."""

    def add(self, rule: PersistentRule, scope: RuleScope, *, by: str, task_id: str) -> None:
        """Add a rule for the directory or everywhere. Raises ConfigError if it could not be
        written, or would allow more than it says."""

    def add_host(self, host: str, *, by: str, task_id: str) -> None:
        """Add a host for commands in the directory. Raises ConfigError."""

    def read_directory_rules(self) -> tuple[GrantedRule, ...]:
        """Return the rules of the directory; checks for changes of the file, which takes
        microseconds."""

    def list_rules(self) -> tuple[GrantedRule, ...]:
        """List the rules of the directory and of the settings. Raises ConfigError."""

    def revoke(self, setting: RuleSetting, text: str, scope: RuleScope) -> bool:
        """Revoke a rule; False if there is no such rule. Raises ConfigError."""


class NetworkPolicy(Protocol):
    """The network that the commands of a task may reach, by the user's current settings."""

    @property
    def ceiling(self) -> NetworkSetting:
        """The most that the project allows."""

    def read(self) -> NetworkSetting:
        """Return the network; checks for changes of the file, which takes microseconds."""

    def explain_fixed(self) -> str:
        """Explain why no hosts can be added; empty if they can."""


class ProjectHooks(Struct, frozen=True):
    """The hooks that a project defines, trusted or not."""

    hooks: tuple[Hook, ...] = ()
    trust_items: tuple[TrustItem, ...] = ()
    """What trust in them is bound to."""
    warnings: tuple[str, ...] = ()


class Hooks(Protocol):
    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems for the user: unused hooks, and why."""

    async def refresh(self) -> None:
        """Reload the project's hooks, as at the start of a run."""

    async def run(self, hook_input: HookInput, tool_names: Sequence[str]) -> HookReport:
        """Run the hooks of this event and tool one after another, until one blocks. `tool_names`
        are all names of the tool. Raises nothing; cancelling it kills the running hook."""


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
        """The same tuple until files change; empty before they have been read."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems of files that are not valid tools, for users."""

    async def refresh(self) -> None:
        """Read changed files again."""

    async def run(self, name: str, arguments: dict[str, Any], mode: str) -> str:
        """Run a tool. Raises ToolError if it failed, took too long or returned too much."""


class Mcp(Protocol):
    """The servers that one task may use."""

    @property
    def servers(self) -> tuple[McpServer, ...]:
        """The servers' states: the same tuple until something changes."""

    async def wait_until_ready(self, timeout_s: float) -> None:
        """Read changed settings, start servers, and wait for those that connect for the first time,
        at most `timeout_s` seconds after their start."""

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        on_progress: Callable[[str], None] | None = None,
    ) -> McpResult:
        """Call a tool. Cancelling notifies the server. Raises ToolError if the server is not
        connected, timed out or died; the text says which, and what comes next."""

    async def read_resource(self, server: str, uri: str) -> McpResult:
        """Read a resource. Raises ToolError like `call_tool`."""

    async def close(self) -> None:
        """Release the servers; one that is no longer used is stopped."""


class FrontEndResources(Struct, frozen=True, kw_only=True):
    wrap_files: Callable[[Files], Files] | None = None
    """Stands between the task and the files of its workspace: an editor knows what is not saved
    yet. What may be read and written is decided before it is asked."""
    mcp_servers: dict[str, Any] = {}
    """MCP servers, in the shape of `mcp.json`. They count as the user's own, for whom the front
    end speaks."""


class TrustItem(Struct, frozen=True):
    """One item of a workspace that would run, or loosen rules, once it is trusted."""

    name: str
    """Unique within the workspace: `mcp:weather`."""
    title: str
    content: bytes
    """All that makes it what it is; other bytes need new trust."""
    details: tuple[str, ...] = ()
    """Lines that tell the user what exactly would happen."""
    needs_trust_only_unattended: bool = False
    """It needs trust only where nobody is asked about anything."""
