"""Code that a command line contains or computes, hidden from deny rules.

The effect of the project's own programs is not examined (`npm test`, `./build`). But code,
settings, files and names in the line itself are a way around the rules, and their effect cannot be
determined from the line.

The shell evaluates data in more places than `eval`: `${x@P}` expands a value like a prompt, and
arithmetic runs the commands in a subscript, wherever the value comes from. Programs named by a
value, variables that choose which programs are run, and code passed to another shell are found too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import pairwise

from msgspec import Struct

from joey.core.permissions import shell_values
from joey.core.permissions.git_commands import find_program_running_argument
from joey.core.permissions.programs import (
    COMMAND_RUNNERS,
    EXEC_ARGUMENTS_BY_PROGRAM,
    VERSION_CHARACTERS,
    can_execute_input,
    find_started_program_index,
    normalize_interpreter_name,
    normalize_program_name,
)
from joey.core.permissions.script_programs import (
    find_script_indexes,
    is_harmless_awk,
    is_harmless_sed,
)
from joey.core.permissions.shell import Words, parse_plain_chain, parse_word_set
from joey.core.permissions.shell_parser import parse_script
from joey.core.permissions.shell_words import (
    EXPANSION_PLACEHOLDER,
    ShellScript,
    SimpleCommand,
    UnsupportedSyntaxError,
    Word,
)
from joey.core.text import compile_regex

_MAX_NESTED_SHELLS = 8
_MAX_INNER_COMMAND_LINES = 100
_MAX_EXCERPT_CHARS = 60
_CODE_LOADING_VARIABLE_RE = compile_regex(
    r"PATH|CDPATH|BASH_.*|ENV|IFS|PS[0-4]|SHELL|SHELLOPTS|BASHOPTS|BROWSER|VISUAL|LESS|FCEDIT"
    r"|RUBYOPT|RUBYLIB|MAKEFLAGS|GOFLAGS|ZDOTDIR|INPUTRC|VIMINIT|EXINIT|LUA_INIT\w*|PHPRC"
    r"|PHP_INI_SCAN_DIR|RSYNC_RSH|CVS_RSH|SVN_SSH|OPENSSL_CONF|DOTNET_STARTUP_HOOKS|RUSTC\w*"
    r"|PYTEST_(ADDOPTS|PLUGINS)|(npm|NPM)_(config|CONFIG)_(script_shell|SCRIPT_SHELL)"
    r"|\w*(PAGER|EDITOR|_COMMAND|_OPTIONS|OPEN|CLOSE|ASKPASS|_WRAPPER)"
    r"|(LD|GIT|DYLD|PYTHON|PERL5?)_?\w*"
)
"""Variables by which programs choose what else to run."""
_INTEGER_VARIABLES = parse_word_set(
    "BASHPID EPOCHSECONDS HISTCMD LINENO OPTIND RANDOM SECONDS SRANDOM"
)
"""Variables whose new value bash evaluates."""
_SHELL_CODE_RUNNERS = parse_word_set(
    ". ash bash busybox concurrently dash entr eval flock git hyperfine parallel script sh source"
    " ssh su tmux watch xargs"
)
"""Take code of this shell, as an argument or from their input."""
_NON_BASH_SHELLS = parse_word_set("csh elvish fish ksh lksh mksh nu posh rc tcsh xonsh yash zsh")
_ENV_SPLIT_STRING_OPTION_RE = compile_regex(r"-[A-Za-z0-9]*S.*|--sp?l?i?t?-?s?t?r?i?n?g?(=.*)?")


class EvaluationKind(Enum):
    """The kind of evaluation, given as the reason for approval."""

    ARITHMETIC = "evaluates a value as arithmetic"
    BUILTIN = "evaluates its arguments"
    PARAMETER_EXPANSION = "evaluates a value"
    GIT_PROGRAM = "makes git run a program"
    INNER_SHELL_CODE = "is code for another shell"
    PROCESS_SUBSTITUTION = "runs commands in a process substitution"
    COMPUTED_PROGRAM = "computes what program it runs"
    UNSUPPORTED_SYNTAX = "is more than can be read"
    CODE_LOADING_VARIABLE = "decides what else is run"


class EvaluatedCode(Struct, frozen=True):
    kind: EvaluationKind
    excerpt: str


def find_evaluated_code(line: str) -> EvaluatedCode | None:
    """Find the first part of a line that may evaluate data as code."""
    return next(_iter_evaluated_code(line, None, 0), None)


def _iter_evaluated_code(
    line: str, outer_values: shell_values.VariableValues | None, depth: int
) -> Iterator[EvaluatedCode]:
    try:
        script = parse_script(line)
    except UnsupportedSyntaxError:
        yield _build_evaluated_code(EvaluationKind.UNSUPPORTED_SYNTAX, line)
        return
    values = shell_values.VariableValues(script, outer_values)
    for command in script.commands:
        for name, value in (
            shell_values.iter_assigned_variables(command.words) if command.words else ()
        ):
            values.assignments.setdefault(name, []).append(value)
    values.find_numeric_variables()
    yield from _iter_evaluated_expansions(script, values)
    yield from _iter_unsafe_assignments(script, values)
    for command in script.commands:
        if command.words:
            yield from _iter_code_in_command(command.words, values)
    yield from _iter_code_for_inner_shells(script, values, depth)


def _iter_evaluated_expansions(
    script: ShellScript, values: shell_values.VariableValues
) -> Iterator[EvaluatedCode]:
    for raw in script.process_substitutions:
        yield _build_evaluated_code(EvaluationKind.PROCESS_SUBSTITUTION, raw)
    for parameter in script.indirect_or_transformed_parameters:
        if parameter.is_indirect or parameter.transformation in ("P", "E"):
            yield _build_evaluated_code(EvaluationKind.PARAMETER_EXPANSION, parameter.raw)
    for expression in script.arithmetic_expressions:
        if not values.is_pure_arithmetic(expression):
            yield _build_evaluated_code(EvaluationKind.ARITHMETIC, expression.raw)
    for words in script.conditions:
        if shell_values.can_condition_run_code(words, values):
            yield _build_evaluated_code(EvaluationKind.ARITHMETIC, _join_raw_words(words))


def _iter_unsafe_assignments(
    script: ShellScript, values: shell_values.VariableValues
) -> Iterator[EvaluatedCode]:
    for name, given in values.assignments.items():
        if name in _INTEGER_VARIABLES:
            if not all(value is not None and values.is_numeric_word(value) for value in given):
                yield _build_evaluated_code(EvaluationKind.ARITHMETIC, name)
        elif _CODE_LOADING_VARIABLE_RE.fullmatch(name):
            setting = [each for each in script.commands if name in each.assigned_variables]
            is_for_read = all(_get_program_name(command) == "read" for command in setting)
            if name != "IFS" or len(given) != len(setting) or not is_for_read:
                yield _build_evaluated_code(EvaluationKind.CODE_LOADING_VARIABLE, f"{name}=")


def _iter_code_in_command(
    words: tuple[Word, ...], values: shell_values.VariableValues
) -> Iterator[EvaluatedCode]:
    first, name = words[0], normalize_program_name(words[0].text)
    starters = EXEC_ARGUMENTS_BY_PROGRAM.get(name, frozenset())
    named = [after for word, after in pairwise(words) if word.text in starters]
    runs = COMMAND_RUNNERS.intersection(
        (name, *(normalize_program_name(word.text) for word in named))
    )
    if first.raw != "[":
        named.append(first)
    if not all(word.is_literal for word in (words if runs else named)):
        yield _build_evaluated_code(EvaluationKind.COMPUTED_PROGRAM, _join_raw_words(words))
    if name == "git" and (
        given := find_program_running_argument(tuple(word.text for word in words))
    ):
        yield _build_evaluated_code(
            EvaluationKind.GIT_PROGRAM, given.replace(EXPANSION_PLACEHOLDER, "$")
        )
    if shell_values.can_builtin_evaluate_arguments(words, values):
        yield _build_evaluated_code(EvaluationKind.BUILTIN, _join_raw_words(words))
    if name in COMMAND_RUNNERS:
        for word in words[1:]:
            variable, sign, _ = word.text.partition("=")
            if sign and _CODE_LOADING_VARIABLE_RE.fullmatch(variable):
                yield _build_evaluated_code(EvaluationKind.CODE_LOADING_VARIABLE, f"{variable}=")
        if name == "env" and any(
            _ENV_SPLIT_STRING_OPTION_RE.fullmatch(word.text) for word in words[1:]
        ):
            yield _build_evaluated_code(EvaluationKind.INNER_SHELL_CODE, _join_raw_words(words))


def _iter_code_for_inner_shells(
    script: ShellScript, values: shell_values.VariableValues, depth: int
) -> Iterator[EvaluatedCode]:
    """Iterate over code given to other shells, as an argument or as input."""
    given: dict[str, frozenset[str]] = {}
    for command in script.commands:
        lines = _list_inner_command_lines(command)
        shells = _find_shells([command]) if lines else frozenset()
        for text in lines:
            given[text] = given.get(text, frozenset()) | shells
    for command in script.commands:
        name = _get_program_name(command)
        # Here-documents of a group go to any of its commands.
        is_own = bool(name) and name != "exec" and name not in script.function_names
        takers = [command] if is_own else script.commands
        shells = _find_shells(takers) if command.here_inputs else frozenset()
        for word in command.here_inputs:
            names = set(map(_get_program_name, takers)) - COMMAND_RUNNERS - {""}
            if word.expansions and (shells or any(can_execute_input((each,)) for each in names)):
                yield _build_evaluated_code(EvaluationKind.INNER_SHELL_CODE, word.raw)
            elif shells:
                given[word.text] = shells
    if depth >= _MAX_NESTED_SHELLS or len(given) > _MAX_INNER_COMMAND_LINES:
        yield from (_build_evaluated_code(EvaluationKind.INNER_SHELL_CODE, text) for text in given)
        return
    for text, shells in given.items():
        if shells & _NON_BASH_SHELLS and parse_plain_chain(text) is None:
            yield _build_evaluated_code(EvaluationKind.INNER_SHELL_CODE, text)
        for found in _iter_evaluated_code(text, values, depth + 1):
            # For a program other than a shell it may be a pattern or a sentence.
            if found.kind is not EvaluationKind.UNSUPPORTED_SYNTAX or shells:
                yield found


def _list_inner_command_lines(command: SimpleCommand) -> list[str]:
    """List the arguments that another shell parses as a command line."""
    words = tuple(word.text for word in command.words)
    if _get_program_name(command) == "git" and EXEC_ARGUMENTS_BY_PROGRAM["git"].intersection(words):
        return [*words[1:]]
    return find_inner_command_lines(words) if words else []


def _get_program_name(command: SimpleCommand) -> str:
    return normalize_program_name(command.words[0].text) if command.words else ""


def _find_shells(commands: list[SimpleCommand]) -> frozenset[str]:
    """The shells that the commands name."""
    named = (normalize_program_name(word.text) for command in commands for word in command.words)
    return (_SHELL_CODE_RUNNERS | _NON_BASH_SHELLS).intersection(named)


def _join_raw_words(words: tuple[Word, ...]) -> str:
    return " ".join(word.raw for word in words)


def _build_evaluated_code(kind: EvaluationKind, text: str) -> EvaluatedCode:
    excerpt = " ".join(text.split())
    return EvaluatedCode(
        kind, excerpt if len(excerpt) <= _MAX_EXCERPT_CHARS else f"{excerpt[:_MAX_EXCERPT_CHARS]}…"
    )


_CODE_CHARACTER_RE = compile_regex(r"[^\w\-./:,+@%=^~]")
_SHELL_SYNTAX_RE = compile_regex(r"[^\w\-./:,+@%=^]")
_SED_PROGRAMS = parse_word_set("sed gsed")
_AWK_PROGRAMS = parse_word_set("awk gawk mawk nawk original-awk goawk")
_WINDOWS_SHELLS = parse_word_set("cmd powershell pwsh")
"""Their quoting is another than bash's, and they take code in disguise."""
_SED_EXECUTE_RE = compile_regex(r"(?<![A-Za-z0-9])[gpiImM0-9]*e[gpiImM0-9]*(?:\s|$|[;}])")
_AWK_EXECUTE_RE = compile_regex(r"system|[|@]")
_OUTPUT_REDIRECTION_RE = compile_regex(r">\|?\s*([^\s;&|()<>]+)")
_INPUT_REDIRECTION_RE = compile_regex(r"(?<!<)<\s*[^\s;&|()<>]")
_COMMAND_SUBSTITUTION_RE = compile_regex(r"[$]\(|`")
_FILE_CREATING_PROGRAMS = parse_word_set(
    "base64 cp curl dd hash install ln mv openssl rsync tee wget xxd"
)
_HARMLESS_GIT_SETTING_RE = compile_regex(
    r"(user|color|advice)\.|(core\.(quotepath|autocrlf)|commit\.gpgsign|init\.defaultbranch)=",
    re.IGNORECASE,
)
_BUILTIN_GIT_SUBCOMMANDS = parse_word_set(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore"
    " checkout cherry cherry-pick clean clone commit commit-tree config count-objects describe diff"
    " diff-files diff-index diff-tree difftool fetch filter-branch for-each-ref format-patch fsck"
    " gc grep hash-object help init log ls-files ls-remote ls-tree maintenance merge merge-base"
    " merge-file merge-tree mergetool mv name-rev notes prune pull push range-diff read-tree rebase"
    " reflog remote repack replace rerere reset restore rev-list rev-parse revert rm shortlog show"
    " show-branch show-ref sparse-checkout stash status submodule switch symbolic-ref tag"
    " update-index update-ref var verify-commit verify-tag version whatchanged worktree write-tree"
)
"""Nothing in anybody's settings takes their place."""


