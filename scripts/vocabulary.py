"""Search for words that no identifier of the project may contain.

    python -m scripts.vocabulary [FILE …]

An identifier is split at underscores and capitals: `folder_of`, `KeySighting` and `hearAll` consist
of the words *folder* and *of*, *key* and *sighting*, *hear* and *all*. Module names count too.
Without files, all of `src`, `tests`, `bench` and `web/src` are searched.
"""

from __future__ import annotations

import io
import keyword
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DIRECTORIES = ("src/joey", "tests", "bench", "web/src")

# fmt: off
FORBIDDEN = frozenset({
    "bench", "shelf", "customs", "wish", "wishes", "errand", "errands", "doings", "manners",
    "sightings", "tidings", "heed", "foresee", "household", "housekeeper", "narrator", "voice",
    "voices", "scene", "leash", "doorkeeper", "doorway", "keeper", "trouble", "mishap",
    "standing", "told", "heard", "hear", "picture", "folder", "person", "words",
})
# fmt: on

ALLOWED = {
    "bench": ("bench",),
    "words": (
        # What the grammar of the shell calls its tokens.
        "src/joey/core/permissions",
        "src/joey/execution/bash_grammar.py",
        "src/joey/tools/command_paths.py",
        "src/joey/cli/commands/completion.py",
        "src/joey/cli/commands/permissions.py",
        "src/joey/cli/headless/refusal_advice.py",
        "tests/cli/test_completion.py",
        "tests/permissions",
        "tests/harness/permissions",
    ),
}
"""Where a word is a term of the subject, by the beginnings of paths."""

_PARTS_RE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TYPESCRIPT_RE = re.compile(
    r"""
    (?P<skip> //[^\n]* | /\*.*?\*/ | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | `(?:\\.|[^`\\])*`
      | (?<=[>}])[^<>{}()=;]*(?=[<{])   # text between JSX elements
    )
    | (?P<name> [A-Za-z_$][\w$]*)
    """,
    re.VERBOSE | re.DOTALL,
)


class Finding(NamedTuple):
    path: str
    line: int
    identifier: str
    word: str


def find_in_file(path: str, text: str) -> Iterator[Finding]:
    """The forbidden words in the module's name and in the identifiers of its code."""
    names = python_names(text) if path.endswith(".py") else typescript_names(text)
    for line, name in [(1, Path(path).name.split(".")[0]), *names]:
        for word in forbidden_words(path, name):
            yield Finding(path, line, name, word)


def forbidden_words(path: str, name: str) -> Iterator[str]:
    for part in _PARTS_RE.findall(name):
        word = part.lower()
        is_forbidden = word in FORBIDDEN or word.removesuffix("s") in FORBIDDEN
        if is_forbidden and not path.startswith(ALLOWED.get(word, ("//",))):
            yield word


def python_names(text: str) -> Iterator[tuple[int, str]]:
    """Lines and identifiers of Python code, those in replacement fields of f-strings included."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            yield token.start[0], token.string
        elif token.type == tokenize.STRING and re.match("[rR]?[fF]", token.string):
            for field in re.findall(
                r"\{([^{}]+)\}", token.string.replace("{{", "").replace("}}", "")
            ):
                for name in re.findall(r"[A-Za-z_]\w*", re.sub(r"'[^']*'|:.*$", "", field)):
                    yield token.start[0], name


def typescript_names(text: str) -> Iterator[tuple[int, str]]:
    """Lines and identifiers of TypeScript code, without strings, comments and texts in JSX."""
    for match in _TYPESCRIPT_RE.finditer(text):
        if match["name"]:
            yield text.count("\n", 0, match.start()) + 1, match["name"]


def project_files() -> Iterator[str]:
    for directory in DIRECTORIES:
        for path in sorted((ROOT / directory).rglob("*")):
            if path.suffix in {".py", ".ts", ".tsx"}:
                yield path.relative_to(ROOT).as_posix()


def main(paths: Iterable[str]) -> int:
    found = [
        finding
        for path in paths
        for finding in find_in_file(path, (ROOT / path).read_text(encoding="utf-8"))
    ]
    for finding in found:
        print(f"{finding.path}:{finding.line}: {finding.identifier}: {finding.word}")
    if found:
        print(f"{len(found)} identifiers contain words that CONTRIBUTING.md asks to avoid")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or project_files()))
