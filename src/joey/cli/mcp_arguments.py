"""The command lines of `joey mcp` and `joey trust`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from joey.cli.argument_values import Parser, sentence

_EXAMPLES = """\
examples:
  joey mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  joey mcp add --env API_KEY='${env:WEATHER_KEY}' weather -- python3 weather.py
  joey mcp add --url https://example.org/mcp --transport http example
  joey mcp test files"""


class McpParser(Parser):
    def parse_args(self, args: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        """What stands behind `--` is the server's own command line, whatever it looks like."""
        end = args.index("--") if "--" in args else len(args)
        arguments = super().parse_args(args[:end])
        arguments.words = list(args[end + 1 :])
        if arguments.words and arguments.action != "add":
            self.error(f"joey mcp {arguments.action} takes no command behind --")
        return arguments


def mcp_parser() -> Parser:
    parser = McpParser(
        prog="joey mcp",
        description="Look after MCP servers: programs and services that bring tools along.",
        epilog=_EXAMPLES,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="list|add|remove|test|login|logout"
    )
    listed = _action(actions, "list", "the servers of this folder and yours")
    listed.add_argument("--json", action="store_true", help="as a JSON array")
    added = _action(actions, "add", "name a server in a file: … NAME -- COMMAND ARGUMENTS")
    _add_adding(added)
    removed = _action(actions, "remove", "take a server out of your file, or the project's")
    removed.add_argument("name", metavar="SERVER", help="its name")
    removed.add_argument(
        "--project", action="store_true", help="out of .roo/mcp.json of the workspace"
    )
    tested = _action(actions, "test", "start a server, and say what it offers or what is wrong")
    tested.add_argument("name", metavar="SERVER", help="its name")
    tested.add_argument("--json", action="store_true", help="as a JSON object")
    for action, about in (
        ("login", "log in at a server, in your browser"),
        ("logout", "forget the login at a server"),
    ):
        _action(actions, action, about).add_argument("name", metavar="SERVER", help="its name")
    return parser


def _add_adding(parser: argparse.ArgumentParser) -> None:
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


def _action(
    actions: argparse._SubParsersAction[McpParser], name: str, description: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name, help=description, description=sentence(description), allow_abbrev=False
    )
    parser.add_argument("-w", "--workspace", metavar="DIR", help="of this folder instead")
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def trust_parser() -> Parser:
    parser = Parser(
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
