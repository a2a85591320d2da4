"""What a tool is: parameters, then `prepare` (look, compute, claim), then `run` (act).

Between the two the policy judges the claims and, where it must, a person is asked. A tool never
reaches the engine: what it wants of the task itself it returns as a directive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from joey.core.asks import Answer, AskKind
from joey.core.modes import Group
from joey.core.permissions.claims import Access as Access  # noqa: PLC0414 (a name of this module too)
from joey.core.permissions.claims import Claim as Claim  # noqa: PLC0414
from joey.core.todos import Todo
from joey.ports import ToolContext


class Prepared(Struct, frozen=True, kw_only=True):
    """A call that is ready to run. Subclass it to carry what `run` needs."""

    claims: tuple[Claim, ...]
    row: dict[str, Any]
    """Roo's JSON for the row (`{"tool": "readFile", …}`), or `{}` when `row_text` says it."""
    row_text: str | None = None
    """Asks whose text is not JSON (a command line)."""
    ask: AskKind = AskKind.TOOL
    path: str | None = None
    diff: str | None = None


class SetTodos(Struct, frozen=True):
    todos: tuple[Todo, ...]


class SwitchMode(Struct, frozen=True):
    slug: str


class Complete(Struct, frozen=True):
    result: str


Directive = SetTodos | SwitchMode | Complete


class Outcome(Struct, frozen=True, omit_defaults=True):
    """What the model is told, and what the task shall do."""

    text: str
    images: tuple[str, ...] = ()
    """Data URIs; they follow the result as blocks of their own."""
    is_error: bool = False
    directive: Directive | None = None
    exit_code: int | None = None
    """Of a command that ended."""
    said: tuple[tuple[str, str], ...] = ()
    """Rows for the person: (say kind, text)."""


P = TypeVar("P", bound=Struct)
R = TypeVar("R", bound=Prepared)


class Tool(ABC, Generic[P, R]):
    """One instance serves all tasks: everything about a call is in its arguments."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    group: ClassVar[Group]
    params: ClassVar[type[Struct]]
    """The native arguments; its fields, their docs and defaults make the schema."""
    parallel: ClassVar[bool] = False
    """Only reads, so it may run beside its neighbours."""
    strict: ClassVar[bool] = True
    xml_params: ClassVar[tuple[str, ...]] = ()
    """Tags beside the fields of `params` that XML calls may use: old names and wrappers."""

    @abstractmethod
    def parse(self, arguments: dict[str, Any]) -> P:
        """Arguments of either protocol as parameters; lenient about types and old names.

        Raises:
            ArgumentError: naming the parameter that is missing or wrong.
        """

    @abstractmethod
    async def prepare(self, params: P, ctx: ToolContext) -> R:
        """Look at the world and say what would be done; changes nothing."""

    @abstractmethod
    async def run(self, prepared: R, ctx: ToolContext, answer: Answer | None) -> Outcome:
        """Do it. `answer` is the person's, when one was asked."""

    def describe(self, arguments: dict[str, Any]) -> str:
        """`[read_file for 'a.py']`: how a result in the XML protocol names its call."""
        for key in ("path", "file_path", "question", "query", "action", "task", "command"):
            if isinstance(value := arguments.get(key), str):
                return f"[{self.name} for '{value}']"
        return f"[{self.name}]"

    @property
    def description(self) -> str:
        """What the model is told about the tool: the Markdown file beside its module."""
        return _description(self.name)[0]

    @property
    def xml_usage(self) -> str | None:
        """A hand-written example of the call as XML, where one made from the schema won't do."""
        return _description(self.name)[1]


@cache
def _description(name: str) -> tuple[str, str | None]:
    """The Markdown file of a tool, cut in two at the line ``---xml---`` if it has one."""
    text = files("joey.tools").joinpath(f"{name}.md").read_text(encoding="utf-8")
    description, marker, usage = text.partition("\n---xml---\n")
    return description.strip(), usage.strip() if marker else None
