"""Scripts of sed and awk: the part of these languages that only computes and prints.

sed and awk can write files, read others and run commands. A script that is fully recognised here
can do none of that; any other script needs approval.
"""

from __future__ import annotations

import re

from joey.core.permissions.shell import Words, parse_word_set
from joey.core.text import compile_regex

_SED_DELIMITED_TEMPLATE = r"(?:[^{d}\\\n]|\\[^\n])*+"
_SED_ADDRESS_RE = r"(?:\d+(?:~\d+)?|\$|/" + _SED_DELIMITED_TEMPLATE.format(d="/") + r"/I?)"
_SED_SUBSTITUTION_RE = "|".join(
    f"s{mark}{_SED_DELIMITED_TEMPLATE.format(d=mark)}{mark}{_SED_DELIMITED_TEMPLATE.format(d=mark)}{mark}[gpiI0-9]*"
    for mark in ("/", "[|]", "#", ",", "@")
).replace("[^[|]", "[^|")
_SED_COMMAND_RE = (
    rf"(?>(?:{_SED_ADDRESS_RE}(?: *, *(?:{_SED_ADDRESS_RE}|\+\d+))?(?: *! *| *))?"
    rf"(?:[pdqPDGHhgxnN=]|{_SED_SUBSTITUTION_RE}))"
)
_SED_SEPARATOR_RE = r"[ \t]*[;\n][ \t;\n]*"
_SED_SCRIPT_RE = rf"[ \t\n]*{_SED_COMMAND_RE}(?:{_SED_SEPARATOR_RE}{_SED_COMMAND_RE})*+[ \t;\n]*"
"""Compiled when the first script comes: that takes longer than the rest of this module."""
_HARMLESS_SED_OPTION_RE = compile_regex(
    r"-[nErsuz]*e?|--(quiet|silent|regexp-extended|null-data|separate)"
)
_SED_EXPRESSION_OPTION_RE = compile_regex(r"--expression(=.*)?", re.DOTALL)
_SED_BRACKET_EXPRESSION_RE = compile_regex(
    r"\\.|(?P<set>\[\^?\]?(?:[^\[\]\\]|\[(?![:.=])|\[:[a-z]+:\]|\\[^\[\]\\])*\])|(?P<open>\[)",
    re.DOTALL,
)
"""A set of characters of which every sed knows the end, or one of which some may not."""
_SED_DELIMITER_RE = compile_regex(r"s([/|#,@])")

_AWK_TOKEN_RE = compile_regex(
    r"""
      (?P<space>[ \t]+)
    | (?P<end>[\n;,])
    | (?P<text>"(?:[^"\\\n]|\\[^\n])*")
    | (?P<name>[A-Za-z_]\w*)(?P<call>\()?
    | (?P<number>[0-9]+\.?[0-9]*(?:[eE][0-9]+)?(?![\w.]))
    | (?P<brace>[{}])
    | (?P<more>>=?)
    | (?P<mark>[()!~$\[\]+*%^?:-]|&&|\|\||<=?|==?)
    """,
    re.VERBOSE,
)
_UNSAFE_AWK_RE = compile_regex(r"[>|@]|system|getline|extension|ARGV|ENVIRON|PROCINFO|SYMTAB")
"""A script without these computes and prints, however it is read."""
_AWK_LEADING_PATTERN_RE = compile_regex(r"[ \t\n]*/[^/\\\n\[\]]+/")
"""At the beginning of a script, where no awk divides."""
_AWK_PRINT_STATEMENTS = parse_word_set("print printf")
_AWK_BUILTIN_NAMES = parse_word_set(
    "BEGIN END NR NF FNR FS OFS RS ORS SUBSEP RSTART RLENGTH FILENAME CONVFMT OFMT"
)
_HARMLESS_AWK_FUNCTIONS = parse_word_set(
    "length substr index split sub gsub gensub match sprintf sin cos atan2 exp log sqrt int rand"
    " srand tolower toupper strftime systime asort asorti and or xor lshift rshift compl"
    " if for while print printf return in"
)
_FORBIDDEN_AWK_NAMES = parse_word_set(
    "system getline close fflush function func include load namespace nextfile"
)
_HARMLESS_AWK_OPTION_RE = compile_regex(r"-F.*|-v", re.DOTALL)
_MAX_SCRIPT_CHARS = 2_000
"""Longer ones are for a user."""


