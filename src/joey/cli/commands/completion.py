"""`joey completion`: the completion script of a shell; `joey __complete` answers its requests.

Candidates are read from the argument parsers: a new command or flag needs no other entry to
complete. The values of a flag or positional argument follow from its metavar; every metavar of the
command line is in one of the tables here, and a test checks that.

An answer is a line that says whether file names fit (`none`, `files`, `folders`), then one line per
candidate: the text to insert, a tab, a short description. The scripts always ask the `joey` on the
`PATH`: the first word of the command line may be anything.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from joey.app import shell_completion
from joey.cli.command_line import COMMAND_NAMES, build_run_parser
from joey.cli.commands.command_parsers import COMMAND_PARSERS
from joey.cli.exit_codes import ExitCode
from joey.errors import UserError
from joey.presentation.text import to_one_line

_MAX_DESCRIPTION_CHARS = 100
_BASH_WORD_BREAKS = "=:"
"""Characters at which bash begins a new word, though the shell does not."""


def run_completion(arguments: Namespace) -> ExitCode:
    sys.stdout.write(COMPLETION_SCRIPTS[arguments.shell])
    return ExitCode.DONE


def print_completions(arguments: Sequence[str]) -> ExitCode:
    """Print completions for `SHELL WORD… LAST`; for bash, the whole line and the part of it to
    replace."""
    shell, *words = arguments or ["zsh", ""]
    if shell == "bash":
        line, piece = (*words, "", "")[:2]
        words = split_command_line(line)[1:] or [""]
        # Bash breaks words at `=` and `:` and keeps the part before.
        is_broken = any(each in words[-1] for each in _BASH_WORD_BREAKS)
        prefix = words[-1].removesuffix(piece) if is_broken else ""
        if piece and piece in _BASH_WORD_BREAKS:
            prefix = words[-1]
        _print_candidates(complete_words(words), prefix)
    else:
        if shell == "fish":
            # The last `--` is the script's own: fish drops an empty last word otherwise.
            end = len(words) - 2 if len(words) > 1 else 0
            words = [*words[:end], *words[end + 1 :]]
        _print_candidates(complete_words(words), "")
    return ExitCode.DONE


def split_command_line(line: str) -> list[str]:
    """Split a possibly incomplete command line as the shell would."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[str] = []
    try:
        for word in lexer:
            found.append(word)
    except ValueError:
        found.append(lexer.token)  # an open quote: its content so far
        return found
    if not line or line[-1].isspace():
        found.append("")
    return found


def _print_candidates(completion: CompletionResult, prefix: str) -> None:
    lines = [str(completion.file_completion)]
    for each in completion.candidates:
        if each.value.isprintable():
            about = to_one_line(each.description, _MAX_DESCRIPTION_CHARS)
            lines.append(f"{each.value.removeprefix(prefix)}\t{about}")
    sys.stdout.write("\n".join([*lines, ""]))


class FileCompletion(StrEnum):
    NONE = "none"
    FILES = "files"
    DIRECTORIES = "folders"


class CompletionContext(Struct, frozen=True):
    """The place of a wanted value, and the words before it."""

    metavar: str
    current_word: str
    previous_words: tuple[str, ...]
    flag_values: Mapping[str, str]
    """Values of flags, by their names in the parser."""
    parser_prog: str
    action_dest: str

    @property
    def workspace(self) -> Path:
        return Path(self.flag_values.get("workspace") or Path.cwd()).resolve()


DescribedValues = list[tuple[str, str]]


def _complete_setting_or_profile_values(context: CompletionContext) -> DescribedValues:
    if "profiles" in context.parser_prog:
        return shell_completion.list_profile_values(context.previous_words[1], os.environ)
    name, *given = context.previous_words
    return shell_completion.list_setting_values(name, len(given), os.environ, context.workspace)


