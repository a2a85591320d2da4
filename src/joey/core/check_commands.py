"""Command lines as checks: which programs decide how a line ends, and whether it failed.

Many commands exit with a status other than 0 without a failure: they look something up (`grep`,
`diff`, `test -f`, `which`), were not found, or were stopped by a timeout. Parts of a line count
only if their status becomes that of the line: the last command of a pipeline, and commands joined
by `&&` and `||` after the last `;`; with `set -o pipefail` and `set -e`, all of it. Lines are
parsed leniently; this decides about a reminder, never about a permission.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import dropwhile
from pathlib import PurePosixPath

from msgspec import Struct

from joey.core.permissions.shell import parse_word_set
from joey.core.text import compile_regex

CheckName = tuple[str, ...]
"""A program, and its subcommand or script."""

_MAX_READ_CHARS = 4000
_OPERATORS = "();<>|&\n"
_ASSIGNMENT_RE = compile_regex(r"[A-Za-z_]\w*\+?=")
_PREFIX_ARGUMENT_RE = compile_regex(r"-.*|[\d.]+[smhd]?|\{\}")
_TIMEOUT_ARGUMENT_RE = compile_regex(r"-.*|[\d.]+[smhd]?|[A-Z]+")
_LOOKUP_PROGRAMS = parse_word_set(
    """
    [ [[ : . ack ag alias awk basename bat break cat cd cmp colordiff column command comm compgen
    continue cut date declare df diff dirname done dpkg du echo egrep esac export expr fd fgrep fi
    file find fold for free function fuser getent git-grep grep hash head help hexdump history
    hostname id in jobs jq kill killall ldd less let ls lsof man md5sum mkdir more nc netstat nl nm
    od pgrep pidof ping pkill popd printenv printf ps pushd pwd read readlink realpath return rg rm
    rmdir rpm sed select set sha256sum shift shopt sleep sort source ss stat strings tail tee test
    tput tr tree true type umask unalias uname uniq unset wait wc whatis whereis which who whoami
    xxd yq zgrep }
    """
)
"""Programs whose status is an answer, or says nothing about the work."""
_GIT_LOOKUPS = parse_word_set(
    """
    blame branch cat-file check-ignore config describe diff fetch grep log ls-files ls-remote
    merge-base remote rev-list rev-parse show show-ref status symbolic-ref tag
    """
)
_LOOKUP_SUBCOMMANDS = parse_word_set(
    "audit images info inspect is-active list logs ls outdated ps search show status view why"
)
"""Subcommands of any program (`pip show`, `npm ls`, `docker ps`)."""
_FILTERS = parse_word_set("awk cat column cut head less nl sed sort tail tee tr uniq wc")
"""Programs that pass on what they read, and do not fail by themselves."""
_BLOCK_ENDS = frozenset({"fi", "done", "esac", "}"})
_LOOKUP_OPTIONS = frozenset({"--version", "-version", "-V", "--help", "-h", "version"})
_PREFIXES = parse_word_set(
    """
    ! { do then else elif if while until time exec eval sudo env nice nohup stdbuf xargs npx bunx
    uvx
    """
)
_TWO_WORD_PREFIXES = parse_word_set("uv:run poetry:run pipenv:run pdm:run hatch:run bundle:exec")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_SCRIPT_OPTION_RE = compile_regex(r"-[a-z]*c")
_SCRIPT_RUNNERS = frozenset({"npm", "pnpm", "yarn", "bun"})
_ERREXIT_RE = compile_regex(r"(?:^| )(?:-[a-z]*e|errexit\b)")
_INTERPRETER_RE = compile_regex(r"(?:python|pypy|ruby|perl|php|node|deno|bash|sh|zsh)")
_VERSIONED_RE = compile_regex(r"((?:python|pypy|pip|ruby|perl|php|node))[\d.]+")
_CHECK_NAMES = parse_word_set(
    """
    ava bazel build check clippy compile ctest cypress eslint flake8 gradle gradlew jest karma lint
    make mocha mvn mvnw mypy ninja nose2 nox phpunit playwright pre-commit pylint pyright pytest
    rspec ruff test tests tox tsc typecheck unittest verify vet vitest
    """
)
"""Programs and subcommands that tests, linters and builds are run with."""
_NOT_EXTENDABLE_RE = compile_regex(r"<<|\\\s*$|\b(?:set|shopt|exec|trap|PIPESTATUS)\b")
"""Here-documents, continued lines, and what changes how the shell itself runs or prints."""
_TRAILING_SEPARATORS_RE = compile_regex(r"(?<![\\;\s])[;\s]+$")
"""After the last command of a line; without an escaped `;`, which belongs to the command."""
_STOPPED_SIGNALS = frozenset({"SIGINT", "SIGTERM", "SIGHUP"})
_NO_FAILURE_CODES = frozenset({0, 124, 126, 127, 129, 130, 141, 143})
"""Success, stopped by `timeout`, a signal or the end of a pipe, could not be run at all."""


_MODULE_RUN_RE = compile_regex(r"\bpython[\d.]*(?: -[A-Zb-ln-z]\S*)* -m ([A-Za-z_]\w*)")
_MISSING_MODULE_RE = compile_regex(r"No module named '?([A-Za-z_]\w*)")


def is_program_missing(line: str, output: str) -> bool:
    """Whether a `python -m name` in the line failed because no such module is installed."""
    run = {match[1] for match in _MODULE_RUN_RE.finditer(line)}
    return any(match[1] in run for match in _MISSING_MODULE_RE.finditer(output))


def is_failure(exit_code: int | None, signal: str | None) -> bool:
    """Whether the command itself failed: it was neither stopped nor impossible to run."""
    if signal is not None:
        return signal not in _STOPPED_SIGNALS
    return exit_code is not None and exit_code not in _NO_FAILURE_CODES


def find_checks(line: str, *, anywhere: bool = False) -> tuple[CheckName, ...]:
    """Find the programs that decide the status of a line, each with its subcommand or script;
    without those whose status is no verdict. `anywhere`: all programs of the line, also before `;`
    and `|`."""
    sequences = _parse_line(line)
    if anywhere:
        pipelines = (pipeline for sequence in sequences for pipeline in sequence)
        return _name_checks(argv for pipeline in pipelines for argv in pipeline.commands)
    return _name_checks(_list_deciding_commands(sequences, has_passed=False))


PIPELINE_REPORT = "[joey: exit codes of the pipeline: "
"""How the line begins that the shell adds to the output if a program before the last one of a
pipeline failed (see `hides_failures`)."""


def find_passed_checks(line: str, output: str | None = None) -> tuple[CheckName, ...]:
    """Find the programs that must have succeeded if the line exited with 0 and, if known, this
    output."""
    sequences = _parse_line(line)
    passed = [*_list_deciding_commands(sequences, has_passed=True)]
    if output is not None and PIPELINE_REPORT not in output and hides_failures(line):
        pipeline = sequences[-1][-1]
        is_unclear = pipeline.is_alternative or _is_cut_short(pipeline.commands)
        passed += [] if is_unclear else pipeline.commands
    return _name_checks(passed)


def find_failed_in_pipeline(line: str, output: str) -> tuple[CheckName, int] | None:
    """Find the tests, linter or build whose failure the shell reported in a pipeline, and its exit
    code. What `head` cuts short may fail for that alone."""
    _, report, after = output.rpartition(PIPELINE_REPORT)
    if not report or not hides_failures(line):
        return None
    codes = after.partition(".")[0].split()
    commands = _parse_line(line)[-1][-1].commands
    if len(codes) != len(commands) or _is_cut_short(commands):
        return None
    for argv, code in zip(commands, codes, strict=True):
        checks = _name_checks([argv])
        if is_known_check(checks) and code.isdecimal() and is_failure(int(code), None):
            return checks[0], int(code)
    return None


def _is_cut_short(commands: list[list[str]]) -> bool:
    return any(argv[:1] == ["head"] for argv in commands)


def is_known_check(checks: tuple[CheckName, ...]) -> bool:
    """Whether these programs include tests, a linter or a build."""
    return any(part.lstrip("-") in _CHECK_NAMES for name in checks for part in name)


def are_variants(checks: tuple[CheckName, ...], others: tuple[CheckName, ...]) -> bool:
    """Whether two lines run the same program with any arguments: `pytest -x tests/a.py` and
    `pytest`, but not `npm test` and `npm install`."""
    return any(a[: min(len(a), len(b))] == b[: min(len(a), len(b))] for a in checks for b in others)


def hides_failures(line: str) -> bool:
    """Whether a line ends with a pipeline whose earlier programs may fail without affecting its
    exit code, and a line can safely be added after it."""
    if (
        len(line) > _MAX_READ_CHARS
        or _NOT_EXTENDABLE_RE.search(line)
        or not _has_closed_quotes(line)
    ):
        return False
    last = _parse_line(line)[-1]
    checks = _name_checks(argv for pipeline in last for argv in pipeline.commands)
    return len(last[-1].commands) > 1 and not last[-1].is_background and bool(checks)


def _has_closed_quotes(line: str) -> bool:
    try:
        shlex.split(line)
    except ValueError:
        return False
    return True


class _Pipeline(Struct):
    commands: list[list[str]]
    is_alternative: bool = False
    """`||` joins it to the pipeline before it."""
    is_background: bool = False
    is_piped: bool = False
    """In a group, such as `( … ) | tail`."""

    def has_verdict(self, options: str) -> bool:
        is_hidden = self.is_piped and "pipefail" not in options
        return not self.is_background and not is_hidden and self.commands[0][:1] != ["!"]


def _parse_line(line: str) -> list[list[_Pipeline]]:
    """Parse a line into parts separated by `;`, each with pipelines joined by `&&` and `||`."""
    head, mark, rest = line[:_MAX_READ_CHARS].partition("<<")
    line = head + mark + rest.partition("\n")[0]  # without here-documents
    line = _TRAILING_SEPARATORS_RE.sub("", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    sequences = [[_Pipeline([[]])]]
    starts_anew = skips_next = False
    try:
        for token in lexer:
            sequence = sequences[-1]
            if not token or token[0] not in _OPERATORS:
                if starts_anew and token not in _BLOCK_ENDS:
                    sequences.append([sequence.pop()])
                starts_anew = False
                if not skips_next:
                    sequences[-1][-1].commands[-1].append(token)
                skips_next = False
            elif token[0] in "<>" or token in ("&>", "&>>"):
                skips_next = True
            elif token.lstrip(")") in ("|", "|&"):
                if token[0] == ")":
                    sequence.append(_Pipeline([[]]))
                if _ends_group(sequence[-1].commands):
                    for pipeline in sequence[:-1]:
                        pipeline.is_piped = True
                    sequence[-1].commands[-1].clear()
                sequence[-1].commands.append([])
            else:
                sequence[-1].is_background = token == "&"
                sequence.append(_Pipeline([[]], token == "||"))
                starts_anew = token.strip() not in ("&&", "||", ")")
    except ValueError:  # an unclosed quote
        pass
    match sequences:
        case [[_Pipeline(commands=[[shell, option, script, *_]])]]:
            is_shell = PurePosixPath(shell).name in _SHELLS
            if is_shell and _SCRIPT_OPTION_RE.fullmatch(option) and _runs_known_check(script):
                return _parse_line(script)
    return sequences


def _runs_known_check(line: str) -> bool:
    return is_known_check(find_checks(line, anywhere=True))


def _ends_group(commands: list[list[str]]) -> bool:
    """Whether only redirections follow `)`, `}`, `fi`, `done` or `esac`."""
    (*earlier, last) = commands
    return not earlier and all(word in _BLOCK_ENDS or word.isdecimal() for word in last)


def _list_deciding_commands(
    sequences: list[list[_Pipeline]], *, has_passed: bool
) -> Iterator[list[str]]:
    heads = (pipeline.commands[0] for sequence in sequences for pipeline in sequence)
    options = " ".join(" ".join(argv) for argv in heads if argv[:1] == ["set"])
    match sequences:
        case [*_, [*_, pipeline], [_Pipeline(commands=[["exit", "${PIPESTATUS[0]}"]])]]:
            yield pipeline.commands[0]
            return
    for sequence in sequences if _ERREXIT_RE.search(options) else sequences[-1:]:
        alternatives = (n for n, each in enumerate(sequence, 1) if each.is_alternative)
        for pipeline in sequence[max(alternatives, default=0) if has_passed else 0 :]:
            if not pipeline.has_verdict(options):
                continue
            *earlier, last = pipeline.commands
            if "pipefail" in options and (has_passed or _are_filters(pipeline.commands[1:])):
                yield from earlier
            yield last


def _are_filters(commands: list[list[str]]) -> bool:
    return all(name[0] in _FILTERS for argv in commands if (name := _normalize(argv)))


def _name_checks(commands: Iterable[list[str]]) -> tuple[CheckName, ...]:
    return tuple(name for name in map(_normalize, commands) if name and not _is_lookup(name))


def _normalize(argv: list[str]) -> CheckName:
    """Return the program without its directory and launcher, and its subcommand or script."""
    while argv:
        first, second = argv[0], argv[1] if len(argv) > 1 else ""
        program = PurePosixPath(first).name
        if versioned := _VERSIONED_RE.fullmatch(program):
            program = versioned[1]
        if _ASSIGNMENT_RE.match(first):
            argv = argv[1:]
        elif program in _PREFIXES:
            argv = _skip(_PREFIX_ARGUMENT_RE, argv[1:])
        elif f"{program}:{second}" in _TWO_WORD_PREFIXES:
            argv = _skip(_PREFIX_ARGUMENT_RE, argv[2:])
        elif program == "timeout":
            argv = _skip(_TIMEOUT_ARGUMENT_RE, argv[1:])
        elif program == "git" and second.startswith("-") and second not in _LOOKUP_OPTIONS:
            argv = [first, *argv[3 if second in ("-C", "-c") else 2 :]]
        elif _INTERPRETER_RE.fullmatch(program):
            if second != "-m":
                return (program, second) if second else (program,)
            argv = argv[2:]
        elif program in _SCRIPT_RUNNERS and second in ("run", "run-script", "exec"):
            argv = [program, *argv[2:]]
        else:
            is_subcommand = second in _LOOKUP_OPTIONS or second.replace("-", "").isalpha()
            is_option = second.startswith("-") and second not in _LOOKUP_OPTIONS
            return (program, second) if is_subcommand and not is_option else (program,)
    return ()


def _skip(pattern: re.Pattern[str], argv: list[str]) -> list[str]:
    return list(dropwhile(pattern.fullmatch, argv))


def _is_lookup(name: CheckName) -> bool:
    program, argument = name[0], name[1] if len(name) > 1 else ""
    if program == "git":
        return argument in _GIT_LOOKUPS
    is_program_lookup = program in _LOOKUP_PROGRAMS or argument in _LOOKUP_OPTIONS
    return is_program_lookup or argument in _LOOKUP_SUBCOMMANDS
