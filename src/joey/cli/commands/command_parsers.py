"""Argument parsers of the commands, by name.

Parsers are apart from the commands, whose modules load the engine: `joey --help` and a misspelt
flag must not wait for that. Those of the commands that configure joey are in
`configuration_arguments`.
"""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from joey.cli.arguments import (
    CliArgumentParser,
    SubcommandParser,
    format_sentence,
    parse_count,
    parse_port,
)
from joey.cli.commands.configuration_parsers import (
    build_completion_parser,
    build_config_parser,
    build_mcp_parser,
    build_models_parser,
    build_permissions_parser,
    build_profiles_parser,
    build_trust_parser,
)
from joey.core.text import compile_regex

_TASKS_EXAMPLES = """\
examples:
  joey tasks list --all --since 7d       everywhere, of the last week
  joey tasks search "login page" fix*    the words of conversations
  joey tasks show 0198 --rows            its messages, numbered for rewind
  joey tasks rewind 0198 3 --preview     what going back would change
  joey tasks import --roo --dry-run      what Roo Code has on this machine"""


def _build_tasks_parser() -> CliArgumentParser:
    parser = CliArgumentParser(
        prog="joey tasks",
        description="Look at earlier tasks, go back in them, and take over those of others.",
        epilog=_TASKS_EXAMPLES,
        allow_abbrev=False,
    )
    names = "list|search|show|export|import|rewind|fork|delete"
    actions = parser.add_subparsers(
        dest="action", required=True, metavar=names, parser_class=SubcommandParser
    )
    listed = _add_action(actions, "list", "the tasks of this folder, the latest first")
    add_task_filter_flags(listed)
    searched = _add_action(
        actions, "search", "tasks of this folder with these words, the latest first"
    )
    searched.add_argument(
        "query", metavar="WORDS", nargs="+", help='all occur; "a phrase" and begin* are understood'
    )
    add_task_filter_flags(searched)
    shown = _add_action(actions, "show", "one task: its facts and its conversation")
    shown.add_argument("id", metavar="ID", help="the id of a task, or the start of it")
    shown.add_argument("--json", action="store_true", help="as a JSON object")
    shown.add_argument("--rows", action="store_true", help="its messages in a table, numbered")
    add_export_flags(
        _add_action(actions, "export", "the conversation as a document, or for Roo Code")
    )
    add_import_flags(
        _add_action(actions, "import", "take over tasks of Roo Code, Zoo Code and Cline")
    )
    add_rewind_flags(_add_action(actions, "rewind", "go back to an earlier message of a task"))
    add_fork_flags(_add_action(actions, "fork", "a new task with the history of another"))
    deleted = _add_action(actions, "delete", "remove a task for good")
    deleted.add_argument("id", metavar="ID", help="the id of a task, or the start of it")
    deleted.add_argument("--with-subtasks", action="store_true", help="and the subtasks below it")
    deleted.add_argument("-y", "--yes", action="store_true", help="do not ask")
    return parser


