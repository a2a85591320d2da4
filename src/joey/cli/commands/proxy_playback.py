"""`joey proxy export` and `serve`: recorded sessions as files, and played to clients."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from joey.app.known_secrets import collect_all_secrets
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import encode_json, write_stdout
from joey.cli.signals import run_until_signal
from joey.core.text import sanitize
from joey.proxy.conversation_export import build_script
from joey.proxy.fixtures import (
    Fixture,
    build_fixture,
    encode_fixture,
    load_fixture,
    redact_fixture,
)
from joey.proxy.playback import Playback
from joey.proxy.playback_server import run_playback_server
from joey.proxy.recordings import Recordings
from joey.system.files import replace_file


def export_session(recordings: Recordings, arguments: Namespace) -> ExitCode:
    session = recordings.find_session(arguments.name)
    redact = collect_all_secrets().redact
    if arguments.form == "roo":
        from joey.app.recorded_tasks import write_recorded_task

        if arguments.output is None:
            raise UsageError("--as roo writes a folder; name it with -o DIR")
        path = Path(arguments.output)
        write_recorded_task(recordings, session, path, force=arguments.force, redactor=redact)
        return ExitCode.DONE
    if arguments.form == "script":
        data = encode_json(build_script(recordings, session))
        data = redact(data.decode()).encode() if arguments.redact else data
    else:
        fixture = build_fixture(recordings, session)
        data = encode_fixture(redact_fixture(fixture, redact) if arguments.redact else fixture)
    _warn_of_secrets(data, redact)
    if arguments.output is None:
        write_stdout(data)
    else:
        _write_file(Path(arguments.output), data, force=arguments.force)
    return ExitCode.DONE


def _warn_of_secrets(data: bytes, redact: Callable[[str], str]) -> None:
    text = data.decode("utf-8", "replace")
    if redact(text) != text:
        print(
            "joey: the export holds texts that look like keys or passwords. Export it again with"
            " --redact before you give it to anybody.",
            file=sys.stderr,
        )


def _write_file(path: Path, data: bytes, *, force: bool) -> None:
    if path.exists() and not force:
        raise UsageError(f"{path} exists; --force replaces it")
    try:
        replace_file(path, data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def load_session(recordings: Recordings, arguments: Namespace) -> Fixture:
    return build_fixture(recordings, recordings.find_session(arguments.name))


def serve_fixture(fixture: Fixture | None, arguments: Namespace) -> ExitCode:
    """Play a fixture by name, or from a file, until Ctrl-C."""
    fixture = load_fixture(Path(arguments.name)) if fixture is None else fixture
    redact = collect_all_secrets().redact
    playback = Playback(fixture, redact, is_loose=arguments.loose)
    return asyncio.run(_serve(playback, arguments))


async def _serve(playback: Playback, arguments: Namespace) -> ExitCode:
    with run_until_signal(signal.SIGINT, signal.SIGTERM) as interruption:
        async with run_playback_server(
            playback,
            arguments.port or 0,
            is_paced=arguments.pace == "recorded",
            on_refusal=_report_refusal,
        ) as url:
            print(json.dumps({"url": url}) if arguments.json else url, flush=True)
            await asyncio.get_running_loop().create_future()
    return interruption.exit_code or ExitCode.DONE


def _report_refusal(text: str) -> None:
    print(f"joey: refused: {sanitize(text)}", file=sys.stderr, flush=True)
