"""The app's host: its services on top of the engine and the files of this machine."""

from __future__ import annotations

import asyncio
import os
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import structs
from rich.text import Text

from joey.app import open_store, open_task_index
from joey.app.customizations import open_customizations
from joey.app.file_finder import open_file_finder
from joey.app.mcp_servers import list_config_problems
from joey.app.models import LocalServer, list_models
from joey.app.options import collect_settings_warnings
from joey.app.profiles import save_first_profile, save_server_profile
from joey.app.sandbox import check_unattended_sandbox, detect_sandbox
from joey.app.service import Application
from joey.cli.launch import earlier_task, options_for, short_id, workspace_of
from joey.cli.notices import (
    MAX_WARNINGS,
    WAIT_MESSAGE_DELAY_S,
    McpStartupReporter,
    describe_cost,
    in_background,
)
from joey.cli.screen import cards
from joey.cli.screen.cards import permissions_card
from joey.cli.screen.shell import read_kept_output, run_in_shell
from joey.cli.task_views import describe, status_of
from joey.client.session import Session
from joey.core.events import Event, MessageUnqueued, ModeSwitched, TokenUsage
from joey.core.rewind import RewindPreview
from joey.core.settings import Settings
from joey.core.task import Todo
from joey.engine.engine import Engine, TaskOptions
from joey.engine.task import Task
from joey.errors import ConfigError, UserError
from joey.ports import SandboxLevel, TaskMetadata
from joey.ports.storage import TaskQuery
from joey.tui.host import (
    CompletionItem,
    Host,
    PickerEntry,
    ProviderOption,
    QueuedUserMessage,
    StatusInfo,
    own_offers,
)

COMMANDS_CACHE_TTL_S = 3.0
MAX_LISTED_TASKS = 200
PROFILE_KEY_PREFIX = "profile:"


