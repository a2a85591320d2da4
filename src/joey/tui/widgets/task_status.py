"""Status widgets around the composer: the status line, the todo list, the queued messages.

The status line shows activity, mode, model, directory, context usage, cost and permissions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic

from msgspec import Struct, structs
from rich.cells import cell_len
from rich.text import Text
from textual.reactive import reactive
from textual.timer import Timer
from textual.widget import Widget

from joey.core import events as ev
from joey.core.task_types import RowKind, Todo
from joey.core.tool_calls import COMMAND_TOOL_NAME
from joey.presentation.phrases import describe_retry
from joey.presentation.text import to_one_line
from joey.tui.app_services import StatusInfo

RUNNING_COMMAND_ACTIVITY = "running the command"


def describe_activity(event: ev.Event) -> str | None:
    """Describe the activity; None if the event does not change it."""
    match event:
        case ev.TaskStarted() | ev.ToolFinished():
            return "working"
        case ev.RequestStarted():
            return "thinking"
        case ev.RowOpened(say=RowKind.REASONING):
            return "thinking"
        case ev.RowOpened(tool=str(tool)):
            return f"preparing {to_one_line(tool, 30)}"
        case ev.RowOpened():
            return "writing"
        case ev.ToolStarted(tool=tool):
            return RUNNING_COMMAND_ACTIVITY if tool == COMMAND_TOOL_NAME else to_one_line(tool, 30)
        case ev.RetryCountdown():
            return describe_retry(event)
        case ev.TaskPaused():
            return "waiting for subtasks"
        case _:
            return None


SPINNER_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINNER_INTERVAL_S = 0.12
PART_SEPARATOR = " · "
CONTEXT_WARNING_PERCENT = 80

MIN_PRIORITY_SHORTENED_LAST = 8
"""The worth from which parts are said in full until others have gone."""


class StatusPart(Struct, frozen=True):
    text: str
    style: str = ""
    priority: int = 0
    """Parts of little worth go first when there is no room."""
    short_text: str = ""
    """What stands for it before it goes altogether."""
    separator: str = PART_SEPARATOR
    """What stands between it and the part before."""

    @property
    def can_be_shortened(self) -> bool:
        return self.short_text not in ("", self.text)


class StatusLine(Widget):
    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; }
    """
    status: reactive[StatusInfo | None] = reactive(None)

    def __init__(self) -> None:
        super().__init__()
        self._hint_text = ""
        self.activity = ""
        self._is_activity_timed = True
        self._activity_started_at = 0.0
        self._spinner_timer: Timer | None = None

    def on_mount(self) -> None:
        self._spinner_timer = self.set_interval(SPINNER_INTERVAL_S, self.refresh, pause=True)

    def show_hint(self, text: str) -> None:
        """Show a hint instead of the usual content, until cleared with an empty one."""
        if text != self._hint_text:
            self._hint_text = text
            self.refresh()

    def set_activity(self, activity: str, *, is_timed: bool = True) -> None:
        """Show the current activity; empty if idle. A text with its own time is not timed."""
        self._is_activity_timed = is_timed
        if bool(activity) != bool(self.activity):
            self._activity_started_at = monotonic()
        self.activity = activity
        if self._spinner_timer is not None:
            self._spinner_timer.resume() if activity else self._spinner_timer.pause()
        self.refresh()

    def render(self) -> Text:
        width = self.size.width
        if self._hint_text:
            return Text(self._hint_text, "yellow", no_wrap=True, overflow="ellipsis")
        parts = list(self._build_parts())
        if self.activity:
            seconds = (
                f" {int(monotonic() - self._activity_started_at)}s"
                if self._is_activity_timed
                else ""
            )
            frame = SPINNER_FRAMES[int(monotonic() / SPINNER_INTERVAL_S) % len(SPINNER_FRAMES)]
            work = [StatusPart(f"{frame} {self.activity}{seconds}", "cyan", 11)]
            work.append(StatusPart("Esc stops", "cyan", 10, separator=", "))
            if self.activity == RUNNING_COMMAND_ACTIVITY:
                work.append(
                    StatusPart("Ctrl+B leaves it running", "cyan", 8, "Ctrl+B leaves it", ", ")
                )
            parts = [*work, *parts]
        return render_fitting_parts(parts, width)

    def _build_parts(self) -> Iterator[StatusPart]:
        if (status := self.status) is None:
            return
        yield StatusPart(to_one_line(status.mode, 24), "bold", 7)
        if status.background_command_count:
            count = status.background_command_count
            yield StatusPart(f"{count} in the background", "cyan", 8, short_text=f"{count} behind")
        model = to_one_line(status.model, 40)
        yield StatusPart(model, "", 6, short_text=model.rpartition("/")[2][:18])
        directory = to_one_line(status.directory, 60)
        yield StatusPart(directory, "dim", 0, short_text=directory.rpartition("/")[2][:20])
        if status.git_branch:
            yield StatusPart(f"⎇ {to_one_line(status.git_branch, 30)}", "dim", 1)
        if status.context_window and status.usage.context_tokens:
            share = round(100 * status.usage.context_tokens / status.context_window)
            style, worth = ("yellow", 6) if share >= CONTEXT_WARNING_PERCENT else ("dim", 3)
            yield StatusPart(f"{share}% context", style, worth, short_text=f"{share}%")
        if status.usage.total_cost:
            yield StatusPart(f"${status.usage.total_cost:.2f}", "dim", 2)
        if status.permissions_text:
            is_open = status.permissions_text == "allows everything"
            style, worth = ("yellow", 9) if is_open else ("dim", 5)
            yield StatusPart(status.permissions_text, style, worth)
        if status.sandbox_text:
            yield StatusPart(status.sandbox_text, "dim", 4)


