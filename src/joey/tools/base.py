"""What a tool is: parameters, then `prepare` (look, compute, claim), then `run` (act).

Between the two the policy judges the claims and, where it must, a person is asked. A tool never
reaches the engine: what it wants of the task itself it returns as a directive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import fields

from joey.core.models import ModelInfo, ToolProtocol, ToolSpec
from joey.core.modes import Group
from joey.core.permissions.policy import Access as Access  # noqa: PLC0414 (a name of this module too)
from joey.core.permissions.policy import Claim as Claim  # noqa: PLC0414
from joey.core.settings import Settings
from joey.core.task import Answer, AskKind, Todo
from joey.ports import Extras, Terminal, ToolContext
from joey.tools.schema import native_schema


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


class Delegate(Struct, frozen=True):
    """A subtask shall do a part of the work; its result becomes the result of this call."""

    mode: str
    message: str
    todos: tuple[Todo, ...] = ()
    worktree: bool = False
    """In a git worktree of its own."""


Directive = SetTodos | SwitchMode | Complete | Delegate


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


class Offer(Struct, frozen=True):
    """What decides whether a tool is offered, beside the mode."""

    settings: Settings
    model: ModelInfo
    extras: Extras
    protocol: ToolProtocol = ToolProtocol.NATIVE

    @property
    def edit_tool(self) -> str:
        """The one tool for changing parts of files: the user's choice, else the model's own."""
        chosen = self.settings.edit_tool
        return self.model.edit_tool if chosen == "auto" else chosen


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
    delegates: ClassVar[bool] = False
    """Hands its work to a subtask, which may run beside those of its neighbours."""
    strict: ClassVar[bool] = True
    xml_params: ClassVar[tuple[str, ...]] = ()
    """Tags beside the fields of `params` that XML calls may use: old names and wrappers."""

    def offered(self, offer: Offer) -> bool:
        """Whether it is of use here. What is not offered is still understood when called."""
        return True

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is told of it."""
        return _spec(self)

    def spec_for(self, offer: Offer) -> ToolSpec:
        """The same, for tools that can do more in some places: one object for each that it may be,
        so that its bytes can be kept."""
        return self.spec

    @property
    def xml_tags(self) -> frozenset[str]:
        """Tags that may stand inside of the tool's own in an XML call."""
        return _xml_tags(self)

    @abstractmethod
    def parse(self, arguments: dict[str, Any]) -> P:
        """Arguments of either protocol as parameters; lenient about types and old names.

        Raises:
            ArgumentError: naming the parameter that is missing or wrong.
        """

    def foresee(self, terminal: Terminal) -> None:
        """A call of it begins to arrive; its arguments, and leave to run it, come later."""

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
def _spec(tool: Tool[Any, Any]) -> ToolSpec:
    """The same object for the same tool, so that its bytes can be kept."""
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        parameters=native_schema(tool.params),
        strict=tool.strict,
    )


@cache
def _xml_tags(tool: Tool[Any, Any]) -> frozenset[str]:
    return frozenset({field.encode_name for field in fields(tool.params)} | set(tool.xml_params))


@cache
def _description(name: str) -> tuple[str, str | None]:
    """The Markdown file of a tool, cut in two at the line ``---xml---`` if it has one."""
    text = Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")
    description, marker, usage = text.partition("\n---xml---\n")
    return description.strip(), usage.strip() if marker else None