class LocalAppHost:
    def __init__(self, engine: Engine, arguments: Namespace, *, needs_model: bool) -> None:
        self._engine = engine
        self._arguments = arguments
        self._needs_model = needs_model
        self._options: TaskOptions | None = None
        self._offers: tuple[float, list[CompletionItem]] = (-COMMANDS_CACHE_TTL_S, [])
        earlier = earlier_task(engine, arguments)
        left_in = "" if earlier is None or arguments.workspace else earlier.workspace
        self.workspace = Path(left_in) if left_in else workspace_of(arguments)
        self._files = open_file_finder(self.workspace)
        self._level: SandboxLevel | None = None
        self._probing = asyncio.ensure_future(self._probe())

    async def close(self) -> None:
        await self._files.close()
        await asyncio.gather(self._probing, return_exceptions=True)

    async def _probe(self) -> None:
        self._level = (await asyncio.to_thread(detect_sandbox)).level

    # Options of tasks

    def _fresh_options(self) -> TaskOptions:
        """Those of a new task."""
        return options_for(self._arguments, None, None)

    async def _options_of(self, task_id: str) -> TaskOptions:
        """Those of a task that goes on."""
        known = await asyncio.to_thread(self._known, task_id)
        return options_for(self._arguments, known, None)

    def _known(self, task_id: str) -> TaskMetadata | None:
        if self._arguments.ephemeral:
            return None
        index = open_task_index()
        try:
            return next((task for task in index.starting(task_id) if task.id == task_id), None)
        finally:
            index.close()

    def _for_new(self) -> TaskOptions | None:
        """What the next task would begin with; None as long as nothing would."""
        if self._options is None:
            try:
                self._options = self._fresh_options()
            except UserError:
                return None
        return self._options

    def _settings(self, session: Session | None) -> Settings:
        if session is not None:
            return self._task(session).settings
        options = self._for_new()
        return (options and options.settings) or Settings()

    def _task(self, session: Session) -> Task:
        assert isinstance(session, Task)
        return session

    @property
    def notifications(self) -> str:
        return self._settings(None).notifications

    # Tasks

    async def begin(self, text: str, images: tuple[str, ...]) -> Session:
        options = self._fresh_options()
        if self._arguments.yes and options.settings is not None:
            await check_unattended_sandbox(options.settings)
        return await self._engine.start(text, images=images, options=options)

    async def open(self, task_id: str) -> Session:
        options = await self._options_of(task_id)
        self._arguments.mode = None  # it was meant for the first task that is opened
        return await self._engine.open(task_id, options=options)

    async def fork(self, task_id: str) -> Session:
        return await self._engine.fork(task_id, options=await self._options_of(task_id))

    async def release(self, session: Session) -> None:
        self._options = None  # the person may have allowed something for good meanwhile
        await self._engine.release(self._task(session))

    async def tasks(self) -> Sequence[PickerEntry]:
        if self._arguments.ephemeral:
            return ()
        return await asyncio.to_thread(self._find_tasks)

    def _find_tasks(self) -> list[PickerEntry]:
        store, index = open_store(), open_task_index()
        try:
            query = TaskQuery(workspace=str(self.workspace), limit=MAX_LISTED_TASKS)
            found = index.find(query).found
        finally:
            index.close()
        own = [each.task for each in found if not each.task.parent_id]
        return [
            PickerEntry(
                task.id,
                task.title or task.id,
                cards.about_task(task, status_of(task, store)),
            )
            for task in own
        ]

    def short_id(self, session: Session) -> str:
        return short_id(session.id, self._engine.ids())

    def title(self, session: Session) -> str:
        return self._task(session).recorder.facts.title

    def list_warnings(self, session: Session) -> Sequence[str]:
        task = self._task(session)
        customizations = task.runtime.capabilities.customizations
        found = [] if customizations is None else list(customizations.warnings)
        if task.runtime.capabilities.mcp is not None:
            found += list_config_problems(task.runtime.workspace)
        return [*found, *collect_settings_warnings()][:MAX_WARNINGS]

    def describe_failure(self, session: Session) -> str:
        error = self._task(session).error
        return "" if error is None else str(error)

    def server_watch(self, session: Session, tell: Callable[[str], None]) -> McpStartupReporter:
        watch = McpStartupReporter(self._task(session).runtime.capabilities.mcp, tell)
        asyncio.get_running_loop().call_later(WAIT_MESSAGE_DELAY_S, watch.report_waiting)
        return watch

    # One task

    def get_status(self, session: Session | None) -> StatusInfo:
        settings = self._settings(session)
        edits_granted = session is not None and self._task(session).granted.edits
        if session is not None:
            task = self._task(session)
            mode, model = task.mode.slug, task.provider.model
            name, window = model.id, model.context_window
            background = len(in_background(task))
        else:
            background = 0
            options = self._for_new()
            mode = (options and options.mode) or settings.mode
            name = options.profile.model if options and options.profile else "no model yet"
            window = 0
        return StatusInfo(
            mode=mode,
            model=name,
            directory=format_directory(self.workspace),
            branch=branch_of(self.workspace),
            window=window,
            permissions=permissions_of(settings, edits_granted=edits_granted),
            sandbox=sandbox_of(settings, self._level),
            background=background,
        )

    def usage(self, session: Session) -> TokenUsage:
        return self._task(session).total_usage

    def cost(self, session: Session) -> str:
        return describe_cost(self.usage(session))

    def todos(self, session: Session) -> Sequence[Todo]:
        return self._task(session).recorder.facts.todos

    def queue(self, session: Session) -> Sequence[QueuedUserMessage]:
        queued = self._task(session).recorder.facts.queue.values()
        return [QueuedUserMessage(each.id, each.text, each.images) for each in queued]

    async def unqueue(self, session: Session, message_id: str) -> None:
        task = self._task(session)
        if message_id not in task.recorder.facts.queue:
            raise UserError("joey has read it already")
        task.publish(MessageUnqueued(ts=task.now(), id=message_id))
        await task.recorder.commit()

    async def condense(self, session: Session, instructions: str) -> Event:
        return await self._task(session).condense(instructions)

    def withdraw_edits(self, session: Session) -> bool:
        return self._task(session).granted.withdraw_edits()

    def kept_output(self, task_id: str, row_ts: int) -> str | None:
        task = self._engine.find(task_id)
        return None if task is None else read_kept_output(task.recorder.log.directory, row_ts)

    def leave_command_running(self, session: Session) -> bool:
        return self._task(session).runtime.terminal.leave_running()

    def preview_lines(self, session: Session, changes: RewindPreview) -> Sequence[str]:
        rows = [msgspec.to_builtins(row) for row in session.rows]
        return list(describe(changes, rows))

    # What can be chosen

    def modes(self, session: Session | None) -> Sequence[PickerEntry]:
        if session is not None:
            task = self._task(session)
            modes, current = task.runtime.modes, task.mode.slug
        else:
            modes = open_customizations(self.workspace).modes
            current = self.get_status(None).mode
        return [
            PickerEntry(
                mode.slug, mode.slug, mode.description or mode.purpose, mode.slug == current
            )
            for mode in modes
        ]

    async def choose_mode(self, session: Session | None, slug: str) -> None:
        if session is None:
            self._arguments.mode = slug
            self._options = None
            return
        task = self._task(session)
        if task.mode.slug != slug:
            task.publish(ModeSwitched(ts=task.now(), mode=slug))
            await task.recorder.commit()

    async def models(self, session: Session | None) -> Sequence[PickerEntry]:
        """Those of the service that is talked to, its own list included, and the profiles."""
        route = None if session is None else self._task(session).runtime.route
        profile = None if (options := self._for_new()) is None else options.profile
        provider = (route and route.provider) or (profile.provider if profile else None)
        current = self.get_status(session).model
        elsewhere = self._arguments.base_url or (route and route.base_url)
        known = await list_models(provider, offline=bool(elsewhere))
        listed = dict.fromkeys((current, *(model.id for model in known.models)))
        entries = [
            PickerEntry(name, name, provider or "", name == current) for name in listed if name
        ]
        profiles = Application(workspace=self.workspace).preferences.profiles().profiles
        for name, kept in sorted(profiles.items()):
            about = f"{kept.model or 'its usual model'} of {kept.provider}"
            entries.append(PickerEntry(f"{PROFILE_KEY_PREFIX}{name}", f"profile {name}", about))
        return entries

    async def choose_model(self, session: Session | None, key: str) -> Session | None:
        before = dict(vars(self._arguments))
        if key.startswith(PROFILE_KEY_PREFIX):
            self._arguments.profile = key.removeprefix(PROFILE_KEY_PREFIX)
            self._arguments.model = self._arguments.provider = self._arguments.base_url = None
        else:
            self._arguments.model = key
        self._options = None
        try:
            if session is None:
                self._fresh_options()
                return None
            options = await self._options_of(session.id)
        except UserError:
            vars(self._arguments).update(before)
            raise
        options = structs.replace(options, granted=self._task(session).granted)
        await self._engine.release(self._task(session))
        return await self._engine.open(session.id, options=options)

    def commands(self) -> Sequence[CompletionItem]:
        at, offers = self._offers
        if time.monotonic() - at > COMMANDS_CACHE_TTL_S:
            try:
                named = slash_names(self.workspace)
            except UserError:
                named = {}  # whoever begins a task hears what is wrong
            own = own_offers()
            names = {offer.name for offer in own}
            offers = own + [
                CompletionItem(n, about) for n, about in named.items() if n not in names
            ]
            self._offers = (time.monotonic(), offers)
        return offers

    async def files(self, typed: str) -> Sequence[str]:
        return await self._files.find(typed)

    # Cards

    async def doctor(self) -> Text:
        return await asyncio.to_thread(cards.doctor)

    async def servers(self, session: Session | None) -> Text:
        mcp = None if session is None else self._task(session).runtime.capabilities.mcp
        return await asyncio.to_thread(cards.servers, self.workspace, mcp)

    async def permissions(self, session: Session | None) -> Text:
        await self._probing
        task = None if session is None else self._task(session)
        return await asyncio.to_thread(
            permissions_card, task, self._arguments, self.workspace, self._level
        )

    async def skills(self) -> Text:
        return await asyncio.to_thread(cards.skills, self.workspace)

    async def export(self, session: Session) -> str:
        if self._arguments.ephemeral:
            raise UserError("--ephemeral keeps no tasks, so there is none to export")
        await self._task(session).save()
        return await asyncio.to_thread(cards.export, session.id, self.workspace)

    async def run(self, command: str, tell: Callable[[str], None]) -> str:
        return await run_in_shell(command, self.workspace, os.environ, tell)

    # First run

    def needs_model(self) -> bool:
        return self._needs_model

    async def providers(self) -> tuple[ProviderOption, ...]:
        return await cards.providers(os.environ)

    async def remember(self, provider: ProviderOption, key: str, model: str) -> None:
        try:
            if provider.found_at:
                server = LocalServer(provider.name, provider.found_at, provider.models)
                save_server_profile(server, model)
            else:
                save_first_profile(provider=provider.name, model=model, key=key or None)
        except ConfigError as error:
            raise UserError(str(error)) from error
        self._needs_model = False
        self._options = None


