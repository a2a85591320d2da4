"""The command line of `joey permissions`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from joey.cli.argument_values import Parser, count

_ABOUT = (
    "Say what would happen: whether a command would run, or a file be read or written, without"
    " you being asked; by which rule; and if not, why. Nothing of the folder"
    " is run, and nothing is changed."
)
_EXAMPLES = """\
examples:
  joey permissions explain -- 'git status && npm test'
  joey permissions explain --allow 'npm test' --deny 'npm run' -- npm test
  joey permissions explain --read ../notes.txt
  joey permissions explain --stdin < questions.jsonl

Of --stdin, each line is an object {"id": …, "command": …} with "read" or
"write" in place of "command"; the answers have the same ids, in the same
order."""


_REPORT = (
    "Say what ran in earlier tasks, by which rule or whose answer, and what was refused. With"
    " rules, say what they would decide otherwise. Nothing is run and nothing is changed."
)
_REPORT_EXAMPLES = """\
examples:
  joey permissions report
  joey permissions report --task 1733 --json
  joey permissions report --last 50 --allow 'npm test' --deny 'git push'"""


class PermissionParser(Parser):
    def parse_args(self, args: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        """What stands behind `--` is the command line in question, whatever it looks like."""
        end = args.index("--") if "--" in args else len(args)
        arguments = super().parse_args(args[:end])
        if arguments.action == "report":
            if end != len(args):
                self.error("the report is about no command: leave `--` out")
            return arguments
        arguments.words = [*arguments.words, *args[end + 1 :]]
        asked = [bool(arguments.words), arguments.stdin]
        asked += [arguments.read is not None, arguments.write is not None]
        if sum(asked) != 1:
            self.error("ask about one thing: a command behind --, or --read, --write, --stdin")
        return arguments


def permissions_parser() -> Parser:
    parser = PermissionParser(
        prog="joey permissions", description="Look at what the rules allow.", allow_abbrev=False
    )
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="explain|report", parser_class=Parser
    )
    explain = actions.add_parser(
        "explain",
        help="what would happen with a command or a file, and why",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_subject(explain)
    _add_rules(explain)
    explain.add_argument("-w", "--workspace", metavar="DIR", help="in this folder instead")
    explain.add_argument("--json", action="store_true", help="as a JSON object")
    explain.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    report = actions.add_parser(
        "report",
        help="what was decided in earlier tasks, or would be by other rules",
        description=_REPORT,
        epilog=_REPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_report(report)
    _add_rules(report)
    return parser


def _add_report(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--last", metavar="N", type=count, default=10, help="of the latest N tasks (10)")
    add("--task", metavar="ID", help="of one task, by the beginning of its id")
    add("-w", "--workspace", metavar="DIR", help="of tasks in this folder alone")
    add("--json", action="store_true", help="as a JSON object")
    add("--debug", action="store_true", help=argparse.SUPPRESS)


def _add_subject(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="*", metavar="COMMAND", help="a command line, best quoted and behind --")
    add("--read", metavar="PATH", help="a file that would be read")
    add("--write", metavar="PATH", help="a file that would be written")
    add("--stdin", action="store_true", help="many questions and answers, a JSON object per line")


def _add_rules(parser: argparse.ArgumentParser) -> None:
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
