"""Ctrl+R: finding an earlier prompt by some of its words."""

from __future__ import annotations

from joey.presentation.text import one_line
from joey.tui.choices import Choices
from joey.tui.completion import Choice
from joey.tui.drafts import Draft, visible
from joey.tui.prompt_history import PromptHistory

_MOST = 100


class HistorySearch:
    """Shown in the composer's list; what is being written stays as it is until one is taken."""

    def __init__(self, past: PromptHistory, choices: Choices) -> None:
        self._past = past
        self._choices = choices
        self._words = ""
        self._found: list[Draft] = []
        self.is_on = False

    def begin(self) -> None:
        self.is_on = True
        self._words = ""
        self._search()

    def leave(self) -> None:
        if self.is_on:
            self.is_on = False
            self._choices.close()

    def take(self) -> Draft | None:
        """The chosen one; None when nothing was found."""
        chosen = self._found[self._choices.at] if self._found else None
        self.leave()
        return chosen

    def type(self, text: str) -> None:
        self._words += one_line(text)
        self._search()

    def handle(self, key: str, character: str | None) -> bool:
        """What is done with a key without taking anything or leaving."""
        match key:
            case "ctrl+r" | "down" | "ctrl+n":
                self._choices.move(1)
            case "ctrl+s" | "up" | "ctrl+p":
                self._choices.move(-1)
            case "backspace" | "ctrl+h":
                self._words = self._words[:-1]
                self._search()
            case "ctrl+u":
                self._words = ""
                self._search()
            case _ if character is not None and character.isprintable():
                self._words += character
                self._search()
            case _:
                return False
        return True

    def _search(self) -> None:
        """The latest first, each text once."""
        words = self._words.lower()
        found: dict[str, Draft] = {}
        for draft in reversed(self._past.drafts()):
            if words in draft.text.lower():
                found.setdefault(draft.text, draft)
            if len(found) == _MOST:
                break
        self._found = list(found.values())
        shown = [Choice(_shown(draft), "", "") for draft in self._found]
        nothing = "" if shown else " (nothing found)"
        self._choices.open(shown, f"search in earlier prompts: {self._words}{nothing}")


def _shown(draft: Draft) -> str:
    return f"{'! ' if draft.shell else ''}{one_line(visible(draft.text), 300)}"
