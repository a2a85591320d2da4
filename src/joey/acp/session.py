"""A session of the protocol: a conversation in a folder, with what the person chose for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from acp.exceptions import RequestError
from acp.schema import ConfigOptionUpdate, CurrentModeUpdate, SessionModeState, StopReason
from msgspec import structs

from joey.acp.choices import (
    COMPACT,
    MODE,
    MODEL,
    Options,
    commands_update,
    compact_wish,
    config_options,
    mode_state,
)
from joey.acp.client_files import ClientFiles
from joey.acp.conversation import Conversation
from joey.acp.editor import Editor
from joey.acp.house import Choice, House
from joey.acp.permissions import EditorPolicy
from joey.acp.prompts import Block, read_prompt
from joey.acp.terminals import Terminals
from joey.client.local import Engine, Task, TaskOptions
from joey.core.events import ModeSwitched
from joey.core.modes import Mode, usual_mode
from joey.ports import Brought, Files

INVALID_PARAMS = -32602


class Session:
    def __init__(
        self,
        id: str,
        folder: Path,
        servers: dict[str, Any],
        engine: Engine,
        house: House,
        editor: Editor,
        terminals: Terminals,
    ) -> None:
        self.id = id
        self.folder = folder
        self._servers = servers
        self._engine = engine
        self._house = house
        self._editor = editor
        self._talk = Conversation(id, engine, editor, terminals, self._tell_choices)
        self._modes: Sequence[Mode] = ()
        self._models: Sequence[str] = ()
        self._commands: Sequence[Choice] = ()
        self._mode = ""
        self._model = ""
        self._wants_model = False
        """Another model than the task has been opened with."""
        self._reopening = asyncio.Lock()

    # Its beginning and its end ------------------------------------------------------------------

    async def begin(self) -> None:
        """A new session; its task begins with the first prompt. Raises UserError."""
        options = await asyncio.to_thread(self._house.new_options, self.folder, None, None)
        assert options.profile and options.settings
        await self._look_around(options.profile.provider)
        self._mode = usual_mode(options.mode or options.settings.mode, tuple(self._modes)).slug
        self._model = options.profile.model

    async def open(self, *, replay: bool) -> None:
        """A session with a task that there is already. Raises UserError."""
        if self._talk.task is None:
            await self._open(self._options(TaskOptions(workspace=self.folder)))
        if replay:
            await self._talk.replay()
        await self._talk.tell_facts()

    async def fork_of(self, task_id: str) -> str:
        """Begin with the history of another task, whose own stays as it is. Raises UserError."""
        options = self._options(TaskOptions(workspace=self.folder))
        task = await self._engine.fork(task_id, options=options)
        self.id = self._talk.id = task.id
        await self._adopt(task)
        return task.id

    async def close(self) -> None:
        await self._talk.let_go()

    async def _open(self, options: TaskOptions) -> None:
        await self._adopt(await self._engine.open(self.id, options=options))

    async def _adopt(self, task: Task) -> None:
        self._talk.adopt(task)
        await self._look_around(task.bench.route.provider)
        self._mode = task.mode.slug
        self._model = task.bench.provider.model.id
        self._wants_model = False

    async def _look_around(self, provider: str) -> None:
        self._modes = await asyncio.to_thread(self._house.modes, self.folder)
        self._models = await asyncio.to_thread(self._house.models, provider)
        self._commands = await asyncio.to_thread(self._house.commands, self.folder)

    def _options(self, options: TaskOptions) -> TaskOptions:
        """With what the editor brings along."""
        shares = self._editor.reads_files or self._editor.writes_files
        files = self._through_editor if shares else None
        brought = Brought(files=files, servers=self._servers)
        return structs.replace(options, policy=EditorPolicy(), brought=brought)

    def _through_editor(self, files: Files) -> Files:
        return ClientFiles(files, self._editor, lambda: self.id)

    # What is said -------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[Block]) -> StopReason:
        """Raises RequestError, UserError."""
        names = {command.name for command in self._commands}
        text, images = read_prompt(blocks, self.folder, names)
        task = self._talk.task
        if task is None:
            make = partial(self._house.new_options, self.folder, self._mode, self._model)
            options = self._options(await asyncio.to_thread(make))
            await self._talk.remark(await asyncio.to_thread(self._house.remarks, self.folder))
            return await self._talk.prompt(text, images, options)
        async with self._reopening:
            if self._wants_model and not self._talk.is_busy:
                await self._reopen(task)
        wish = compact_wish(text) if COMPACT not in names else None
        if wish is not None and self._talk.task is not None:
            return await self._talk.condense(self._talk.task, wish)
        return await self._talk.prompt(text, images, None)

    async def cancel(self) -> None:
        await self._talk.cancel()

    async def _reopen(self, task: Task) -> None:
        """Its bench has the model that it was opened with."""
        earlier = task.bench.route
        secrets = self._engine.secrets(self.id)
        make = partial(self._house.other_options, self.folder, self._model, earlier, secrets)
        options = self._options(await asyncio.to_thread(make))
        options = structs.replace(options, granted=task.granted)
        await self._talk.let_go()
        await self._open(options)

    # What is chosen -----------------------------------------------------------------------------

    @property
    def mode_state(self) -> SessionModeState:
        return mode_state(self._modes, self._mode)

    @property
    def options(self) -> Options:
        return config_options(self._modes, self._mode, self._models, self._model)

    async def set_mode(self, slug: str) -> None:
        """Raises RequestError."""
        if slug not in {mode.slug for mode in self._modes}:
            known = ", ".join(mode.slug for mode in self._modes)
            raise RequestError(INVALID_PARAMS, f"There is no mode {slug!r}. Known ones: {known}.")
        task = self._talk.task
        if task is None:
            await self._tell_mode(slug)
        elif task.mode.slug != slug:
            task.publish(ModeSwitched(ts=task.now(), mode=slug))
            self._mode = slug
            await task.recorder.commit()

    async def set_option(self, id: str, value: str | bool) -> None:
        """A model counts from the next prompt on. Raises RequestError."""
        known = {option.id: option for option in self.options}
        if id not in known:
            raise RequestError(INVALID_PARAMS, f"There is no option {id!r}; see configOptions.")
        if not isinstance(value, str):
            raise RequestError(INVALID_PARAMS, f"The value of {id!r} must be text.")
        if id == MODE:
            await self.set_mode(value)
            return
        assert id == MODEL
        if value not in {self._model, *self._models}:
            raise RequestError(INVALID_PARAMS, f"There is no model {value!r}; see configOptions.")
        self._wants_model = self._wants_model or value != self._model
        self._model = value

    async def tell_commands(self) -> None:
        await self._editor.tell(self.id, commands_update(self._commands))

    async def _tell_mode(self, slug: str) -> None:
        update = CurrentModeUpdate(session_update="current_mode_update", current_mode_id=slug)
        await self._editor.tell(self.id, update)
        await self._tell_choices(slug)

    async def _tell_choices(self, mode: str) -> None:
        self._mode = mode
        update = ConfigOptionUpdate(
            session_update="config_option_update", config_options=self.options
        )
        await self._editor.tell(self.id, update)
