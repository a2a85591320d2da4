"""The command line: what may be written, and what it says when asked for help."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Sequence
from typing import NoReturn

from joey import __version__
from joey.cli.exit_codes import UsageError
from joey.cli.near_misses import meant_command

COMMANDS = ("attach", "demo", "doctor", "mcp", "modes", "serve", "tasks", "trust")
FORMATS = ("text", "json", "stream-json")

_DESCRIPTION = """\
A coding agent that works in this folder: it reads, edits and runs what the task needs, and asks
before it does what you have not allowed. Without a prompt it opens a conversation."""

_EPILOG = """\
commands:
  joey tasks list|show|export   look at earlier tasks
  joey modes list|show          which modes there are here, and what they are told
  joey mcp list|add|test|…      MCP servers, which bring tools along
  joey trust                    let this folder run what it brings along
  joey serve                    tasks over WebSocket and in the browser
  joey attach [ID]              look at a task of a server, and answer it
  joey doctor                   what is found, what is missing, what to do
  joey demo                     a whole task without key or network
  joey COMMAND --help           the options of one of these

examples:
  joey "fix the failing test"                  work here, asking where you must allow something
  joey -p "why does make fail?" 2>/dev/null    only the answer, for scripts
  git diff | joey -p "review this change"      a prompt and its context
  joey -c "now the same for Windows"           go on with the latest task of this folder
  joey -p -y --max-budget-usd 2 "port it"      allow everything, up to two dollars
  joey -p --allow-writes --allow "npm test" "fix the tests"
                                               allow edits and one command besides reading
  joey -- tasks                                a prompt that is also the name of a command

exit codes:
  0 done   1 failed   2 wrong usage, a bad value of a flag   3 gave up, or a person was needed
  53 turn limit   55 budget or time limit   75 provider down, try again
  78 configuration: files, variables, keys, the model's name   130/143 signals

