"""Entry point of `joey`: runs a command, turns errors into a message and an exit code.

Slow imports are made by the commands that need them: `joey --help` loads none of them.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from joey.cli.command_line import COMMAND_NAMES, parse_command_line
from joey.cli.exit_codes import ExitCode, error_to_exit_code
from joey.errors import UserError

GC_THRESHOLD = 100_000
"""New objects after which the collector looks for cycles: more than are made before the first
request. Its default, 700, makes it go through all that was loaded some hundred times until then,
and it finds nothing."""

_WINDOWS_MESSAGE = (
    "joey: Windows itself is not supported. Install WSL 2 (wsl --install), and install and run joey"
    " there."
)


def run() -> int:
    """Run `joey` as a process of its own."""
    gc.set_threshold(GC_THRESHOLD, 20, 100)
    code = main()
    # The process ends: a search for garbage cycles would only delay that.
    gc.freeze()
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if sys.platform == "win32":
        print(_WINDOWS_MESSAGE, file=sys.stderr)
        return ExitCode.CONFIGURATION
    code = _run_catching_errors(argv)
    _flush_streams()
    return code


def _run_catching_errors(argv: Sequence[str] | None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    _open_missing_streams()
    debug = "--debug" in argv or "-d" in argv
    try:
        if argv[:1] == ["__complete"]:
            from joey.cli.commands.completion import print_completions

            return int(print_completions(argv[1:]))
        return int(_run_command(parse_command_line(argv)))
    except UserError as error:
        _print_error(str(error), debug)
        return error_to_exit_code(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        from joey.cli.output import detach_stdout

        detach_stdout()
        return ExitCode.BROKEN_PIPE
    except Exception as error:
        _print_error(
            f"an unexpected error, which is a bug in joey: {type(error).__name__}: {error}\n"
            "please report it, with the output of `--debug`.",
            debug,
        )
        return ExitCode.FAILED


_MODULES_BY_COMMAND = {"import": "settings_import"}
"""Of commands whose names cannot be those of modules."""


def _run_command(arguments: argparse.Namespace) -> int:
    from joey.cli.logs import configure_logging

    configure_logging(debug=arguments.debug and arguments.command != "serve")
    match arguments.command:
        case str(name) if name in COMMAND_NAMES:
            # `joey NAME` is `run_NAME` of `joey.cli.commands.NAME`; no other is loaded.
            module = _MODULES_BY_COMMAND.get(name, name)
            command = getattr(import_module(f"joey.cli.commands.{module}"), f"run_{name}")
            return int(command(arguments))
        case _:
            return _run_task(arguments)


def _run_task(arguments: argparse.Namespace) -> int:
    _print_flag_warnings(arguments)
    match arguments:
        case _ if _is_interactive(arguments):
            return _run_interactive(arguments)
        case _ if arguments.input_format == "stream-json":
            from joey.cli.headless.stdin_session import run_stdin_session

            return run_stdin_session(arguments)
        case _:
            from joey.cli.headless.run import run_headless

            return run_headless(arguments)


_KEY_WARNING = (
    "other users can see the key after -k in the list of processes, and your shell remembers it;"
    " use a variable such as ANTHROPIC_API_KEY, or joey profiles add"
)


def _print_flag_warnings(arguments: argparse.Namespace) -> None:
    """Warn on stderr about flags of Roo's command line that are accepted but discouraged."""
    if arguments.api_key:
        _print_warning(_KEY_WARNING)
    shell = arguments.terminal_shell
    if shell and shell.rpartition("/")[2] != "bash":
        _print_warning(
            f"--terminal-shell {shell} is ignored: commands run in bash, by whose grammar they are"
            " allowed or refused"
        )
    if arguments.extension:
        _print_warning(f"--extension {arguments.extension} is ignored: joey needs no extension")


def _print_warning(text: str) -> None:
    print(f"joey: {text}", file=sys.stderr)


def _run_interactive(arguments: argparse.Namespace) -> ExitCode:
    """Run the app, or the line-by-line conversation for screen readers and simple terminals."""
    can_do_more = os.environ.get("TERM", "") not in ("", "dumb") and sys.stderr.isatty()
    can_draw = sys.stderr.encoding.lower().replace("-", "") == "utf8"
    wants_lines = arguments.plain or arguments.oneshot or os.environ.get("JOEY_PLAIN")
    if wants_lines or not (can_do_more and can_draw):
        from joey.cli.repl.repl import run_repl

        return run_repl(arguments)
    from joey.cli.screen.launcher import run_screen

    return run_screen(arguments)


def _is_interactive(arguments: argparse.Namespace) -> bool:
    """Whether a user is at a terminal and has not asked for the answer only."""
    if arguments.print or arguments.output_format != "text" or arguments.json_schema:
        return False
    if arguments.output_dir is not None:
        return False
    return sys.stdin.isatty() and sys.stdout.isatty()


def _open_missing_streams() -> None:
    """Open missing standard streams, which the parent process may have closed: their numbers must
    not go to other files."""
    if sys.stdin is not None and sys.stdout is not None and sys.stderr is not None:
        return
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def _flush_streams() -> None:
    """Discard output that a closed stream did not accept, so that exiting does not retry it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            from joey.cli.output import detach_stream

            detach_stream(stream)


def _print_error(message: str, debug: bool) -> None:
    from joey.cli.logs import redact

    if debug:
        import traceback

        print(redact(traceback.format_exc()), end="", file=sys.stderr)
    from joey.presentation.phrases import lower_first
    from joey.presentation.text import get_terminal_width, sanitize, wrap

    text = f"joey: {lower_first(sanitize(redact(message)))}"
    with suppress(OSError):  # the terminal is gone; only the exit code is left
        print(wrap(text, get_terminal_width(sys.stderr)), file=sys.stderr)
