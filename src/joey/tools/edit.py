"""The `edit` tool: replaces a text in a file.

Earlier forms of its arguments are still accepted: `search_and_replace` took a list of `operations`,
and in XML a `search` with flags and lines.

Regular expressions are evaluated in a separate process: one that backtracks forever could not be
interrupted in the engine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct, field

from joey.core.edits.text_replace import (
    MAX_MATCHES,
    CharSpan,
    NormalizedText,
    collect_matches,
    explain_wrong_count,
)
from joey.core.path_access import ResolvedPath
from joey.errors import ArgumentError, ToolError
from joey.ports.tool_context import ToolContext
from joey.system.subprocess import run
from joey.tools.file_edit import (
    OriginalFile,
    replace_surrogates,
    require_editable_text,
    run_in_thread_if_large,
)
from joey.tools.parameters import build_missing_parameter_error, convert_arguments
from joey.tools.text_edit_base import (
    NoTextChange,
    ReplaceFailure,
    TextChange,
    TextEditTool,
    explain_no_match,
    find_and_replace,
    format_edit_failure,
    format_replace_failure,
    refuse_identical,
)

FIND_TIMEOUT_S = 10.0
_SPANS_SCRIPT = Path(__file__).with_name("regex_spans_worker.py")


class StringReplacement(Struct, frozen=True):
    """A text that occurs once, or everywhere with `replace_all`."""

    file_path: str
    old_string: str
    new_string: str
    replace_all: bool = False


class ReplaceOperation(Struct, frozen=True):
    search: str
    replace: str


class BatchReplacement(Struct, frozen=True):
    """Texts that occur once each, replaced one after another."""

    path: str
    operations: tuple[ReplaceOperation, ...]


class PatternReplacement(Struct, frozen=True):
    """A text or an expression, anywhere in these lines."""

    path: str
    search: str
    replace: str
    start_line: int | None = None
    end_line: int | None = None
    use_regex: bool = False
    ignore_case: bool = False


class EditRequest(Struct, frozen=True):
    path: str
    replacement: StringReplacement | BatchReplacement | PatternReplacement


_MAX_EXPLAINED_FAILURES = 5
"""Looking for what is most like the texts of an operation that does not fit is dear."""
_QUOTE_MORE_ADVICE = "Quote 3-5 lines around the one you mean."
_QUOTE_MORE_OR_ALL_ADVICE = (
    f"{_QUOTE_MORE_ADVICE[:-1]}, or set replace_all to true to change them all."
)


class EditParams(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="Path of the file, relative to the workspace.")]
    old_string: Annotated[
        str,
        Meta(
            description="The text to replace, exactly as it is in the file, with its indentation"
            " and line breaks, without line numbers."
        ),
    ]
    new_string: Annotated[
        str, Meta(description="The text that takes its place; empty to delete it.")
    ]
    replace_all: Annotated[
        bool,
        Meta(description="Replace the text wherever it is. Otherwise it must be there just once."),
    ] = False


class Edit(TextEditTool[EditRequest]):
    name: ClassVar[str] = "edit"
    aliases: ClassVar[tuple[str, ...]] = ("search_and_replace",)
    params: ClassVar[type[Struct]] = EditParams
    extra_xml_params: ClassVar[tuple[str, ...]] = (
        *("path", "operations", "search", "replace", "start_line", "end_line"),
        *("use_regex", "ignore_case"),
    )

    def parse(self, arguments: dict[str, Any]) -> EditRequest:
        return parse_request(arguments, self.name)

    def get_path(self, params: EditRequest) -> str:
        return params.path

    async def compute_change(
        self, params: EditRequest, original: OriginalFile, ctx: ToolContext
    ) -> TextChange | NoTextChange:
        text = await require_editable_text(ctx, original, self.name)
        match params.replacement:
            case StringReplacement() as one:
                change = await run_in_thread_if_large(
                    len(text), lambda: _replace_string(text, one, original.resolved_path, ctx)
                )
            case BatchReplacement() as several:
                size = len(text) * len(several.operations)
                change = await run_in_thread_if_large(
                    size, lambda: _apply_operations(text, several, original.resolved_path, ctx)
                )
            case PatternReplacement() as everywhere:
                change = await _replace_matches(text, everywhere, original.resolved_path)
        if change.text == text:
            return NoTextChange(f"No changes needed for '{original.resolved_path.path_as_given}'")
        return change


def _replace_string(
    text: str, one: StringReplacement, path: ResolvedPath, ctx: ToolContext
) -> TextChange:
    expected = None if one.replace_all else 1
    outcome = find_and_replace(text, one.old_string, one.new_string, ctx.model, expected=expected)
    if isinstance(outcome, ReplaceFailure):
        raise ToolError(
            format_replace_failure(outcome, "old_string", path, _QUOTE_MORE_OR_ALL_ADVICE)
        )
    notes = _format_change_count(len(outcome.result.spans)) if one.replace_all else ()
    return TextChange(outcome.result.text, outcome.stripped_parts, notes)


def _apply_operations(
    text: str, several: BatchReplacement, path: ResolvedPath, ctx: ToolContext
) -> TextChange:
    failures: list[str] = []
    taken_off: dict[str, None] = {}
    for number, operation in enumerate(several.operations, 1):
        outcome = find_and_replace(
            text,
            operation.search,
            operation.replace,
            ctx.model,
            is_explained=len(failures) < _MAX_EXPLAINED_FAILURES,
        )
        if isinstance(outcome, ReplaceFailure):
            reason = format_replace_failure(outcome, "search", path, _QUOTE_MORE_ADVICE)
            failures.append(f"Operation {number}: {reason}")
        else:
            text = outcome.result.text
            taken_off |= dict.fromkeys(outcome.stripped_parts)
    if len(failures) == len(several.operations):
        raise ToolError("\n".join(failures))
    return TextChange(text, tuple(taken_off), failures=tuple(failures))


async def _replace_matches(text: str, wanted: PatternReplacement, path: ResolvedPath) -> TextChange:
    flat = NormalizedText(text)
    within = await run_in_thread_if_large(
        len(text), lambda: flat.get_normalized_line_span(wanted.start_line, wanted.end_line)
    )
    if wanted.use_regex or wanted.ignore_case:
        found = await find_pattern(
            flat.normalized_text[within.start : within.stop],
            wanted.search,
            is_regex=wanted.use_regex,
            ignore_case=wanted.ignore_case,
        )
        spans = [CharSpan(within.start + start, within.start + stop) for start, stop in found]
    else:
        spans = await run_in_thread_if_large(len(text), lambda: flat.find(wanted.search, within))
    if not spans:
        raise ToolError(
            await run_in_thread_if_large(len(text), lambda: _explain_no_match(flat, wanted, path))
        )
    new = await run_in_thread_if_large(len(text), lambda: flat.replace(spans, wanted.replace))
    return TextChange(new, notes=_format_change_count(len(spans)))


def _explain_no_match(flat: NormalizedText, wanted: PatternReplacement, path: ResolvedPath) -> str:
    lines = ""
    if wanted.start_line or wanted.end_line:
        lines = f"lines {wanted.start_line or 1}-{wanted.end_line or 'end'} of "
    message = f"No match found for search in {lines}{path.display_path}."
    if wanted.use_regex:
        return message
    elsewhere = flat.find(wanted.search)
    failure = (
        explain_wrong_count(flat, elsewhere)
        if elsewhere
        else explain_no_match(flat, wanted.search, wanted.replace)
    )
    return f"{message} {format_edit_failure(failure, path)}"


def _format_change_count(count: int) -> tuple[str, ...]:
    return (f"{count} places were changed." if count > 1 else "One place was changed.",)


def parse_request(arguments: Mapping[str, Any], tool: str) -> EditRequest:
    """Parse a request. Raises ArgumentError if something is missing or invalid."""
    given = {name: value for name, value in arguments.items() if value is not None}
    if "operations" in given:
        return _parse_operations(given, tool)
    if "search" in given and "old_string" not in given:
        everywhere = convert_arguments(given, PatternReplacement, tool, {"file_path": "path"})
        _require(tool, search=everywhere.search, path=everywhere.path.strip())
        return EditRequest(everywhere.path, everywhere)
    one = convert_arguments(given, StringReplacement, tool, {"path": "file_path"})
    _require(tool, old_string=one.old_string)
    refuse_identical(one.old_string, one.new_string)
    _require(tool, file_path=one.file_path.strip())
    return EditRequest(one.file_path, one)


def _require(tool: str, **values: object) -> None:
    for name, value in values.items():
        if not value:
            raise build_missing_parameter_error(tool, name)


class _RawOperations(Struct, frozen=True):
    path: str
    operations: tuple[dict[str, Any], ...]


def _parse_operations(given: Mapping[str, Any], tool: str) -> EditRequest:
    listed = convert_arguments(given, _RawOperations, tool, {"file_path": "path"})
    _require(tool, operations=listed.operations)
    operations = tuple(
        _parse_operation(number, given, tool) for number, given in enumerate(listed.operations, 1)
    )
    _require(tool, path=listed.path.strip())
    return EditRequest(listed.path, BatchReplacement(listed.path, operations))


def _parse_operation(number: int, given: dict[str, Any], tool: str) -> ReplaceOperation:
    for name in ("search", "replace"):
        if given.get(name) is None:
            raise ArgumentError(f"Operation {number} of {tool} has no value for '{name}'.")
    operation = convert_arguments(given, ReplaceOperation, tool)
    if not operation.search:
        raise ArgumentError(f"Operation {number} of {tool} has an empty 'search'.")
    return operation


class _SpansResponse(Struct, frozen=True):
    spans: tuple[tuple[int, int], ...] = ()
    error: str | None = field(default=None, name="problem")


async def find_pattern(
    text: str, pattern: str, *, is_regex: bool, ignore_case: bool, seconds: float = FIND_TIMEOUT_S
) -> list[CharSpan]:
    """Find every match from left to right; `^` and `$` match at line ends. Raises ToolError if the
    expression is invalid, takes too long, or matches too often."""
    request = json.dumps(
        {
            "text": text,
            "pattern": pattern,
            "is_regex": is_regex,
            "ignore_case": ignore_case,
            "most": MAX_MATCHES + 1,
        }
    ).encode()
    shown = replace_surrogates(pattern)
    try:
        command = (sys.executable, "-I", "-S", str(_SPANS_SCRIPT))
        done = await run(command, input=request, env={}, timeout_s=seconds)
    except TimeoutError as error:
        raise ToolError(
            f"Looking for `{shown}` took longer than {seconds:g} s and was stopped. Use a simpler"
            " expression."
        ) from error
    if done.returncode != 0:
        raise ToolError(f"Looking for `{shown}` failed. Use a simpler expression.")

    def decode() -> list[CharSpan]:
        answer = msgspec.json.decode(done.stdout, type=_SpansResponse)
        if answer.error is not None:
            raise ToolError(f"`{shown}` is not a regular expression: {answer.error}.")
        return collect_matches(CharSpan(*span) for span in answer.spans)

    return await run_in_thread_if_large(len(done.stdout), decode)
