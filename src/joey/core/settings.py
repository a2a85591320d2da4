"""Settings, limits and model profiles of a task.

Names and meanings are Roo's on the outside (camelCase in files and on the wire).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from joey.core.hooks import Hook
from joey.core.models import Prices, ToolProtocol
from joey.core.modes import DEFAULT_MODE, ModePromptOverride
from joey.core.permissions.hosts import NetworkSetting, check_network
from joey.core.redaction import collect_secret_values

_PositiveSafeInt = Annotated[int, Meta(ge=1, le=2**53)]
_PositiveFloat = Annotated[float, Meta(gt=0)]
_NonNegativeInt = Annotated[int, Meta(ge=0)]
_PositiveInt = Annotated[int, Meta(ge=1)]
_CountOrUnlimited = Annotated[int, Meta(ge=-1)]
_NonNegativeFloat = Annotated[float, Meta(ge=0)]
_ThresholdPercent = Annotated[int, Meta(ge=5, le=100)]


class Settings(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The settings of a task. Each task has its own copy, unaffected by changes in others."""

    mode: str = DEFAULT_MODE
    """The mode in which a task starts, by its slug."""
    custom_instructions: str = ""
    """Your instructions for every mode."""
    language: str = ""
    """The language in which the model answers; empty: the language of your message."""
    mode_api_configs: dict[str, str] = {}
    """Profiles of modes, by the mode's slug; other modes use the task's own profile."""
    custom_mode_prompts: dict[str, ModePromptOverride | None] = {}
    """Replacement texts for built-in modes, by their slugs."""

    auto_approval_enabled: bool = True
    """Off: everything needs approval, regardless of the `alwaysAllow…` switches."""
    always_allow_read_only: bool = True
    """Read files of the workspace without asking, also by sandboxed commands that only read."""
    always_allow_read_only_outside_workspace: bool = False
    """Read files outside the workspace without asking, too; `-y` alone reads there what sandboxed
    commands see."""
    always_allow_write: bool = False
    """Change files of the workspace without asking."""
    always_allow_write_outside_workspace: bool = False
    """Change files outside the workspace without asking, too; `-y` alone does not."""
    always_allow_write_protected: bool = False
    """Change protected files, such as `.roo/` and `.git/`, without asking, too; `-y` alone does
    not."""
    always_allow_execute: bool = False
    """Run the commands of `allowedCommands` without asking."""
    always_allow_mode_switch: bool = False
    """Let the model change its mode without asking."""
    always_allow_subtasks: bool = False
    """Let the model delegate to subtasks without asking."""
    always_allow_mcp: bool = False
    """Call MCP tools on their server's own `alwaysAllow` list without asking."""
    allowed_mcp_tools: tuple[str, ...] = ()
    """MCP tools allowed besides a server's list: `server/tool`, `server/*`, or `*` for all."""
    always_allow_browser: bool = False
    """Let the model use the browser without asking."""
    always_allow_followup_questions: bool = False
    """Answer a question of the model with its first suggestion if no user answers it."""
    followup_auto_approve_timeout_ms: _NonNegativeInt = 60_000
    """Milliseconds before a question of the model is answered with its first suggestion."""
    allowed_commands: tuple[str, ...] = ()
    """Beginnings of commands that may run without asking; `*` means all."""
    denied_commands: tuple[str, ...] = ()
    """Beginnings of commands that never run, unless a longer beginning allows them."""
    hooks: tuple[Hook, ...] = ()
    """Your own commands that run at certain events of a task."""

    allowed_max_requests: _NonNegativeInt | None = None
    """Requests to the model before you are asked whether to continue."""
    allowed_max_cost: _NonNegativeFloat | None = None
    """US dollars before you are asked whether to continue."""
    consecutive_mistake_limit: _NonNegativeInt = 3
    """Mistakes of the model in a row before you are asked: replies in which no call succeeded.
    Without a person the run ends after them, but not before the tenth. 0 switches this, and the
    check for repeated calls, off."""
    prevent_completion_with_open_todos: bool = False
    """Refuse a result while items of the todo list are open."""
    confirm_completion: Literal["auto", "off"] = "auto"
    """Send a result back to the model once if a command failed in its last run, or an edit left
    errors; `off`: never."""

    command_execution_timeout: _NonNegativeInt = 0
    """Seconds after which a command is killed; 0 means never."""
    command_timeout_allowlist: tuple[str, ...] = ()
    """Beginnings of commands that may take longer than `commandExecutionTimeout`."""
    terminal_output_preview_size: Literal["small", "medium", "large"] = "medium"
    """How much of the output of a command the model sees at once."""
    sandbox: Literal["auto", "off", "required"] = "auto"
    """Sandbox commands if possible, never, or refuse to run them without a sandbox."""
    sandbox_network: NetworkSetting = "off"
    """What sandboxed commands may reach: `off` (nothing), `registries` (the package registries and
    git remotes that this machine is configured with), `all`, or a list of hosts, in which
    `registries` may be too. A change applies to running tasks at once."""
    sandbox_readable: tuple[str, ...] = ()
    """Directories besides the workspace and the system that sandboxed commands may read."""
    sandbox_writable: tuple[str, ...] = ()
    """Directories besides the workspace, and protected files in it, that they may change."""
    sandbox_max_processes: _NonNegativeInt = 1024
    """Processes that a sandboxed command may have at once; 0: no limit."""
    sandbox_max_memory_mb: _NonNegativeInt = 16_384
    """Megabytes of data in one process of a sandboxed command; 0: no limit."""
    sandbox_max_file_mb: _NonNegativeInt = 8_192
    """Megabytes of one file that a sandboxed command writes; 0: no limit."""
    sandbox_max_cpu_seconds: _NonNegativeInt = 14_400
    """CPU seconds of one process of a sandboxed command; 0: no limit."""

    max_workspace_files: _NonNegativeInt = 200
    """File names in the first request of a task."""
    max_concurrent_file_reads: _PositiveInt | None = None
    """Maximum files per call; none: as many as fit into one result."""
    max_read_file_line: _CountOrUnlimited = -1
    """Lines of a file that are read without a range; -1: 2000."""
    max_image_file_size: _NonNegativeInt = 5
    """Size of an image file that is read, in megabytes."""
    max_total_image_size: _NonNegativeInt = 20
    """Size of all images in one call, in megabytes."""
    include_current_time: bool = True
    """Tell the model the time with each request."""
    include_current_cost: bool = True
    """Tell the model with each request what the task has cost."""
    todo_list_enabled: bool = True
    """Offer the model a todo list."""

    request_delay_seconds: _NonNegativeFloat = 5.0
    """First wait after a failed request; doubles with each further failure."""
    max_retries: _NonNegativeInt = 6
    """Failed attempts in a row before you are asked."""
    max_retry_wait_seconds: _NonNegativeFloat = 600.0
    """Total seconds spent waiting between attempts before you are asked."""

    edit_tool: Literal[
        "auto", "apply_diff", "apply_patch", "edit", "edit_file", "search_replace"
    ] = "auto"
    """Which tool changes files; `auto` uses the one that the model was trained on."""
    disabled_tools: tuple[str, ...] = ()
    """Tools that are neither offered nor run, by any of their names."""
    mcp_enabled: bool = True
    """Start MCP servers, and offer their tools."""
    browser_tool_enabled: bool = True
    """Offer the browser, if there is one."""
    browser_viewport_size: str = "900x600"
    """Width and height of the browser's window, in pixels."""
    codebase_index_enabled: bool = True
    """Keep an index of the workspace for `codebase_search`."""
    embedding_profile: str = ""
    """The profile whose model computes embeddings; empty: the index searches by words."""
    image_profile: str = ""
    """The profile whose model generates images; empty: none."""
    use_agent_rules: bool = True
    """Read `AGENTS.md`."""
    enable_subfolder_rules: bool = False
    """Read the `.roo` directories and `AGENTS.md` files below the workspace too."""
    max_git_status_files: _NonNegativeInt | None = None
    """Changed files in each request; none: 20, in the first one only; 0: no git status."""
    new_task_require_todos: bool = False
    """A subtask must be given a todo list."""
    include_diagnostic_messages: bool = True
    """Tell the model about new problems in a file that it changed."""
    max_diagnostic_messages: _CountOrUnlimited = 50
    """New problems of one file that the model sees; -1: all."""
    diagnostics_timeout_seconds: _NonNegativeFloat = 5.0
    """Seconds that a checker of a file may take."""
    diagnostic_checkers: dict[str, str] = {}
    """Commands that check a file, by a pattern of its name: `{"*.py": "mypy {file}"}`."""

    enable_checkpoints: bool = True
    """Save the files of the workspace before and after each step that may change them."""
    checkpoint_timeout: _NonNegativeInt = 15
    """Seconds that a step waits for its checkpoint."""
    checkpoint_max_age_days: _NonNegativeInt = 30
    """Days for which checkpoints are kept."""
    checkpoint_max_megabytes: _NonNegativeInt = 2048
    """Megabytes of checkpoints kept per workspace; the oldest are deleted first."""

    auto_condense_context: bool = True
    """Summarize the conversation when the window is nearly full; if off, drop its oldest turns."""
    auto_condense_context_percent: _ThresholdPercent = 100
    """How full the model's window may get before the conversation is summarized, in percent."""
    profile_thresholds: dict[str, int] = {}
    """`autoCondenseContextPercent` per profile, by name: 5 to 100, or -1 for the general value."""
    custom_condensing_prompt: str = ""
    """The prompt for summaries, instead of the built-in one."""
    condensing_profile: str = ""
    """The profile whose model writes summaries; empty: the task's own."""

    model_catalog_url: str = ""
    """Where `joey models --refresh` gets models and prices: the address of a document in the
    format of models.dev, such as `https://models.dev/api.json`."""
    record_requests: bool = False
    """Record what is sent to models, and what comes back, for `joey proxy list` and the web page;
    keys are left out."""
    notifications: Literal["auto", "bell", "off"] = "auto"
    """Notify you when a task ends or asks while you are elsewhere: as the terminal can, by its bell
    alone, or never."""

    understand_text_calls: bool = True
    """Take calls that a model writes at the end of its text (`<tool_call>`, JSON, …) as calls."""

    def __post_init__(self) -> None:
        check_network(self.sandbox_network)


