"""Diagnostics of compilers and linters: parsing, comparison, text for the model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from joey.core.text import compile_regex

_COLON_LINE_RE = compile_regex(
    r"(?P<path>[^\s:][^:\n]*):(?P<line>\d{1,9})(?::\d+)?: *(?P<rest>\S.*)"
)
_PARENTHESES_LINE_RE = compile_regex(
    r"(?P<path>[^\s(][^(\n]*)\((?P<line>\d{1,9}),\d+\): *(?P<rest>\S.*)"
)
_SEVERITY_RE = compile_regex(
    r"(?P<severity>fatal error|error|warning|note|info)\b[: ]*", re.IGNORECASE
)
_LEADING_CODE_RE = compile_regex(r"(?P<code>[A-Z]{1,6}\d{2,6}):? +")
_TRAILING_CODE_RE = compile_regex(r"(?<! ) +\[(?P<code>[\w/-]+)\]$")
_MAX_MESSAGE_CHARS = 500


class Diagnostic(Struct, frozen=True):
    path: str
    """Relative to the workspace."""
    line: int
    source: str
    """The checker: `mypy`, `tsc`, `python`."""
    message: str
    code: str = ""
    is_error: bool = True

    @property
    def identity(self) -> tuple[str, ...]:
        """The parts that stay the same when its line moves."""
        return self.path, self.source, self.code, self.message


def parse_checker_output(report: str, source: str) -> tuple[Diagnostic, ...]:
    """Parse a checker's output in compiler format: `path:line:column: error: words` or
    `path(line,column): error TS2304: words`. Other lines are ignored."""
    return tuple(problem for line in report.splitlines() if (problem := _parse_line(line, source)))


def _parse_line(line: str, source: str) -> Diagnostic | None:
    found = _COLON_LINE_RE.match(line) or _PARENTHESES_LINE_RE.match(line)
    if found is None:
        return None
    rest, code, is_error = found["rest"].strip(), "", True
    if severity := _SEVERITY_RE.match(rest):
        rest = rest[severity.end() :]
        is_error = "error" in severity["severity"].lower()
        if severity["severity"].lower() in ("note", "info"):
            return None
    if in_front := _LEADING_CODE_RE.match(rest):
        code, rest = in_front["code"], rest[in_front.end() :]
    elif at_end := _TRAILING_CODE_RE.search(rest):
        code, rest = at_end["code"], rest[: at_end.start()]
    if not rest:
        return None
    if len(rest) > _MAX_MESSAGE_CHARS:
        rest = f"{rest[:_MAX_MESSAGE_CHARS]}..."
    return Diagnostic(found["path"], int(found["line"]), source, rest, code, is_error)


def find_new_errors(
    before: Iterable[Diagnostic], after: Iterable[Diagnostic]
) -> tuple[Diagnostic, ...]:
    """Find new errors: an error may have moved to another line, but its message stays the same."""
    known = Counter(each.identity for each in before)
    new: list[Diagnostic] = []
    for problem in after:
        if problem.is_error and known[problem.identity] <= 0:
            new.append(problem)
        elif problem.is_error:
            known[problem.identity] -= 1
    return tuple(new)


def format_diagnostics(problems: Iterable[Diagnostic]) -> str:
    """Format diagnostics; empty if there are none."""
    by_path: dict[str, list[Diagnostic]] = {}
    for problem in problems:
        by_path.setdefault(problem.path, []).append(problem)
    return "\n\n".join(
        "\n".join([path, *(_format_diagnostic(problem) for problem in found)])
        for path, found in by_path.items()
    )


def find_remaining(
    current: Iterable[Diagnostic], reported: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """Find the reported errors that still exist, on any line."""
    known = {each.identity for each in reported}
    return [each for each in current if each.identity in known]


def _format_diagnostic(problem: Diagnostic) -> str:
    severity = "Error" if problem.is_error else "Warning"
    code = f"{problem.code} : " if problem.code else ""
    return f"- [{problem.source} {severity}] {problem.line} | {code}{problem.message}"
