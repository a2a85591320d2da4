"""`joey serve`: tasks over WebSocket, for programs and for the web page."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from argparse import Namespace
from pathlib import Path

from joey.app import Application, open_engine, open_store
from joey.app.known_secrets import KNOWN_SECRETS
from joey.cli.exit_codes import ExitCode
from joey.cli.signals import run_until_signal
from joey.cli.task_lookup import resolve_workspace_argument
from joey.server.auth import load_or_create_token
from joey.server.http import has_web_page
from joey.server.hub import ServerHub
from joey.server.ipc import serve_ipc
from joey.server.serve import (
    RunningServer,
    ServeOptions,
    check_listen_options,
    configure_logging,
    run_server,
)
from joey.server.websocket import ConnectionLimits


def run_serve(arguments: Namespace) -> ExitCode:
    return asyncio.run(_serve_until_stopped(arguments))


async def _serve_until_stopped(arguments: Namespace) -> ExitCode:
    options = _build_options(arguments)
    check_listen_options(options)
    setup = Application(workspace=resolve_workspace_argument(arguments))
    file = Path(arguments.token_file) if arguments.token_file else None
    token = load_or_create_token(setup.home, os.environ, file)
    KNOWN_SECRETS.add(token.value)
    KNOWN_SECRETS.add_environment_secrets(os.environ)
    configure_logging(sys.stderr, _choose_log_level(arguments), KNOWN_SECRETS.redact)
    hub = ServerHub(open_engine(home=setup.home), open_store(setup.home), setup)
    with run_until_signal(signal.SIGINT, signal.SIGTERM) as interruption:
        async with serve_ipc(hub, arguments.ipc), run_server(hub, token, options) as listening:
            _print_address(listening)
            await asyncio.get_running_loop().create_future()
    return interruption.exit_code or ExitCode.DONE


def _choose_log_level(arguments: Namespace) -> int:
    """Choose the level of the log; on a terminal, one that does not scroll the link away."""
    if arguments.debug:
        return logging.DEBUG
    return logging.WARNING if sys.stderr.isatty() else logging.INFO


def _build_options(arguments: Namespace) -> ServeOptions:
    return ServeOptions(
        host=arguments.host,
        port=arguments.port,
        allow_remote=arguments.allow_remote,
        limits=ConnectionLimits(max_connections=arguments.max_connections),
        allow_origins=tuple(arguments.allow_origin),
        tls_cert=Path(arguments.tls_cert) if arguments.tls_cert else None,
        tls_key=Path(arguments.tls_key) if arguments.tls_key else None,
    )


def _print_address(listening: RunningServer) -> None:
    """Print the link as the first line of stdout: for a program with the token, for a user with a
    code that works once."""
    is_terminal = sys.stdout.isatty()
    print(listening.browser_url if is_terminal else listening.program_url, flush=True)
    listening.connections.login_code.on_used = lambda: print(
        f"joey: the link was used. For another browser: {listening.browser_url}",
        file=sys.stderr,
        flush=True,
    )
    link = "the link above" if is_terminal else listening.browser_url
    browser = f"Open {link} in a browser, or connect"
    if not has_web_page():
        browser = "This copy does not include the web page: run `make web` in joey's source."
        browser += " Programs connect"
    print(
        f"joey: listening on {listening.base_url}. {browser} to"
        f" {listening.base_url.replace('http', 'ws', 1)}/ws. Ctrl-C stops.",
        file=sys.stderr,
        flush=True,
    )
