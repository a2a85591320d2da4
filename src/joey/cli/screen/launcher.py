"""`joey` on a terminal: opens the app, and prints the last lines when it is closed."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from argparse import Namespace
from pathlib import Path

from rich.console import Console

from joey.app import open_engine, resolve_joey_home
from joey.app.known_secrets import KNOWN_SECRETS
from joey.app.profiles import is_first_run
from joey.cli import notices
from joey.cli.exit_codes import ExitCode
from joey.cli.notices import describe_ended_background_commands, format_total_usage
from joey.cli.prompt import gather_prompt, load_images
from joey.cli.screen.host import LocalAppHost
from joey.cli.signals import Interruption, handle_signals
from joey.cli.task_launch import (
    check_model_configured,
    find_earlier_task,
    run_with_model,
    take_task_choice,
)
from joey.cli.task_lookup import resolve_workspace_argument, shorten_task_id
from joey.engine.engine import Engine
from joey.engine.task import Task
from joey.presentation.text import get_terminal_width, wrap
from joey.system.files import make_private_directory
from joey.tui.app import JoeyApp
from joey.tui.onboarding import Startup
from joey.tui.terminal_window import make_terminal_restorer
from joey.tui.widgets.prompt_history import HISTORY_FILE_NAME, PromptHistory

LOG_FILE_NAME = "screen.log"


def run_screen(arguments: Namespace) -> ExitCode:
    if arguments.debug:
        _log_to_file(resolve_joey_home(os.environ) / LOG_FILE_NAME)
    prompt = gather_prompt(arguments.prompt, arguments.prompt_file, sys.stdin)
    images = load_images(arguments.image)
    notices.offer_project_trust(resolve_workspace_argument(arguments))
    return run_with_model(arguments, lambda: asyncio.run(_run_app(arguments, prompt, images)))


def _log_to_file(path: Path) -> None:
    """Log to a file, because the screen is drawn on standard error."""
    make_private_directory(path.parent)
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(os.fdopen(opened, "a", encoding="utf-8"))


async def _run_app(arguments: Namespace, prompt: str, images: tuple[str, ...]) -> ExitCode:
    async with open_engine(ephemeral=arguments.ephemeral) as engine:
        host, app = build_app(engine, arguments, prompt, images)
        with handle_signals(only_stoppable=True) as interruption:
            code = await _run_until_closed(app, interruption)
        await host.close()
        if problem := app.unhandled_error or app.startup_error:
            raise problem
        session = app.controller.session
        task = None if session is None else engine.find_open_task(session.id)
        if task is not None:
            ended = list(describe_ended_background_commands(task))
            if code is not ExitCode.HANGUP:  # no reader is left
                _print_conversation(app)
            await task.cancel()
            if code is not ExitCode.HANGUP:
                _print_closing_summary(engine, task, ended, ephemeral=arguments.ephemeral)
    return code


def build_app(
    engine: Engine, arguments: Namespace, prompt: str, images: tuple[str, ...]
) -> tuple[LocalAppHost, JoeyApp]:
    should_choose_task = take_task_choice(arguments)
    earlier = find_earlier_task(engine, arguments)
    has_model_flags = any((arguments.provider, arguments.base_url, arguments.profile))
    is_new_here = earlier is None and not has_model_flags and is_first_run()
    if not is_new_here:
        check_model_configured(engine, arguments)
    host = LocalAppHost(engine, arguments, needs_model=is_new_here)
    history_path = (
        None if arguments.ephemeral else resolve_joey_home(os.environ) / HISTORY_FILE_NAME
    )
    app = JoeyApp(
        host,
        PromptHistory(history_path, host.workspace, KNOWN_SECRETS.redact),
        Startup(
            prompt=prompt,
            images=images,
            task_id=None if earlier is None else earlier.id,
            should_fork=arguments.fork,
            should_choose_task=should_choose_task,
        ),
    )
    host.sandbox_probe.add_done_callback(lambda _: app.call_later(app.refresh_status))
    return host, app


async def _run_until_closed(app: JoeyApp, interruption: Interruption) -> ExitCode:
    """Run the app until it is closed; a signal closes it too and restores the terminal."""
    interruption.before_exit = make_terminal_restorer()
    running = asyncio.ensure_future(app.run_async())
    try:
        await interruption.run_stoppable(asyncio.wait({running}))
    except asyncio.CancelledError:
        app.exit()
    code = await running
    interruption.before_exit = None
    return interruption.exit_code or ExitCode(code or 0)


MAX_PRINTED_LINES = 1000


def _print_conversation(app: JoeyApp) -> None:
    """Print the conversation into the terminal's scrollback, since the app's screen is gone."""
    console = Console(file=sys.stdout, highlight=False)
    for line in app.conversation.render_latest_lines(MAX_PRINTED_LINES):
        print(line.render(console))
    print()


def _print_closing_summary(
    engine: Engine, task: Task, ended: list[str], *, ephemeral: bool
) -> None:
    """Print the last lines: what ends with joey, the cost, and how to continue."""
    parts = [format_total_usage(task.total_usage)]
    if not ephemeral:
        parts.append(f"to continue: joey -r {shorten_task_id(task.id, engine.list_task_ids())}")
    for line in (*ended, " · ".join(parts)):
        print(wrap(line, get_terminal_width(sys.stdout)))
