"""The model's plan: what is done, what it is at, what is left."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.widget import Widget

from joey.core.task import Todo
from joey.presentation.text import one_line

MOST = 7
"""Lines; of a longer list those around the one that is being worked on."""
_MARKS = {"completed": ("✓", "green"), "in_progress": ("●", "cyan"), "pending": ("○", "dim")}


class TodoList(Widget):
    DEFAULT_CSS = """
    TodoList { height: auto; max-height: 9; padding: 0 1; display: none; }
    TodoList.wanted { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._todos: tuple[Todo, ...] = ()
        self._hidden = False

    def tell(self, todos: Sequence[Todo]) -> None:
        self._todos = tuple(todos)
        self._show()

    def toggle(self) -> bool:
        """Whether there is a list to show or hide."""
        self._hidden = not self._hidden
        self._show()
        return bool(self._todos)

    def _show(self) -> None:
        is_over = all(todo.status == "completed" for todo in self._todos)
        self.set_class(bool(self._todos) and not self._hidden and not is_over, "wanted")
        self.refresh(layout=True)

    def render(self) -> Text:
        done = sum(todo.status == "completed" for todo in self._todos)
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"{done} of {len(self._todos)} done", "dim")
        first = self._first(done)
        for todo in self._todos[first : first + MOST]:
            mark, style = _MARKS[todo.status]
            words = "dim" if todo.status != "in_progress" else "bold"
            text.append(f"\n{mark} ", style).append(one_line(todo.content, 300), words)
        left = len(self._todos) - first - MOST
        if left > 0:
            text.append(f"\n  … {left} more", "dim")
        return text

    def _first(self, done: int) -> int:
        at = next((n for n, todo in enumerate(self._todos) if todo.status == "in_progress"), done)
        return max(0, min(at - 2, len(self._todos) - MOST))
