"""Warnings about flags of Roo's command line that joey accepts but advises against.

A module of its own because few runs load it.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

_KEY_WARNING = (
    "other users can see the key after -k in the list of processes, and your shell remembers it;"
    " use a variable such as ANTHROPIC_API_KEY, or joey profiles add"
)


def print_flag_warnings(arguments: Namespace) -> None:
    """One line on stderr for each."""
    if arguments.api_key:
        _warn(_KEY_WARNING)
    shell = arguments.terminal_shell
    if shell and Path(shell).name != "bash":
        _warn(
            f"--terminal-shell {shell} is ignored: commands run in bash, by whose grammar they are"
            " allowed or refused"
        )
    if arguments.extension:
        _warn(f"--extension {arguments.extension} is ignored: joey needs no extension")


def _warn(text: str) -> None:
    print(f"joey: {text}", file=sys.stderr)
