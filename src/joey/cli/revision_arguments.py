"""What may be written after `joey tasks rewind` and `joey tasks fork`."""

from __future__ import annotations

import argparse

_ID = "the id of a task, or the start of it"


def add_rewind_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help=_ID)
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
    add("id", metavar="ID", help=_ID)
    add(
        "message",
        nargs="?",
        metavar="MESSAGE",
        help="the last message that is copied: a number that joey tasks show --rows lists"
        " (default: all)",
    )
    add("--before", action="store_true", help="the message is left out too")
    add("--json", action="store_true", help="as a JSON object")
