"""What can be known of the values in a script before it runs.

Where the shell computes, a value may be code: `x='a[$(date)]'; echo $((x))` runs `date`. A variable
is known to hold a number, or a word without syntax, when the script gives it nothing else. The
environment that a script starts with is the user's, and is trusted.
"""

from __future__ import annotations

from joey.core.permissions.shell import word_set
from joey.core.permissions.shell_script import EXPANDED, Expansion, Kind, Script, Word
from joey.core.regex import regex

_NUMBER = regex(rf"[-+]?[0-9{EXPANDED}]+")
_RANGE = regex(r"\{-?\d+\.\.-?\d+(\.\.-?\d+)?\}")
_SIMPLE = regex(r"([\w./:,+@=^][\w./:,+@=^-]*)?")
"""No blank that would split it, no syntax, and not an option."""
_COUNTING = regex(
    r"seq( +-?\d+)+|date \+%s|nproc|wc -[lwcm] *(< *)?[\w./-]+|echo +-?\d+|(?P<last>wc -[lwcm])"
)
_JOINED = regex(r"[;&\n()`<>]")
_IDENTIFIER = regex(r"(?<![\w#])[A-Za-z_]\w*")
_COMPUTED_NAME = regex(rf"(?<!\w)[A-Za-z_]\w*+{EXPANDED}|{EXPANDED}[A-Za-z_]")
_OPERATORS = regex(rf"[\w\s{EXPANDED}+\-*/%<>=!&|^~?:;,()#]*")
_COUNTS = word_set("# ? $ ! EUID UID PPID SHLVL LINENO SECONDS RANDOM EPOCHSECONDS BASHPID OPTIND")
"""Parameters that are numbers, unless they are set."""
_UNKNOWN = regex(r"\d+|[@*_]|BASH_\w+|COMP_\w+|READLINE_\w+")
_SET_BY_SHELL = word_set("COPROC DIRSTACK FUNCNAME MAPFILE OLDPWD OPTARG PWD REPLY")
_MOST = 200
"""Variables; nobody writes more by hand."""


class Values:
    """What the variables of a script may hold, with those of the script `around` it."""

    def __init__(self, script: Script, around: Values | None) -> None:
        inherited = around.assignments if around else {}
        names = {*script.assignments, *inherited}
        self.assignments: dict[str, list[Word | None]] = {
            name: [*inherited.get(name, ()), *script.assignments.get(name, ())] for name in names
        }
        self._has_functions: bool = bool(script.functions or (around and around._has_functions))
        self._numbers: set[str] = set()

    def settle(self) -> None:
        """Find the variables that hold nothing but numbers, once all assignments are known."""
        self._numbers = set(self.assignments) if len(self.assignments) <= _MOST else set()
        while dropped := {name for name in self._numbers if not self._is_counted(name)}:
            self._numbers -= dropped

    def _is_counted(self, name: str) -> bool:
        return all(
            value is not None and (self.is_numeric(value) or _RANGE.fullmatch(value.text))
            for value in self.assignments[name]
        )

    def is_number(self, expansion: Expansion) -> bool:
        match expansion.kind:
            case Kind.NUMBER:
                return True
            case Kind.PARAMETER:
                return self._is_number(expansion.name)
            case Kind.ELEMENT:
                return expansion.name == "PIPESTATUS" and "PIPESTATUS" not in self.assignments
            case Kind.COMMAND:
                return not self._has_functions and _counts(expansion.raw)
        return False

    def _is_number(self, name: str) -> bool:
        if name in self.assignments:
            return name in self._numbers
        return name in _COUNTS or not _is_set_by_shell(name)

    def is_numeric(self, word: Word) -> bool:
        """Whether the word is a number, whatever its expansions give."""
        is_made_of_digits = _NUMBER.fullmatch(word.text) is not None and not word.has_pattern
        return is_made_of_digits and all(map(self.is_number, word.expansions))

    def is_harmless(self, expansion: Expansion) -> bool:
        """Whether it gives one word without syntax, or none."""
        if self.is_number(expansion):
            return True
        if expansion.kind is not Kind.PARAMETER or _is_set_by_shell(expansion.name):
            return False
        given = self.assignments.get(expansion.name, ())
        return all(
            value is not None and not value.expansions and _SIMPLE.fullmatch(value.text)
            for value in given
        )

    def only_computes(self, expression: Word) -> bool:
        """Whether an arithmetic expression holds numbers, and variables that hold numbers."""
        text = expression.text
        if not _OPERATORS.fullmatch(text) or _COMPUTED_NAME.search(text):
            return False
        names = _IDENTIFIER.findall(text)
        return all(map(self._is_number, names)) and all(map(self.is_number, expression.expansions))


def _is_set_by_shell(name: str) -> bool:
    return name in _SET_BY_SHELL or _UNKNOWN.fullmatch(name) is not None


def _counts(substitution: str) -> bool:
    """Whether commands print a number and nothing else: `$(ls | wc -l)`."""
    inner = substitution[2:-1] if substitution.startswith("$(") else substitution[1:-1]
    *before, last = (part.strip() for part in inner.split("|"))
    found = _COUNTING.fullmatch(last)
    if found is None or not all(before) or any(map(_JOINED.search, before)):
        return False
    return bool(before) or found["last"] is None
