"""`joey acp`: the Agent Client Protocol on standard input and output, for editors."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from joey.acp.agent import Agent, serve
from joey.acp.jsonrpc_transport import JsonRpcTransport
from joey.acp.session import SlashCommandInfo, TaskListPage
from joey.app import make_options, open_engine, open_task_index
from joey.app.application import Application
from joey.app.customizations import open_customizations
from joey.app.mcp_pool import list_mcp_config_problems
from joey.app.model_choice import ModelFlags, choose_model
from joey.app.options import resolve_workspace
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.logs import RedactingFormatter
from joey.cli.notices import MAX_WARNINGS, describe_untrusted_project
from joey.cli.signals import handle_signals
from joey.cli.stdin_reader import iter_chunks
from joey.core.modes import Mode
from joey.core.settings import ModelRoute, TaskSecrets
from joey.engine.engine import ResolvedTaskOptions
from joey.errors import ConfigError
from joey.ports.storage import TaskQuery
from joey.presentation.text import to_one_line

MIN_SCANNED_TASKS = 1000
"""For a page of sessions; subtasks are among them."""


def run_acp(arguments: Namespace) -> ExitCode:
    if arguments.setup:
        from joey.cli.main import main

        if not sys.stdin.isatty() or not sys.stdout.isatty():
            raise UsageError("joey acp --setup needs a terminal")
        return ExitCode(main([]))  # which asks for the missing parts
    if sys.stdin.isatty():
        raise UsageError(
            "joey acp is started by an editor, which communicates with it through pipes"
        )
    # Standard output is for the protocol alone; what anything else writes there goes to stderr.
    output = os.dup(1)
    os.dup2(2, 1)
    _configure_logging()
    return asyncio.run(_serve_acp(arguments, output))


async def _serve_acp(arguments: Namespace, output: int) -> ExitCode:
    frames = JsonRpcTransport(iter_chunks(sys.stdin.fileno()), output)
    with handle_signals(only_stoppable=True) as interruption:
        async with open_engine() as engine:
            agent = Agent(engine, LocalAcpServices(arguments), lambda: time.time_ns() // 1_000_000)
            try:
                await interruption.run_stoppable(serve(agent, frames))
            except asyncio.CancelledError:
                if interruption.exit_code is None:
                    raise
    return interruption.exit_code or ExitCode.DONE


def _configure_logging() -> None:
    """Configure logging before the protocol's library sets up a log of its own, which would include
    keys."""
    if not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(RedactingFormatter("joey: %(message)s"))
        logging.basicConfig(level=logging.WARNING, handlers=[handler])
        # When a start is cancelled, asyncio reaps the program itself and warns of it as unknown.
        logging.getLogger("asyncio").setLevel(logging.ERROR)


class LocalAcpServices:
    """Provides what sessions need from the user's files, variables and flags."""

    def __init__(self, arguments: Namespace) -> None:
        self._arguments = arguments

    def resolve_workspace(self, directory: Path) -> Path:
        return resolve_workspace(directory)

    def build_new_task_options(
        self, directory: Path, mode: str | None, model: str | None
    ) -> ResolvedTaskOptions:
        arguments = self._arguments
        return make_options(
            workspace=directory,
            provider=arguments.provider,
            model=model or arguments.model,
            base_url=arguments.base_url,
            profile=arguments.profile,
            mode=mode or arguments.mode,
        )

    def build_model_switch_options(
        self, directory: Path, model: str, earlier: ModelRoute, secrets: TaskSecrets | None
    ) -> ResolvedTaskOptions:
        return make_options(workspace=directory, model=model, earlier=earlier, secrets=secrets)

    def list_modes(self, directory: Path) -> Sequence[Mode]:
        return Application(workspace=directory).list_modes()

    def list_commands(self, directory: Path) -> Sequence[SlashCommandInfo]:
        customizations = open_customizations(directory)
        skills = (
            skill for mode in customizations.modes for skill in customizations.list_skills(mode)
        )
        named = {skill.name: SlashCommandInfo(skill.name, skill.description) for skill in skills}
        for command in customizations.list_commands():
            known = SlashCommandInfo(command.name, command.description, command.argument_hint)
            named[command.name] = known
        return [named[name] for name in sorted(named)]

    def list_warnings(self, directory: Path) -> Sequence[str]:
        untrusted = describe_untrusted_project(directory)
        warnings = open_customizations(directory).warnings
        lines = filter(None, (untrusted, *warnings, *list_mcp_config_problems(directory)))
        return [to_one_line(line, 400) for line in lines][:MAX_WARNINGS]

    def list_models(self, provider: str) -> Sequence[str]:
        setup = Application(workspace=Path("/"))
        profiles = setup.config_store.load_profiles()
        active = profiles.profiles.get(profiles.active_name)
        foreign = active.model if active is not None and active.provider != provider else None
        return [model for model in setup.list_models(provider) if model != foreign]

    def list_tasks(self, directory: str | None, skip: int, page_size: int) -> TaskListPage:
        index = open_task_index()
        try:
            limit = max(MIN_SCANNED_TASKS, 4 * (skip + page_size))
            found = index.search(TaskQuery(workspace=directory, limit=limit)).matches
        finally:
            index.close()
        own = [each.task for each in found if each.task.parent_id is None]
        return TaskListPage(own[skip : skip + page_size], has_more=len(own) > skip + page_size)

    def describe_missing_model(self) -> str | None:
        names = ("provider", "model", "base_url", "profile")
        flags = ModelFlags(**{name: getattr(self._arguments, name) for name in names})
        try:
            profiles = Application(workspace=Path("/")).config_store.load_profiles()
        except ConfigError:
            return None  # problems with the file are reported when a session begins
        try:
            choose_model(flags, None, profiles, os.environ)
        except ConfigError as error:
            return str(error)
        return None
