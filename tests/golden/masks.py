"""Replace what differs from run to run (times, ids, paths, the machine) by stable marks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_HASH = re.compile(r"\b[0-9a-f]{40}\b")
_TIME = re.compile(r"(?<!\d)1[6-9]\d{11}(?!\d)")
_LINES = (
    (re.compile(r"(?<=\bOperating System: )[^\n]*"), "<os>"),
    (re.compile(r"(?<=\bDefault Shell: )[^\n]*"), "<shell>"),
    (re.compile(r"(?<=\bISO 8601, UTC: )[^\n]*"), "<time>"),
    (re.compile(r"(?<=\bUser time zone: )[^\n]*"), "<zone>"),
)


class Masks:
    """Marks for one run. The same id or time gets the same mark; times are numbered in order."""

    def __init__(self, value: Any, paths: Mapping[str, str]) -> None:
        """`value` holds all texts and numbers that will be masked."""
        known = ((path, mark) for path, mark in paths.items() if path)
        self._paths = dict(sorted(known, key=lambda item: -len(item[0])))
        self._ids: dict[str, str] = {}
        times = {int(found) for text in _scalars(value) for found in _TIME.findall(text)}
        self._times = {time: f"<time {n}>" for n, time in enumerate(sorted(times), 1)}

    def mask(self, value: Any) -> Any:
        match value:
            case dict():
                return {
                    self.mask(key): "<duration>" if key == "durationMs" else self.mask(inner)
                    for key, inner in value.items()
                }
            case list() | tuple():
                return [self.mask(inner) for inner in value]
            case str():
                return self.text(value)
            case int() if value in self._times:
                return self._times[value]
        return value

    def text(self, text: str) -> str:
        for path, mark in self._paths.items():
            text = text.replace(path, mark)
        for pattern, mark in _LINES:
            text = pattern.sub(mark, text)
        text = _UUID.sub(lambda found: self._id("id", found[0]), text)
        text = _HASH.sub(lambda found: self._id("hash", found[0]), text)
        return _TIME.sub(lambda found: self._times.get(int(found[0]), found[0]), text)

    def _id(self, kind: str, text: str) -> str:
        count = sum(mark.startswith(f"<{kind} ") for mark in self._ids.values())
        return self._ids.setdefault(text, f"<{kind} {count + 1}>")


def masked(value: Any, paths: Mapping[str, str]) -> Any:
    return Masks(value, paths).mask(value)


def _scalars(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield str(key)
                yield from _scalars(inner)
        case list() | tuple():
            for inner in value:
                yield from _scalars(inner)
        case str() | int():
            yield str(value)


def shape(value: Any) -> Any:
    """The keys and the types of JSON, without its values."""
    match value:
        case dict():
            return {key: shape(inner) for key, inner in value.items()}
        case list():
            return merged([shape(inner) for inner in value])
        case None:
            return "null"
    return {bool: "bool", int: "int", float: "float", str: "str"}[type(value)]


def merged(shapes: list[Any]) -> list[Any]:
    """Each shape once, in a stable order."""
    return sorted({repr(each): each for each in shapes}.values(), key=repr)
