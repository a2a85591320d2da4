"""Which key does what on the screen, and how `?` and /help say it."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType

from joey import __version__
from joey.tui.offers import Offer

BINDINGS: list[BindingType] = [
    Binding("escape", "escape", show=False),
    Binding("ctrl+c", "interrupt", show=False, priority=True),
    Binding("ctrl+d", "leave", show=False, priority=True),
    Binding("ctrl+q", "nothing", show=False, priority=True),
    Binding("shift+tab", "next_mode", show=False, priority=True),
    Binding("tab", "change_focus", show=False, priority=True),
    Binding("up", "take_back", show=False, priority=True),
    Binding("enter", "send_waiting", show=False, priority=True),
    Binding("ctrl+o", "details", show=False, priority=True),
    Binding("ctrl+t", "todos", show=False, priority=True),
    Binding("ctrl+b", "leave_running", show=False, priority=True),
    Binding("ctrl+l", "redraw", show=False, priority=True),
    Binding("ctrl+z", "suspend_process", show=False, priority=True),
    Binding("pageup", "scroll(-1)", show=False),
    Binding("pagedown", "scroll(1)", show=False),
    Binding("ctrl+home", "scroll_home", show=False),
    Binding("ctrl+end", "scroll_end", show=False, priority=True),
    Binding("home", "scroll_home", show=False),
    Binding("end", "scroll_end", show=False),
]

KEYS = (
    ("Enter", "send; joey at work reads it before its next step"),
    ("Ctrl+J, Shift+Enter", "a new line; also \\ and Enter"),
    ("Esc", "stop joey, close a list, clear your words"),
    ("Esc Esc", "go back to earlier words (/rewind)"),
    ("Ctrl+C", "stop joey, or clear; twice leaves"),
    ("Ctrl+D", "leave"),
    ("Shift+Tab", "the next mode"),
    ("Up, Down", "earlier words; first those that still wait"),
    ("Ctrl+R", "search in earlier words"),
    ("Tab", "complete; from a question to your words and back"),
    ("@, /, !", "a file, a command, a line for your own shell"),
    ("Ctrl+O", "thinking, long outputs and changes whole"),
    ("Ctrl+T", "show or hide the plan"),
    ("Ctrl+B", "leave the running command in the background"),
    ("Ctrl+G", "write in your own editor"),
    ("PgUp, PgDn", "scroll; End goes to the end, Ctrl+End also while you write"),
    ("Ctrl+L", "draw everything anew"),
)


def greeting() -> Text:
    text = Text().append("joey", "bold cyan").append(f" {__version__}", "dim")
    text.append("\nWrite what shall be done. ", "dim")
    for key, about in (("?", "shows the keys, "), ("/", "the commands, "), ("@", "names files.")):
        text.append(key, "cyan").append(f" {about}", "dim")
    return text


def key_help() -> Text:
    return _table("Keys", KEYS)


def command_help(own: list[Offer], others: list[Offer]) -> Text:
    text = _table("Commands", [(f"/{offer.name}", offer.about) for offer in own])
    if others:
        rows = [(f"/{offer.name}", offer.about) for offer in others]
        text.append("\n\n").append_text(
            _table("Commands and skills of this folder and yours", rows)
        )
    return text


def _table(title: str, rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> Text:
    lead = min(30, max(cell_len(name) for name, _ in rows))
    text = Text(title, "bold")
    for name, about in rows:
        text.append(f"\n  {name}", "cyan")
        text.append(" " * (max(0, lead - cell_len(name)) + 2) + about, "dim")
    return text