def find_inner_command_lines(words: Words) -> list[str]:
    """Find arguments that another shell may parse as a command line."""
    name = normalize_program_name(words[0])
    starters = EXEC_ARGUMENTS_BY_PROGRAM.get(name, frozenset())
    started = (normalize_program_name(after) for word, after in pairwise(words) if word in starters)
    if not COMMAND_RUNNERS.intersection((name, *started)):
        return []
    return [text for text in words[1:] if _SHELL_SYNTAX_RE.search(text)]


def find_code_concern(words: Words) -> str | None:
    """Find a concern about code in the command's arguments."""
    name = normalize_program_name(words[0])
    if name in _SED_PROGRAMS | _AWK_PROGRAMS:
        runs, is_harmless = _AWK_EXECUTE_RE, is_harmless_awk
        if name in _SED_PROGRAMS:
            runs, is_harmless = _SED_EXECUTE_RE, is_harmless_sed
        scripts = [words[at] for at in find_script_indexes(words) if at < len(words)]
        hidden = any(runs.search(text) and not is_harmless(text) for text in scripts)
    elif name in _WINDOWS_SHELLS:
        hidden = len(words) > 1 and words[1] not in ("--version", "-version")
    else:
        at = find_started_program_index(name, words)
        bare = name.rstrip(VERSION_CHARACTERS) or name
        is_language = at is not None and bare == normalize_interpreter_name(name)
        hidden = is_language and any(map(_CODE_CHARACTER_RE.search, words[1 : (at or 0) + 1]))
    return f"what the code for {name} does is known only when it runs" if hidden else None


