"""Results of a batch as a JUnit report, which CI systems show.

A module of its own, which only this format needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from joey.presentation.text import sanitize

if TYPE_CHECKING:
    from joey.batch.tables import ItemRow

_ELEMENTS = {"failed": "failure", "limit": "failure", "error": "error"}
"""Other items that are not done were not finished: they count as skipped."""


def render_junit(rows: Sequence[ItemRow]) -> bytes:
    cases = [_render_case(row) for row in rows]
    counts = {name: sum(f"><{name} " in case for case in cases) for name in ("failure", "error")}
    skipped = sum("><skipped " in case for case in cases)
    head = (
        f'<testsuite name="joey batch" tests="{len(rows)}" failures="{counts["failure"]}"'
        f' errors="{counts["error"]}" skipped="{skipped}">'
    )
    document = ('<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>", "")
    return "\n".join(document).encode("utf-8", "replace")


def _render_case(row: ItemRow) -> str:
    line = row.line
    seconds = 0.0 if line is None or line.started is None else line.ended - line.started
    head = f'  <testcase classname="batch" name={_quote(row.id)} time="{seconds:.3f}"'
    if row.status == "done":
        return f"{head}/>"
    element = _ELEMENTS.get(row.status.value, "skipped")
    code = row.status.value if line is None else line.code
    text = "" if line is None or line.result is None else line.result
    message = f"{row.status.value} ({code}): {text}" if text else f"{row.status.value} ({code})"
    return f"{head}><{element} message={_quote(message)}/></testcase>"


def _quote(text: str) -> str:
    return quoteattr(sanitize(text))
