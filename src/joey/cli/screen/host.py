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

from joey.app import open_store, open_task_index, provider_setup
from joey.app.application import Application
from joey.app.customizations import open_customizations
from joey.app.file_finder import open_file_finder
from joey.app.granted_permissions import list_granted_rules, open_rule_store, revoke_rule
from joey.app.mcp_pool import list_mcp_config_problems
from joey.app.models import find_prices, list_profile_models
from joey.app.options import collect_settings_warnings, make_options
from joey.app.sandbox import check_unattended_sandbox, detect_sandbox
from joey.cli.notices import (
    MAX_WARNINGS,
    MCP_WAIT_MESSAGE_DELAY_S,
    McpStartupReporter,
    describe_adopted_rules,
    describe_price,
    format_directory,
    format_usage,
    list_background_commands,
)
from joey.cli.screen import info_cards, session_cards
from joey.cli.screen.info_cards import summarize_permissions, summarize_sandbox
from joey.cli.screen.shell_commands import read_stored_output, run_in_shell
from joey.cli.task_launch import build_task_options, find_earlier_task, take_session_id
from joey.cli.task_lookup import resolve_workspace_argument, shorten_task_id
from joey.cli.task_views import describe_rewind, determine_status
from joey.client.session import Session
from joey.core.events import Event, MessageQueued, MessageUnqueued, ModeSwitched
from joey.core.permissions.granted_rules import apply_level, select_persistent_rules
from joey.core.permissions.policy import apply_rules
from joey.core.rewind import RewindPreview
from joey.core.settings import Settings
from joey.core.task_types import ApprovalLevel, AskKind, TaskState
from joey.engine.approval import TaskGrants
from joey.engine.engine import Engine, ResolvedTaskOptions
from joey.engine.run_start import RunStart
from joey.engine.task import Task
from joey.errors import UserError
from joey.ports.execution import SandboxLevel
from joey.ports.extensions import RuleStore
from joey.ports.storage import TaskMetadata, TaskQuery
from joey.presentation.slash_commands import COMMANDS_BY_NAME
from joey.presentation.text import Piece
from joey.tui.app_services import (
    BUILTIN_COMMANDS,
    CompletionItem,
    Host,
    KeyCheckResult,
    PickerEntry,
    ProviderOption,
    StatusInfo,
)

COMMANDS_CACHE_TTL_S = 3.0
MAX_LISTED_TASKS = 200
PROFILE_KEY_PREFIX = "profile:"


