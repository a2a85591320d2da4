"""The shell's grammar, as a second pair of eyes on commands that would run unasked."""

from __future__ import annotations

from typing import Protocol

from joey.core.permissions.shell import Chain


class ShellGrammar(Protocol):
    def chain(self, line: str) -> Chain | None:
        """The commands of a line made of plain words alone; None when it holds anything else.

        Whatever it raises means the same to those who ask: not proven.
        """
        ...
