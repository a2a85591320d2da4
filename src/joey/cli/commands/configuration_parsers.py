"""Argument parsers of the commands that configure joey.

These are `config`, `profiles`, `models`, `completion`, `mcp`, `trust` and `permissions`. Of `mcp`
and `permissions`, everything after `--` is another program's command line, whatever it looks like.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from joey.cli.arguments import CliArgumentParser, SubcommandParser, format_sentence, parse_count

_CONFIG_EXAMPLES = """\
examples:
  joey config list --changed             what is not as it comes
  joey config describe sandbox           what a setting means and may be
  joey config set alwaysAllowWrite true
  joey config set allowedCommands --add "npm test" --add "git status"
  joey config unset alwaysAllowWrite     back to its default

Your settings are in $JOEY_HOME/settings.json; .roo/settings.json of a project
can make some of them stricter. docs/settings.md lists them all."""
_PROFILES_EXAMPLES = """\
examples:
  joey profiles add work --provider anthropic          asks for the key unseen
  joey profiles add local --provider ollama --model qwen3-coder
  pass show openai | joey profiles set work apiKey     a key through a pipe
  joey profiles use local                              from now on

A key is never taken from the command line, which others can read. Without one
in the profile, the provider's variable is used."""


_COMPLETION_DESCRIPTION = (
    "Print a script that completes commands, flags and their values in your shell."
)
_COMPLETION_INSTRUCTIONS = """\
to install it:
  bash  joey completion bash > ~/.local/share/bash-completion/completions/joey
  zsh   joey completion zsh > "${fpath[1]}/_joey"    (of yours, before compinit)
  fish  joey completion fish > ~/.config/fish/completions/joey.fish

or for this shell alone: source <(joey completion bash)"""


def build_config_parser() -> CliArgumentParser:
    parser = _build_parser("config", "Look at your settings, and change them.", _CONFIG_EXAMPLES)
    actions = _add_subparsers(parser, "list|get|set|unset|describe|path")
    listed = _add_action(actions, "list", "every setting: its value, and where that comes from")
    listed.add_argument("--changed", action="store_true", help="only those that are set somewhere")
    listed.add_argument("--json", action="store_true", help="as a JSON array")
    got = _add_action(actions, "get", "the value of a setting, as it counts here")
    _add_key_argument(got)
    got.add_argument("--json", action="store_true", help="as JSON, also a text")
    given = _add_action(actions, "set", "give a setting a value")
    _add_key_argument(given)
    given.add_argument("value", metavar="VALUE", nargs="*", help="JSON, or plain words")
    given.add_argument(
        "--add", metavar="ITEM", action="append", default=[], help="add to a list (repeatable)"
    )
    given.add_argument(
        "--remove", metavar="ITEM", action="append", default=[], help="take from a list"
    )
    _add_key_argument(_add_action(actions, "unset", "take a setting back to its default"))
    described = _add_action(actions, "describe", "what a setting means, and what it may be")
    _add_key_argument(described)
    described.add_argument("--json", action="store_true", help="as a JSON object")
    _add_action(actions, "path", "where the settings are")
    for action in actions.choices.values():
        action.add_argument("-w", "--workspace", metavar="DIR", help="as it counts in this folder")
    return parser


def build_profiles_parser() -> CliArgumentParser:
    parser = _build_parser(
        "profiles",
        "Look after profiles: named ways to reach a model, with their keys.",
        _PROFILES_EXAMPLES,
    )
    actions = _add_subparsers(parser, "list|show|add|set|unset|use|remove")
    listed = _add_action(actions, "list", "all profiles; * marks the one that is used")
    listed.add_argument("--json", action="store_true", help="as a JSON array, without keys")
    shown = _add_action(actions, "show", "one profile, and where each value comes from")
    shown.add_argument(
        "name", metavar="PROFILE", nargs="?", help="default: whatever would be used now"
    )
    shown.add_argument("--json", action="store_true", help="as a JSON object, without keys")
    added = _add_action(actions, "add", "make a profile")
    added.add_argument("name", metavar="NEW", help="its name")
    added.add_argument("--provider", metavar="PROVIDER", required=True, help="whose API is spoken")
    added.add_argument("-m", "--model", metavar="MODEL", help="which model")
    added.add_argument("--base-url", metavar="URL", help="another address of the provider")
    key = added.add_mutually_exclusive_group()
    key.add_argument(
        "--key", action="store_true", help="ask for a key, or read it from stdin, or fail"
    )
    key.add_argument("--no-key", action="store_true", help="neither ask for one nor read stdin")
    added.add_argument("--use", action="store_true", help="use it from now on")
    changed = _add_action(actions, "set", "change a value of a profile")
    _add_profile_argument(changed)
    changed.add_argument("key", metavar="PROFILE_KEY", help="such as model, temperature, apiKey")
    changed.add_argument(
        "value", metavar="VALUE", nargs="*", help="left out for apiKey, which is asked for"
    )
    unset = _add_action(actions, "unset", "take a value out of a profile")
    _add_profile_argument(unset)
    unset.add_argument("key", metavar="PROFILE_KEY", help="such as model, temperature, apiKey")
    _add_profile_argument(_add_action(actions, "use", "use this profile from now on"))
    removed = _add_action(actions, "remove", "remove a profile, and its key")
    _add_profile_argument(removed)
    removed.add_argument("-y", "--yes", action="store_true", help="do not ask")
    return parser