def render_fitting_parts(parts: list[StatusPart], width: int) -> Text:
    """Render as many parts as fit: first some are shortened, then left out; the last is cut."""
    fitting = list(parts)
    while len(fitting) > 1 and _measure_width(fitting) > width:
        longer = [
            part
            for part in fitting
            if part.can_be_shortened and part.priority < MIN_PRIORITY_SHORTENED_LAST
        ]
        least = min(longer or fitting, key=lambda part: part.priority)
        if least.can_be_shortened:
            fitting[fitting.index(least)] = structs.replace(least, text=least.short_text)
        else:
            fitting.remove(least)
    line = Text(no_wrap=True, overflow="ellipsis")
    for number, part in enumerate(fitting):
        if number:
            line.append(part.separator, "dim" if part.separator == PART_SEPARATOR else part.style)
        line.append(part.text, part.style)
    line.truncate(max(1, width), overflow="ellipsis")
    return line


def _measure_width(parts: list[StatusPart]) -> int:
    joints = sum(len(part.separator) for part in parts[1:])
    return sum(cell_len(part.text) for part in parts) + joints


MAX_TODO_LINES = 7
"""Of a longer list, those around the one that is being worked on."""
_TODO_STATUS_MARKS = {
    "completed": ("✓", "green"),
    "in_progress": ("●", "cyan"),
    "pending": ("○", "dim"),
}


class TodoList(Widget):
    DEFAULT_CSS = """
    TodoList { height: auto; max-height: 9; padding: 0 1; display: none; }
    TodoList.wanted { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._todos: tuple[Todo, ...] = ()
        self._is_hidden_by_user = False

    def set_todos(self, todos: Sequence[Todo]) -> None:
        self._todos = tuple(todos)
        self._update_visibility()

    def toggle_visibility(self) -> bool:
        """Show or hide the list; False if there is none."""
        self._is_hidden_by_user = not self._is_hidden_by_user
        self._update_visibility()
        return bool(self._todos)

    def _update_visibility(self) -> None:
        is_over = all(todo.status == "completed" for todo in self._todos)
        self.set_class(bool(self._todos) and not self._is_hidden_by_user and not is_over, "wanted")
        self.refresh(layout=True)

    def render(self) -> Text:
        done = sum(todo.status == "completed" for todo in self._todos)
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"{done} of {len(self._todos)} done", "dim")
        at = next((n for n, todo in enumerate(self._todos) if todo.status == "in_progress"), done)
        first = max(0, min(at - 2, len(self._todos) - MAX_TODO_LINES))
        for todo in self._todos[first : first + MAX_TODO_LINES]:
            mark, style = _TODO_STATUS_MARKS[todo.status]
            text_style = "dim" if todo.status != "in_progress" else "bold"
            text.append(f"\n{mark} ", style).append(to_one_line(todo.content, 300), text_style)
        left = len(self._todos) - first - MAX_TODO_LINES
        if left > 0:
            text.append(f"\n  … {left} more", "dim")
        return text


MAX_QUEUED_MESSAGE_LINES = 3
MIN_QUEUED_MESSAGE_COLUMNS = 10
"""Beside them the hint has to fit."""
UNQUEUE_HINT = "  (Up takes it back)"
SEND_OR_UNQUEUE_HINT = "  (Enter sends, Up takes it back)"


class QueuedMessageList(Widget):
    DEFAULT_CSS = """
    QueuedMessageList { height: auto; padding: 0 1; display: none; }
    QueuedMessageList.wanted { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._messages: tuple[ev.MessageQueued, ...] = ()
        self._is_task_working = True

    def set_messages(self, messages: Sequence[ev.MessageQueued], *, is_task_working: bool) -> None:
        """With `is_task_working`, joey is running and will read the messages by itself."""
        if (tuple(messages), is_task_working) != (self._messages, self._is_task_working):
            self._messages, self._is_task_working = tuple(messages), is_task_working
            self.set_class(bool(messages), "wanted")
            self.refresh(layout=True)

    @property
    def last_message(self) -> ev.MessageQueued | None:
        return self._messages[-1] if self._messages else None

    def render(self) -> Text:
        hint = UNQUEUE_HINT if self._is_task_working else SEND_OR_UNQUEUE_HINT
        lines = [
            Text(f"↳ {to_one_line(each.text, 300)}")
            for each in self._messages[-MAX_QUEUED_MESSAGE_LINES:]
        ]
        if lines:
            lines[-1].truncate(
                max(MIN_QUEUED_MESSAGE_COLUMNS, self.size.width - len(hint)), overflow="ellipsis"
            )
            lines[-1].append(hint)
        if len(self._messages) > MAX_QUEUED_MESSAGE_LINES:
            lines.insert(0, Text(f"… {len(self._messages) - MAX_QUEUED_MESSAGE_LINES} more wait"))
        return Text("\n", "dim", no_wrap=True, overflow="ellipsis").join(lines)
