"""Argument parsers of `joey batch`, `joey worker` and `joey store`.

A separate module that only these commands load.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from joey.cli.arguments import (
    DEBUG,
    MODEL_FLAGS,
    REPEATABLE,
    Action,
    Argument,
    Command,
    Row,
    parse_count,
    parse_dollars,
    parse_duration,
    parse_limit,
)
from joey.cli.command_line import describe_yes_flag

_EXAMPLES = """\
examples:
  joey batch run items.jsonl -o out --allow-writes --check "make test"
  joey batch run items.jsonl -o out       again: runs what is missing
  joey batch status out --watch
  joey batch results out --status error,failed
  joey batch retry out --status failed && joey batch run items.jsonl -o out
  joey batch export out --as swebench -o preds.json

docs/batch.md describes lists, results and statuses."""
_EXIT_CODES = """\
exit codes: 0 all done · 1 some failed, limited or cancelled · 2 the list was
refused, nothing started · 55 total budget used up · 75 errors left to retry"""


def parse_slice(text: str) -> tuple[int | None, int | None]:
    first, colon, last = text.partition(":")
    try:
        if colon:
            return int(first) if first else None, int(last) if last else None
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 0:50")


_URL: Argument = (
    "url",
    "postgresql://USER@HOST/DATABASE (default: $JOEY_STORE)",
    "URL",
    {"nargs": "?"},
)
_OUT: Argument = ("out", "the output directory of a batch", "OUT")
_ITEMS: Argument = ("items", "ids of items (default: all)", "ITEM_ID", {"nargs": "*"})
_STATUSES = "done, failed, limit, error, cancelled, budget"
_RUN: Sequence[Row] = (
    ("list", "JSONL, JSON, CSV, or a directory of prompt files", "ITEMS"),
    ("-o --output", "where results go; the same directory continues", "OUT", {"required": True}),
    (
        "--store",
        "the Postgres database of a cluster (default: $JOEY_STORE, else a file in OUT)",
        "URL",
    ),
    (
        "--workers",
        "processes to start here; 0: others run the items (1)",
        "N",
        {"type": parse_limit},
    ),
    ("--width", "items at once per worker (4)", "N", {"type": parse_count}),
    ("--at-once", "items at once over all workers", "N", {"type": parse_count}),
    ("--group-at-once", "items at once per group or repository", "N", {"type": parse_count}),
    ("--no-wait", "exit once everything is queued"),
    ("--dry-run", "read and check everything, and run nothing"),
    (
        "--format",
        "fields of the list (default: auto)",
        None,
        {"choices": ("auto", "swebench"), "default": "auto"},
    ),
    [
        ("--prompt", "template: {field} is a field of the item", "TEXT"),
        ("--prompt-file", "the same, from a file", "FILE"),
    ],
    ("--repo", "for items that name none: an address or a directory", "REPO"),
    ("--ref", "for items that name none: a commit, tag or branch", "REF"),
    ("--setup", "run this before each item", "COMMAND"),
    ("--check", "run this after each item; it must succeed", "COMMAND"),
    (
        "--workspace",
        "the workspace of each item (default: clone)",
        None,
        {"choices": ("clone", "worktree", "copy", "dir"), "default": "clone"},
    ),
    ("--attempts", "how often an error is tried (2)", "N", {"type": parse_count}),
    ("--total-budget-usd", "of the whole batch", "USD", {"type": parse_dollars}),
    ("--total-wall-time", "of the whole batch: 90m, 8h", "TIME", {"type": parse_duration}),
    ("--max-turns", "per item: replies of the model", "N", {"type": parse_count}),
    ("--max-budget-usd", "per item: money", "USD", {"type": parse_dollars}),
    ("--max-wall-time", "per item: 90, 90s, 10m or 1h", "TIME", {"type": parse_duration}),
    ("--max-tokens", "per item: tokens, sent and received", "N", {"type": parse_count}),
    ("--max-tool-calls", "per item: tool calls", "N", {"type": parse_count}),
    ("--filter", "only ids that contain this pattern", "REGEX"),
    ("--slice", "only these of them, such as 0:50", "A:B", {"type": parse_slice}),
    ("--shuffle", "in a random order, the same for the same number", "SEED", {"type": int}),
    ("--limit", "only so many of them", "N", {"type": parse_count}),
    *MODEL_FLAGS,
    ("--mode", "code, architect, ask, debug…", "MODE"),
    ("--protocol", "how the model calls tools", None, {"choices": ("native", "xml")}),
    ("--json-schema", "results are JSON that fits this schema", "FILE|JSON"),
    [
        ("-y --yes", describe_yes_flag(sys.platform)),
        ("-a --require-approval", "reject everything that would need approval"),
    ],
    ("--allow", "commands that begin like this may run (repeatable)", "PATTERN", REPEATABLE),
    ("--allow-writes", "files of the workspace may be changed"),
    ("--add-dir", "work in this directory too (repeatable)", "DIR", REPEATABLE),
    ("--deny", "commands that begin like this never run (repeatable)", "PATTERN", REPEATABLE),
    (
        "--network",
        "what sandboxed commands reach",
        None,
        {"choices": ("off", "registries", "all")},
    ),
    ("--no-sandbox", "do not sandbox commands"),
)
BATCH_COMMANDS = {
    "batch": Command(
        "Run a list of tasks: queued, resumed after crashes, each with one result.",
        epilog=_EXAMPLES,
        actions={
            "run": Action("run a list, or what is missing of it", _RUN, epilog=_EXIT_CODES),
            "status": Action(
                "counts, cost and what runs where",
                (_OUT, ("--json", "as a JSON object"), ("--watch", "until nothing is left")),
            ),
            "results": Action(
                "how each item ended",
                (
                    _OUT,
                    (
                        "--format",
                        "default: table",
                        None,
                        {
                            "choices": ("table", "jsonl", "csv", "junit", "markdown"),
                            "default": "table",
                        },
                    ),
                    ("--status", f"only with these: {_STATUSES}", "STATUSES"),
                    (
                        "--sort",
                        "default: order of the list",
                        None,
                        {"choices": ("item", "cost", "turns", "status")},
                    ),
                ),
            ),
            "show": Action(
                "one item: its task, patch and check",
                (
                    _OUT,
                    ("item", "the id of an item", "ITEM_ID"),
                    (
                        "--attempt",
                        "of this attempt (default: the latest)",
                        "N",
                        {"type": parse_count},
                    ),
                ),
            ),
            "retry": Action(
                "mark items for the next `batch run`",
                (
                    _OUT,
                    _ITEMS,
                    ("--status", f"all with these: {_STATUSES} (default: error)", "STATUSES"),
                    ("--anew", "use the item as it then is in the list"),
                ),
            ),
            "cancel": Action(
                "cancel waiting items",
                (_OUT, _ITEMS, ("--now", "running items too")),
            ),
            "export": Action(
                "results for other programs",
                (
                    _OUT,
                    (
                        "--as",
                        "predictions, result lines, or a directory of patches or tasks",
                        None,
                        {
                            "choices": ("swebench", "jsonl", "patches", "roo"),
                            "required": True,
                            "dest": "format",
                        },
                    ),
                    ("-o --output", "where to write it", "PATH", {"required": True}),
                ),
            ),
        },
    ),
    "worker": Command(
        "Run items of a batch until stopped. Logs to stderr.",
        (
            (
                "--store",
                "the output directory of a batch, or postgresql://… for all batches of a database"
                " (default: $JOEY_STORE)",
                "OUT|URL",
            ),
            (
                "--work",
                "where workspaces are, with a database (default: $JOEY_HOME/batch-work)",
                "DIR",
            ),
            ("--width", "items at once (default: the batch's)", "N", {"type": parse_count}),
            ("--until-empty", "exit when nothing is waiting or running"),
            (
                "--may",
                "the most that an order may ask for: all, or a settings file"
                " (default: your settings)",
                "all|FILE",
            ),
            DEBUG,
        ),
    ),
    "store": Command(
        "Keep tasks in a Postgres database, which the hosts of a cluster share.",
        epilog="JOEY_STORE names the database for all commands; `joey batch` and `joey worker`"
        " also take it as --store.",
        actions={
            "init": Action("create the tables if they do not exist", (_URL,)),
            "check": Action("whether the database can be used, and what is in it", (_URL,)),
        },
    ),
}
