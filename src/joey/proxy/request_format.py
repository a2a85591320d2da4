"""Format of recorded requests: the fields of their bodies, and the sections of system prompts.

Counted over all requests of a report, independently of the book.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from joey.proxy.prompt_sections import split_sections

MAX_VALUES = 20
_MAX_VALUE_CHARS = 200
_MAX_FIELDS = 5000
Scalar = str | int | float | bool | None


class FieldStatistics(Struct, frozen=True):
    path: str
    """Dotted; `[]` for the items of a list."""
    presence: float
    """The share of requests that have it."""
    values: tuple[Scalar, ...]
    """Up to 20 distinct scalars, in the order in which they were first seen."""


class FieldCounter:
    def __init__(self) -> None:
        self._requests = 0
        self._counts: dict[str, int] = {}
        self._values: dict[str, dict[tuple[type, Scalar], Scalar]] = {}

    def add(self, body: dict[str, Any]) -> None:
        self._requests += 1
        seen: set[str] = set()
        for path, value in _iter_fields(body, ""):
            if path not in self._values and len(self._values) >= _MAX_FIELDS:
                continue  # objects whose names are data, without end
            seen.add(path)
            values = self._values.setdefault(path, {})
            if not isinstance(value, dict | list) and len(values) < MAX_VALUES:
                shown = _shorten(value) if isinstance(value, str) else value
                values.setdefault((type(shown), shown), shown)
        for path in seen:
            self._counts[path] = self._counts.get(path, 0) + 1

    def list_fields(self) -> list[FieldStatistics]:
        """List the fields, those of every request first, then by name."""
        fields = [
            FieldStatistics(path, count / self._requests, tuple(self._values[path].values()))
            for path, count in self._counts.items()
        ]
        return sorted(fields, key=lambda each: (-each.presence, each.path))


def _iter_fields(value: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        path = f"{prefix}.{name}" if prefix else name
        yield path, inner
        yield from _iter_inner(inner, path)


def _iter_inner(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    match value:
        case dict():
            yield from _iter_fields(value, path)
        case list():
            for item in value:
                if not isinstance(item, dict):
                    yield f"{path}[]", item
                yield from _iter_inner(item, f"{path}[]")


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARS else text[:_MAX_VALUE_CHARS] + "…"


class SectionSummary(Struct, frozen=True):
    heading: str
    """Empty for the text before the first heading."""
    bytes: int
    changed: bool
    """Whether requests of this client had it with different texts, or some did not have it."""


class PromptSummary(Struct, frozen=True):
    """The most common system prompt of the client with the most requests."""

    bytes: int = 0
    sections: tuple[SectionSummary, ...] = ()


class PromptCollector:
    """Counts system prompts by client."""

    def __init__(self) -> None:
        self._by_client: dict[str, Counter[tuple[str, ...]]] = {}

    def add(self, client: str, texts: tuple[str, ...]) -> None:
        if any(texts):
            counts: Counter[tuple[str, ...]] = self._by_client.setdefault(client, Counter())
            counts[texts] += 1

    @property
    def client(self) -> str:
        """The client whose prompt `summarize` describes."""
        by_client = self._by_client
        return max(by_client, key=lambda each: by_client[each].total(), default="")

    def summarize(self) -> PromptSummary:
        if not self._by_client:
            return PromptSummary()
        counts = self._by_client[self.client]
        prompt = max(counts, key=lambda texts: (counts[texts], sum(map(len, texts))))
        size = sum(len(text.encode("utf-8", "replace")) for text in prompt)
        return PromptSummary(size, tuple(_summarize_sections(prompt, counts)))


def _summarize_sections(
    prompt: Sequence[str], all_prompts: Counter[tuple[str, ...]]
) -> Iterator[SectionSummary]:
    others = [_number_sections(each) for each in all_prompts]
    for (heading, number), (text, size) in _number_sections(prompt).items():
        is_changed = any(other.get((heading, number), ("", 0))[0] != text for other in others)
        yield SectionSummary(heading, size, is_changed)


def _number_sections(texts: Sequence[str]) -> dict[tuple[str, int], tuple[str, int]]:
    """Map headings, numbered among equal ones, to texts and sizes."""
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for section in split_sections(texts):
        number = 0
        while (section.heading, number) in found:
            number += 1
        found[section.heading, number] = (section.text, section.bytes)
    return found
