"""Lines that begin inside a string of several lines, whose indentation says nothing about code.

A separate module because it parses many languages, and `line_reader` none.
"""

from __future__ import annotations

import re

from joey.core.text import compile_regex

_DOUBLE = r'"(?:\\.|[^"\\])*"?'
_SINGLE = r"'(?:\\.|[^'\\])*'?"
_HASH_COMMENT = r"\#.*"
_SLASH_COMMENT = r"//.*|/\*.*?\*/"
_HEREDOC = r"(?<![\w<])<<[-~]?(?P<quote>['\"]?)(?P<word>[A-Z_]\w*)(?P=quote)"
_PHP_HEREDOC = r"<<<\s*(?P<quote>['\"]?)(?P<word>[A-Za-z_]\w*)(?P=quote)"

_PYTHON_RE = compile_regex(rf"(?P<open>\"\"\"|''')|{_HASH_COMMENT}|{_DOUBLE}|{_SINGLE}")
_TEXT_BLOCK_RE = compile_regex(rf'(?P<open>""")|{_SLASH_COMMENT}|{_DOUBLE}|{_SINGLE}')
_BACKTICK_RE = compile_regex(rf"(?P<open>`)|{_SLASH_COMMENT}|{_DOUBLE}|{_SINGLE}")
_HEREDOC_RE = compile_regex(rf"{_HEREDOC}|(?<!\S){_HASH_COMMENT}|{_DOUBLE}|{_SINGLE}")
_PHP_RE = compile_regex(rf"{_PHP_HEREDOC}|{_SLASH_COMMENT}|{_DOUBLE}|{_SINGLE}")

_TOKENS_BY_SUFFIXES = {
    (".py", ".pyi", ".toml"): _PYTHON_RE,
    (".java", ".kt", ".kts", ".scala", ".swift", ".cs", ".groovy", ".gradle"): _TEXT_BLOCK_RE,
    (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".go"): _BACKTICK_RE,
    (".sh", ".bash", ".zsh", ".rb"): _HEREDOC_RE,
    (".php",): _PHP_RE,
}
"""What opens a string of several lines, and what may only look as if it did, per language."""


class MultilineStringScanner:
    """Reads the lines of a file from its beginning on."""

    def __init__(self, name: str) -> None:
        matches = (
            tokens for suffixes, tokens in _TOKENS_BY_SUFFIXES.items() if name.endswith(suffixes)
        )
        self._token_re = next(matches, None)
        self._end_re: re.Pattern[str] | None = None
        """Matches up to the end of the string that is open."""

    @property
    def can_find_strings(self) -> bool:
        return self._token_re is not None

    def feed(self, line: str) -> bool:
        """Read a line; return whether it begins inside a string."""
        is_inside = self._end_re is not None
        at = 0
        while self._token_re is not None:
            if self._end_re is not None:
                end = self._end_re.match(line, at)
                if end is None:
                    break
                at, self._end_re = end.end(), None
            token = self._token_re.search(line, at)
            if token is None:
                break
            at = token.end()
            self._end_re = _build_end_pattern(token)
            if self._end_re is not None and "word" in token.re.groupindex:
                break  # the text begins in the next line
        return is_inside


def _build_end_pattern(token: re.Match[str]) -> re.Pattern[str] | None:
    """Build the pattern for the end of a string opened by a token; None if it opens none."""
    groups = token.groupdict()
    if word := groups.get("word"):
        return re.compile(rf"\s*{word}\b")
    if delimiter := groups.get("open"):
        return re.compile(rf"(?:\\.|(?!{delimiter}).)*{delimiter}")
    return None