def _complete_removable_items(context: CompletionContext) -> DescribedValues:
    """Complete items that can be removed from a list setting."""
    if context.action_dest != "remove":
        return []
    return shell_completion.list_setting_items(context.previous_words[0], os.environ)


VALUE_COMPLETERS: dict[str, Callable[[CompletionContext], DescribedValues]] = {
    "ID": lambda at: shell_completion.list_tasks(os.environ, at.current_word, at.workspace),
    "ITEM": _complete_removable_items,
    "KEY": lambda at: shell_completion.list_setting_names(),
    "MODE": lambda at: shell_completion.list_modes(os.environ, at.workspace),
    "MODEL": lambda at: shell_completion.list_models(os.environ, at.flag_values.get("provider")),
    "PROFILE": lambda at: shell_completion.list_profiles(os.environ),
    "PROFILE_KEY": lambda at: shell_completion.list_profile_keys(),
    "PROVIDER": lambda at: shell_completion.list_providers(),
    "SERVER": lambda at: shell_completion.list_mcp_servers(os.environ, at.workspace),
    "VALUE": _complete_setting_or_profile_values,
}
FILE_METAVARS: dict[str, FileCompletion] = {
    "FILE": FileCompletion.FILES,
    "FILE|JSON": FileCompletion.FILES,
    "SESSION|FIXTURE": FileCompletion.FILES,
    "PATH": FileCompletion.FILES,
    "ITEMS": FileCompletion.FILES,
    "all|FILE": FileCompletion.FILES,
    "DIR": FileCompletion.DIRECTORIES,
    "OUT": FileCompletion.DIRECTORIES,
    "REPO": FileCompletion.DIRECTORIES,
}
FREE_TEXT_METAVARS = frozenset(
    """
    A:B ADDRESS COMMAND ITEM_ID KEY MESSAGE N NAME NAME=VALUE NEW ORIGIN PATTERN PORT PROMPT REF
    OUT|URL REGEX REQUEST SECONDS SEED SESSION STATUSES TEXT TIME URL USD UUID WHEN WORDS
    """.split()  # noqa: SIM905 (easier to read and to extend than a literal)
) | {"NAME: VALUE"}
"""What only the user knows."""


def find_values(context: CompletionContext) -> tuple[DescribedValues, FileCompletion]:
    """Return matching candidates, and whether file names fit."""
    if context.metavar in FILE_METAVARS:
        return [], FILE_METAVARS[context.metavar]
    find = VALUE_COMPLETERS.get(context.metavar)
    try:
        return (find(context) if find else []), FileCompletion.NONE
    except (UserError, OSError, IndexError, ValueError):
        return [], FileCompletion.NONE  # the command itself will report the error


HELP_COMMAND = "help"


class CompletionCandidate(Struct, frozen=True):
    value: str
    description: str = ""


class CompletionResult(Struct, frozen=True):
    candidates: tuple[CompletionCandidate, ...] = ()
    file_completion: FileCompletion = FileCompletion.NONE
    """What of the disk fits too; that is the shell's own business."""


def complete_words(words: Sequence[str]) -> CompletionResult:
    """Complete a command line; `words` follow `joey`, and the last one is incomplete or empty."""
    *before, current = words or [""]
    if not before and not current.startswith("-"):
        help_command = CompletionCandidate(HELP_COMMAND, "the options of a command")
        return _filter_candidates(current, [*_list_commands(), help_command])
    if before == [HELP_COMMAND]:
        return _filter_candidates(current, _list_commands())
    if before[:1] == [HELP_COMMAND]:
        return CompletionResult()
    walk = _CommandLineWalker(before)
    if walk.parser is None:
        return CompletionResult()
    if walk.pending_flag is not None:
        return _complete_value(walk, walk.pending_flag, current)
    if not walk.is_after_separator and current.startswith("--") and "=" in current:
        flag, _, value = current.partition("=")
        action = walk.parser._option_string_actions.get(flag)
        none = CompletionResult()
        return none if action is None else _complete_value(walk, action, value, f"{flag}=")
    if not walk.is_after_separator and current.startswith("-"):
        return _filter_candidates(current, walk.iter_unused_flags(walk.parser))
    return _complete_positional(walk, walk.parser, current)