def _build_modes_parser() -> CliArgumentParser:
    about = "Look at the modes of this folder: built-in, the project's and yours."
    parser = CliArgumentParser(prog="joey modes", description=about, allow_abbrev=False)
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show")
    listed = _add_action(actions, "list", "all modes, and what of your files could not be used")
    shown = _add_action(actions, "show", "one mode: what it may do, and what it is told")
    shown.add_argument("slug", metavar="MODE", help="its short name, such as code")
    for action in (listed, shown):
        action.add_argument("-w", "--workspace", metavar="DIR", help="of this folder instead")
        action.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _add_action(
    actions: argparse._SubParsersAction[Any], name: str, description: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=description, description=format_sentence(description), allow_abbrev=False
    )
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def _build_doctor_parser() -> CliArgumentParser:
    parser = CliArgumentParser(
        prog="joey doctor",
        description="Check what joey needs: what is found, what is missing, what to do.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--offline", action="store_true", help="open no connections, not even on this machine"
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help="set right what is safe: modes of files, stale locks, leftovers, a damaged index",
    )
    parser.add_argument("--json", action="store_true", help="as a JSON object")
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def _build_demo_parser() -> CliArgumentParser:
    parser = CliArgumentParser(
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


def _build_serve_parser() -> CliArgumentParser:
    parser = CliArgumentParser(
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
    add(
        "--port", metavar="N", type=parse_port, default=7800, help="and on this port (7800; 0: any)"
    )
    add("--allow-remote", action="store_true", help="listen beyond this machine")
    add("--token-file", metavar="FILE", help="a file that holds the token, readable by you alone")
    add(
        "--max-connections",
        metavar="N",
        type=parse_count,
        default=256,
        help="clients at once (256)",
    )
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


def _build_attach_parser() -> CliArgumentParser:
    parser = CliArgumentParser(
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
    add("--url", metavar="URL", help="the server, without the token of the link")
    add("--list", action="store_true", help="the tasks that are open there, the latest first")
    add("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def build_acp_parser() -> CliArgumentParser:
    parser = CliArgumentParser(
        prog="joey acp",
        description=(
            "Speak the Agent Client Protocol on stdin and stdout. Editors start this by"
            " themselves: Zed, JetBrains, Neovim, Emacs and others; docs/editors.md has their"
            " settings."
        ),
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-m", "--model", metavar="MODEL", help="which model new sessions begin with")
    add("--provider", metavar="PROVIDER", help="anthropic, openai, openrouter, ollama…")
    add("--base-url", metavar="URL", help="another address of the provider")
    add("--profile", metavar="PROFILE", help="a profile of profiles.json")
    add("--mode", metavar="MODE", help="code, architect, ask, debug…")
    add(
        "--setup",
        action="store_true",
        help="open joey at a terminal instead: editors do so for you to name a model and a key",
    )
    add("--debug", action="store_true", help="log to stderr")
    return parser


def add_import_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="a task, a folder of tasks, or a folder above")
    add("--roo", action="store_true", help="all of Roo Code, Zoo Code and Cline on this machine")
    add("--dry-run", action="store_true", help="list what is found, and import nothing")
    add("--only", metavar="ID", nargs="+", default=[], help="these tasks, by the start of the id")
    add(
        "--since", metavar="WHEN", type=parse_time_ms, help="changed since: 2026-01-31, 36h, 7d, 2w"
    )
    add("--json", action="store_true", help="as a JSON array")


def add_export_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="the id of a task, or the start of it")
    add(
        "--format",
        choices=("markdown", "json", "roo"),
        default="markdown",
        help="a document to read, facts and rows for programs, or a folder for Roo Code"
        " (default: markdown)",
    )
    add("-o", "--output", metavar="PATH", help="the file, or for roo the folder to put <id>/ into")
    add("--force", action="store_true", help="replace what is there")


_TASK_ID_HELP = "the id of a task, or the start of it"


def add_rewind_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help=_TASK_ID_HELP)
    add(
        "message",
        nargs="?",
        metavar="MESSAGE",
        help="the last message that stays: a number that joey tasks show --rows lists"
        " (default: the one before your latest words)",
    )
    add("--before", action="store_true", help="the message goes too")
    add("--with-files", action="store_true", help="bring back the files of that moment")
    add("--undo", action="store_true", help="take back the latest rewind")
    add("--preview", action="store_true", help="only tell what would change")
    add("--force", action="store_true", help="give up what others changed in the files since")
    add("-y", "--yes", action="store_true", help="do not ask")
    add("--json", action="store_true", help="as a JSON object")


def add_fork_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help=_TASK_ID_HELP)
    add(
        "message",
        nargs="?",
        metavar="MESSAGE",
        help="the last message that is copied: a number that joey tasks show --rows lists"
        " (default: all)",
    )
    add("--before", action="store_true", help="the message is left out too")
    add("--json", action="store_true", help="as a JSON object")


TASK_STATUSES = ("completed", "failed", "interrupted", "running", "waiting", "delegated")
_TIME_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_RELATIVE_TIME_RE = compile_regex(rf"(\d{{1,6}})([{''.join(_TIME_UNITS)}])", re.ASCII)


def add_task_filter_flags(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("-n", "--number", metavar="N", type=parse_count, default=20, help="how many (20)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-w", "--workspace", metavar="DIR", help="of this folder instead")
    where.add_argument("--all", action="store_true", help="of all folders")
    add("--status", choices=TASK_STATUSES, metavar="S", help=", ".join(TASK_STATUSES))
    add(
        "--since", metavar="WHEN", type=parse_time_ms, help="changed since: 2026-01-31, 36h, 7d, 2w"
    )
    add("--refresh", action="store_true", help="look at every task folder, however many there are")
    add("--json", action="store_true", help="as a JSON array")


def parse_time_ms(text: str) -> int:
    """A day, a time, or so long ago; in milliseconds since 1970."""
    try:
        if ago := _RELATIVE_TIME_RE.fullmatch(text):
            when = datetime.now() - timedelta(**{_TIME_UNITS[ago[2]]: int(ago[1])})
        else:
            when = datetime.fromisoformat(text)
        return max(0, int(when.timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a day such as 2026-01-31, nor a time such as 36h, 7d or 2w"
        ) from None


COMMAND_PARSERS: dict[str, Callable[[], CliArgumentParser]] = {
    "acp": build_acp_parser,
    "attach": _build_attach_parser,
    "completion": build_completion_parser,
    "config": build_config_parser,
    "demo": _build_demo_parser,
    "doctor": _build_doctor_parser,
    "mcp": build_mcp_parser,
    "models": build_models_parser,
    "modes": _build_modes_parser,
    "permissions": build_permissions_parser,
    "profiles": build_profiles_parser,
    "serve": _build_serve_parser,
    "tasks": _build_tasks_parser,
    "trust": build_trust_parser,
}