def build_models_parser() -> CliArgumentParser:
    parser = _build_parser(
        "models",
        "List models to choose from: what the catalogue knows, and what the server offers.",
        None,
    )
    add = parser.add_argument
    add("--provider", metavar="PROVIDER", help="of this one (default: the one that is used)")
    add("--offline", action="store_true", help="do not ask the server")
    add("--json", action="store_true", help="as a JSON array")
    add("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def build_completion_parser() -> CliArgumentParser:
    parser = _build_parser("completion", _COMPLETION_DESCRIPTION, _COMPLETION_INSTRUCTIONS)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="for which shell")
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def _add_key_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help="the name of a setting, such as sandbox")


def _add_profile_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="PROFILE", help="the name of a profile")


def _build_parser(name: str, about: str, epilog: str | None) -> CliArgumentParser:
    return CliArgumentParser(
        prog=f"joey {name}",
        description=about,
        epilog=epilog,
        allow_abbrev=False,
    )


def _add_subparsers(parser: CliArgumentParser, names: str) -> argparse._SubParsersAction[Any]:
    return parser.add_subparsers(
        dest="action", required=True, metavar=names, parser_class=SubcommandParser
    )


def _add_action(
    actions: argparse._SubParsersAction[Any], name: str, about: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=about, description=format_sentence(about), allow_abbrev=False
    )
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


_MCP_EXAMPLES = """\
examples:
  joey mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  joey mcp add --env API_KEY='${env:WEATHER_KEY}' weather -- python3 weather.py
  joey mcp add --url https://example.org/mcp --transport http example
  joey mcp test files"""


class McpParser(CliArgumentParser):
    def parse_args(self, args: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        """What stands behind `--` is the server's own command line, whatever it looks like."""
        end = args.index("--") if "--" in args else len(args)
        arguments = super().parse_args(args[:end])
        arguments.command_line = list(args[end + 1 :])
        if arguments.command_line and arguments.action != "add":
            self.error(f"joey mcp {arguments.action} takes no command behind --")
        return arguments


def build_mcp_parser() -> CliArgumentParser:
    parser = McpParser(
        prog="joey mcp",
        description="Look after MCP servers: programs and services that bring tools along.",
        epilog=_MCP_EXAMPLES,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="list|add|remove|test|login|logout"
    )
    listed = _add_mcp_action(actions, "list", "the servers of this folder and yours")
    listed.add_argument("--json", action="store_true", help="as a JSON array")
    added = _add_mcp_action(actions, "add", "name a server in a file: … NAME -- COMMAND ARGUMENTS")
    _add_server_flags(added)
    removed = _add_mcp_action(actions, "remove", "take a server out of your file, or the project's")
    removed.add_argument("name", metavar="SERVER", help="its name")
    removed.add_argument(
        "--project", action="store_true", help="out of .roo/mcp.json of the workspace"
    )
    tested = _add_mcp_action(
        actions, "test", "start a server, and say what it offers or what is wrong"
    )
    tested.add_argument("name", metavar="SERVER", help="its name")
    tested.add_argument("--json", action="store_true", help="as a JSON object")
    for action, about in (
        ("login", "log in at a server, in your browser"),
        ("logout", "forget the login at a server"),
    ):
        _add_mcp_action(actions, action, about).add_argument(
            "name", metavar="SERVER", help="its name"
        )
    return parser


def _add_server_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="what you call it")
    add(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a variable for the program; '${env:OTHER}' takes it from yours (repeatable)",
    )
    add("--cwd", metavar="DIR", help="where the program runs (default: the workspace)")
    add("--url", metavar="URL", help="a server behind an address, in place of a program")
    add("--transport", choices=("http", "sse"), default="http", help="of --url (default: http)")
    add(
        "--header",
        metavar="NAME: VALUE",
        action="append",
        default=[],
        help="send a header to --url (repeatable)",
    )
    add("--timeout", metavar="SECONDS", type=float, help="how long a call may take (default: 60)")
    add("--project", action="store_true", help="in .roo/mcp.json of the workspace, not in yours")