class _CommandLineWalker:
    """Walks through the complete words: which parser reads the next one, and what it expects."""

    def __init__(self, words: Sequence[str]) -> None:
        first, rest = (words[0], words[1:]) if words and words[0] in COMMAND_NAMES else ("", words)
        self.parser: argparse.ArgumentParser | None = (
            COMMAND_PARSERS[first]() if first else build_run_parser()
        )
        self.pending_flag: argparse.Action | None = None
        """The flag whose value comes next."""
        self.is_after_separator = False
        """`--` was written: no flags from there on."""
        self.positionals: list[str] = []
        self.flag_values: dict[str, str] = {}
        """Values of flags, by their longest names."""
        self.used_flags: set[str] = set()
        for word in rest:
            if self.parser is None:
                return
            self._consume_word(self.parser, word)

    def _consume_word(self, parser: argparse.ArgumentParser, word: str) -> None:
        if self.pending_flag is not None and not (
            _is_greedy(self.pending_flag) and word.startswith("-")
        ):
            self.flag_values[self.pending_flag.dest] = word
            if not _is_greedy(self.pending_flag):
                self.pending_flag = None
        elif self.is_after_separator or not word.startswith("-") or word == "-":
            if (below := _find_subparsers(parser)) is None:
                self.positionals.append(word)
            else:
                self.parser = below.get(word)
                self.positionals = []
        elif word == "--":
            self.pending_flag, self.is_after_separator = None, True
        else:
            self._consume_flag(parser, word)

    def _consume_flag(self, parser: argparse.ArgumentParser, word: str) -> None:
        flag, is_joined, value = word.partition("=")
        action = parser._option_string_actions.get(flag)
        self.pending_flag = None
        if action is None:
            return
        self.used_flags |= set(action.option_strings)
        if is_joined:
            self.flag_values[action.dest] = value
        elif action.nargs != 0:
            self.pending_flag = action

    def iter_unused_flags(self, parser: argparse.ArgumentParser) -> Iterator[CompletionCandidate]:
        """Iterate over flags that may still follow, by their long names first."""
        for action in parser._actions:
            if action.help == argparse.SUPPRESS or not action.option_strings:
                continue
            is_repeatable = isinstance(action, argparse._AppendAction)
            if is_repeatable or self.used_flags.isdisjoint(action.option_strings):
                for flag in reversed(action.option_strings):
                    yield CompletionCandidate(flag, _clean_help_text(action.help))


def _complete_positional(
    walk: _CommandLineWalker, parser: argparse.ArgumentParser, current: str
) -> CompletionResult:
    if (below := _find_subparsers(parser)) is not None:
        named = [
            CompletionCandidate(name, _extract_parser_summary(each)) for name, each in below.items()
        ]
        return _filter_candidates(current, named)
    positionals = parser._get_positional_actions()
    # A greedy one takes the rest.
    greedy = [each for each in positionals[-1:] if _is_greedy(each)]
    wanted = [*positionals[len(walk.positionals) :], *greedy]
    return _complete_value(walk, wanted[0], current) if wanted else CompletionResult()


def _complete_value(
    walk: _CommandLineWalker, action: argparse.Action, current: str, before: str = ""
) -> CompletionResult:
    if action.choices is not None:
        found = [CompletionCandidate(str(choice)) for choice in action.choices]
        return _filter_candidates(current, found, before)
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    prog = walk.parser.prog if walk.parser is not None else ""
    context = CompletionContext(
        metavar, current, tuple(walk.positionals), walk.flag_values, prog, action.dest
    )
    offered, files = find_values(context)
    return _filter_candidates(
        current, (CompletionCandidate(*each) for each in offered), before, files
    )


