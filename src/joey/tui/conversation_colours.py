"""The colours of a conversation: those of the theme, dark or light."""

from __future__ import annotations

from rich.style import Style
from textual.widget import Widget

from joey.tui.blocks.palette import HUES, Palette

COMPONENTS = {f"conversation--{hue}" for hue in HUES} | {"conversation--more"}
_TERMINAL = {
    **dict.fromkeys(("person", "code", "link", "mark", "path", "hunk", "builtin"), "cyan"),
    **dict.fromkeys(("number", "keyword"), "magenta"),
    **dict.fromkeys(("heading", "function"), "bold"),
    **dict.fromkeys(("muted", "quote", "comment"), "dim"),
}
"""In the terminal's own colours, whose blue and yellow few people can read everywhere."""
STYLESHEET = """\
Conversation {
    background: $background;
    color: $foreground;
    overflow-x: hidden;
    overflow-y: scroll;
    scrollbar-size-vertical: 0;
    & .conversation--person { color: $text-primary; }
    & .conversation--heading { color: $text-primary; }
    & .conversation--code { color: $text-accent; }
    & .conversation--link { color: $text-primary; }
    & .conversation--quote { color: $foreground 60%; text-style: italic; }
    & .conversation--mark { color: $text-primary; }
    & .conversation--path { color: $text-primary; }
    & .conversation--muted { color: $foreground 60%; }
    & .conversation--added { color: $text-success; }
    & .conversation--removed { color: $text-error; }
    & .conversation--added-word { color: $text-success; text-style: bold underline; }
    & .conversation--removed-word { color: $text-error; text-style: bold underline; }
    & .conversation--hunk { color: $text-secondary; }
    & .conversation--error { color: $text-error; }
    & .conversation--warning { color: $text-warning; }
    & .conversation--success { color: $text-success; }
    & .conversation--keyword { color: $text-primary; text-style: bold; }
    & .conversation--string { color: $text-success; }
    & .conversation--comment { color: $foreground 60%; text-style: italic; }
    & .conversation--number { color: $text-warning; }
    & .conversation--function { color: $text-accent; }
    & .conversation--builtin { color: $text-secondary; }
    & .conversation--more { background: $primary; color: $background; }
}
"""


def palette_of(widget: Widget) -> Palette:
    return Palette(widget.rich_style, {hue: _hue(widget, hue) for hue in HUES})


def _hue(widget: Widget, name: str) -> Style:
    """A colour on the background of the widget; one that shines through is mixed with it."""
    styles = widget.get_component_styles(f"conversation--{name}")
    colour = styles.color
    if colour.ansi is not None:
        own = _TERMINAL.get(name)
        return Style.parse(own) if own else Style(color=colour.rich_color) + styles.text_style
    mixed = widget.background_colors[1] + colour
    return Style(color=mixed.rich_color) + styles.text_style
