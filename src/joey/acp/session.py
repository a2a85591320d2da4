"""A session of the protocol: a conversation in a directory, with the user's choices for it.

The choices are mode, model, commands, and the MCP servers that the editor names. The user
configured these servers in the editor, so like the user's own servers they need no trust. Their
calls need approval like all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from acp.exceptions import RequestError
from msgspec import Struct, structs

from acp import schema
from joey.acp.conversation import Conversation
from joey.acp.editor import Editor, EditorFiles
from joey.acp.errors import INVALID_PARAMS
from joey.acp.permissions import AutoAnswerPolicy
from joey.acp.prompts import PromptBlock, parse_prompt
from joey.client.engine_reexports import Engine, ResolvedTaskOptions, Task, TaskOptions
from joey.core.events import ModeSwitched
from joey.core.modes import Mode, choose_fallback_mode
from joey.core.settings import ModelRoute, TaskSecrets
from joey.ports.extensions import FrontEndResources
from joey.ports.storage import TaskMetadata
from joey.presentation.text import to_one_line


class SlashCommandInfo(Struct, frozen=True):
    name: str
    description: str = ""
    argument_hint: str = ""


class TaskListPage(Struct, frozen=True):
    tasks: Sequence[TaskMetadata]
    has_more: bool = False


class AcpServices(Protocol):
    """Services that sessions need. Each may read files: call it in a thread. All raise
    UserError."""

    def resolve_workspace(self, directory: Path) -> Path:
        """The directory with its symbolic links resolved."""

    def build_new_task_options(
        self, directory: Path, mode: str | None, model: str | None
    ) -> ResolvedTaskOptions:
        """The options of a new task."""

    def build_model_switch_options(
        self, directory: Path, model: str, earlier: ModelRoute, secrets: TaskSecrets | None
    ) -> ResolvedTaskOptions:
        """The options of a task that continues with another model."""

    def list_modes(self, directory: Path) -> Sequence[Mode]: ...

    def list_commands(self, directory: Path) -> Sequence[SlashCommandInfo]:
        """Slash commands."""

    def list_warnings(self, directory: Path) -> Sequence[str]:
        """Return a line for each file of the user or the directory that is ignored."""

    def list_models(self, provider: str) -> Sequence[str]:
        """The models to offer."""

    def list_tasks(self, directory: str | None, skip: int, page_size: int) -> TaskListPage:
        """List tasks other than subtasks, the most recently changed first."""

    def describe_missing_model(self) -> str | None:
        """Why no model can be used; None if one can."""


class AcpSession:
    def __init__(
        self,
        id: str,
        directory: Path,
        mcp_servers: dict[str, Any],
        engine: Engine,
        services: AcpServices,
        editor: Editor,
    ) -> None:
        self.id = id
        self.directory = directory
        self._mcp_servers = mcp_servers
        self._engine = engine
        self._services = services
        self._editor = editor
        self._conversation = Conversation(
            id, engine, editor, self._set_mode_and_send_config_options
        )
        self._modes: Sequence[Mode] = ()
        self._models: Sequence[str] = ()
        self._commands: Sequence[SlashCommandInfo] = ()
        self._mode_slug = ""
        self._model_id = ""
        self._is_model_changed = False
        """Another model than the task has been opened with."""
        self._reopen_lock = asyncio.Lock()

    # Its beginning and its end ------------------------------------------------------------------

    async def start(self) -> None:
        """Start a session; its task begins with the first prompt. Raises UserError."""
        options = await asyncio.to_thread(
            self._services.build_new_task_options, self.directory, None, None
        )
        await self._load_choices(options.profile.provider)
        self._mode_slug = choose_fallback_mode(
            options.mode or options.settings.mode, tuple(self._modes)
        ).slug
        self._model_id = options.profile.model

    async def open_task(self, *, replay: bool) -> None:
        """Open a session with an existing task. Raises UserError."""
        if self._conversation.task is None:
            options = self._add_editor_resources(TaskOptions(workspace=self.directory))
            await self._attach_task(await self._engine.open(self.id, options=options))
        if replay:
            await self._conversation.replay_history()
        await self._conversation.send_session_info()

    async def fork_task(self, task_id: str) -> None:
        """Start with a copy of another task's history; that task stays unchanged. Raises
        UserError."""
        options = self._add_editor_resources(TaskOptions(workspace=self.directory))
        task = await self._engine.fork(task_id, options=options)
        self.id = self._conversation.id = task.id
        await self._attach_task(task)

    async def close(self) -> None:
        await self._conversation.release_task()

    async def _attach_task(self, task: Task) -> None:
        self._conversation.attach_task(task)
        await self._load_choices(task.runtime.route.provider)
        self._mode_slug = task.mode.slug
        self._model_id = task.runtime.provider.model.id
        self._is_model_changed = False

    async def _load_choices(self, provider: str) -> None:
        self._modes = await asyncio.to_thread(self._services.list_modes, self.directory)
        self._models = await asyncio.to_thread(self._services.list_models, provider)
        self._commands = await asyncio.to_thread(self._services.list_commands, self.directory)

    def _add_editor_resources(self, options: TaskOptions) -> TaskOptions:
        """Add the MCP servers that the editor brings along."""
        resources = FrontEndResources(mcp_servers=self._mcp_servers)
        if self._editor.can_read_files or self._editor.can_write_files:
            resources = structs.replace(
                resources,
                wrap_files=lambda files: EditorFiles(files, self._editor, lambda: self.id),
            )
        return structs.replace(options, policy=AutoAnswerPolicy(), front_end_resources=resources)

    # What is said -------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[PromptBlock]) -> schema.StopReason:
        """Raises RequestError, UserError."""
        names = {command.name for command in self._commands}
        text, images = parse_prompt(blocks, self.directory, names)
        task = self._conversation.task
        if task is None:
            build_options = self._services.build_new_task_options
            options = self._add_editor_resources(
                await asyncio.to_thread(
                    build_options, self.directory, self._mode_slug, self._model_id
                )
            )
            await self._conversation.send_warnings(
                await asyncio.to_thread(self._services.list_warnings, self.directory)
            )
            return await self._conversation.prompt(text, images, options)
        async with self._reopen_lock:
            if self._is_model_changed and not self._conversation.is_busy:
                await self._reopen_with_new_model(task)
        name, _, instructions = text.strip().partition(" ")
        is_compact = name == f"/{COMPACT_COMMAND_NAME}" and COMPACT_COMMAND_NAME not in names
        if is_compact and self._conversation.task is not None:
            return await self._conversation.condense(self._conversation.task, instructions.strip())
        return await self._conversation.prompt(text, images, None)

    async def cancel(self) -> None:
        await self._conversation.cancel()

    async def _reopen_with_new_model(self, task: Task) -> None:
        """Reopen the task: its runtime keeps the model that it was opened with."""
        resolved = await asyncio.to_thread(
            self._services.build_model_switch_options,
            self.directory,
            self._model_id,
            task.runtime.route,
            self._engine.store.load_secrets(self.id),
        )
        options = self._add_editor_resources(structs.replace(resolved, grants=task.grants))
        await self._conversation.release_task()
        await self._attach_task(await self._engine.open(self.id, options=options))

    # What is chosen -----------------------------------------------------------------------------

    @property
    def mode_state(self) -> schema.SessionModeState:
        listed = [
            schema.SessionMode(id=slug, name=name, description=description)
            for slug, name, description in self._describe_modes()
        ]
        return schema.SessionModeState(available_modes=listed, current_mode_id=self._mode_slug)

    @property
    def config_options(self) -> ConfigOptions:
        """The models, and the modes once more for editors that only support options."""
        modes = [
            schema.SessionConfigSelectOption(value=slug, name=name, description=description)
            for slug, name, description in self._describe_modes()
        ]
        options: ConfigOptions = [
            schema.SessionConfigOptionSelect(
                type="select",
                id=MODE_OPTION_ID,
                name="Mode",
                category="mode",
                current_value=self._mode_slug,
                options=modes,
            )
        ]
        if self._model_id:
            names = dict.fromkeys((self._model_id, *self._models))
            models = [schema.SessionConfigSelectOption(value=name, name=name) for name in names]
            options.append(
                schema.SessionConfigOptionSelect(
                    type="select",
                    id=MODEL_OPTION_ID,
                    name="Model",
                    category="model",
                    current_value=self._model_id,
                    options=models,
                )
            )
        return options

    def _describe_modes(self) -> Iterator[tuple[str, str, str]]:
        """The slug, name and description of each mode."""
        for mode in self._modes:
            about = to_one_line(mode.description or mode.purpose, 200)
            yield mode.slug, to_one_line(mode.name, 80), about

    async def set_mode(self, slug: str) -> None:
        """Raises RequestError."""
        if slug not in {mode.slug for mode in self._modes}:
            known = ", ".join(mode.slug for mode in self._modes)
            raise RequestError(INVALID_PARAMS, f"There is no mode {slug!r}. Known ones: {known}.")
        task = self._conversation.task
        if task is None:
            update = schema.CurrentModeUpdate(
                session_update="current_mode_update", current_mode_id=slug
            )
            await self._editor.send_update(self.id, update)
            await self._set_mode_and_send_config_options(slug)
        elif task.mode.slug != slug:
            task.publish(ModeSwitched(ts=task.next_ts(), mode=slug))
            self._mode_slug = slug
            await task.recorder.commit()

    async def set_config_option(self, id: str, value: str | bool) -> None:
        """Set an option; a new model is used from the next prompt on. Raises RequestError."""
        known = {option.id: option for option in self.config_options}
        if id not in known:
            raise RequestError(INVALID_PARAMS, f"There is no option {id!r}; see configOptions.")
        if not isinstance(value, str):
            raise RequestError(INVALID_PARAMS, f"The value of {id!r} must be text.")
        if id == MODE_OPTION_ID:
            await self.set_mode(value)
            return
        assert id == MODEL_OPTION_ID
        if value not in {self._model_id, *self._models}:
            raise RequestError(INVALID_PARAMS, f"There is no model {value!r}; see configOptions.")
        self._is_model_changed = self._is_model_changed or value != self._model_id
        self._model_id = value

    async def send_commands(self) -> None:
        """Send the commands from files, and built-in ones whose names no file uses."""
        named = {command.name: command for command in (_COMPACT_COMMAND, *self._commands)}
        update = schema.AvailableCommandsUpdate(
            session_update="available_commands_update",
            available_commands=[_build_available_command(command) for command in named.values()],
        )
        await self._editor.send_update(self.id, update)

    async def _set_mode_and_send_config_options(self, mode: str) -> None:
        self._mode_slug = mode
        update = schema.ConfigOptionUpdate(
            session_update="config_option_update", config_options=self.config_options
        )
        await self._editor.send_update(self.id, update)


MODE_OPTION_ID, MODEL_OPTION_ID = "mode", "model"
COMPACT_COMMAND_NAME = "compact"
_COMPACT_COMMAND = SlashCommandInfo(
    COMPACT_COMMAND_NAME,
    "Condense the conversation to free context",
    "instructions for the summary",
)

ConfigOptions = list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean]


def _build_available_command(command: SlashCommandInfo) -> schema.AvailableCommand:
    hint = schema.AvailableCommandInput(
        schema.UnstructuredCommandInput(hint=to_one_line(command.argument_hint, 80))
    )
    return schema.AvailableCommand(
        name=command.name,
        description=to_one_line(command.description, 200) or command.name,
        input=hint if command.argument_hint else None,
    )


EditorMcpServer = (
    schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio
)


def to_mcp_config_entries(servers: Sequence[EditorMcpServer] | None) -> dict[str, Any]:
    """Convert the editor's servers. Raises RequestError for a server that joey cannot reach."""
    return {server.name: _to_mcp_config_entry(server) for server in servers or ()}


def _to_mcp_config_entry(server: EditorMcpServer) -> dict[str, Any]:
    match server:
        case schema.McpServerStdio():
            env = {variable.name: variable.value for variable in server.env}
            return {"command": server.command, "args": list(server.args), "env": env}
        case schema.HttpMcpServer() | schema.SseMcpServer():
            kind = "sse" if isinstance(server, schema.SseMcpServer) else "streamable-http"
            headers = {header.name: header.value for header in server.headers}
            return {"type": kind, "url": server.url, "headers": headers}
        case _:
            raise RequestError(
                INVALID_PARAMS,
                f"mcpServers: {server.name!r} can be reached by stdio, http or sse only.",
            )
