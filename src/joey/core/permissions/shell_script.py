"""What a shell script is made of, as far as that tells code from data."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field

EXPANDED = "\0"
"""Stands for an expansion in the text of a word."""


class Kind(Enum):
    """What an expansion gives."""

    PARAMETER = "the value of a variable"
    ELEMENT = "an element of an array"
    NUMBER = "the result of arithmetic, or a length"
    COMMAND = "the output of commands"
    OTHER = "anything else"


class Expansion(Struct, frozen=True):
    kind: Kind
    raw: str
    quoted: bool
    name: str = ""
    """Of the parameter."""


class Word(Struct, frozen=True):
    raw: str
    text: str
    """Without quotes; `EXPANDED` stands for each expansion."""
    expansions: tuple[Expansion, ...] = ()
    has_pattern: bool = False
    """A pattern, braces or a tilde outside quotes."""

    @property
    def is_literal(self) -> bool:
        return not self.expansions and not self.has_pattern


class Command(Struct, frozen=True):
    words: tuple[Word, ...]
    assigned: tuple[str, ...]
    """Variables that are set before its words."""
    fed: list[Word]
    """Its here-documents and here-strings. Those of a group of commands are a command of their own,
    without words."""


class Parameter(Struct, frozen=True):
    """A parameter expansion that does more than give a value."""

    raw: str
    is_indirect: bool
    transformation: str = ""
    """Its letter: `P` in `${x@P}`."""


class Script(Struct):
    commands: list[Command] = field(default_factory=list)
    conditions: list[tuple[Word, ...]] = field(default_factory=list)
    """The words between `[[` and `]]`."""
    arithmetic: list[Word] = field(default_factory=list)
    """Expressions, subscripts and offsets."""
    parameters: list[Parameter] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    """Process substitutions."""
    assignments: dict[str, list[Word | None]] = field(default_factory=dict)
    """By variable, each value that it is given; None for one that the script does not spell out."""
    functions: list[str] = field(default_factory=list)

    def assign(self, name: str, value: Word | None) -> None:
        self.assignments.setdefault(name, []).append(value)