def _add_mcp_action(
    actions: argparse._SubParsersAction[McpParser], name: str, description: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name, help=description, description=format_sentence(description), allow_abbrev=False
    )
    parser.add_argument("-w", "--workspace", metavar="DIR", help="of this folder instead")
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def build_trust_parser() -> CliArgumentParser:
    parser = CliArgumentParser(
        prog="joey trust",
        description=(
            "Look at what this folder would run (its MCP servers), and agree to it. Agreement"
            " counts for exactly what is shown: whatever changes later is asked about again."
        ),
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-w", "--workspace", metavar="DIR", help="of this folder instead")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--yes", action="store_true", help="agree without being asked")
    how.add_argument("--revoke", action="store_true", help="agree to nothing of it any more")
    how.add_argument("--show", action="store_true", help="only show it, and whether it is trusted")
    add("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


_EXPLAIN_DESCRIPTION = (
    "Say what would happen: whether a command would run, or a file be read or written, without"
    " you being asked; by which rule; and if not, why. Nothing of the folder"
    " is run, and nothing is changed."
)
_EXPLAIN_EXAMPLES = """\
examples:
  joey permissions explain -- 'git status && npm test'
  joey permissions explain --allow 'npm test' --deny 'npm run' -- npm test
  joey permissions explain --read ../notes.txt
  joey permissions explain --stdin < questions.jsonl

Of --stdin, each line is an object {"id": …, "command": …} with "read" or
"write" in place of "command"; the answers have the same ids, in the same
order."""


_REPORT_DESCRIPTION = (
    "Say what ran in earlier tasks, by which rule or whose answer, and what was refused. With"
    " rules, say what they would decide otherwise. Nothing is run and nothing is changed."
)
_REPORT_EXAMPLES = """\
examples:
  joey permissions report
  joey permissions report --task 1733 --json
  joey permissions report --last 50 --allow 'npm test' --deny 'git push'"""


class PermissionsParser(CliArgumentParser):
    def parse_args(self, args: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        """What stands behind `--` is the command line in question, whatever it looks like."""
        end = args.index("--") if "--" in args else len(args)
        arguments = super().parse_args(args[:end])
        if arguments.action == "report":
            if end != len(args):
                self.error("the report is about no command: leave `--` out")
            return arguments
        arguments.command_line = [*arguments.command_line, *args[end + 1 :]]
        asked = [bool(arguments.command_line), arguments.stdin]
        asked += [arguments.read is not None, arguments.write is not None]
        if sum(asked) != 1:
            self.error("ask about one thing: a command behind --, or --read, --write, --stdin")
        return arguments


def build_permissions_parser() -> CliArgumentParser:
    parser = PermissionsParser(
        prog="joey permissions", description="Look at what the rules allow.", allow_abbrev=False
    )
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="explain|report", parser_class=CliArgumentParser
    )
    explain = actions.add_parser(
        "explain",
        help="what would happen with a command or a file, and why",
        description=_EXPLAIN_DESCRIPTION,
        epilog=_EXPLAIN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_subject_arguments(explain)
    _add_permission_flags(explain)
    explain.add_argument("-w", "--workspace", metavar="DIR", help="in this folder instead")
    explain.add_argument("--json", action="store_true", help="as a JSON object")
    explain.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    report = actions.add_parser(
        "report",
        help="what was decided in earlier tasks, or would be by other rules",
        description=_REPORT_DESCRIPTION,
        epilog=_REPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_report_flags(report)
    _add_permission_flags(report)
    return parser


def _add_report_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--last", metavar="N", type=parse_count, default=10, help="of the latest N tasks (10)")
    add("--task", metavar="ID", help="of one task, by the beginning of its id")
    add("-w", "--workspace", metavar="DIR", help="of tasks in this folder alone")
    add("--json", action="store_true", help="as a JSON object")
    add("--debug", action="store_true", help=argparse.SUPPRESS)


def _add_subject_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "command_line",
        nargs="*",
        metavar="COMMAND",
        help="a command line, best quoted and behind --",
    )
    add("--read", metavar="PATH", help="a file that would be read")
    add("--write", metavar="PATH", help="a file that would be written")
    add("--stdin", action="store_true", help="many questions and answers, a JSON object per line")


def _add_permission_flags(parser: argparse.ArgumentParser) -> None:
    """As a run would have them."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("-y", "--yes", action="store_true", help="with everything allowed")
    how.add_argument(
        "-a", "--require-approval", action="store_true", help="with everything to be asked"
    )
    add = parser.add_argument
    add("--allow", metavar="PATTERN", action="append", default=[], help="with this rule too")
    add("--allow-writes", action="store_true", help="with leave to change files")
    add("--add-dir", metavar="DIR", action="append", default=[], help="with this directory too")
    add("--deny", metavar="PATTERN", action="append", default=[], help="with this rule too")
    add("--no-sandbox", action="store_true", help="with commands that nothing confines")