def find_git_alias_or_setting_concern(words: Words) -> str | None:
    """Find a concern about a git command that settings determine: an alias, or a setting on the
    line."""
    if normalize_program_name(words[0]) != "git":
        return None
    at = 1
    while at < len(words) and words[at].startswith("-"):
        option, _, value = words[at].partition("=")
        if option == "-c":
            value = words[at + 1] if at + 1 < len(words) else ""
        if option in ("--config-env", "--exec-path") and value:
            return f"`{words[at]}` decides what git does"
        if option.startswith("-c") and not _HARMLESS_GIT_SETTING_RE.match(value or option[2:]):
            return f"the setting `{value or option[2:]}` decides what git does"
        at += 2 if words[at] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace") else 1
    if at < len(words) and words[at] not in _BUILTIN_GIT_SUBCOMMANDS:
        return f"`git {words[at]}` may be an alias for something else"
    return None


def find_created_program(line: str, commands: Sequence[Words]) -> str | None:
    """Find a program that the line seems to create, or feed from a file, and runs; `commands` are
    without redirections."""
    created = {_get_basename(target) for target in _OUTPUT_REDIRECTION_RE.findall(line)}
    makers = [
        words for words in commands if normalize_program_name(words[0]) in _FILE_CREATING_PROGRAMS
    ]
    created.update(_get_basename(word) for words in makers for word in words[1:])
    if makers and _COMMAND_SUBSTITUTION_RE.search(line):
        # The words after a computed part are separate.
        created.update(words[0] for words in commands if len(words) == 1)
    for words in commands:
        name = normalize_program_name(words[0])
        carries_out = name in COMMAND_RUNNERS or can_execute_input(words)
        ran = words if carries_out else words[:1]
        if (
            carries_out
            and len(words) == sum(word.startswith("-") for word in words[1:]) + 1
            and _INPUT_REDIRECTION_RE.search(line)
        ):
            return name
        found = next((word for word in ran if _get_basename(word) in created), None)
        if found is not None and (carries_out or found != _get_basename(found) or len(words) > 1):
            return found
    return None


def _get_basename(word: str) -> str:
    return word.rpartition("/")[2]