_fits: type[Host] = LocalAppHost


MAX_GIT_HEAD_CHARS = 1000


def format_directory(directory: Path) -> str:
    home = Path.home()
    return f"~/{directory.relative_to(home)}" if directory.is_relative_to(home) else str(directory)


def branch_of(directory: Path) -> str:
    """The branch that is checked out, read from git's own files; nothing outside a repository."""
    for place in (directory, *directory.parents):
        if (head := _head(place / ".git")) is not None:
            reference = head.removeprefix("ref: ").removeprefix("refs/heads/")
            return reference if head.startswith("ref: ") else reference[:8]
    return ""


def _head(git: Path) -> str | None:
    try:
        if git.is_file():  # a worktree, or a submodule
            target = git.read_text(encoding="utf-8")[:MAX_GIT_HEAD_CHARS].partition("gitdir: ")[2]
            git = git.parent / target.strip()
        return (git / "HEAD").read_text(encoding="utf-8")[:MAX_GIT_HEAD_CHARS].strip()
    except (OSError, UnicodeDecodeError):
        return None


def permissions_of(settings: Settings, *, edits_granted: bool = False) -> str:
    """What joey may do without asking."""
    if not settings.auto_approval_enabled:
        return "asks for everything"
    if settings.always_allow_execute and "*" in settings.allowed_commands:
        return "allows everything"
    allowed = []
    if settings.always_allow_write or edits_granted:
        allowed.append("edits")
    if settings.always_allow_execute and settings.allowed_commands:
        allowed.append("some commands")
    return f"allows {', '.join(allowed)}" if allowed else "asks"


def sandbox_of(settings: Settings, level: SandboxLevel | None) -> str:
    """Whether commands are held; nothing as long as that is being tried."""
    if settings.sandbox == "off" or level is SandboxLevel.NONE:
        return "no sandbox"
    return "" if level is None else "sandboxed"


def slash_names(workspace: Path) -> dict[str, str]:
    """Commands and skills that files bring along, each with a description.

    Raises:
        ConfigError, WorkspaceError
    """
    customizations = open_customizations(workspace)
    skills = (skill for mode in customizations.modes for skill in customizations.skills(mode))
    named = {skill.name: skill.description for skill in skills}
    for command in customizations.commands():
        hint = f" {command.argument_hint}" if command.argument_hint else ""
        named[command.name] = f"{command.description}{hint}".strip()
    return dict(sorted(named.items()))