def find_sed_concern(words: Words, granted: int) -> str | None:
    """Return why the user should review a sed command beyond its first `granted` words."""
    scripts, problem = _find_sed_script_indexes(words, granted)
    if problem is not None:
        return problem
    for at in scripts:
        script = words[at].partition("=")[2] if words[at].startswith("--") else words[at]
        if at >= granted and not is_harmless_sed(script):
            return "the script of sed can do more than print"
    return None


def find_script_indexes(words: Words) -> frozenset[int]:
    """Find the words that are scripts, and so never name a file."""
    if words[0].endswith("sed"):
        return frozenset(_find_sed_script_indexes(words, 0)[0])
    separators = (at for at, word in enumerate(words) if word.startswith("-F"))
    return frozenset({_find_awk_script_index(words), *separators})


def _find_sed_script_indexes(words: Words, granted: int) -> tuple[list[int], str | None]:
    """Find the indices of the scripts, and the first option that is not harmless."""
    scripts: list[int] = []
    operands: list[int] = []
    problem: str | None = None
    is_script = False
    for at, word in enumerate(words[1:], start=1):
        if is_script:
            scripts.append(at)
            is_script = False
        elif _SED_EXPRESSION_OPTION_RE.fullmatch(word):
            is_script = "=" not in word
            scripts += [] if is_script else [at]
        elif word.startswith("-") and word != "-":
            is_script = word.endswith("e") and not word.startswith("--")
            if at >= granted and word != "--" and not _HARMLESS_SED_OPTION_RE.fullmatch(word):
                problem = problem or f"option `{word}` of sed is not known to be harmless"
        else:
            operands.append(at)
    return scripts or operands[:1], problem


def is_harmless_sed(script: str) -> bool:
    if len(script) > _MAX_SCRIPT_CHARS:
        return False
    # Not every sed ends a pattern at a delimiter in brackets.
    marks = {"/", *_SED_DELIMITER_RE.findall(script)}
    for found in _SED_BRACKET_EXPRESSION_RE.finditer(script):
        if found["open"] or marks.intersection(found["set"] or ""):
            return False
    return re.fullmatch(_SED_SCRIPT_RE, script) is not None


def find_awk_concern(words: Words, granted: int) -> str | None:
    """Return why the user should review an awk command beyond its first `granted` words."""
    script_index = _find_awk_script_index(words)
    for at, word in enumerate(words[1:], start=1):
        is_option = word.startswith("-") and word != "-" and at != script_index
        if at >= granted and is_option and not _HARMLESS_AWK_OPTION_RE.fullmatch(word):
            return f"option `{word}` of awk is not known to be harmless"
    if granted <= script_index < len(words) and not is_harmless_awk(words[script_index]):
        return "the script of awk can do more than print"
    return None


def _find_awk_script_index(words: Words) -> int:
    """Find the index of the script; the number of words if there is none."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-F", "-v") else 1
    return at


def is_harmless_awk(script: str) -> bool:
    """Whether the script can only compute and print. Awks differ on whether a slash begins a
    pattern or divides, so slashes are accepted only in a first pattern."""
    if len(script) > _MAX_SCRIPT_CHARS:
        return False
    if _UNSAFE_AWK_RE.search(script) is None:
        return True
    first = _AWK_LEADING_PATTERN_RE.match(script)
    at = first.end() if first else 0
    depth = parens = 0
    while at < len(script):
        token = _AWK_TOKEN_RE.match(script, at)
        if token is None or (token["name"] and not _is_harmless_awk_name(token)):
            return False
        if token["more"] and depth > 0 and parens == 0:
            return False  # there it may redirect output to a file
        if parens and token["name"] in _AWK_PRINT_STATEMENTS:
            return False  # `for (…; …; print > "x")`
        depth += {"{": 1, "}": -1}.get(token["brace"] or "", 0)
        parens += {"(": 1, ")": -1}.get(token[0][-1] if not token["text"] else "", 0)
        if parens < 0 or (parens and token["brace"]):
            return False
        at = token.end()
    return depth == parens == 0


def _is_harmless_awk_name(token: re.Match[str]) -> bool:
    name = token["name"]
    if token["call"]:
        return name in _HARMLESS_AWK_FUNCTIONS
    return name in _AWK_BUILTIN_NAMES or not (name.isupper() or name in _FORBIDDEN_AWK_NAMES)
