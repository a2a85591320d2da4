"""Figures in columns."""

from __future__ import annotations

from collections.abc import Sequence


def print_table(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print rows, the first of them heads, under a title."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print(f"\n{title}")
    for number, row in enumerate(rows):
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + "  ".join([row[0].ljust(len(first)), *others]))
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))


def format_verdict(measured: float, goal: float) -> str:
    return "ok" if measured <= goal else "miss"
