"""The report as a document: sections of sentences, tables and charts, for every output format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from statistics import median

import msgspec
from msgspec import Struct

from joey.core.text import to_one_line
from joey.proxy.cache_misses import CacheMiss, MissReason
from joey.proxy.call_formats import CallFormat
from joey.proxy.report import LocatedMiss, Report, ReportDetails, TurnMeasurement

_MAX_TURN_ROWS = 200
_MAX_VALUES_CHARS = 80
_CHANGE_CHARS = 24
_MAX_TITLE_CHARS = 60
_DATA_FIELDS = frozenset({"input_schema", "parameters", "schema", "input", "arguments"})
"""Fields whose content is data or a schema, and not the form of the request."""


class Table(Struct, frozen=True):
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    """Right-aligned columns."""


class Series(Struct, frozen=True):
    name: str
    values: tuple[float, ...]


class Chart(Struct, frozen=True):
    """One group of stacked bars for each label."""

    title: str
    unit: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]


class Section(Struct, frozen=True):
    heading: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None
    charts: tuple[Chart, ...] = ()


def build_document(details: ReportDetails) -> list[Section]:
    """Build the document of real clients, unless there are none."""
    report = details.report
    real = {each.id for each in details.sessions if each.real}
    turns = tuple(each for each in details.turns if not real or each.turn.session in real)
    sections = [
        Section("Recorded requests", tuple(_describe_totals(details)), _build_client_table(report)),
        _build_session_section(details),
        Section("Request fields", (), _build_field_table(report)),
        _build_prompt_section(details),
        _build_call_section(details),
        Section("Failures", _say_none(report.failures), _build_failure_table(report)),
        _build_cache_section(report),
        Section(
            "Time and tokens",
            tuple(_describe_speed(turns)),
            _build_turn_table(turns),
            _build_charts(turns),
        ),
    ]
    return [each for each in sections if each.sentences or (each.table and each.table.rows)]


def format_dollars(amount: float | None) -> str:
    if amount is None:
        return "-"
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.4f}"


def describe_miss(miss: CacheMiss) -> str:
    """Describe in one sentence where the cache missed, and why."""
    text = _REASONS[miss.reason]
    if miss.block is not None:
        text += f" at block {miss.block} ({miss.kind}), character {miss.character}"
    if miss.tokens:
        text += f": {miss.tokens:,} tokens were sent again and not read from the cache"
        text += f", {format_dollars(miss.cost)} more than a cache read" if miss.cost else ""
    return text


_COUNTED_REASONS = (MissReason.UNKNOWN, MissReason.TOO_SMALL, MissReason.NO_MARK)
"""These are the same for all requests of a client: they are counted, not listed."""
_REASONS = {
    "changed": "the prompt changed",
    "expired": "the cache had expired",
    "too_small": "too small to be cached",
    "no_mark": "nothing was marked for caching",
    "other_model": "the model or service changed",
    "unknown": "the service gives no reason",
    "none": "no cache miss",
}


def format_time(at_ms: int, layout: str = "%Y-%m-%d %H:%M:%S") -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime(layout)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _describe_totals(details: ReportDetails) -> Iterator[str]:
    report = details.report
    real, tests = report.real_sessions, report.test_sessions
    in_sessions = report.requests - details.other_requests
    yield (
        f"{_count(in_sessions, 'request')} in {_count(report.sessions, 'session')}:"
        f" {real:,} of real clients, {tests:,} of test traffic"
    )
    if details.other_requests:
        yield f"{_count(details.other_requests, 'other request')}: lists of models and the like"
    if real and tests:
        yield "Fields, prompt, tools and formats are those of real clients"
    if report.cost is None:
        yield "Cost: unknown, because the catalogue has no prices for these models"
    else:
        without = format_dollars(report.cost_without_misses)
        yield f"Cost: {format_dollars(report.cost)}; without cache misses {without}"


def _build_client_table(report: Report) -> Table:
    rows = (
        (
            each.name,
            each.by.value,
            f"{each.sessions:,}",
            f"{each.requests:,}",
            ", ".join(each.user_agents),
        )
        for each in report.clients
    )
    columns = ("client", "known by", "sessions", "requests", "user agents")
    return Table(columns, tuple(rows), frozenset({2, 3}))


def _build_session_section(details: ReportDetails) -> Section:
    """Build the section on real clients, unless there are none."""
    real = [each for each in details.sessions if each.real]
    shown = real or details.sessions
    hidden = len(details.sessions) - len(shown)
    rows = (
        (
            str(each.id),
            format_time(each.first, "%Y-%m-%d %H:%M"),
            each.client,
            each.model,
            f"{each.requests:,}",
            f"{each.tokens_in:,}",
            f"{each.cache_reads:,}",
            f"{each.tokens_out:,}",
            format_dollars(each.cost),
            to_one_line(each.title, _MAX_TITLE_CHARS),
        )
        for each in shown
    )
    columns = ("session", "began", "client", "model", "requests")
    amounts = ("tokens in", "cached", "tokens out", "cost", "title")
    table = Table(columns + amounts, tuple(rows), frozenset({0, 4, 5, 6, 7, 8}))
    tests = (f"{_count(hidden, 'session')} of test traffic: joey proxy list --all",)
    return Section("Sessions", tests if hidden else (), table)


def _build_field_table(report: Report) -> Table:
    rows = (
        (each.path, _describe_presence(each.presence), _describe_values(each.values))
        for each in report.fields
        if _DATA_FIELDS.isdisjoint(each.path.split(".")[1:-1])
    )
    return Table(("field", "present", "values"), tuple(rows))


def _describe_presence(presence: float) -> str:
    if presence == 1:
        return "always"
    return "under 1%" if presence < 0.01 else f"{min(presence, 0.99):.0%}"


def _describe_values(values: Iterable[object]) -> str:
    texts = [
        to_one_line(value, 40) if isinstance(value, str) else msgspec.json.encode(value).decode()
        for value in values
    ]
    if len(texts) == 1:
        return f"only {texts[0]}"
    return to_one_line(", ".join(texts), _MAX_VALUES_CHARS)


def _build_prompt_section(details: ReportDetails) -> Section:
    prompt = details.report.system_prompt
    if not prompt.sections:
        return Section("System prompt")
    rows = (
        (each.heading or "(opening)", f"{each.bytes:,}", "changes" if each.changed else "")
        for each in prompt.sections
    )
    sections = _count(len(prompt.sections), "section")
    sentence = f"{details.prompt_client}: {prompt.bytes:,} bytes in {sections}"
    table = Table(("section", "bytes", ""), tuple(rows), frozenset({1}))
    return Section("System prompt", (sentence,), table)


def _build_call_section(details: ReportDetails) -> Section:
    report, expected = details.report, details.expected_format
    sentences = [f"{_count(len(report.tools), 'tool')}: {', '.join(report.tools)}".rstrip(": ")]
    others = [
        f"{count:,} in {name}"
        for name, count in report.formats.items()
        if count and name not in (expected, CallFormat.NONE)
    ]
    if expected is not None and others:
        way = "as structured calls" if expected is CallFormat.NATIVE else "as XML tags in the text"
        sentences.append(f"Format mismatch: tools are called {way}, but replies came otherwise:")
        sentences[-1] += f" {', '.join(others)}"
    rows = ((name, f"{count:,}") for name, count in report.formats.items() if count)
    table = Table(("format of calls", "replies"), tuple(rows), frozenset({1}))
    return Section("Tools and calls", tuple(sentences), table)


def _say_none(items: tuple[object, ...]) -> tuple[str, ...]:
    return () if items else ("None",)


def _build_failure_table(report: Report) -> Table:
    rows = ((f"{each.session}.{each.turn}", each.kind.value, each.text) for each in report.failures)
    return Table(("request", "kind", "text"), tuple(rows))


def _build_cache_section(report: Report) -> Section:
    misses = report.cache.misses
    rows = (
        (
            f"{each.session}.{each.turn}",
            each.reason.value,
            "" if each.block is None else f"{each.block} ({each.kind}), {each.character}",
            "" if each.block is None else _describe_change(each),
            f"{each.tokens:,}",
            format_dollars(each.cost),
        )
        for each in misses
        if each.reason not in _COUNTED_REASONS
    )
    columns = ("request", "reason", "block, character", "change", "tokens", "cost")
    table = Table(columns, tuple(rows), frozenset({4, 5}))
    sentences = _say_none(misses)
    if misses:
        tokens, lost = sum(each.tokens for each in misses), sum(each.cost for each in misses)
        sentences = (
            f"{_count(len(misses), 'request')} with {tokens:,} tokens that could have been read"
            f" from the cache: {format_dollars(lost)} more than cache reads",
            *_count_reasons(misses),
        )
    return Section("Cache misses", sentences, table)


def _count_reasons(misses: tuple[LocatedMiss, ...]) -> Iterator[str]:
    for reason in _COUNTED_REASONS:
        found = [each for each in misses if each.reason is reason]
        if found:
            lost = format_dollars(sum(each.cost for each in found))
            yield f"{_count(len(found), 'request')}, {lost}: {_REASONS[reason]}"


def _describe_change(miss: CacheMiss) -> str:
    """Describe the text around the first different character, before and after."""
    return f"{_cut_around(miss.before)} -> {_cut_around(miss.after)}"


def _cut_around(text: str) -> str:
    """Cut out the middle of an excerpt, where the difference is."""
    start = max(0, len(text) // 2 - _CHANGE_CHARS)
    part = text[start : len(text) // 2 + _CHANGE_CHARS]
    return to_one_line(part, 2 * _CHANGE_CHARS) or "(nothing)"


def _describe_speed(turns: tuple[TurnMeasurement, ...]) -> Iterator[str]:
    waits = sorted(each.first_byte_ms for each in turns if each.first_byte_ms is not None)
    if waits:
        slow = waits[min(len(waits) - 1, len(waits) * 95 // 100)]
        yield f"First byte: {median(waits):,.0f} ms in half of the requests, {slow:,.0f} ms in 95%"
    speeds = [each.tokens_per_second for each in turns if each.tokens_per_second is not None]
    if speeds:
        yield f"Output: {median(speeds):,.0f} tokens per second (median)"
    if len(turns) > _MAX_TURN_ROWS:
        yield f"The first {_MAX_TURN_ROWS} of {len(turns):,} requests; the charts show the last"


def _build_turn_table(turns: tuple[TurnMeasurement, ...]) -> Table:
    rows = (
        (
            each.turn.name,
            format_time(each.at, "%H:%M:%S"),
            each.turn.kind.value,
            "" if each.first_byte_ms is None else f"{each.first_byte_ms:,.0f}",
            f"{each.seconds:.1f}",
            "" if each.tokens_per_second is None else f"{each.tokens_per_second:,.0f}",
            f"{each.usage.input:,}",
            f"{each.usage.cache_reads:,}",
            f"{each.usage.output:,}",
            format_dollars(each.cost),
        )
        for each in turns[:_MAX_TURN_ROWS]
    )
    columns = ("request", "at", "kind", "first byte ms", "seconds", "tokens/s")
    amounts = ("tokens in", "cached", "tokens out", "cost")
    return Table(columns + amounts, tuple(rows), frozenset(range(3, 10)))


def _build_charts(turns: tuple[TurnMeasurement, ...]) -> tuple[Chart, ...]:
    turns = turns[-_MAX_TURN_ROWS:]
    labels = tuple(each.turn.name for each in turns)
    usages = [each.usage for each in turns]
    fresh = tuple(float(u.input - u.cache_reads - u.cache_writes) for u in usages)
    reads = Series("read from cache", tuple(float(usage.cache_reads) for usage in usages))
    writes = Series("written to cache", tuple(float(usage.cache_writes) for usage in usages))
    tokens = (reads, writes, Series("not cached", fresh))
    costs = tuple((each.cost or 0.0) - each.lost_cost for each in turns)
    lost = tuple(each.lost_cost for each in turns)
    first_byte = tuple((each.first_byte_ms or 0.0) for each in turns)
    return (
        Chart("Input tokens by request", "tokens", labels, tokens),
        Chart("Cost by request", "$", labels, (Series("cost", costs), Series("misses", lost))),
        Chart("Time to first byte", "ms", labels, (Series("first byte", first_byte),)),
    )