def _filter_candidates(
    current: str,
    candidates: Iterator[CompletionCandidate] | Sequence[CompletionCandidate],
    before: str = "",
    files: FileCompletion = FileCompletion.NONE,
) -> CompletionResult:
    fitting = (each for each in candidates if each.value.startswith(current))
    return CompletionResult(
        tuple(CompletionCandidate(before + each.value, each.description) for each in fitting), files
    )


def _list_commands() -> list[CompletionCandidate]:
    return [
        CompletionCandidate(name, _extract_parser_summary(make()))
        for name, make in COMMAND_PARSERS.items()
    ]


def _find_subparsers(parser: argparse.ArgumentParser) -> dict[str, Any] | None:
    """Find the parsers of a command's actions; None if it has none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return None


def _extract_parser_summary(parser: argparse.ArgumentParser) -> str:
    return _clean_help_text((parser.description or "").partition(". ")[0].partition(": ")[0])


def _clean_help_text(text: str | None) -> str:
    return (text or "").replace("%%", "%").rstrip(".")


def _is_greedy(action: argparse.Action) -> bool:
    return action.nargs in ("*", "+")


BASH = r"""# joey for bash: source this, or let bash-completion find it (see joey completion --help)
_joey() {
    local line value about files="none" first=1 width=0
    local -a values=() abouts=()
    while IFS= read -r line; do
        if ((first)); then
            files=$line first=0
            continue
        fi
        value=${line%%$'\t'*} about=${line#*$'\t'}
        values+=("$value") abouts+=("$about")
        ((${#value} > width)) && width=${#value}
    done < <(command joey __complete bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    COMPREPLY=()
    case $files in
    files) compopt -o default ;;
    folders) compopt -o dirnames ;;
    esac
    local i
    for i in "${!values[@]}"; do
        # Readline lists several candidates, and only then may they carry words about them.
        case $COMP_TYPE in
        33 | 63 | 64) if ((${#values[@]} > 1)) && [[ -n ${abouts[i]} ]]; then
            printf -v value '%-*s  (%s)' "$width" "${values[i]}" "${abouts[i]}"
            value=${value:0:${COLUMNS:-80}-1}
        else
            printf -v value '%q' "${values[i]}"
        fi ;;
        *) printf -v value '%q' "${values[i]}" ;;
        esac
        COMPREPLY+=("$value")
    done
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _joey joey
"""

ZSH = r"""#compdef joey
# joey for zsh: put this into a folder of $fpath as _joey, or source it after compinit
_joey() {
    local line files="none"
    local -a values shown
    local -i first=1 width=0
    for line in "${(@f)$(command joey __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        if ((first)); then
            files=$line first=0
            continue
        fi
        values+=("${line%%$'\t'*}")
        ((${#values[-1]} > width)) && width=${#values[-1]}
        shown+=("$line")
    done
    local -i i
    for ((i = 1; i <= ${#shown}; i++)); do
        line=${shown[i]#*$'\t'}
        shown[i]="${(r:width:)values[i]}${line:+  -- $line}"
        shown[i]=${shown[i][1,COLUMNS-1]}
    done
    case $files in
    files) _files ;;
    folders) _files -/ ;;
    esac
    ((${#values})) && compadd -l -d shown -a values
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _joey "$@"
else
    compdef _joey joey
fi
"""

FISH = r"""# joey for fish: put this into ~/.config/fish/completions/joey.fish
function __joey_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l lines (command joey __complete fish $before[2..-1] -- "$current" 2>/dev/null)
    switch "$lines[1]"
        case files
            __fish_complete_path "$current"
        case folders
            __fish_complete_directories "$current"
    end
    for line in $lines[2..-1]
        printf '%s\n' $line
    end
end
complete -c joey -f -a '(__joey_complete)'
"""

COMPLETION_SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
