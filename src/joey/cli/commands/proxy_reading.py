"""`joey proxy list`, `show`, `diff` and `report`: read what the proxy recorded."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import (
    colour,
    emit,
    encode_json,
    format_columns,
    format_count,
    format_table,
    write_lines,
    write_stdout,
)
from joey.core.text import sanitize, to_one_line
from joey.presentation.text import get_terminal_width, wrap
from joey.proxy.cache_misses import CacheInspector, MissReason
from joey.proxy.exchange import Exchange
from joey.proxy.recordings import RecordedSession, RecordedTurn, Recordings
from joey.proxy.report import build_report
from joey.proxy.report_document import (
    Section,
    build_document,
    describe_miss,
    format_dollars,
    format_time,
)
from joey.proxy.report_formats import render_html, render_markdown
from joey.proxy.request_blocks import BlockKind, list_texts

_MAX_TITLE_CHARS = 200
_TIME_COLUMN = 1
_BOLD, _DIM, _RED, _GREEN = "1", "2", "31", "32"
_NOTHING = (
    "nothing is recorded here yet; `joey proxy run -- claude` records a program, and joey proxy"
    " --help shows more"
)


def list_sessions(recordings: Recordings, arguments: Namespace) -> ExitCode:
    sessions = recordings.list_sessions(client=arguments.client, since=arguments.since or 0)
    real = [session for session in sessions if session.real]
    shown = sessions if arguments.all or not real else real
    if arguments.json:
        write_stdout(encode_json(shown))
        return ExitCode.DONE
    rows = [_build_session_row(session) for session in shown]
    if rows:
        heading = ("session", "began", "client", "model", "requests", "tokens in", "cached")
        columns = (*heading, "tokens out", "cost", "title")
        write_lines(_align_columns(columns, rows, frozenset({0, 4, 5, 6, 7, 8})))
    else:
        print(_describe_nothing(recordings, arguments), file=sys.stderr)
    if hidden := len(sessions) - len(shown):
        print(f"{format_count(hidden, 'session')} of test traffic: add --all", file=sys.stderr)
    return ExitCode.DONE


def _describe_nothing(recordings: Recordings, arguments: Namespace) -> str:
    known = {session.client for session in recordings.list_sessions()}
    if known:
        return f"no session matches; there are some of: {', '.join(sorted(known))}"
    if others := recordings.count_other_requests():
        return f"no conversation is recorded; joey proxy show 0: {format_count(others, 'request')}"
    return _NOTHING


def _align_columns(
    heading: tuple[str, ...], rows: Sequence[tuple[str, ...]], numeric: frozenset[int]
) -> list[str]:
    """Align columns for a terminal, numbers to the right; for a pipe, separate values with tabs."""
    if get_terminal_width(sys.stdout) is None:
        return format_columns(heading, rows)
    first, *rest = _align_right([heading, *rows], numeric)
    head, *lines = format_columns(first, rest, {_TIME_COLUMN, *numeric})
    return [colour(head, _BOLD), *lines]


def _align_right(rows: list[tuple[str, ...]], numeric: frozenset[int]) -> list[tuple[str, ...]]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        tuple(cell.rjust(widths[n]) if n in numeric else cell for n, cell in enumerate(row))
        for row in rows
    ]


def _build_session_row(session: RecordedSession) -> tuple[str, ...]:
    return (
        str(session.id),
        format_time(session.first, "%Y-%m-%d %H:%M"),
        session.client,
        session.model,
        str(session.requests),
        f"{session.tokens_in:,}",
        f"{session.cache_reads:,}",
        f"{session.tokens_out:,}",
        format_dollars(session.cost),
        to_one_line(session.title, _MAX_TITLE_CHARS),
    )


def show_recording(recordings: Recordings, arguments: Namespace) -> ExitCode:
    if "." not in arguments.name:
        turns = recordings.list_turns(recordings.find_session(arguments.name))
        if arguments.json:
            write_stdout(encode_json([_build_turn_object(recordings, turn) for turn in turns]))
        else:
            write_lines(_format_turns(recordings, turns))
        return ExitCode.DONE
    turn = recordings.find_turn(arguments.name)
    if arguments.raw is not None:
        if not recordings.exchange(turn).has_bodies:
            raise UsageError(f"the bodies of {turn.name} were not recorded (--no-bodies)")
        book, number = recordings.book, turn.exchange_id
        is_request = arguments.raw == "request"
        pieces = book.iter_request_body(number) if is_request else book.iter_response_body(number)
        for piece in pieces:
            write_stdout(piece)
    elif arguments.json:
        write_stdout(encode_json(_build_turn_object(recordings, turn)))
    else:
        lines = [line for part in _iter_parts(recordings, turn, arguments) for line in part]
        write_lines(sanitize("\n".join(lines)).split("\n"))
    return ExitCode.DONE


def _build_turn_object(recordings: Recordings, turn: RecordedTurn) -> dict[str, object]:
    exchange = recordings.exchange(turn)
    usage = turn.usage
    return {
        "session": turn.session,
        "turn": turn.turn,
        "wire": exchange.wire,
        "method": exchange.method,
        "path": exchange.path,
        "status": exchange.status,
        "state": exchange.state,
        "client": turn.client,
        "model": turn.model,
        "firstByteMs": exchange.first_byte_ms and round(exchange.first_byte_ms, 3),
        "seconds": round(exchange.seconds, 6),
        "usage": usage
        and {
            "input": usage.input - usage.cache_reads - usage.cache_writes,
            "output": usage.output,
            "cacheReads": usage.cache_reads,
            "cacheWrites": usage.cache_writes,
        },
        "format": turn.call_format,
        "error": turn.error or None,
    }


def _format_turns(recordings: Recordings, turns: list[RecordedTurn]) -> list[str]:
    rows = []
    for turn in turns:
        exchange = recordings.exchange(turn)
        usage = turn.usage
        tokens = ("", "", "")
        if usage is not None:
            tokens = (f"{usage.input:,}", f"{usage.cache_reads:,}", f"{usage.output:,}")
        target = turn.model or f"{exchange.method} {exchange.path}"
        state = str(exchange.status or "") if exchange.state == "done" else exchange.state.value
        rows.append(
            (
                *(turn.name, format_time(exchange.at), turn.kind.value, target, state),
                *tokens,
                *(f"{exchange.seconds:.1f} s", format_dollars(turn.cost)),
                to_one_line(turn.error, _MAX_TITLE_CHARS),
            )
        )
    heading = ("request", "at", "kind", "model", "status", "tokens in", "cached", "tokens out")
    columns = (*heading, "time", "cost", "error")
    return _align_columns(columns, rows, frozenset({5, 6, 7, 8, 9}))


def _iter_parts(
    recordings: Recordings, turn: RecordedTurn, arguments: Namespace
) -> Iterator[list[str]]:
    """Iterate over the parts that flags select, by default facts, new messages and the reply."""
    exchange = recordings.exchange(turn)
    request = recordings.request(turn)
    chosen = ("system", "tools", "blocks", "request", "response", "timing")
    flags = {name for name in chosen if getattr(arguments, name)}
    if not flags:
        yield [f"{name + ':':<10}{fact}" for name, fact in _iter_facts(turn, exchange)]
    if "request" in flags:
        yield [f"{exchange.method} {exchange.path}"]
        yield [f"{name}: {value}" for name, value in exchange.request_headers]
    if "timing" in flags:
        yield [f"{tick.offset:>10,}  {tick.ms:>10,.1f} ms" for tick in exchange.ticks]
    if request is None:
        return
    for number, block in enumerate(request.blocks):
        kind = {BlockKind.SYSTEM: "system", BlockKind.TOOLS: "tools"}.get(block.kind, "request")
        if kind in flags or (kind == "system" and "request" in flags):
            yield ["", f"--- block {number} ({block.kind}) {block.role}".rstrip(), block.text]
        elif "blocks" in flags:
            opening = to_one_line(block.text, 80)
            yield [f"{number:>4}  {block.kind:<8} {block.role:<10} {block.size:>9,}  {opening}"]
        elif not flags and block is request.blocks[-1]:
            yield ["", f"--- {block.role}", "\n".join(list_texts(block)) or block.text]
    if "response" in flags or not flags:
        reply = recordings.reply(turn, request)
        yield ["", "--- reply", reply.text]
        yield [f"{call.name} {call.arguments}" for call in reply.calls]
        if reply.error:
            yield [reply.error]


def _iter_facts(turn: RecordedTurn, exchange: Exchange) -> Iterator[tuple[str, str]]:
    yield "request", f"{turn.name}, {exchange.method} {exchange.path} ({exchange.wire})"
    if turn.model:
        yield "client", turn.client
        yield "model", turn.model
    first_byte = exchange.first_byte_ms
    wait = "" if first_byte is None else f", first byte after {first_byte:,.0f} ms"
    yield (
        "response",
        f"{exchange.status or 'none'}, {exchange.state}, {exchange.seconds:.1f} s{wait}",
    )
    if usage := turn.usage:
        fresh = usage.input - usage.cache_reads - usage.cache_writes
        cached = f"{usage.cache_reads:,} from the cache, {usage.cache_writes:,} written to it"
        yield "tokens", f"{fresh:,} in, {cached}, {usage.output:,} out, {format_dollars(turn.cost)}"
    if turn.call_format:
        yield "calls", turn.call_format
    if turn.error:
        yield "error", turn.error


def show_difference(recordings: Recordings, arguments: Namespace) -> ExitCode:
    inspector = CacheInspector(recordings)
    turn = recordings.find_turn(arguments.name)
    if arguments.other is None:
        found = inspector.inspect(turn)
    else:
        found = inspector.compare(turn, recordings.find_turn(arguments.other))
    lines = [f"{turn.name}: {describe_miss(found.miss)}"]
    if found.earlier is not None:
        lines.append(f"compared with {found.earlier.name}")
    lines = [wrap(sanitize(line), get_terminal_width(sys.stdout)) for line in lines]
    if found.miss.reason is MissReason.CHANGED:
        for sign, text, code in (("-", found.miss.before, _RED), ("+", found.miss.after, _GREEN)):
            lines.append(colour(f"{sign} {to_one_line(text, _MAX_TITLE_CHARS)}", code))
    emit(found.miss, lines, arguments.json)
    return ExitCode.DONE


def print_report(recordings: Recordings, arguments: Namespace) -> ExitCode:
    since = arguments.since or 0
    sessions = recordings.list_sessions(since=since)
    others = 0 if arguments.sessions else recordings.count_other_requests(since)
    if arguments.sessions:
        numbers = {recordings.find_session(name) for name in arguments.sessions}
        sessions = [session for session in sessions if session.id in numbers]
    if not sessions and not others and arguments.format != "json":
        print(_NOTHING, file=sys.stderr)
        return ExitCode.DONE
    details = build_report(recordings, sessions, other_requests=others)
    if arguments.format == "json":
        write_stdout(encode_json(details.report))
        return ExitCode.DONE
    document = build_document(details)
    if arguments.format == "html":
        write_stdout(render_html(document).encode("utf-8", "replace"))
    elif arguments.format == "markdown":
        write_stdout(sanitize(render_markdown(document)).encode("utf-8", "replace"))
    else:
        write_lines(_iter_report_lines(document))
    return ExitCode.DONE


def _iter_report_lines(sections: list[Section]) -> Iterator[str]:
    width = get_terminal_width(sys.stdout)
    for section in sections:
        yield colour(section.heading, _BOLD)
        for sentence in section.sentences:
            yield wrap(f"  {sanitize(sentence)}", width)
        if section.table is not None and section.table.rows:
            numeric = section.table.numeric
            rows = [section.table.columns, *section.table.rows]
            cells = [tuple(to_one_line(cell, 400) for cell in row) for row in rows]
            cells = _align_right(cells, numeric)
            room = None if width is None else width - 2
            head, *lines = format_table(cells, room, {0, *numeric})
            yield f"  {colour(head, _DIM)}"
            yield from (f"  {line}" for line in lines)
        yield ""
