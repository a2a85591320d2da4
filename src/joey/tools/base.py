"""The base class of tools: parameters, schema, `prepare` (claims) and `run_prepared` (act).

Between the two, the policy judges the claims and the user is asked if necessary. A tool never calls
the engine: a request to the task itself is returned as a directive. The text that one call may
return is limited by the model's context window (`compute_text_budget`). Output of a running call is
passed on at a limited rate (`LiveOutput`).
"""

from __future__ import annotations

import asyncio
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from joey.core.diagnostics import Diagnostic
from joey.core.models import ModelInfo, ToolProtocol, ToolSpec
from joey.core.modes import Mode, ToolGroup, find_mode
from joey.core.parsing.call_names import KnownTool
from joey.core.path_access import ResolvedPath
from joey.core.permissions.policy import Access as Access  # noqa: PLC0414
from joey.core.permissions.policy import Claim as Claim  # noqa: PLC0414
from joey.core.settings import Settings
from joey.core.suggest import find_closest_name
from joey.core.task_types import Answer, AskKind, CallEnding, RowKind, Todo
from joey.core.tool_calls import CallKind
from joey.core.tool_schema import simplify_schema
from joey.errors import IgnoredPathError, TargetNotFoundError, ToolError
from joey.ports.execution import Terminal
from joey.ports.tool_context import Capabilities, ToolContext
from joey.tools.parameters import (
    build_native_schema,
    coerce_argument,
    collect_xml_descriptions,
    convert_arguments,
    list_required_parameters,
    require_texts,
)


class PreparedToolCall(Struct, frozen=True, kw_only=True):
    """A call that is ready to run. Subclass it to hold what `run_prepared` needs."""

    claims: tuple[Claim, ...]
    row: dict[str, Any]
    """Roo's JSON for the row (`{"tool": "readFile", …}`), or `{}` when `row_text` says it."""
    row_text: str | None = None
    """Asks whose text is not JSON (a command line)."""
    ask_kind: AskKind = AskKind.TOOL
    path: str | None = None
    diff: str | None = None
    kind: CallKind | None = None
    """Set where the row does not say it."""
    outcome: Outcome | None = None
    """Set where nothing is left to do once the call is allowed."""


class SetTodos(Struct, frozen=True):
    todos: tuple[Todo, ...]


class ChangeMode(Struct, frozen=True):
    slug: str


class CompleteTask(Struct, frozen=True):
    result: str


class StartSubtask(Struct, frozen=True):
    """Start a subtask, whose result becomes the result of this call."""

    mode: str
    message: str
    todos: tuple[Todo, ...] = ()
    use_worktree: bool = False
    """In a git worktree of its own."""


Directive = SetTodos | ChangeMode | CompleteTask | StartSubtask


class Outcome(Struct, frozen=True, omit_defaults=True):
    """The result for the model, and directives for the task."""

    text: str
    images: tuple[str, ...] = ()
    """Data URIs; they follow the result as blocks of their own."""
    is_error: bool = False
    directive: Directive | None = None
    exit_code: int | None = None
    """Of a command that ended."""
    signal: str | None = None
    ending: CallEnding | None = None
    has_background_processes: bool = False
    """The command ended and left processes that still run."""
    lacked_network: bool = False
    """A command failed because its sandbox lets it reach no network, or not that host."""
    new_errors: tuple[Diagnostic, ...] = ()
    """Errors that an edit introduced."""
    rows: tuple[tuple[RowKind, str], ...] = ()
    """Rows for the user: (kind, text)."""


class AvailabilityContext(Struct, frozen=True):
    """What decides, besides the mode, whether a tool is offered."""

    settings: Settings
    model: ModelInfo
    capabilities: Capabilities
    protocol: ToolProtocol = ToolProtocol.NATIVE
    is_unattended: bool = False
    """Nobody can approve or answer."""

    @property
    def edit_tool(self) -> str:
        """The only tool for changing parts of files: the user's choice, else the model's."""
        if self.model.has_small_window:
            return "edit"  # takes the fewest tokens to explain
        chosen = self.settings.edit_tool
        return self.model.preferred_edit_tool if chosen == "auto" else chosen


