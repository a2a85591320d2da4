"""The shape of settings, with Roo's names on the outside (camelCase) and its meanings."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from joey.core.modes import DEFAULT_MODE
from joey.core.protocol import ToolProtocol


class Settings(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What a task is run with. A copy belongs to each task; another task's change stays its own."""

    mode: str = DEFAULT_MODE
    custom_instructions: str = ""

    auto_approval_enabled: bool = True
    always_allow_read_only: bool = True
    always_allow_read_only_outside_workspace: bool = False
    always_allow_write: bool = False
    always_allow_write_outside_workspace: bool = False
    always_allow_write_protected: bool = False
    always_allow_execute: bool = False
    always_allow_mode_switch: bool = False
    always_allow_followup_questions: bool = False
    followup_auto_approve_timeout_ms: int = 60_000
    allowed_commands: tuple[str, ...] = ()
    denied_commands: tuple[str, ...] = ()

    allowed_max_requests: int | None = None
    """Requests to the model before a person is asked whether to go on."""
    allowed_max_cost: float | None = None
    """US dollars before a person is asked whether to go on."""
    consecutive_mistake_limit: int = 3
    """0 switches the limit (and the check for repeated calls) off."""
    prevent_completion_with_open_todos: bool = False

    command_execution_timeout: int = 0
    """Seconds after which a command is killed; 0 means never."""
    command_timeout_allowlist: tuple[str, ...] = ()
    terminal_output_preview_size: Literal["small", "medium", "large"] = "medium"

    max_workspace_files: int = 200
    max_concurrent_file_reads: int = 5
    max_read_file_line: int = -1
    max_image_file_size: int = 5
    """Megabytes."""
    max_total_image_size: int = 20
    """Megabytes in one call."""
    include_current_time: bool = True
    include_current_cost: bool = True
    todo_list_enabled: bool = True

    request_delay_seconds: float = 5.0
    """First wait after a failed request; doubles with each further failure."""
    max_retries: int = 6
    """Failed attempts in a row before a person is asked."""
    max_retry_wait_seconds: float = 600.0
    """Total time spent waiting between attempts before a person is asked."""

    understand_text_calls: bool = True
    """XML tasks: also take fenced `tool_code` JSON and `<tool_call>` JSON as calls (D9)."""


class Limits(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How far one run may go; reaching a limit ends it with a result."""

    max_turns: int | None = None
    max_cost: float | None = None
    """US dollars."""
    max_seconds: float | None = None


class Route(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Which model a run talks to, and where; what a task remembers of a profile. No key."""

    profile: str = "default"
    provider: str = ""
    base_url: str | None = None
    model: str = ""


class Profile(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How to reach one model."""

    name: str = "default"
    provider: str = "anthropic"
    model: str = ""
    base_url: str | None = None
    api_key: str | None = None
    max_tokens: int | None = None
    context_window: int | None = None
    temperature: float | None = None
    thinking_budget: int | None = None
    """Tokens of extended thinking; None leaves it off."""
    reasoning_effort: str | None = None
    legacy_headers: bool | None = None
    """Anthropic: `x-api-key` and `2023-06-01`, as older servers want; None: with a base URL."""
    protocol: ToolProtocol | None = None
    native_tools: bool | None = None
    request_timeout: float = 600.0
    headers: dict[str, str] = {}

    @property
    def route(self) -> Route:
        return Route(
            profile=self.name, provider=self.provider, base_url=self.base_url, model=self.model
        )
