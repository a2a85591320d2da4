"""Lines written for another indentation than the place has where they are put."""

from __future__ import annotations

from collections.abc import Mapping


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def shifted(line: str, indents: Mapping[str, str]) -> str:
    """A line with the real indentation; `indents` gives, for some as written, those of the place.

    One that is not known is taken relative to the nearest that is. Blank lines stay.
    """
    if not line.strip():
        return line
    indent = indent_of(line)
    outer = max((known for known in indents if indent.startswith(known)), key=len, default=None)
    if outer is not None:
        return indents[outer] + line[len(outer) :]
    inner = min((known for known in indents if known.startswith(indent)), key=len, default=None)
    if inner is None:
        return line
    real = indents[inner]
    return real[: max(0, len(real) - len(inner) + len(indent))] + line[len(indent) :]