ParamsT = TypeVar("ParamsT", bound=Struct)
PreparedT = TypeVar("PreparedT", bound=PreparedToolCall)


class Tool(ABC, Generic[ParamsT, PreparedT]):
    """A tool. One instance serves all tasks: everything about a call is in its arguments."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    group: ClassVar[ToolGroup]
    params: ClassVar[type[Struct]]
    """The native arguments; its fields, their docs and defaults make the schema."""
    can_run_in_parallel: ClassVar[bool] = False
    """Only reads, so it may run beside its neighbours."""
    starts_subtask: ClassVar[bool] = False
    """Hands its work to a subtask, which may run beside those of its neighbours."""
    strict: ClassVar[bool] = True
    required_texts: ClassVar[tuple[str, ...]] = ()
    """Parameters that must not be blank."""
    parameter_aliases: ClassVar[Mapping[str, str]] = {}
    """Other names of parameters: `{old: real}`."""
    bare_parameter: ClassVar[str | None] = None
    """What a call means that holds only text, if it needs more than one parameter."""
    extra_xml_params: ClassVar[tuple[str, ...]] = ()
    """Tags beside the fields of `params` that XML calls may use: old names and wrappers."""

    def is_offered(self, context: AvailabilityContext) -> bool:
        """Whether it is useful here. A tool that is not offered can still be called."""
        return True

    @property
    def spec(self) -> ToolSpec:
        """The specification of the tool for the model."""
        return _build_spec(self)

    def select_spec(self, context: AvailabilityContext) -> ToolSpec:
        """Select the specification, for tools with variants: one cached object for each, so that
        its bytes stay the same."""
        return self.spec

    @property
    def xml_tags(self) -> frozenset[str]:
        """Tags that may be inside of the tool's own in an XML call."""
        return frozenset((*self.params.__struct_encode_fields__, *self.extra_xml_params))

    def describe_to_parser(self, name: str, *, is_callable: bool = True) -> KnownTool:
        """Describe the tool under one of its names, for the parsers of calls."""
        required = list_required_parameters(self.params)
        return KnownTool(
            name=name,
            parameters=self.xml_tags,
            bare_parameter=self.bare_parameter or (required[0] if len(required) == 1 else None),
            is_callable=is_callable,
            find_problem=self._find_argument_problem,
        )

    def _find_argument_problem(self, arguments: dict[str, Any]) -> str | None:
        try:
            self.parse(arguments)
        except ToolError as error:
            return str(error)
        return None

    def parse(self, arguments: dict[str, Any]) -> ParamsT:
        """Parse arguments of either protocol; lenient about types and old names. Raises
        ArgumentError, which names the parameter that is missing or wrong."""
        params = convert_arguments(arguments, self.params, self.name, self.parameter_aliases)
        require_texts(params, self.required_texts, self.name)
        return typing.cast("ParamsT", params)

    def prewarm(self, terminal: Terminal) -> None:
        """Prepare for a call that is beginning to arrive; its arguments and approval come later."""

    @abstractmethod
    async def prepare(self, params: ParamsT, ctx: ToolContext) -> PreparedT:
        """Read what is needed and say what would be done, without changing anything."""

    async def run_prepared(
        self, prepared: PreparedT, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        """Run the call. `answer` is the user's, if they were asked."""
        assert prepared.outcome is not None
        return prepared.outcome

    def describe_call(self, arguments: dict[str, Any]) -> str:
        """Describe the call in the result of the XML protocol: `[read_file for 'a.py']`."""
        for key in ("path", "file_path", "question", "query", "action", "task", "command"):
            if isinstance(value := arguments.get(key), str):
                return f"[{self.name} for '{_shorten(value)}']"
        return f"[{self.name}]"

    @property
    def description(self) -> str:
        """The description for the model: the Markdown file next to its module."""
        return _load_description(self.name)[0]

    @property
    def xml_usage(self) -> str | None:
        """A hand-written example of the call as XML, if the generated one is not enough."""
        return _load_description(self.name)[1]


class ExternalCall(Struct, frozen=True):
    arguments: dict[str, Any]


class ExternalTool(Tool[ExternalCall, PreparedT]):
    """A tool defined by others: its name, description and schema come from outside joey."""

    params: ClassVar[type[Struct]] = ExternalCall

    def __init__(self, name: str, description: str, schema: dict[str, Any]) -> None:
        self.name = name  # type: ignore[misc]  # each instance is another tool
        schema = simplify_schema(schema)
        # Some services refuse a tool without a description.
        self._spec = ToolSpec(name, description.strip() or name, schema, strict=False)
        self._schemas: dict[str, Any] = schema.get("properties", {})

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @property
    def xml_tags(self) -> frozenset[str]:
        return frozenset(self._schemas)

    @property
    def description(self) -> str:
        return self._spec.description

    @property
    def xml_usage(self) -> str | None:
        return None

    def parse(self, arguments: dict[str, Any]) -> ExternalCall:
        given = arguments.items()
        return ExternalCall({k: coerce_argument(v, self._schemas.get(k)) for k, v in given})

    def describe_call(self, arguments: dict[str, Any]) -> str:
        return f"[{self.name}]"


def _shorten(text: str) -> str:
    """Shorten text that the model has written itself to its first line."""
    line = text.partition("\n")[0][:_MAX_DESCRIPTION_CHARS]
    return line if line == text else f"{line}…"


class PathParams(Struct, frozen=True):
    """Parameters of a lookup; subclasses add others."""

    path: str


PathParamsT = TypeVar("PathParamsT", bound=PathParams)


class PreparedLookup(PreparedToolCall, frozen=True, kw_only=True):
    params: Any
    resolved_path: ResolvedPath


class LookupTool(Tool[PathParamsT, PreparedLookup]):
    """A tool that looks something up before approval, but outside of the workspace only
    afterwards."""

    group: ClassVar[ToolGroup] = ToolGroup.READ
    can_run_in_parallel: ClassVar[bool] = True

    @abstractmethod
    def build_row(self, params: PathParamsT, path: ResolvedPath) -> dict[str, Any]:
        """The beginning of the row, with the path."""

    @abstractmethod
    async def look_up(self, params: PathParamsT, path: ResolvedPath, ctx: ToolContext) -> str:
        """Return the result for the model."""

    async def prepare(self, params: PathParamsT, ctx: ToolContext) -> PreparedLookup:
        path = resolve_visible_path(ctx, params.path)
        try:
            result = await self.look_up(params, path, ctx) if path.is_inside else None
        except TargetNotFoundError as error:
            raise TargetNotFoundError(f"{error}{await suggest_paths(ctx, path)}") from error
        return PreparedLookup(
            claims=(Claim(Access.READ, path=path),),
            row={
                **self.build_row(params, path),
                "isOutsideWorkspace": not path.is_inside,
                "content": result or "",
            },
            path=path.display_path,
            outcome=None if result is None else Outcome(result),
            params=params,
            resolved_path=path,
        )

    async def run_prepared(
        self, prepared: PreparedLookup, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        return prepared.outcome or Outcome(
            await self.look_up(prepared.params, prepared.resolved_path, ctx)
        )


_MAX_DESCRIPTION_CHARS = 120
_GLOB_CHARACTERS = frozenset("*?[]{}!\\,")
_MAX_SUGGESTED_PATHS = 3
_MAX_COMPARED_NAMES = 1000


async def suggest_paths(ctx: ToolContext, missing: ResolvedPath) -> str:
    """Suggest paths for one that does not exist, in a sentence: those of the same name elsewhere in
    the workspace, else the most similar one in its directory."""
    name, parent = missing.path.name, missing.path.parent
    if not missing.is_inside or not _GLOB_CHARACTERS.isdisjoint(name):
        return ""
    try:
        root = ctx.files.resolve(".")
        found = await ctx.search.find_files(root, name, _MAX_SUGGESTED_PATHS)
        paths = list(found.entries)
        if not paths:
            directory = ctx.files.resolve(str(parent))
            listed = await ctx.search.list_directory(directory, False, _MAX_COMPARED_NAMES)
            names = [entry.rstrip("/") for entry in listed.entries]
            near = find_closest_name(name, names)
            paths = [ctx.files.resolve(str(parent / near)).display_path] if near else []
    except ToolError:
        return ""
    return f" Did you mean {' or '.join(paths)}?" if paths else ""


@cache
def _build_spec(tool: Tool[Any, Any]) -> ToolSpec:
    """Build the specification: the same object for the same tool, so that its bytes can be
    cached."""
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        parameters=build_native_schema(tool.params),
        strict=tool.strict,
        xml_descriptions=collect_xml_descriptions(tool.params),
    )


@cache
def _load_description(name: str) -> tuple[str, str | None]:
    """Load the Markdown file of a tool, split at the line ``---xml---`` if it has one."""
    text = Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")
    description, marker, usage = text.partition("\n---xml---\n")
    return description.strip(), usage.strip() if marker else None


_MIN_BUDGET_BYTES = 4 * 1024
_MAX_BUDGET_BYTES = 1024 * 1024
_BYTES_PER_TOKEN = 3


def compute_text_budget(model: ModelInfo) -> int:
    """Compute how many bytes of text one call may return: three fifths of the window without the
    reply, or a quarter of a small window."""
    tokens = (model.context_window - model.max_output_tokens) * 3 // 5
    if model.has_small_window:
        tokens = model.context_window // 4
    return max(_MIN_BUDGET_BYTES, min(_MAX_BUDGET_BYTES, tokens * _BYTES_PER_TOKEN))


def truncate_to_budget(text: str, model: ModelInfo, note: str) -> str:
    """Cut a text to the lines that one call may return, with a note if any are missing."""
    data, budget = text.encode(errors="replace"), compute_text_budget(model)
    if len(data) <= budget:
        return text
    return data[: data.rfind(b"\n", 0, budget)].decode(errors="replace") + f"\n\n{note}"


def resolve_visible_path(ctx: ToolContext, path: str) -> ResolvedPath:
    """Resolve a path that the model may see. Raises ToolError if it cannot be used,
    IgnoredPathError if it is hidden."""
    resolved_path = ctx.files.resolve(path)
    if resolved_path.is_ignored:
        raise IgnoredPathError(path, resolved_path.ignore_error)
    refuse_private_path(ctx, resolved_path)
    return resolved_path


def require_mode(slug: str, ctx: ToolContext) -> Mode:
    """Raises ToolError: there is no such mode."""
    mode = find_mode(slug.strip(), ctx.modes)
    if mode is None:
        known = ", ".join(mode.slug for mode in ctx.modes)
        raise ToolError(f"Invalid mode: {slug.strip()}. Available modes: {known}.")
    return mode


def refuse_private_path(ctx: ToolContext, path: ResolvedPath) -> None:
    """Reject a private file of sandboxed commands, which no user could show."""
    is_readable = path.is_inside or path.can_read_without_approval
    if not is_readable and ctx.terminal.is_private(path.path):
        raise ToolError(
            f"{path.path_as_given} is in the commands' own temporary directory, which only commands"
            " see. Use one, e.g. `cat`, or put the file into the workspace."
        )


_OUTPUT_INTERVAL_S = 0.1
_MAX_PENDING_CHARS = 32 * 1024


class LiveOutput:
    """Passes output on at once, then at intervals; of very much output, only the latest part."""

    def __init__(self, sink: Callable[[str], None]) -> None:
        self._sink = sink
        self._pending_text = ""
        self._dropped_chars = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def write(self, text: str) -> None:
        if self._is_closed:
            return
        kept = (self._pending_text + text)[-_MAX_PENDING_CHARS:]
        self._dropped_chars += len(self._pending_text) + len(text) - len(kept)
        self._pending_text = kept
        if self._timer is None:
            self._flush_periodically()

    def close(self) -> None:
        """Pass on the rest; later output is reported with the next request."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._pending_text:
            self._flush()

    def _flush_periodically(self) -> None:
        self._timer = None
        if self._pending_text:
            self._timer = asyncio.get_running_loop().call_later(
                _OUTPUT_INTERVAL_S, self._flush_periodically
            )
            self._flush()

    def _flush(self) -> None:
        note = (
            f"\n[...{self._dropped_chars} characters omitted...]\n" if self._dropped_chars else ""
        )
        text, self._pending_text, self._dropped_chars = note + self._pending_text, "", 0
        self._sink(text)
