"""How the numbers of a spreadsheet are meant: as numbers, or as days and times."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from joey.knowledge.markup import Kind, events

_BUILT_IN_DATES = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
_LITERAL = re.compile(r'"[^"]*"|\\.|\[(?!h|m|s)[^\]]*\]', re.IGNORECASE)
_DATE_LETTERS = re.compile(r"[ymdhs]", re.IGNORECASE)
_FIRST_DAY = datetime(1899, 12, 30)
_FIRST_DAY_1904 = datetime(1904, 1, 1)
_MOST_DAYS = 2_958_466
"""The end of the year 9999."""


class CellFormats(Struct, frozen=True):
    dates: frozenset[int] = frozenset()
    """Numbers of the styles that show a date or a time."""

    def show(self, value: str, style: int, from_1904: bool) -> str:
        if style not in self.dates:
            return value
        try:
            days = float(value)
        except ValueError:
            return value
        if not 0 <= days < _MOST_DAYS:
            return value
        seconds = round(days * 86_400)
        moment = (_FIRST_DAY_1904 if from_1904 else _FIRST_DAY) + timedelta(seconds=seconds)
        if days < 1:
            return moment.strftime("%H:%M:%S")
        return moment.isoformat(" ") if seconds % 86_400 else moment.date().isoformat()


def read_formats(chunks: Iterable[bytes]) -> CellFormats:
    """The styles of `xl/styles.xml`: which of them are dates."""
    own: dict[str, str] = {}
    dates: set[int] = set()
    count = 0
    inside = ""
    for kind, name, attributes in events(chunks):
        if kind is Kind.START and name == "numFmt":
            own[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif name == "cellXfs":
            inside = name if kind is Kind.START else ""
        elif kind is Kind.START and name == "xf" and inside:
            if _is_date(attributes.get("numFmtId", "0"), own):
                dates.add(count)
            count += 1
    return CellFormats(frozenset(dates))


def _is_date(number: str, own: dict[str, str]) -> bool:
    if number in own:
        return _DATE_LETTERS.search(_LITERAL.sub("", own[number])) is not None
    return number.isdecimal() and len(number) < 4 and int(number) in _BUILT_IN_DATES