class LocalAppHost:
    def __init__(self, engine: Engine, arguments: Namespace, *, needs_model: bool) -> None:
        self._engine = engine
        self._arguments = arguments
        self.needs_model = needs_model
        self._new_task_options: ResolvedTaskOptions | None = None
        self._cached_commands: tuple[float, list[CompletionItem]] = (-COMMANDS_CACHE_TTL_S, [])
        earlier = find_earlier_task(engine, arguments)
        left_in = "" if earlier is None or arguments.workspace else earlier.workspace
        self.workspace = Path(left_in) if left_in else resolve_workspace_argument(arguments)
        self._file_finder = open_file_finder(self.workspace)
        self._new_task_rules = open_rule_store(self.workspace)
        self._approval_level = ApprovalLevel.ASK
        self._sandbox_level: SandboxLevel | None = None
        self.sandbox_probe = asyncio.ensure_future(self._probe_sandbox())

    async def close(self) -> None:
        await self._file_finder.close()
        await asyncio.gather(self.sandbox_probe, return_exceptions=True)

    async def _probe_sandbox(self) -> None:
        self._sandbox_level = (await asyncio.to_thread(detect_sandbox)).level

    # Options of tasks

    def _build_new_task_options(self) -> ResolvedTaskOptions:
        """Build the options of a new task."""
        return build_task_options(self._arguments, None, None)

    async def _build_resume_options(self, task_id: str) -> ResolvedTaskOptions:
        """Build the options of a resumed task."""
        known = await asyncio.to_thread(self._find_task_metadata, task_id)
        return build_task_options(self._arguments, known, None)

    def _find_task_metadata(self, task_id: str) -> TaskMetadata | None:
        if self._arguments.ephemeral:
            return None
        index = open_task_index()
        try:
            return next(
                (task for task in index.find_by_prefix(task_id) if task.id == task_id), None
            )
        finally:
            index.close()

    def _load_new_task_options(self) -> ResolvedTaskOptions | None:
        """Load the options of the next new task; None while it could not start."""
        if self._new_task_options is None:
            try:
                self._new_task_options = self._build_new_task_options()
            except UserError:
                return None
        return self._new_task_options

    def _get_settings(self, session: Session | None) -> Settings:
        if session is not None:
            return self._as_task(session).settings
        options = self._load_new_task_options()
        return Settings() if options is None else options.settings

    def _as_task(self, session: Session) -> Task:
        assert isinstance(session, Task)
        return session

    @property
    def notification_mode(self) -> str:
        return self._get_settings(None).notifications

    # Tasks

    async def start_task(self, text: str, images: tuple[str, ...]) -> Session:
        options = self._build_new_task_options()
        if self._arguments.yes:
            await check_unattended_sandbox(options.settings)
        options = self._add_level(options)
        task_id = take_session_id(self._arguments)
        return await self._engine.start(text, images=images, options=options, task_id=task_id)

    async def open_task(self, task_id: str) -> Session:
        options = await self._build_resume_options(task_id)
        self._arguments.mode = None  # it was meant for the first task that is opened
        return await self._engine.open(task_id, options=self._add_level(options))

    async def fork_task(self, task_id: str) -> Session:
        options = self._add_level(await self._build_resume_options(task_id))
        return await self._engine.fork(task_id, options=options)

    async def release_session(self, session: Session) -> None:
        self._new_task_options = None  # the user may have granted a permanent rule meanwhile
        await self._engine.release(self._as_task(session))

    async def list_tasks(self) -> Sequence[PickerEntry]:
        if self._arguments.ephemeral:
            return ()
        return await asyncio.to_thread(self._find_task_entries)

    def _find_task_entries(self) -> list[PickerEntry]:
        store, index = open_store(), open_task_index()
        try:
            query = TaskQuery(workspace=str(self.workspace), limit=MAX_LISTED_TASKS)
            found = index.search(query).matches
        finally:
            index.close()
        own = [each.task for each in found if not each.task.parent_id]
        return [
            PickerEntry(
                task.id,
                task.title or task.id,
                info_cards.describe_task(task, determine_status(task, store)),
            )
            for task in own
        ]

    def get_short_id(self, session: Session) -> str:
        return shorten_task_id(session.id, self._engine.list_task_ids())

    def get_title(self, session: Session) -> str:
        return self._as_task(session).recorder.projection.title

    def list_warnings(self, session: Session) -> Sequence[str]:
        task = self._as_task(session)
        customizations = task.runtime.capabilities.customizations
        found = [adopted] if (adopted := describe_adopted_rules(task)) else []
        if customizations is not None:
            found += customizations.warnings
        if task.runtime.capabilities.mcp is not None:
            found += list_mcp_config_problems(task.runtime.workspace)
        return [*found, *collect_settings_warnings()][:MAX_WARNINGS]

    def describe_failure(self, session: Session) -> str:
        error = self._as_task(session).error
        return "" if error is None else str(error)

    def watch_mcp_servers(
        self, session: Session, on_note: Callable[[str], None]
    ) -> Callable[[Event], None]:
        watch = McpStartupReporter(self._as_task(session).runtime.capabilities.mcp, on_note)
        asyncio.get_running_loop().call_later(MCP_WAIT_MESSAGE_DELAY_S, watch.report_waiting)
        return watch.handle

    # One task

    def get_status(self, session: Session | None) -> StatusInfo:
        settings = self._get_settings(session)
        options = self._load_new_task_options() if session is None else None
        if session is None:
            rules = select_persistent_rules(self._new_task_rules.read_directory_rules())
            settings = apply_level(apply_rules(settings, rules), self._approval_level)
        status = StatusInfo(
            mode=(options and options.mode) or settings.mode,
            model="no model yet" if options is None else options.profile.model,
            directory=format_directory(self.workspace),
            git_branch=session_cards.read_git_branch(self.workspace),
            permissions_text=summarize_permissions(
                settings,
                edits_granted=self._approval_level is not ApprovalLevel.ASK,
            ),
            sandbox_text=summarize_sandbox(settings, self._sandbox_level),
        )
        if session is None:
            return status
        task = self._as_task(session)
        is_granted = task.has_edit_grant
        return structs.replace(
            status,
            mode=task.mode.slug,
            model=task.provider.model.id,
            context_window=task.provider.model.context_window,
            permissions_text=summarize_permissions(settings, edits_granted=is_granted),
            background_command_count=len(list_background_commands(task)),
            usage=task.total_usage,
            todos=task.recorder.projection.todos,
        )

    def describe_price(self) -> str:
        options = self._load_new_task_options()
        if options is None:
            return ""
        return describe_price(options.profile.model or "", find_prices(options.profile))

    def format_cost(self, session: Session) -> str:
        return format_usage(self._as_task(session).total_usage)

    def list_queued_messages(self, session: Session) -> Sequence[MessageQueued]:
        return list(self._as_task(session).recorder.projection.queued_messages.values())

    async def remove_queued_message(self, session: Session, message_id: str) -> None:
        task = self._as_task(session)
        if message_id not in task.recorder.projection.queued_messages:
            raise UserError("joey has read it already")
        task.publish(MessageUnqueued(ts=task.next_ts(), id=message_id))
        await task.recorder.commit()

    async def condense(self, session: Session, instructions: str) -> Event:
        return await self._as_task(session).condense(instructions)

    @property
    def approval_level(self) -> ApprovalLevel:
        return self._approval_level

    def set_approval_level(self, session: Session | None, level: ApprovalLevel) -> None:
        settings = self._get_settings(session)
        if level is not ApprovalLevel.ASK and not settings.auto_approval_enabled:
            raise UserError(
                "everything needs approval: autoApprovalEnabled is off, or -a was given"
            )
        if level is ApprovalLevel.ALL and self._sandbox_level is SandboxLevel.NONE:
            raise UserError("no sandbox works here, so commands would still need approval")
        self._approval_level = level
        if session is None:
            return
        task = self._as_task(session)
        if level is ApprovalLevel.ASK:
            task.grants.revoke_edits()
        task.grants.level = level

    def _add_level(self, options: ResolvedTaskOptions) -> ResolvedTaskOptions:
        grants = options.grants or TaskGrants()
        grants.level = self._approval_level
        return structs.replace(options, grants=grants)

    async def list_granted_rules(self, session: Session | None) -> Sequence[PickerEntry]:
        grants = None if session is None else self._as_task(session).grants
        rules = await asyncio.to_thread(list_granted_rules, grants, self._find_rule_store(session))
        return [info_cards.describe_granted_rule(rule) for rule in rules]

    async def revoke_granted_rule(self, session: Session | None, key: str) -> bool:
        store = self._find_rule_store(session)
        tasks = [] if session is None else [self._as_task(session)]
        grants = tasks[0].grants if tasks else None
        for rule in await asyncio.to_thread(list_granted_rules, grants, store):
            if info_cards.describe_granted_rule(rule).key == key:
                self._new_task_options = None
                return await asyncio.to_thread(
                    revoke_rule, tasks, store, rule.setting, rule.text, rule.scope
                )
        return False

    def _find_rule_store(self, session: Session | None) -> RuleStore | None:
        if session is not None:
            return self._as_task(session).runtime.capabilities.rule_store
        return self._new_task_rules

    def read_full_output(self, task_id: str, row_ts: int) -> str | None:
        task = self._engine.find_open_task(task_id)
        return (
            None if task is None else read_stored_output(task.recorder.task_log.directory, row_ts)
        )

    def move_command_to_background(self, session: Session) -> bool:
        return self._as_task(session).runtime.terminal.detach_foreground()

    def describe_rewind(self, session: Session, changes: RewindPreview) -> Sequence[str]:
        rows = [msgspec.to_builtins(row) for row in session.rows]
        return list(describe_rewind(changes, rows))

    # What can be chosen

    def list_modes(self, session: Session | None) -> Sequence[PickerEntry]:
        if session is not None:
            task = self._as_task(session)
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

    async def switch_mode(self, session: Session | None, slug: str) -> None:
        if session is None:
            self._arguments.mode = slug
            self._new_task_options = None
            return
        task = self._as_task(session)
        if task.mode.slug != slug:
            task.publish(ModeSwitched(ts=task.next_ts(), mode=slug))
            await task.recorder.commit()

    async def list_models(self, session: Session | None) -> Sequence[PickerEntry]:
        """List the models of the current provider, its server's own list included, and the
        profiles."""
        current = self.get_status(session).model
        try:
            options = (
                self._build_new_task_options()
                if session is None
                else await self._build_resume_options(session.id)
            )
            provider = options.profile.provider
            names = await list_profile_models(options.profile)
        except UserError:
            provider, names = "", []
        entries = [
            PickerEntry(name, name, provider, name == current)
            for name in dict.fromkeys((current, *names))
        ]
        profiles = Application(workspace=self.workspace).config_store.load_profiles().profiles
        for name, profile_settings in sorted(profiles.items()):
            about = f"{profile_settings.model or 'its usual model'} of {profile_settings.provider}"
            entries.append(PickerEntry(f"{PROFILE_KEY_PREFIX}{name}", f"profile {name}", about))
        return entries

    async def switch_model(self, session: Session | None, key: str) -> Session | None:
        before = dict(vars(self._arguments))
        if key.startswith(PROFILE_KEY_PREFIX):
            self._arguments.profile = key.removeprefix(PROFILE_KEY_PREFIX)
            self._arguments.model = self._arguments.provider = self._arguments.base_url = None
        else:
            self._arguments.model = key
        self._new_task_options = None
        try:
            if session is None:
                self._build_new_task_options()
                return None
            options = await self._build_resume_options(session.id)
        except UserError:
            vars(self._arguments).update(before)
            raise
        return await self._reopen(session, options)

    async def _reopen(self, session: Session, options: ResolvedTaskOptions) -> Session:
        """Reopen the task; a failed request is sent again."""
        task = self._as_task(session)
        has_failed = task.pending is not None and task.pending.ask is AskKind.API_REQ_FAILED
        should_retry = has_failed or task.state is TaskState.DELEGATED
        options = structs.replace(options, grants=task.grants)
        await self._engine.release(task)
        opened = await self._engine.open(session.id, options=options)
        if should_retry:
            opened.start(RunStart.RETRY)
        return opened

    def list_commands(self) -> Sequence[CompletionItem]:
        at, offers = self._cached_commands
        if time.monotonic() - at > COMMANDS_CACHE_TTL_S:
            try:
                named = load_custom_commands_and_skills(self.workspace)
            except UserError:
                named = {}  # errors are reported when a task begins
            kept = [
                offer
                for offer in BUILTIN_COMMANDS
                if offer.name not in named or not COMMANDS_BY_NAME[offer.name].is_replaceable
            ]
            names = {offer.name for offer in kept}
            offers = kept + [
                CompletionItem(n, about) for n, about in named.items() if n not in names
            ]
            self._cached_commands = (time.monotonic(), offers)
        return offers

    async def find_files(self, typed: str) -> Sequence[str]:
        return await self._file_finder.find(typed)

    # Cards

    async def render_card(self, name: str, session: Session | None) -> Sequence[Piece]:
        task = None if session is None else self._as_task(session)
        match name:
            case "doctor":
                return await asyncio.to_thread(info_cards.render_doctor_card)
            case "mcp":
                mcp = None if task is None else task.runtime.capabilities.mcp
                return await asyncio.to_thread(
                    info_cards.render_mcp_servers_card, self.workspace, mcp
                )
            case "permissions":
                await self.sandbox_probe
                return await asyncio.to_thread(
                    info_cards.render_permissions_card,
                    task,
                    self._arguments,
                    self.workspace,
                    self._sandbox_level,
                )
            case "skills":
                return await asyncio.to_thread(info_cards.render_skills_card, self.workspace)
            case "diff":
                application = Application(workspace=self.workspace)
                return session_cards.render_diff_card(await application.show_changes())
            case "config":
                return await asyncio.to_thread(session_cards.render_config_card, self.workspace)
            case "context":
                return session_cards.render_context_card(task)
            case _:
                return session_cards.render_status_card(
                    self.get_status(session), task, self._load_new_task_options()
                )

    async def export_task(self, session: Session) -> str:
        if self._arguments.ephemeral:
            raise UserError("--ephemeral keeps no tasks, so there is none to export")
        await self._as_task(session).save()
        return await asyncio.to_thread(info_cards.export_task, session.id, self.workspace)

    async def run_shell_command(self, command: str, on_output: Callable[[str], None]) -> str:
        return await run_in_shell(command, self.workspace, os.environ, on_output)

    # Providers and keys

    async def list_providers(self) -> tuple[ProviderOption, ...]:
        return await info_cards.list_providers(os.environ)

    def describe_address(self, text: str) -> ProviderOption:
        address = provider_setup.normalize_address(text)
        return ProviderOption("openai", needs_key=True, base_url=address)

    async def check_key(self, provider: ProviderOption, key: str) -> KeyCheckResult:
        key = key or os.environ.get(provider.key_variable, "")
        checked = await provider_setup.check_key(provider.name, key, provider.base_url)
        return KeyCheckResult(checked.is_refused, checked.message, checked.models)

    async def save_provider_choice(self, provider: ProviderOption, key: str, model: str) -> str:
        address = provider.base_url or provider.local_url
        name = provider_setup.save_provider_profile(
            provider=provider.name,
            model=model,
            key=key or None,
            base_url=address or None,
        )
        self.needs_model = False
        self._new_task_options = None
        return f"{PROFILE_KEY_PREFIX}{name}"

    async def describe_small_window(self, profile: str) -> str:
        name = profile.removeprefix(PROFILE_KEY_PREFIX)
        options = make_options(workspace=self.workspace, profile=name)
        return await provider_setup.describe_small_window(options.profile, options.route)

    def find_key_owner(self, session: Session) -> ProviderOption:
        runtime = self._as_task(session).runtime
        name = runtime.route.provider
        page = "" if runtime.base_url else provider_setup.get_key_page(name)
        return ProviderOption(
            name,
            needs_key=provider_setup.takes_key(name),
            key_page=page,
            base_url=runtime.base_url,
        )

    async def replace_key(self, failed: Session, session: Session, key: str) -> Session:
        runtime = self._as_task(failed).runtime
        provider_setup.replace_key(runtime.route, runtime.base_url, key)
        self._new_task_options = None
        return await self._reopen(session, await self._build_resume_options(session.id))


_protocol_check: type[Host] = LocalAppHost


def load_custom_commands_and_skills(workspace: Path) -> dict[str, str]:
    """Load custom commands and skills, each with a description. Raises ConfigError,
    WorkspaceError."""
    customizations = open_customizations(workspace)
    skills = (skill for mode in customizations.modes for skill in customizations.list_skills(mode))
    named = {skill.name: skill.description for skill in skills}
    for command in customizations.list_commands():
        hint = f" {command.argument_hint}" if command.argument_hint else ""
        named[command.name] = f"{command.description}{hint}".strip()
    return dict(sorted(named.items()))
