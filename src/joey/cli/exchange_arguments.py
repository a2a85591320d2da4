"""What may be written after `joey tasks import` and `joey tasks export`."""

from __future__ import annotations

import argparse

from joey.cli.task_finding import moment


def add_import_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="a task, a folder of tasks, or a folder above")
    add("--roo", action="store_true", help="all of Roo Code, Zoo Code and Cline on this machine")
    add("--dry-run", action="store_true", help="list what is found, and import nothing")
    add("--only", metavar="ID", nargs="+", default=[], help="these tasks, by the start of the id")
    add("--since", metavar="WHEN", type=moment, help="changed since: 2026-01-31, 36h, 7d, 2w")
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
