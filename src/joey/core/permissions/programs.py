"""Arguments that turn an allowed program into something else.

A rule names a program and perhaps its first arguments; whatever follows was chosen by the model.
Programs that run other programs, and those that write files or run code when told to by an
argument (see `sheets`), are approved only with arguments known to be harmless. A path that leaves
the workspace always needs a look.
"""

from __future__ import annotations

import re
from functools import cache

from joey.core.permissions.building_programs import BUILDING
from joey.core.permissions.changing_programs import (
    CHANGING,
    COMMANDED,
    LANGUAGES,
    NOTHING,
    TOLD,
    UNFAMILIAR,
)
from joey.core.permissions.git import git_concern, git_paths, git_values, only_looks
from joey.core.permissions.reading_programs import PLAIN, READING
from joey.core.permissions.runners import (
    INTERPRETERS,
    RUNNERS,
    SHELL_STATE,
    VERSION,
    bare_name,
    runner_concern,
    started_at,
)
from joey.core.permissions.scripts import awk_concern, script_words, sed_concern
from joey.core.permissions.sheets import Sheet, read_arguments, sheet_concern
from joey.core.permissions.shell import Words, without_ending, word_set
from joey.core.regex import regex

MOVERS = frozenset({"cd", "pushd"})
_SCRIPTED = {"sed": sed_concern, "gsed": sed_concern} | dict.fromkeys(
    ("awk", "gawk", "mawk", "nawk", "original-awk", "goawk"), awk_concern
)
_SCRIPT_FILE = regex("-[A-Za-z]*f|--(file|exec)")
_ALIASES = {
    "[": "test",
    "batcat": "bat",
    "dir": "ls",
    "egrep": "grep",
    "fdfind": "fd",
    "fgrep": "grep",
    "gradlew": "gradle",
    "mvnw": "mvn",
    "ncat": "nc",
    "netcat": "nc",
    "pip3": "pip",
    "podman": "docker",
    "py.test": "pytest",
    "vdir": "ls",
    "zegrep": "grep",
    "zfgrep": "grep",
    "zgrep": "grep",
    "zless": "less",
}
_PLAIN = word_set(PLAIN)
_READERS = frozenset(READING) | _PLAIN
_LITERAL = word_set("fd fdfind find git jq rg grep egrep fgrep yq") | frozenset(_SCRIPTED)
"""Their arguments are text to them, whatever a shell would make of it."""
_OUTSIDE = regex(
    r"""
      ( ^ | [=,@] | :(?!//) ) [/~]
    | ( ^ | [=,@:/] ) \.\. ( / | $ )
    | ^ -[A-Za-z]+ ( [/~] | \.\. ( / | $ ) )
    | \b file:
    """,
    re.VERBOSE | re.IGNORECASE,
)
_STORING = regex(r"%[^%A-Za-z\\]*[hjlLtz]*n")
_EVALUATED = regex(r"`|\$[({\[]")
"""Quoted, this is text to the shell; builtins that compute may still carry it out."""
_CURL_OUTPUT = regex("-[46GILSfiksv]*o|--output")
_CURL_REPORT = regex("-[46GILSfiksv]*w|--write-out")
_REPORTED = regex(r"(?:[^%@]|%\{[a-z_]+\})(?:[^%]|%\{[a-z_]+\})*")
"""Numbers about a transfer; other signs behind `%` write files."""
_ABOUT_ITSELF = (("--version",), ("--help",))


def program_name(word: str) -> str:
    return without_ending(word.rpartition("/")[2].casefold())


def carries_out_input(words: Words) -> bool:
    """Might the program do what the text says that is fed to it?"""
    name = program_name(words[0])
    if name in _SCRIPTED:
        return any(map(_SCRIPT_FILE.match, words))
    return bool({name, name.rstrip(VERSION)} & (RUNNERS | INTERPRETERS))


def concern(words: Words, granted: int) -> str | None:
    """Why a person should see the arguments after the first `granted` words, or None.

    A command that is its rule word for word has nothing left to worry about.
    """
    name, rest = program_name(words[0]), words[granted:]
    if name in MOVERS and all(word.startswith("-") for word in words[1:]):
        return f"{name} without a folder leaves the workspace"
    if not rest or (words[1:] in _ABOUT_ITSELF and name not in RUNNERS):
        return None
    if reason := runner_concern(name, words, granted):
        return reason
    if name in SHELL_STATE:
        return f"{name} changes how later commands are understood"
    for word in path_words(words, granted):
        if leaves_workspace(word):
            return f"`{word}` may lie outside the workspace"
    if name not in _LITERAL:
        for word in rest:
            if _EVALUATED.search(word):
                return f"`{word}` may be evaluated"
    return _own_concern(name, words, granted)


