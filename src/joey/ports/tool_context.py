"""Tool context: everything that a tool may use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from joey.core.file_state import ReadTracker
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.modes import Mode
from joey.core.permissions.hosts import NetworkSetting
from joey.core.settings import Settings
from joey.core.task_types import RowKind, Todo
from joey.ports.content import (
    Browser,
    CodeIndex,
    Diagnostics,
    Documents,
    Outlines,
    PageFetcher,
    SchemaValidator,
)
from joey.ports.execution import ShellGrammar, Terminal
from joey.ports.extensions import Customizations, CustomTools, Hooks, Mcp, RuleStore
from joey.ports.model import ImageGenerator, ToolSupport
from joey.ports.workspace import Checkpoints, Files, Repository, Search, Worktrees


class Capabilities(Struct, frozen=True, kw_only=True):
    """Optional capabilities of a task besides files, search and commands; None for missing ones."""

    customizations: Customizations | None = None
    custom_tools: CustomTools | None = None
    mcp: Mcp | None = None
    code_index: CodeIndex | None = None
    outlines: Outlines | None = None
    documents: Documents | None = None
    diagnostics: Diagnostics | None = None
    browser: Browser | None = None
    image_generator: ImageGenerator | None = None
    repository: Repository | None = None
    worktrees: Worktrees | None = None
    page_fetcher: PageFetcher | None = None
    schema_validator: SchemaValidator | None = None
    shell_grammar: ShellGrammar | None = None
    """Without one, no rule but `*` lets a command run unasked."""
    checkpoints: Checkpoints | None = None
    hooks: Hooks | None = None
    rule_store: RuleStore | None = None
    """Without one, no answer makes a rule."""
    tool_support: ToolSupport | None = None
    """Without one, no refusal of tools is remembered."""


class RowCallback(Protocol):
    def __call__(self, kind: RowKind, text: str, images: tuple[str, ...] = ()) -> None:
        """Add a row for the user while the tool is running."""


def _ignore_row(kind: RowKind, text: str, images: tuple[str, ...] = ()) -> None: ...


class ToolContext(Struct, frozen=True):
    """Everything passed to a tool. Nothing of the engine, nothing of other tasks."""

    files: Files
    search: Search
    terminal: Terminal
    settings: Settings
    protocol: ToolProtocol
    model: ModelInfo
    modes: tuple[Mode, ...]
    mode: Mode
    todos: tuple[Todo, ...]
    artifacts_directory: Path
    """The task's folder for command output (`command-output/`)."""
    call_id: str
    row_ts: int
    """The row that shows this call; names its command output."""
    on_output: Callable[[str], None]
    """Live output of a command."""
    read_tracker: ReadTracker = field(default_factory=ReadTracker)
    """Which versions of files the model has seen."""
    capabilities: Capabilities = Capabilities()
    subtask_depth: int = 0
    """How many tasks stand above the one that calls."""
    read_network: Callable[[], NetworkSetting] | None = None
    """What commands may reach now; None: what the settings say."""
    add_row: RowCallback = _ignore_row