class Limits(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Limits of one run and all its subtasks; reaching a limit ends it with a result."""

    max_turns: _PositiveSafeInt | None = None
    max_cost: _PositiveFloat | None = None
    """US dollars."""
    max_seconds: _PositiveFloat | None = None
    max_tokens: _PositiveSafeInt | None = None
    """Sent and received."""
    max_tool_calls: _PositiveSafeInt | None = None
    """Handing over the result is not counted."""


class ModelRoute(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The model and address that a run uses; the stored part of a profile, without its key."""

    profile: str = "default"
    provider: str = ""
    base_url: str | None = None
    model: str = ""
    is_explicit: bool = field(default=False, name="chosen")
    """Named for this task by a person: its modes do not change it."""
    has_own_key: bool = field(default=False, name="ownKey")
    """A client gave the address or the key with the task: no other key may be used."""


class TaskSecrets(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Secrets given to a task that must neither be stored in its directory nor read from it:
    directories are copied and imported. `route` has the address without a password."""

    profile: str = ""
    provider: str = ""
    base_url: str | None = None
    """The address that the user, or a client, named for the task."""
    has_own_key: bool = field(default=False, name="ownKey")
    """Only `api_key`, `credentials` and `headers` may be used there, not a key of the user's."""
    api_key: str | None = None
    credentials: dict[str, str] = {}
    headers: dict[str, str] = {}
    settings: dict[str, Any] = {}
    """Settings that name programs to run, or delete files; by their names in `settings.json`."""

    @property
    def values(self) -> tuple[str, ...]:
        """The values that must not be shown."""
        given = (self.api_key, *collect_secret_values(self.credentials), *self.headers.values())
        return tuple(filter(None, given))


class Profile(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Everything needed to use one model."""

    name: str = "default"
    """Which it is among the others."""
    provider: str = "anthropic"
    """The provider: `anthropic`, `openai`, `ollama` and others (see models.md)."""
    model: str = ""
    """The model's name; empty: the provider's default."""
    base_url: str | None = None
    """Another address of the provider."""
    api_key: str | None = None
    """The key; without one, the provider's variable is used."""
    credentials: dict[str, str] = {}
    """For clouds, instead of a key (see models.md); by default the login of this machine."""
    region: str | None = None
    """Region of Amazon Bedrock or Vertex AI: `us-east-1`, `global`."""
    project: str | None = None
    """Project of Vertex AI."""
    api_version: str | None = None
    """Azure: a dated version such as `2024-10-21`; by default its v1 API is used."""
    max_tokens: _NonNegativeInt | None = None
    """Maximum tokens of a reply, if the catalogue does not know the model."""
    context_window: _NonNegativeInt | None = None
    """Context window in tokens, if the catalogue does not know the model."""
    temperature: _NonNegativeFloat | None = None
    """Sent if the model accepts it."""
    thinking_budget: _NonNegativeInt | None = None
    """Tokens of extended thinking; off by default."""
    top_p: _NonNegativeFloat | None = None
    """Nucleus sampling."""
    top_k: _NonNegativeInt | None = None
    """Sample from this many of the likeliest tokens."""
    min_p: _NonNegativeFloat | None = None
    """Sample from tokens with at least this share of the likeliest one's probability."""
    presence_penalty: _NonNegativeFloat | None = None
    """Penalty for repeated tokens."""
    extra_body: dict[str, Any] = {}
    """Added to the body of each request; `null` leaves a parameter out."""
    chat_template_kwargs: dict[str, Any] = {}
    """For the chat template of a local server: `{"enable_thinking": false}`."""
    reasoning_effort: str | None = None
    """How much the model should think, if it supports that: `low`, `medium`, `high`."""
    legacy_headers: bool | None = None
    """Anthropic's API: send `x-api-key` and `2023-06-01`, as older servers require; on by default
    with a custom `baseUrl`."""
    protocol: ToolProtocol | None = None
    """How the model calls tools: `native` or `xml`."""
    native_tools: bool | None = None
    """Whether the model can call tools by the API, if the catalogue is wrong."""
    images: bool | None = None
    """Whether the model accepts images, if the catalogue is wrong."""
    prices: Prices | None = None
    """US dollars per million tokens: `{"input": 1, "output": 5, "cache_reads": 0.1}`."""
    request_timeout: _NonNegativeFloat = 600.0
    """Seconds without data before a request times out."""
    rate_limit_seconds: _NonNegativeFloat | None = None
    """Minimum seconds between the starts of two requests of a task."""
    headers: dict[str, str] = {}
    """Added to each request."""

    @property
    def task_secrets(self) -> TaskSecrets:
        """The secrets that a task keeps outside its directory if the profile was given with it."""
        return TaskSecrets(
            profile=self.name,
            provider=self.provider,
            base_url=self.base_url,
            has_own_key=True,
            api_key=self.api_key,
            credentials=self.credentials,
            headers=self.headers,
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not be shown."""
        return self.task_secrets.values

    @property
    def route(self) -> ModelRoute:
        return ModelRoute(
            profile=self.name, provider=self.provider, base_url=self.base_url, model=self.model
        )