def _own_concern(name: str, words: Words, granted: int) -> str | None:
    """What is known of this very program."""
    if name == "git":
        return git_concern(words, granted)
    if name in _SCRIPTED:
        return _SCRIPTED[name](words, granted)
    if name == "printf":
        return _printf_concern(words[granted:])
    if name == "curl":
        words = _without_reports(words, granted)
    at = started_at(name, words)
    if at is not None and at < min(granted, len(words)):
        return _own_concern(bare_name(words[at]), words[at:], granted - at)
    sheet = _sheet(name)
    return None if sheet is None else sheet_concern(name, words, granted, sheet)


def _without_reports(words: Words, granted: int) -> Words:
    """Without what makes curl drop what it gets, and tell about it: `-o /dev/null -w '%{…}'`."""
    kept: list[str] = list(words[:granted])
    rest = list(words[granted:])
    while rest:
        word, value = rest.pop(0), rest[0] if rest else ""
        drops = _CURL_OUTPUT.fullmatch(word) and value == "/dev/null"
        if drops or (_CURL_REPORT.fullmatch(word) and _REPORTED.fullmatch(value)):
            del rest[0]
            word = "-s" if word.startswith("--") else word[:-1]
        if word != "-":
            kept.append(word)
    return tuple(kept)


def path_words(words: Words, granted: int) -> tuple[str, ...]:
    """The words beyond the rule that may name a file; others are patterns, scripts, mere text."""
    name = program_name(words[0])
    if name in _SCRIPTED:
        scripts = script_words(words)
        return tuple(word for at, word in enumerate(words) if at >= granted and at not in scripts)
    if name == "git":
        return git_paths(words, granted)
    sheet = _sheet(name)
    if sheet is None:
        return words[granted:]
    arguments = read_arguments(words, sheet)
    return tuple(item.word for item in arguments if item.at >= granted and not item.is_text)


def value_words(words: Words, granted: int) -> tuple[str, ...]:
    """Words beyond the rule that are taken for mere text because of the option before them.

    Should another version of the program not take any there, they would be names of files.
    """
    name = program_name(words[0])
    if name in _SCRIPTED:
        return ()
    if name == "git":
        return git_values(words, granted)
    sheet = _sheet(name)
    if sheet is None or sheet.text == "all":
        return ()
    arguments = read_arguments(words, sheet)
    return tuple(item.word for item in arguments if item.at >= granted and item.is_value)


def only_reads(words: Words, granted: int) -> bool:
    """Whether the command changes no file that it names; as far as its rule does not say more."""
    name = program_name(words[0])
    if name == "git":
        return only_looks(words)
    if name in _PLAIN:
        return True
    sheet = _sheet(name)
    told = sheet is not None and sheet.first is not None and granted > 1
    if told or any(word.startswith("-") for word in words[1:granted]):
        return False
    return name in _SCRIPTED or _ALIASES.get(name, name) in _READERS


def leaves_workspace(word: str) -> bool:
    return word != "/dev/null" and _OUTSIDE.search(word) is not None


@cache
def _sheet(name: str) -> Sheet | None:
    name = _ALIASES.get(name, name)
    names = {name, name.rstrip(VERSION)}
    if names & word_set(LANGUAGES):
        return NOTHING
    if name in _PLAIN or name in RUNNERS:
        return None
    known = READING.get(name) or CHANGING.get(name) or BUILDING.get(name)
    if known is None and names & INTERPRETERS:
        return NOTHING
    return known or (TOLD if names & word_set(COMMANDED) else UNFAMILIAR)


def _printf_concern(rest: Words) -> str | None:
    """In bash, `-v NAME` and `%n` set variables, and a variable decides which programs are run."""
    if rest[0].startswith("-") and rest[0] != "--":
        return f"option `{rest[0]}` of printf is not known to be harmless"
    if any(_STORING.search(word) for word in rest):
        return "printf with `%n` changes how later commands are understood"
    return None
