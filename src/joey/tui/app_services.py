"""Services that the app needs from its caller: tasks, completions, choices, status data.

The app only knows sessions, not files, settings or engines. The functions for command arguments
(`find_mode`, `change_approval_level`) are here because the REPL uses them too, which must not load
Textual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from joey.client.session import Session
from joey.core.events import Event, MessageQueued, TokenUsage
from joey.core.rewind import RewindPreview
from joey.core.suggest import find_closest_name
from joey.core.task_types import ApprovalLevel, Todo
from joey.errors import UserError
from joey.presentation.slash_commands import LISTED_COMMANDS, BuiltInCommand
from joey.presentation.text import Piece, to_one_line


class CompletionItem(Struct, frozen=True):
    name: str
    description: str = ""


BUILTIN_COMMANDS = [CompletionItem(command.name, command.summary) for command in LISTED_COMMANDS]


class CompletionSource(Protocol):
    def list_commands(self) -> Sequence[CompletionItem]:
        """List the slash commands, without the slash."""

    async def find_files(self, typed: str) -> Sequence[str]:
        """Find paths that match the text after `@`, best first; directories end with `/`."""


class StatusInfo(Struct, frozen=True, kw_only=True):
    """Contents of the status line: of a task, or of the one that the next message starts."""

    mode: str
    model: str
    directory: str
    git_branch: str = ""
    context_window: int = 0
    permissions_text: str = ""
    sandbox_text: str = ""
    background_command_count: int = 0
    usage: TokenUsage = TokenUsage()
    """Of the task and its subtasks."""
    todos: Sequence[Todo] = ()


class PickerEntry(Struct, frozen=True):
    key: str
    label: str
    description: str = ""
    is_current: bool = False


class ProviderOption(Struct, frozen=True):
    name: str
    needs_key: bool
    local_url: str = ""
    """Where it was found running on this machine."""
    models: tuple[str, ...] = ()
    key_page: str = ""
    """Where its keys are made."""
    key_variable: str = ""
    """The variable of the environment that holds a key for it."""
    start_hint: str = ""
    """How to start it; of a server of this machine that is not running."""
    base_url: str | None = None
    """An address that the user has named."""


class KeyCheckResult(Struct, frozen=True):
    is_refused: bool
    message: str
    """Why it was refused, or could not be checked; empty: it was accepted."""
    models: tuple[str, ...]


class Host(CompletionSource, Protocol):
    """Services of the caller. Methods that may take time or fail raise UserError with a sentence
    for the user."""

    needs_model: bool
    """There is no key and no profile yet."""

    @property
    def notification_mode(self) -> str:
        """The setting `notifications`: `auto`, `bell` or `off`."""

    # Tasks

    async def start_task(self, text: str, images: tuple[str, ...]) -> Session: ...

    async def open_task(self, task_id: str) -> Session: ...

    async def fork_task(self, task_id: str) -> Session: ...

    async def release_session(self, session: Session) -> None: ...

    async def list_tasks(self) -> Sequence[PickerEntry]:
        """List the tasks of this directory, the latest first."""

    def get_short_id(self, session: Session) -> str: ...

    def get_title(self, session: Session) -> str: ...

    def list_warnings(self, session: Session) -> Sequence[str]:
        """List problems with the user's settings and customization files."""

    def describe_failure(self, session: Session) -> str:
        """Describe why the task cannot continue after its journal could not be written."""

    def watch_mcp_servers(
        self, session: Session, on_note: Callable[[str], None]
    ) -> Callable[[Event], None]:
        """Return the handler of task events that reports MCP servers that are slow or missing."""

    # One task

    def get_status(self, session: Session | None) -> StatusInfo: ...

    def describe_price(self) -> str:
        """Describe the price of the next message's model; empty if it is not known."""

    def format_cost(self, session: Session) -> str: ...

    def list_queued_messages(self, session: Session) -> Sequence[MessageQueued]: ...

    async def remove_queued_message(self, session: Session, message_id: str) -> None: ...

    async def condense(self, session: Session, instructions: str) -> Event: ...

    @property
    def approval_level(self) -> ApprovalLevel:
        """What is allowed until the program ends."""

    def set_approval_level(self, session: Session | None, level: ApprovalLevel) -> None:
        """Set the level for this task and later ones. Raises UserError if it would have no effect,
        or no sandbox would restrict the commands."""

    async def list_granted_rules(self, session: Session | None) -> Sequence[PickerEntry]:
        """List the rules that users have granted, each with its scope and who granted it."""

    async def revoke_granted_rule(self, session: Session | None, key: str) -> bool:
        """Revoke a rule; False if it was no longer granted."""

    def read_full_output(self, task_id: str, row_ts: int) -> str | None:
        """Read the output of a command that was too long for its row; None if it was not."""

    def move_command_to_background(self, session: Session) -> bool:
        """Move the running command to the background; False if there is none."""

    def describe_rewind(self, session: Session, changes: RewindPreview) -> Sequence[str]: ...

    async def export_task(self, session: Session) -> str:
        """Export the task and return the path of the file."""

    # Choices

    def list_modes(self, session: Session | None) -> Sequence[PickerEntry]: ...

    async def switch_mode(self, session: Session | None, slug: str) -> None: ...

    async def list_models(self, session: Session | None) -> Sequence[PickerEntry]: ...

    async def switch_model(self, session: Session | None, key: str) -> Session | None:
        """Switch the model; return the session to continue with."""

    async def list_providers(self) -> tuple[ProviderOption, ...]:
        """List the providers, local ones first."""

    def describe_address(self, text: str) -> ProviderOption:
        """Describe the service at an address that the user has typed."""

    async def check_key(self, provider: ProviderOption, key: str) -> KeyCheckResult:
        """Check a key by one free request; an empty key means the one in the provider's
        variable."""

    async def save_provider_choice(self, provider: ProviderOption, key: str, model: str) -> str:
        """Save the choice as the active profile; return its key for `switch_model`."""

    async def describe_small_window(self, profile: str) -> str:
        """Describe what to change before a profile's local model can be used; empty if nothing is
        known to be wrong."""

    def find_key_owner(self, session: Session) -> ProviderOption:
        """Find the service to which a task sends its key."""

    async def replace_key(self, failed: Session, session: Session, key: str) -> Session:
        """Replace the key that the service of `failed`, the task or a subtask, rejected; return the
        session to continue with."""

    # Other commands

    async def render_card(self, name: str, session: Session | None) -> Sequence[Piece]:
        """Render the output of `/doctor`, `/status`, `/context` and other read-only commands."""

    async def run_shell_command(self, command: str, on_output: Callable[[str], None]) -> str:
        """Run a command in the workspace; return a description of its end if it failed."""


