"""Output formats of a report: Markdown, and HTML that needs no other file.

The content was written by clients, models and services. In HTML all of it is escaped, and the
page's policy forbids scripts and requests; in Markdown it is escaped, or a code span.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from html import escape

from joey.core.text import compile_regex, sanitize
from joey.proxy.report_document import Chart, Section, Table

_TITLE = "Report of joey proxy"
_COLOURS = ("#2f7d4f", "#c98a1b", "#4a6fa5", "#a54a4a")
_CHART_WIDTH = 960
_CHART_HEIGHT = 160
_TOP = 30
_LABEL_EVERY_PIXELS = 60
_STYLE = """
:root { color-scheme: light dark; --line: #d9dee5; --quiet: #5c6773; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1120px; padding: 0 1rem;
  color: #1c2430; background: #fff; }
h1 { font-size: 1.6rem; margin: 0 0 1rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .4rem; border-bottom: 2px solid var(--line); }
p { margin: .2rem 0; unicode-bidi: isolate; overflow-wrap: anywhere; }
.table { overflow-x: auto; }
table { border-collapse: collapse; min-width: 50%; margin: .5rem 0 1rem; font-size: 13px; }
th { color: var(--quiet); font-weight: 600; white-space: nowrap; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .9rem .25rem 0; text-align: left;
  vertical-align: top; unicode-bidi: isolate; }
td { overflow-wrap: anywhere; min-width: 3em; }
td.number, th.number { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; margin: .5rem 0 1rem; }
@media (prefers-color-scheme: dark) {
  :root { --line: #333c47; --quiet: #9aa5b1; } body { color: #dde3ea; background: #14181d; } }
"""
_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-"
    f"{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
)
_PLAIN_RE = compile_regex(r"[\w\s.,:;%$/()=–…>-]*")
_MARKDOWN_MARKS_RE = compile_regex(r"([\\`*_\[\]|~#!])")


def render_markdown(sections: list[Section]) -> str:
    lines = [f"# {_TITLE}", ""]
    for section in sections:
        lines += [f"## {section.heading}", ""]
        lines += [f"- {_escape_markdown(sentence)}" for sentence in section.sentences]
        lines += [""] if section.sentences else []
        if section.table is not None and section.table.rows:
            lines += [*_iter_markdown_rows(section.table), ""]
    return "\n".join(lines)


def _iter_markdown_rows(table: Table) -> Iterator[str]:
    yield _join_cells(table.columns)
    yield _join_cells("---:" if n in table.numeric else "---" for n in range(len(table.columns)))
    for row in table.rows:
        yield _join_cells(map(_render_markdown_cell, row))


def _join_cells(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escape_markdown(text: str) -> str:
    text = " ".join(sanitize(text).split())
    return _MARKDOWN_MARKS_RE.sub(r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")


def _render_markdown_cell(cell: str) -> str:
    """Render text unchanged if none of it is Markdown syntax, else as code."""
    cell = " ".join(sanitize(cell).split())
    if not cell or (_PLAIN_RE.fullmatch(cell) and "://" not in cell and "www." not in cell):
        return cell
    fence = "`" * (max((len(run) for run in re.findall("`+", cell)), default=0) + 1)
    space = " " if cell[0] == "`" or cell[-1] == "`" else ""
    return f"{fence}{space}{cell}{space}{fence}".replace("|", "\\|")


def render_html(sections: list[Section]) -> str:
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_TITLE}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_TITLE}</h1>",
    ]
    for section in sections:
        parts.append(f"<section><h2>{_escape(section.heading)}</h2>")
        parts += [f"<p>{_escape(sentence)}</p>" for sentence in section.sentences]
        parts += [render_chart(chart) for chart in section.charts]
        if section.table is not None and section.table.rows:
            parts.append(_render_table(section.table))
        parts.append("</section>")
    return "\n".join([*parts, "</body></html>", ""])


def _escape(text: str) -> str:
    return escape(sanitize(text))


def _render_table(table: Table) -> str:
    def render_row(cells: tuple[str, ...], tag: str) -> str:
        starts = (f'{tag} class="number"' if n in table.numeric else tag for n in range(len(cells)))
        texts = (f"<{start}>{_escape(c)}</{tag}>" for start, c in zip(starts, cells, strict=True))
        return f"<tr>{''.join(texts)}</tr>"

    body = "\n".join(render_row(row, "td") for row in table.rows)
    head = render_row(table.columns, "th")
    return f'<div class="table"><table><thead>{head}</thead>\n<tbody>{body}</tbody></table></div>'


def render_chart(chart: Chart) -> str:
    """Render stacked bars as an SVG image, with a title for each bar."""
    totals = [sum(values) for values in zip(*(each.values for each in chart.series), strict=True)]
    peak = max(totals, default=0.0)
    if not peak:
        return ""
    slot = min(_LABEL_EVERY_PIXELS, _CHART_WIDTH / len(totals))
    bottom = _TOP + _CHART_HEIGHT
    parts = [
        f'<svg viewBox="0 0 {_CHART_WIDTH} {bottom + 44}" role="img" '
        f'aria-label="{_escape(chart.title)}" font-family="system-ui, sans-serif" font-size="12" '
        'fill="currentColor">',
        f'<text x="0" y="14" font-weight="bold">{_escape(chart.title)}</text>',
        f'<text x="{_CHART_WIDTH}" y="14" text-anchor="end">'
        f"top: {_escape(_format_amount(peak, chart.unit))}</text>",
        *(
            f'<line x1="0" x2="{_CHART_WIDTH}" y1="{y}" y2="{y}" stroke="currentColor" '
            'stroke-opacity="0.2"/>'
            for y in (_TOP, _TOP + _CHART_HEIGHT // 2, bottom)
        ),
    ]
    every = max(1, -int(-_LABEL_EVERY_PIXELS // slot))
    for number, label in enumerate(chart.labels):
        parts += _iter_bar(chart, number, slot, peak)
        if number % every == 0:
            parts.append(f'<text x="{number * slot:.1f}" y="{bottom + 16}">{_escape(label)}</text>')
    if len(chart.series) > 1:
        parts += [
            f'<rect x="{n * 160}" y="{bottom + 28}" width="10" height="10" fill="{_COLOURS[n]}"/>'
            f'<text x="{n * 160 + 16}" y="{bottom + 38}">{_escape(each.name)}</text>'
            for n, each in enumerate(chart.series)
        ]
    return "".join([*parts, "</svg>"])


def _iter_bar(chart: Chart, number: int, slot: float, peak: float) -> Iterator[str]:
    bottom = float(_TOP + _CHART_HEIGHT)
    for colour, series in zip(_COLOURS, chart.series, strict=False):
        value = series.values[number]
        size = _CHART_HEIGHT * max(0.0, value) / peak
        if not size:
            continue
        bottom -= size
        title = f"{chart.labels[number]}: {_format_amount(value, chart.unit)} {series.name}"
        yield (
            f'<rect x="{number * slot:.1f}" y="{bottom:.1f}" width="{max(0.5, slot * 0.85):.1f}"'
            f' height="{size:.1f}" fill="{colour}"><title>{_escape(title)}</title></rect>'
        )


def _format_amount(value: float, unit: str) -> str:
    return f"${value:.4f}" if unit == "$" else f"{value:,.0f} {unit}"
