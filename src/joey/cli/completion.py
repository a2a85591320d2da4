"""`joey completion` prints a script for a shell; `joey __complete` answers what it asks."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence

from joey.cli.completion_scripts import SCRIPTS
from joey.cli.completion_tree import Completion, complete
from joey.cli.exit_codes import ExitCode
from joey.presentation.text import one_line

_LONGEST = 100
_BREAKS = "=:"
"""Characters at which bash begins a new word, though the shell does not."""


def run_completion(arguments: Namespace) -> ExitCode:
    sys.stdout.write(SCRIPTS[arguments.shell])
    return ExitCode.DONE


def answer(arguments: Sequence[str]) -> ExitCode:
    """`SHELL WORD… LAST`; of bash the whole line, and the piece of it that it would replace."""
    shell, *words = arguments or ["zsh", ""]
    if shell == "bash":
        line, piece = (*words, "", "")[:2]
        words = words_of(line)[1:] or [""]
        _print(complete(words), _kept_by_bash(words[-1], piece))
    else:
        if shell == "fish":
            # The last `--` is the script's own: fish drops an empty last word otherwise.
            end = len(words) - 2 if len(words) > 1 else 0
            words = [*words[:end], *words[end + 1 :]]
        _print(complete(words), "")
    return ExitCode.DONE


def words_of(line: str) -> list[str]:
    """A command line as the shell would split it, as far as it is written."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[str] = []
    try:
        for word in lexer:
            found.append(word)
    except ValueError:
        found.append(lexer.token)  # a quote is open: what is in it so far
        return found
    if not line or line[-1].isspace():
        found.append("")
    return found


def _kept_by_bash(word: str, piece: str) -> str:
    """The beginning of a word that bash leaves alone, since it breaks words at `=` and `:`."""
    if piece and piece in _BREAKS:
        return word
    return word.removesuffix(piece) if any(each in word for each in _BREAKS) else ""


def _print(completion: Completion, kept: str) -> None:
    lines = [str(completion.files)]
    for each in completion.candidates:
        if each.value.isprintable():
            about = one_line(each.about, _LONGEST)
            lines.append(f"{each.value.removeprefix(kept)}\t{about}")
    sys.stdout.write("\n".join([*lines, ""]))