_LEVEL_TEXTS = {
    ApprovalLevel.ASK: "joey asks as your settings say",
    ApprovalLevel.EDITS: "edits in this workspace run without asking, until you leave",
    ApprovalLevel.ALL: "everything runs without asking, until you leave; protected files are asked",
}
REVOKE_ARGUMENT = "revoke"
"""Behind /permissions: shows what was allowed, to take it back."""


def is_replaced(command: BuiltInCommand, source: CompletionSource) -> bool:
    """Whether a command of the user's or project's files overrides this one."""
    return command.is_replaceable and any(
        offer.name == command.name and offer not in BUILTIN_COMMANDS
        for offer in source.list_commands()
    )


def find_mode(modes: Sequence[PickerEntry], slug: str) -> PickerEntry:
    """Find a mode. Raises UserError if there is none of this name."""
    named = next((mode for mode in modes if mode.key == slug), None)
    if named is None:
        near = find_closest_name(slug, (mode.key for mode in modes))
        meant = f"did you mean {near}?" if near else "/mode lists them"
        raise UserError(f"there is no mode {to_one_line(slug, 80)!r}; {meant}")
    return named


def change_approval_level(host: Host, session: Session | None, argument: str) -> str:
    """Set the level that `/permissions ask|edits|all` names; return the message about it. Raises
    UserError."""
    try:
        level = ApprovalLevel(argument)
    except ValueError:
        raise UserError(
            "/permissions takes `ask`, `edits`, `all`, `revoke`; alone, it shows what is allowed"
        ) from None
    host.set_approval_level(session, level)
    return _LEVEL_TEXTS[level]
