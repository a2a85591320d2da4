"""Output of commands: writing to stdout, JSON, text tables, warnings, yes/no questions.

Writing waits for a slow reader of stdout, but gives up on a stalled one after a signal. Table cells
that are too long end with an ellipsis; the widest columns are cut first, so that short values stay
complete next to long ones.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import TextIO

import msgspec

from joey.cli.exit_codes import UsageError
from joey.cli.signals import was_interrupted
from joey.errors import UserError
from joey.presentation.text import get_terminal_width, measure_width, sanitize, wrap

POLL_INTERVAL_S = 0.1
DRAIN_TIMEOUT_S = 1.0
"""For a reader to take the last words, once we shall stop."""


def write_stdout(data: bytes) -> None:
    """Write to stdout. Raises BrokenPipeError if the reader has gone, UserError if writing
    fails."""
    try:
        sys.stdout.flush()
        _write_interruptibly(data)
    except BrokenPipeError:
        raise
    except OSError as error:
        detach_stdout()
        if error.errno == errno.EIO:
            return  # the terminal is gone; a signal reports it where that matters
        raise UserError(f"standard output cannot be written: {error.strerror}") from error


def _write_interruptibly(data: bytes) -> None:
    """Write to a slow reader without blocking signals; a stalled reader is given up after one."""
    try:
        fd = sys.stdout.fileno()
    except (OSError, ValueError):
        sys.stdout.buffer.write(data)
        return
    rest = memoryview(data)
    while rest:
        if not _wait_until_writable(fd):
            detach_stdout()
            return
        # A pipe that accepts anything accepts this much.
        rest = rest[os.write(fd, rest[: select.PIPE_BUF]) :]


def _wait_until_writable(fd: int) -> bool:
    waited = 0.0
    while not select.select([], [fd], [], POLL_INTERVAL_S)[1]:
        if was_interrupted():
            waited += POLL_INTERVAL_S
            if waited > DRAIN_TIMEOUT_S:
                return False
    return True


def detach_stdout() -> None:
    """Discard buffered output, so that exiting reports no error."""
    detach_stream(sys.stdout)


def detach_stream(stream: TextIO) -> None:
    with suppress(ValueError):  # a closed stream has nothing buffered
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def emit(value: object, lines: Iterable[str], as_json: bool) -> None:
    """Print a value as JSON for programs, or as lines for users."""
    if as_json:
        write_stdout(encode_json(value))
    else:
        write_lines(lines)


def encode_json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def write_lines(lines: Iterable[str]) -> None:
    write_stdout("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))


def print_warning(text: str) -> None:
    print(wrap(f"joey: {sanitize(text)}", get_terminal_width(sys.stderr)), file=sys.stderr)


def show_progress(text: str) -> None:
    """Replace the current line on a terminal; an empty text erases it."""
    if get_terminal_width(sys.stderr) is not None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def confirm(question: str, otherwise: str, lines: Iterable[str] = ()) -> bool:
    """Show `lines` and ask for confirmation. Raises UsageError if no user can answer; `otherwise`
    says what to do then."""
    if not sys.stdin.isatty():
        raise UsageError(f"no user is there to ask; {otherwise}")
    for line in lines:
        print(line)
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


COLUMN_GAP = "  "
_MIN_COLUMN_WIDTH = 6


def format_columns(
    heading: Sequence[str], rows: Iterable[Sequence[str]], fixed_columns: Collection[int] = ()
) -> list[str]:
    """Format columns for a user; for a pipe, values separated by tabs without a heading."""
    width = get_terminal_width(sys.stdout)
    if width is None:
        return ["\t".join(row) for row in rows]
    return format_table([heading, *rows], width, fixed_columns)


def format_table(
    rows: Sequence[Sequence[str]], width: int | None, fixed_columns: Collection[int] = ()
) -> list[str]:
    """Format one line per row. Columns in `fixed_columns` are not cut; without a width, none is."""
    sizes = [max(map(measure_width, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        _shrink_columns(sizes, width, fixed_columns)
    lines = (_format_row(row, sizes) for row in rows)
    return [line if width is None else truncate_to_width(line, width) for line in lines]


def _shrink_columns(sizes: list[int], width: int, fixed_columns: Collection[int]) -> None:
    soft = [number for number in range(len(sizes)) if number not in fixed_columns]
    while sum(sizes) + len(COLUMN_GAP) * (len(sizes) - 1) > width:
        widest = max(soft, key=lambda number: sizes[number], default=None)
        if widest is None or sizes[widest] <= _MIN_COLUMN_WIDTH:
            return
        sizes[widest] -= 1


def _format_row(row: Sequence[str], sizes: Sequence[int]) -> str:
    clipped = [truncate_to_width(text, size) for text, size in zip(row, sizes, strict=True)]
    padded = (
        text + " " * (size - measure_width(text)) for text, size in zip(clipped, sizes, strict=True)
    )
    return COLUMN_GAP.join(padded).rstrip()


def colour(text: str, ansi_code: str) -> str:
    """Colour text for a terminal, unless the user wants no colours."""
    is_wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return f"\x1b[{ansi_code}m{text}\x1b[0m" if is_wanted else text


def format_count(count: int, noun: str) -> str:
    """`1 task`, `1,200 tasks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def truncate_to_width(text: str, width: int) -> str:
    """Cut a text to a number of cells, with an ellipsis if anything is left out."""
    if measure_width(text) <= width:
        return text
    while text and measure_width(text) > width - 1:
        text = text[:-1]
    return f"{text}…"
