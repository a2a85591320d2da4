"""`joey`: from the command line to a command, and from an error to a line and an exit code.

Everything that takes time to import is imported by the command that needs it: `joey --help`
loads none of it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from joey.cli.arguments import parse
from joey.cli.exit_codes import ExitCode, exit_code_of_error
from joey.errors import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    _open_missing_streams()
    debug = "--debug" in argv
    try:
        return int(_run(parse(argv)))
    except UserError as error:
        _complain(str(error), debug)
        return exit_code_of_error(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        from joey.cli.outputs import leave_stdout

        leave_stdout()
        return ExitCode.BROKEN_PIPE
    except Exception as error:
        _complain(
            f"an unexpected error, which is a defect of joey: {type(error).__name__}: {error}\n"
            "please report it with what `--debug` adds to this.",
            debug,
        )
        return ExitCode.FAILED


def _run(arguments: argparse.Namespace) -> ExitCode:
    if arguments.debug and arguments.command != "serve":
        import logging

        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    match arguments.command:
        case "tasks":
            from joey.cli.tasks import run_tasks

            return run_tasks(arguments)
        case "modes":
            from joey.cli.modes import run_modes

            return run_modes(arguments)
        case "mcp":
            from joey.cli.mcp import run_mcp

            return run_mcp(arguments)
        case "trust":
            from joey.cli.trust import run_trust

            return run_trust(arguments)
        case "serve":
            from joey.cli.serve import run_serve

            return run_serve(arguments)
        case "attach":
            from joey.cli.attach import run_attach

            return run_attach(arguments)
        case "doctor":
            from joey.cli.doctor import run_doctor

            return run_doctor(arguments)
        case "demo":
            from joey.cli.demo import run_demo

            return run_demo(arguments)
        case _ if _is_conversation(arguments):
            from joey.cli.converse import run_conversation

            return run_conversation(arguments)
        case _:
            from joey.cli.run import run_print

            return run_print(arguments)


def _is_conversation(arguments: argparse.Namespace) -> bool:
    """A person is there, and has not asked for the answer alone."""
    if arguments.print or arguments.output_format != "text":
        return False
    return sys.stdin.isatty() and sys.stdout.isatty()


def _open_missing_streams() -> None:
    """Whoever started us may have closed some of them; their numbers must not go to other files."""
    if sys.stdin is not None and sys.stdout is not None and sys.stderr is not None:
        return
    import os

    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def _complain(message: str, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exc()
    from joey.cli.sanitise import sanitise
    from joey.cli.sentences import in_a_sentence
    from joey.cli.wrapping import columns, wrap

    text = f"joey: {in_a_sentence(sanitise(message))}"
    print(wrap(text, columns(sys.stderr)), file=sys.stderr)
