"""Closing tags in the text behind calls: a sign that one of the calls was cut short.

A body that quotes its own closing tag and the end of its call ends there, for nothing tells that
end from the real one. But then the real one is still to come: the text goes on, and closes a body
and a call that it has not opened.
"""

from __future__ import annotations

from collections import Counter, defaultdict


class Leftovers:
    """What is closed in the text behind calls that ended with a body."""

    def __init__(self) -> None:
        self.tags: frozenset[str] = frozenset()
        """What to look for; behind a backtick a tag is only mentioned."""
        self._tools: defaultdict[str, set[str]] = defaultdict(set)
        """Tools by the bodies that calls of them ended with."""
        self._opened: Counter[str] = Counter()
        self._closed: set[str] = set()

    def add_call(self, tool: str, body: str) -> None:
        self._tools[body].add(tool)
        tags = {f"<{body}>", f"</{body}>", f"</{tool}>"}
        self.tags |= tags | {f"`{tag}" for tag in tags}
        self._begin_anew()

    def meet(self, tag: str) -> tuple[str, str] | None:
        """The tool and the body that were closed once too often, when this tag completes that."""
        name = tag.strip("</>")
        if tag.startswith("`"):
            return None
        if not tag.startswith("</"):
            self._opened[name] += 1
        elif name not in self._tools:
            return self._close_call(name)
        elif self._opened[name]:
            self._opened[name] -= 1
        else:
            self._closed.add(name)
        return None

    def _close_call(self, tool: str) -> tuple[str, str] | None:
        for body in sorted(self._closed):
            if tool in self._tools[body]:
                self._begin_anew()
                return tool, body
        return None

    def _begin_anew(self) -> None:
        self._opened.clear()
        self._closed.clear()
