"""`joey proxy`: record the requests of AI clients to models, and the replies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from joey.app.known_secrets import KNOWN_SECRETS
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.signals import run_until_signal
from joey.proxy.analysis import analyze_new_exchanges
from joey.proxy.book import Book, Expenses, resolve_book_path
from joey.proxy.client_setup import (
    ANTHROPIC_URL_VARIABLE,
    OPENAI_URL_VARIABLE,
    build_client_variables,
    describe_client_setup,
)
from joey.proxy.exchange import Wire
from joey.proxy.filing import BookLimits, open_filed_book
from joey.proxy.profile_routes import build_routes, check_no_loop
from joey.proxy.recorder import ExchangeRecorder
from joey.proxy.server import DEFAULT_PORT, LOOPBACK, ListenOptions, run_proxy_server
from joey.server.auth import Token, load_or_create_token
from joey.system.subprocess import start_in_terminal

_BYTES_PER_MB = 1_000_000
_SIGNAL_EXIT_BASE = 128


def run_proxy(arguments: Namespace) -> int:
    match arguments.action:
        case "start":
            return asyncio.run(_record_until_stopped(arguments))
        case "run":
            if not arguments.command_line:
                raise UsageError("name the program to record: joey proxy run -- COMMAND")
            return asyncio.run(_record_program(arguments))
        case "env":
            port = DEFAULT_PORT if arguments.port is None else arguments.port
            print(describe_client_setup(arguments.client, f"http://{LOOPBACK}:{port}"))
            return ExitCode.DONE
        case "forget":
            return _forget(arguments)
        case "serve":
            return _serve(arguments)
        case _:
            return _read(arguments)


async def _record_until_stopped(arguments: Namespace) -> ExitCode:
    default = DEFAULT_PORT if arguments.port is None else arguments.port
    with run_until_signal(signal.SIGINT, signal.SIGTERM) as interruption:
        async with _open_proxy(arguments, default) as proxy:
            line = json.dumps({"url": proxy.url}) if arguments.json else proxy.url
            print(line, flush=True)
            print(
                "joey: recording. `joey proxy env CLIENT` says how to point a client here;"
                " Ctrl-C stops.",
                file=sys.stderr,
                flush=True,
            )
            await asyncio.get_running_loop().create_future()
    return interruption.exit_code or ExitCode.DONE


async def _record_program(arguments: Namespace) -> int:
    """Run a program with its requests recorded; return its exit code."""
    arguments.anthropic = arguments.anthropic or os.environ.get(ANTHROPIC_URL_VARIABLE)
    arguments.openai = arguments.openai or os.environ.get(OPENAI_URL_VARIABLE)
    async with _open_proxy(arguments, arguments.port or 0) as proxy:
        variables = build_client_variables(proxy.url)
        code = await _run_program(arguments.command_line, os.environ | variables)
    with open_filed_book(_find_book(arguments)) as book:
        analyze_new_exchanges(book)
        expenses = book.sum_expenses(proxy.recorder.name)
    print(f"joey: {_describe_expenses(expenses)}", file=sys.stderr, flush=True)
    return code


def _describe_expenses(expenses: Expenses) -> str:
    count = expenses.requests
    if not count:
        return (
            "no request was recorded, $0.0000: the program did not use ANTHROPIC_BASE_URL or"
            " OPENAI_BASE_URL. joey proxy env CLIENT shows how to point clients here; joey itself"
            " records with --record"
        )
    text = f"{count} request{'' if count == 1 else 's'} recorded, ${expenses.dollars:.4f}"
    if expenses.models_without_price:
        text += f" without {', '.join(expenses.models_without_price)}, whose price is not known"
    return text


async def _run_program(command: list[str], env: dict[str, str]) -> int:
    try:
        program = start_in_terminal(command, env)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{command[0]} cannot be started: {reason}") from error
    loop = asyncio.get_running_loop()
    # The terminal sends Ctrl-C to the program as well, which decides how to react.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, program.send_signal, number)
    code = await asyncio.to_thread(program.wait)
    return code if code >= 0 else _SIGNAL_EXIT_BASE - code


class _OpenProxy(NamedTuple):
    url: str
    recorder: ExchangeRecorder


@asynccontextmanager
async def _open_proxy(arguments: Namespace, port: int) -> AsyncIterator[_OpenProxy]:
    book = _find_book(arguments)
    urls = {Wire.ANTHROPIC: arguments.anthropic, Wire.OPENAI: arguments.openai}
    home = resolve_book_path(os.environ, None).parent.parent
    routes = build_routes(home, os.environ, urls, arguments.key_from)
    check_no_loop(routes, port)
    token: Token | None = None
    if arguments.allow_remote or arguments.key_from is not None:
        token = load_or_create_token(home / "proxy", os.environ)
        KNOWN_SECRETS.add(token.value)
    recorder = ExchangeRecorder(
        book,
        _report_failure,
        keeps_bodies=not arguments.no_bodies,
        limits=BookLimits(arguments.keep, arguments.max_mb * _BYTES_PER_MB),
    )
    options = ListenOptions(port, arguments.allow_remote, arguments.keep_encoding, token)
    try:
        async with run_proxy_server(options, routes, recorder) as url:
            yield _OpenProxy(url, recorder)
    finally:
        recorder.close()


def _find_book(arguments: Namespace) -> Path:
    return resolve_book_path(os.environ, arguments.db)


def _report_failure(reason: str) -> None:
    print(
        f"joey: RECORDING HAS STOPPED: {KNOWN_SECRETS.redact(reason).rstrip('.')}. Requests are"
        " still passed on. Restart joey proxy once this is fixed.",
        file=sys.stderr,
        flush=True,
    )


def _open_existing_book(arguments: Namespace) -> Book:
    """Open the book for reading. Raises UsageError if the file of `--db` does not exist."""
    path = _find_book(arguments)
    if arguments.db and not path.exists():
        raise UsageError(
            f"there is no book {path}; joey proxy --db {arguments.db} records into a new one"
        )
    return open_filed_book(path)


def _read(arguments: Namespace) -> ExitCode:
    from joey.cli.commands import proxy_playback, proxy_reading
    from joey.proxy.recordings import Recordings

    commands = {
        "list": proxy_reading.list_sessions,
        "show": proxy_reading.show_recording,
        "diff": proxy_reading.show_difference,
        "report": proxy_reading.print_report,
        "export": proxy_playback.export_session,
    }
    with _open_existing_book(arguments) as book:
        return commands[arguments.action](Recordings(book), arguments)


def _serve(arguments: Namespace) -> ExitCode:
    from joey.cli.commands import proxy_playback
    from joey.proxy.recordings import Recordings

    if not arguments.name.isdecimal():  # the file of a fixture
        return proxy_playback.serve_fixture(None, arguments)
    with _open_existing_book(arguments) as book:
        fixture = proxy_playback.load_session(Recordings(book), arguments)
    return proxy_playback.serve_fixture(fixture, arguments)


def _forget(arguments: Namespace) -> ExitCode:
    if not arguments.sessions and arguments.before is None:
        raise UsageError("name sessions to forget, or a time: --before 7d")
    from joey.proxy.recordings import Recordings

    with open_filed_book(_find_book(arguments)) as book:
        recordings = Recordings(book)
        sessions = [recordings.find_session(text) for text in arguments.sessions]
        turns = recordings.iter_turns(sessions)
        removed = book.forget([turn.exchange_id for turn in turns]) if sessions else 0
        if arguments.before is not None:
            removed += book.forget_before(arguments.before)
    print(f"{removed} request{'' if removed == 1 else 's'} removed")
    return ExitCode.DONE
