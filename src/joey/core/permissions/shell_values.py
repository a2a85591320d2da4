"""Values in a shell script, and the builtins that evaluate them.

In arithmetic, a value may be code: `x='a[$(date)]'; echo $((x))` runs `date`. A variable is known
to hold a number, or a word without syntax, if the script assigns nothing else to it. The initial
environment of a script is the user's, and is trusted.

A variable name passed to a builtin may have a subscript, and a subscript may run a command: `printf
-v 'a[$(date)]' x` does. Only literal names are known to be names.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from msgspec import structs

from joey.core.permissions.programs import COMMAND_RUNNERS, normalize_program_name
from joey.core.permissions.shell import parse_word_set
from joey.core.permissions.shell_words import (
    EXPANSION_PLACEHOLDER,
    Expansion,
    ExpansionKind,
    ShellScript,
    Word,
)
from joey.core.text import compile_regex

_NUMBER_RE = compile_regex(rf"[-+]?[0-9{EXPANSION_PLACEHOLDER}]+")
_BRACE_RANGE_RE = compile_regex(r"\{-?\d+\.\.-?\d+(\.\.-?\d+)?\}")
_PLAIN_VALUE_RE = compile_regex(r"([\w./:,+@=^][\w./:,+@=^-]*)?")
"""No blank that would split it, no syntax, and not an option."""
_NUMBER_PRINTING_COMMAND_RE = compile_regex(
    r"seq( +-?\d+)+|date \+%s|nproc|wc -[lwcm] *(< *)?[\w./-]+|echo +-?\d+|(?P<last>wc -[lwcm])"
)
_COMMAND_SYNTAX_RE = compile_regex(r"[;&\n()`<>]")
_VARIABLE_NAME_RE = compile_regex(r"(?<![\w#])[A-Za-z_]\w*")
_COMPUTED_NAME_RE = compile_regex(
    rf"(?<!\w)[A-Za-z_]\w*+{EXPANSION_PLACEHOLDER}|{EXPANSION_PLACEHOLDER}[A-Za-z_]"
)
_ARITHMETIC_RE = compile_regex(rf"[\w\s{EXPANSION_PLACEHOLDER}+\-*/%<>=!&|^~?:;,()#]*")
_NUMERIC_PARAMETERS = parse_word_set(
    "# ? $ ! EUID UID PPID SHLVL LINENO SECONDS RANDOM EPOCHSECONDS BASHPID OPTIND"
)
"""Parameters that are numbers, unless they are set."""
_SHELL_SET_PARAMETER_RE = compile_regex(r"\d+|[@*_]|BASH_\w+|COMP_\w+|READLINE_\w+")
_SHELL_SET_VARIABLES = parse_word_set("COPROC DIRSTACK FUNCNAME MAPFILE OLDPWD OPTARG PWD REPLY")
_MAX_VARIABLES = 200


class VariableValues:
    """The values that a script's variables may hold, with those of the enclosing script
    (`outer_values`)."""

    def __init__(self, script: ShellScript, outer_values: VariableValues | None) -> None:
        inherited = outer_values.assignments if outer_values else {}
        names = {*script.assignments, *inherited}
        self.assignments: dict[str, list[Word | None]] = {
            name: [*inherited.get(name, ()), *script.assignments.get(name, ())] for name in names
        }
        self._has_functions: bool = bool(
            script.function_names or (outer_values and outer_values._has_functions)
        )
        self._numeric_variables: set[str] = set()

    def find_numeric_variables(self) -> None:
        """Find the variables that hold nothing but numbers, once all assignments are known."""
        if len(self.assignments) <= _MAX_VARIABLES:
            self._numeric_variables = set(self.assignments)
        while dropped := {
            name
            for name in self._numeric_variables
            for value in self.assignments[name]
            if value is None
            or not (self.is_numeric_word(value) or _BRACE_RANGE_RE.fullmatch(value.text))
        }:
            self._numeric_variables -= dropped

    def is_numeric_expansion(self, expansion: Expansion) -> bool:
        match expansion.kind:
            case ExpansionKind.NUMBER:
                return True
            case ExpansionKind.PARAMETER:
                return self._is_numeric_variable(expansion.parameter_name)
            case ExpansionKind.ARRAY_ELEMENT:
                name = expansion.parameter_name
                return name == "PIPESTATUS" and name not in self.assignments
            case ExpansionKind.COMMAND:
                return not self._has_functions and _is_number_printing_substitution(expansion.raw)
        return False

    def _is_numeric_variable(self, name: str) -> bool:
        if name in self.assignments:
            return name in self._numeric_variables
        return name in _NUMERIC_PARAMETERS or not _is_set_by_shell(name)

    def is_numeric_word(self, word: Word) -> bool:
        """Whether the word is a number, whatever its expansions produce."""
        is_made_of_digits = _NUMBER_RE.fullmatch(word.text) is not None and not word.has_pattern
        return is_made_of_digits and all(map(self.is_numeric_expansion, word.expansions))

    def is_harmless_expansion(self, expansion: Expansion) -> bool:
        """Whether it expands to one word without syntax, or none."""
        if self.is_numeric_expansion(expansion):
            return True
        if expansion.kind is not ExpansionKind.PARAMETER or _is_set_by_shell(
            expansion.parameter_name
        ):
            return False
        given = self.assignments.get(expansion.parameter_name, ())
        return all(
            value is not None and not value.expansions and _PLAIN_VALUE_RE.fullmatch(value.text)
            for value in given
        )

    def is_pure_arithmetic(self, expression: Word) -> bool:
        """Whether an arithmetic expression only has numbers, and variables that hold numbers."""
        text = expression.text
        if not _ARITHMETIC_RE.fullmatch(text) or _COMPUTED_NAME_RE.search(text):
            return False
        names = _VARIABLE_NAME_RE.findall(text)
        return all(map(self._is_numeric_variable, names)) and all(
            map(self.is_numeric_expansion, expression.expansions)
        )


def _is_set_by_shell(name: str) -> bool:
    return name in _SHELL_SET_VARIABLES or _SHELL_SET_PARAMETER_RE.fullmatch(name) is not None


def _is_number_printing_substitution(substitution: str) -> bool:
    """Whether commands print only a number: `$(ls | wc -l)`."""
    inner = substitution[2:-1] if substitution.startswith("$(") else substitution[1:-1]
    *before, last = (part.strip() for part in inner.split("|"))
    found = _NUMBER_PRINTING_COMMAND_RE.fullmatch(last)
    if found is None or not all(before) or any(map(_COMMAND_SYNTAX_RE.search, before)):
        return False
    return bool(before) or found["last"] is None


ParsedWords = tuple[Word, ...]

_IDENTIFIER_RE = compile_regex("[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT_RE = compile_regex(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_DECLARATION_BUILTINS = parse_word_set("declare export local readonly typeset")
_COMPARISON_OPERATORS = parse_word_set("= == != < > =~ -eq -ne -lt -le -gt -ge -nt -ot -ef")
_ARITHMETIC_COMPARISON_OPERATORS = parse_word_set("-eq -ne -lt -le -gt -ge")
_VARIABLE_TEST_OPERATORS = parse_word_set("-v -R")
_HARMLESS_TRAP_ARGUMENTS = ("", "-", "-l", "-p")
_LITERAL_NON_BRACKET_END_RE = compile_regex(rf"[^\]{EXPANSION_PLACEHOLDER}]\Z")
_NON_NAME_CHARACTER_RE = compile_regex(rf"[^\w{EXPANSION_PLACEHOLDER}-]")


def can_builtin_evaluate_arguments(words: ParsedWords, values: VariableValues) -> bool:
    """Whether a builtin may evaluate its arguments as code."""
    name, arguments = normalize_program_name(words[0].text), words[1:]
    match name:
        case "command" | "builtin":
            options = tuple(takewhile(lambda word: word.text.startswith("-"), arguments))
            rest = arguments[len(options) :]
            is_lookup = any(word.text in ("-v", "-V") for word in options)
            return not is_lookup and bool(rest) and can_builtin_evaluate_arguments(rest, values)
        case "eval" | "let" | "alias" | "bind" | "compgen" | "complete" | "enable" | "fc":
            return bool(arguments)
        case "trap":
            return bool(arguments) and not _is_literal_in(arguments[0], _HARMLESS_TRAP_ARGUMENTS)
        case "hash":
            return _may_have_option(arguments, "p")
        case "jobs":
            return _may_have_option(arguments, "x")
        case "set":
            options = tuple(takewhile(lambda word: word.text != "--", arguments))
            return _may_have_option(options, "k") or any(
                _is_literal_in(word, ("keyword", "history")) for word in options
            )
        case "mapfile" | "readarray":
            return _may_have_option(arguments, "C")
        case "getopts":
            return not all(map(_has_no_subscript, arguments[:2]))
        case "read":
            return not all(map(_has_no_subscript, arguments))
        case "wait":
            return not all(
                _has_no_subscript(word) or values.is_numeric_word(word) for word in arguments
            )
        case "unset":
            return not all(_is_variable_name_or_option(word) for word in arguments)
        case "printf":
            return _can_printf_set_variable(arguments, values)
        case "test" | "[":
            return _can_test_read_variable(arguments, values)
    return name in _DECLARATION_BUILTINS and _can_declaration_evaluate_arguments(words, values)


def can_condition_run_code(words: ParsedWords, values: VariableValues) -> bool:
    """Whether `[[ … ]]` with these words does arithmetic on unknown values, or reads a variable
    named by one."""
    for at, word in enumerate(words):
        before, after = words[max(at - 1, 0) : at], words[at + 1 : at + 2]
        is_numeric = all(map(values.is_numeric_word, (*before, *after)))
        if word.text in _ARITHMETIC_COMPARISON_OPERATORS and not is_numeric:
            return True
        is_named = all(map(_is_variable_name_or_option, after))
        if word.text in _VARIABLE_TEST_OPERATORS and not is_named:
            return True
    return False


def iter_assigned_variables(words: ParsedWords) -> Iterator[tuple[str, Word | None]]:
    """Iterate over the variables that a command sets by its arguments, with their literal
    values."""
    name = normalize_program_name(words[0].text)
    if name in ("command", "builtin"):
        rest = tuple(word for word in words[1:] if not word.text.startswith("-"))
        yield from iter_assigned_variables(rest) if rest else ()
    elif name in _DECLARATION_BUILTINS or name in COMMAND_RUNNERS:
        for word in words[1:]:
            if found := _ASSIGNMENT_RE.match(word.text):
                value = structs.replace(word, text=word.text[found.end() :])
                yield found[1], value if name in _DECLARATION_BUILTINS else None
    elif name in ("read", "mapfile", "readarray", "getopts", "wait"):
        for word in words[1:]:
            if _IDENTIFIER_RE.fullmatch(word.text):
                yield word.text, None


def _is_literal_in(word: Word, texts: tuple[str, ...]) -> bool:
    return word.is_literal and word.text in texts


def _may_have_option(words: ParsedWords, letter: str) -> bool:
    """Whether an option may be present; True if unknown."""
    return any(
        not word.is_literal or (word.text.startswith("-") and letter in word.text) for word in words
    )


def _is_variable_name_or_option(word: Word) -> bool:
    """Whether a word is the name of a variable, or an option of the command."""
    is_option = word.text.startswith("-") and "[" not in word.text
    return word.is_literal and (is_option or _IDENTIFIER_RE.fullmatch(word.text) is not None)


def _has_no_subscript(word: Word) -> bool:
    return word.is_literal and "[" not in word.text


def _can_declaration_evaluate_arguments(words: ParsedWords, values: VariableValues) -> bool:
    """Whether a declaration computes a name, or a value that it evaluates."""
    name = normalize_program_name(words[0].text)
    for word in words[1:]:
        if word.text.startswith("-"):
            evaluating = name in ("declare", "local", "typeset") and {"i", "n"} & set(word.text)
            if evaluating or not word.is_literal:
                return True
        elif not _ASSIGNMENT_RE.match(word.text):
            if not _is_variable_name_or_option(word):
                return True
        elif words[0].raw != name and any(not each.is_quoted for each in word.expansions):
            return True  # values are not split only if bash sees the builtin's name
    return False


def _can_printf_set_variable(arguments: ParsedWords, values: VariableValues) -> bool:
    """Whether printf has, or may have, the option `-v`."""
    if not arguments:
        return False
    first = arguments[0]
    if first.is_literal:
        return first.text.startswith("-") and first.text != "--"
    if first.has_pattern:
        return True
    if first.text[0] not in (EXPANSION_PLACEHOLDER, "-") or all(
        map(values.is_harmless_expansion, first.expansions)
    ):
        return False
    splits = any(not each.is_quoted for each in first.expansions)
    is_format = _LITERAL_NON_BRACKET_END_RE.search(first.text) and _NON_NAME_CHARACTER_RE.search(
        first.text
    )
    return splits or (len(arguments) > 1 and not is_format)


def _can_test_read_variable(arguments: ParsedWords, values: VariableValues) -> bool:
    """Whether a value may make `test` read a variable (`-v`)."""
    words = tuple(word for word in arguments if word.raw != "]")
    for word in words:
        splits = (each for each in word.expansions if not each.is_quoted)
        if word.has_pattern or not all(map(values.is_harmless_expansion, splits)):
            return True
    while words and _is_literal_in(words[0], ("!",)):
        words = words[1:]
    for at, word in enumerate(words[:-1]):
        if word.text in _VARIABLE_TEST_OPERATORS and not _is_variable_name_or_option(words[at + 1]):
            return True
    if all(
        word.is_literal or all(map(values.is_harmless_expansion, word.expansions)) for word in words
    ):
        return False
    match len(words):
        case 0 | 1:
            return False
        case 2:
            return not (words[0].is_literal and words[0].text.startswith("-"))
        case 3:
            return not _is_literal_in(words[1], tuple(_COMPARISON_OPERATORS))
    return True