files and variables:
  JOEY_HOME (default ~/.roo) holds tasks, settings.json and profiles.json. Keys are taken from
  ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY and others (see joey doctor). NO_COLOR
  switches colours off."""


class Parser(argparse.ArgumentParser):
    """Errors are ours to print, with our exit code."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """What is to be done, with `command` naming it (`run` when none was).

    Raises:
        UsageError
        SystemExit: --help and --version, which have printed what they should.
    """
    if argv and argv[0] in COMMANDS:
        arguments = _COMMAND_PARSERS[argv[0]]().parse_args(argv[1:])
        arguments.command = argv[0]
        return arguments
    if hint := meant_command(argv):
        raise UsageError(f"did you mean `{hint}`? (as a prompt: joey -- {shlex.join(argv)})")
    end = argv.index("--") if "--" in argv else len(argv)
    arguments = _run_parser().parse_intermixed_args(argv[:end])
    arguments.command = "run"
    _check(arguments)
    arguments.prompt += argv[end + 1 :]
    return arguments


def _check(arguments: argparse.Namespace) -> None:
    words = arguments.prompt
    if len(words) == 1 and words[0] in COMMANDS:
        raise UsageError(
            f"{words[0]!r} is a command, and commands come first: joey {words[0]} …"
            f" (as a prompt: joey -- {words[0]})"
        )
    if not arguments.continue_ and not arguments.resume:
        return
    if arguments.ephemeral:
        raise UsageError("--ephemeral keeps no tasks, so there is none to continue")
    if arguments.protocol:
        raise UsageError("a task keeps its protocol; it can be chosen for a new one only")


def _run_parser() -> Parser:
    parser = Parser(
        prog="joey",
        usage="joey [OPTIONS] [PROMPT]\n       joey -p [OPTIONS] PROMPT\n       joey COMMAND …",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("prompt", nargs="*", metavar="PROMPT", help="what to do; - reads a pipe")
    parser.add_argument("--version", action="version", version=f"joey {__version__}")
    _add_output(parser.add_argument_group("output"))
    _add_task(parser.add_argument_group("task"))
    _add_model(parser.add_argument_group("model"))
    _add_permissions(parser.add_argument_group("permissions"))
    _add_limits(parser.add_argument_group("limits"))
    return parser


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-p",
        "--print",
        action="store_true",
        help="no conversation: the answer on stdout, progress on stderr (as without a terminal)",
    )
    group.add_argument(
        "--output-format",
        choices=FORMATS,
        default="text",
        help="of -p: the result, one JSON object, or one JSON object per line (default: text)",
    )
    group.add_argument("--debug", action="store_true", help="log to stderr, and show tracebacks")


def _add_task(group: argparse._ArgumentGroup) -> None:
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "-c",
        "--continue",
        dest="continue_",
        action="store_true",
        help="go on with the latest task of this folder",
    )
    which.add_argument(
        "-r", "--resume", metavar="ID", help="go on with this task (the start of its id is enough)"
    )
    group.add_argument("-w", "--workspace", metavar="DIR", help="the folder to work in")
    group.add_argument("--prompt-file", metavar="FILE", help="read the prompt from a file")
    group.add_argument(
        "--image",
        metavar="FILE",
        action="append",
        default=[],
        help="send a picture along: PNG, JPEG, GIF or WebP (repeatable)",
    )
    group.add_argument("--ephemeral", action="store_true", help="keep nothing of this task")


def _add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-m", "--model", metavar="NAME", help="which model")
    group.add_argument("--provider", metavar="NAME", help="anthropic, openai, openrouter, ollama…")
    group.add_argument("--base-url", metavar="URL", help="another address of the provider")
    group.add_argument("--profile", metavar="NAME", help="a profile of profiles.json")
    group.add_argument("--mode", metavar="MODE", help="code, architect, ask, debug…")
    group.add_argument(
        "--protocol",
        choices=("native", "xml"),
        help="how the model calls tools (default: what it can do)",
    )
    group.add_argument(
        "--system-prompt-file", metavar="FILE", help="use this system prompt in place of joey's"
    )


def _add_permissions(group: argparse._ArgumentGroup) -> None:
    how = group.add_mutually_exclusive_group()
    how.add_argument("-y", "--yes", action="store_true", help="allow everything without asking")
    how.add_argument(
        "-a", "--require-approval", action="store_true", help="ask before everything, even reading"
    )
    group.add_argument(
        "--allow",
        metavar="PATTERN",
        action="append",
        default=[],
        help="commands that begin like this may run without asking (repeatable)",
    )
    group.add_argument(
        "--allow-writes",
        action="store_true",
        help="files of the workspace may be changed without asking (protected ones still ask)",
    )
    group.add_argument(
        "--deny",
        metavar="PATTERN",
        action="append",
        default=[],
        help="commands that begin like this never run (repeatable)",
    )


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-turns", metavar="N", type=_count, help="stop after N replies of the model"
    )
    group.add_argument(
        "--max-budget-usd", metavar="USD", type=_money, help="stop when this much is spent"
    )
    group.add_argument(
        "--max-wall-time", metavar="TIME", type=_duration, help="stop after 90, 90s, 10m or 1h"
    )


def _tasks_parser() -> Parser:
    parser = Parser(prog="joey tasks", description="Look at earlier tasks.", allow_abbrev=False)
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|export")
    listed = _action(actions, "list", "the tasks of this folder, the latest first")
    listed.add_argument("-n", "--number", metavar="N", type=_count, default=20, help="how many")
    where = listed.add_mutually_exclusive_group()
    where.add_argument("-w", "--workspace", metavar="DIR", help="of this folder instead")
    where.add_argument("--all", action="store_true", help="of all folders")
    listed.add_argument("--json", action="store_true", help="as a JSON array")
    shown = _action(actions, "show", "one task: its facts and its conversation")
    shown.add_argument("id", metavar="ID", help="the id of a task, or the start of it")
    shown.add_argument("--json", action="store_true", help="as a JSON object")
    exported = _action(actions, "export", "the conversation as a document")
    exported.add_argument("id", metavar="ID", help="the id of a task, or the start of it")
    exported.add_argument(
        "--format",
        choices=("markdown", "json"),
        default="markdown",
        help="a document to read, or facts and rows for programs (default: markdown)",
    )
    exported.add_argument("-o", "--output", metavar="FILE", help="write to a file, not to stdout")
    return parser


def _modes_parser() -> Parser:
    about = "Look at the modes of this folder: built-in, the project's and yours."
    parser = Parser(prog="joey modes", description=about, allow_abbrev=False)
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show")
    listed = _action(actions, "list", "all modes, and what of your files could not be used")
    shown = _action(actions, "show", "one mode: what it may do, and what it is told")
    shown.add_argument("slug", metavar="MODE", help="its short name, such as code")
    for action in (listed, shown):
        action.add_argument("-w", "--workspace", metavar="DIR", help="of this folder instead")
        action.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _action(
    actions: argparse._SubParsersAction[Parser], name: str, description: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=description, description=description, allow_abbrev=False)
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def _doctor_parser() -> Parser:
    parser = Parser(
        prog="joey doctor",
        description="Check what joey needs: what is found, what is missing, what to do.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="as a JSON object")
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def _demo_parser() -> Parser:
    parser = Parser(
        prog="joey demo",
        description=(
            "Watch a whole task, without key and without network: a scripted model on this machine"
            " plays one conversation through the real client, tools, files and histories."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("--fast", action="store_true", help="do not type at a human pace")
    parser.add_argument(
        "--protocol",
        choices=("native", "xml"),
        default="native",
        help="how the model calls tools: by the API, or in its text (default: native)",
    )
    parser.add_argument(
        "--wire", choices=("anthropic", "openai"), default="anthropic", help="whose API to speak"
    )
    parser.add_argument("--keep", metavar="DIR", help="work in DIR, and leave everything there")
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def _serve_parser() -> Parser:
    parser = Parser(
        prog="joey serve",
        description=(
            "Serve tasks to programs (WebSocket at /ws) and to people (a web page at /). Whoever"
            " has the token can run commands here; it is printed once, as part of a link."
        ),
        epilog=(
            "The token is taken from JOEY_TOKEN, else from --token-file, else it is made once and"
            " kept in $JOEY_HOME/server.token."
        ),
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--host", metavar="ADDRESS", default="127.0.0.1", help="listen here (127.0.0.1)")
    add("--port", metavar="N", type=_port, default=7800, help="and on this port (7800; 0: any)")
    add("--allow-remote", action="store_true", help="listen beyond this machine")
    add("--token-file", metavar="FILE", help="a file that holds the token, readable by you alone")
    add("--max-connections", metavar="N", type=_count, default=256, help="clients at once (256)")
    add(
        "--allow-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="let pages of another site connect, such as https://joey.example.org (repeatable)",
    )
    add("--tls-cert", metavar="FILE", help="certificate, for https and wss")
    add("--tls-key", metavar="FILE", help="its private key")
    add("-w", "--workspace", metavar="DIR", help="the folder that tasks work in by default")
    add("--ipc", metavar="PATH", help="also serve Roo Code's IPC protocol on this Unix socket")
    add("--debug", action="store_true", help="log every command")
    return parser


def _attach_parser() -> Parser:
    parser = Parser(
        prog="joey attach",
        description=(
            "Watch a task of a running `joey serve`: what it says, as it says it. What you write"
            " answers its questions, or is read before its next step. Ctrl-C leaves the view; the"
            " task goes on."
        ),
        epilog=(
            "Without --url it is the server of this machine; its token is found in JOEY_TOKEN or"
            " in $JOEY_HOME/server.token."
        ),
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("id", nargs="?", metavar="ID", help="a task, or the start of its id (default: the latest)")
    add("--url", metavar="URL", help="the server; also the link that joey serve prints")
    add("--list", action="store_true", help="the tasks that are open there, the latest first")
    add("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def _mcp_parser() -> Parser:
    from joey.cli.mcp_arguments import mcp_parser

    return mcp_parser()


def _trust_parser() -> Parser:
    from joey.cli.mcp_arguments import trust_parser

    return trust_parser()


_COMMAND_PARSERS: dict[str, Callable[[], Parser]] = {
    "attach": _attach_parser,
    "demo": _demo_parser,
    "doctor": _doctor_parser,
    "mcp": _mcp_parser,
    "modes": _modes_parser,
    "serve": _serve_parser,
    "tasks": _tasks_parser,
    "trust": _trust_parser,
}


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return int(text)


def _money(text: str) -> float:
    if not re.fullmatch(r"\d*\.?\d+", text, re.ASCII) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of dollars")
    return float(text)


def _duration(text: str) -> float:
    match = re.fullmatch(r"(\d*\.?\d+)([smh]?)", text, re.ASCII)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90, 90s, 10m or 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
