"""The `write_to_file` tool: writes a whole file, new or existing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from joey.core.edits.diff import UnifiedDiff
from joey.core.models import ToolProtocol
from joey.core.modes import ToolGroup
from joey.core.task_types import Answer
from joey.core.text import (
    compile_regex,
    has_line_numbers,
    split_lines,
    strip_code_fence,
    strip_line_numbers,
    unescape_entities,
)
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    AvailabilityContext,
    Outcome,
    PreparedToolCall,
    Tool,
    resolve_visible_path,
)
from joey.tools.file_edit import (
    OriginalFile,
    build_edit_claim,
    build_edit_row_fields,
    build_patch,
    format_new_errors,
    format_write_result,
    load_original,
    save_file,
)
from joey.tools.parameters import XML_ONLY

_PARAMETER_ALIASES = {"file_text": "content", "file_path": "path"}
_MARKDOWN_SUFFIXES = frozenset({".md", ".mdx", ".markdown"})
_OMISSION_RE = compile_regex(
    r"(?=[ \t]*(?:#|//|/\*|\{/\*|<!--|--|;|%|\(?\.\.\.|…))(?:"
    r"(?=.{0,200}(?:\.\.\.|…)).{0,200}\b(?:rest|remain\w*|existing|unchanged|omitted|same)\b"
    r"|.{0,200}\b(?:unchanged|rest of (?:the )?(?:code|file|class|function|method|module|page))\b)",
    re.IGNORECASE,
)
"""A comment that a model writes instead of lines which it means to keep."""


class WriteToFileParams(Struct, frozen=True):
    path: Annotated[str, Meta(description="Path of the file, relative to the workspace.")]
    content: Annotated[
        str,
        Meta(description="The whole content of the file, with nothing left out.", extra=XML_ONLY),
    ]


class PreparedWrite(PreparedToolCall, frozen=True, kw_only=True):
    original: OriginalFile
    new_bytes: bytes
    patch: UnifiedDiff
    stripped_parts: tuple[str, ...]
    """What the model had put around the content by habit, and is not in the file."""
    notes: tuple[str, ...]


class WriteToFile(Tool[WriteToFileParams, PreparedWrite]):
    name: ClassVar[str] = "write_to_file"
    aliases: ClassVar[tuple[str, ...]] = ("write_file",)
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    params: ClassVar[type[Struct]] = WriteToFileParams
    required_texts: ClassVar[tuple[str, ...]] = ("path",)
    parameter_aliases: ClassVar[Mapping[str, str]] = _PARAMETER_ALIASES
    extra_xml_params: ClassVar[tuple[str, ...]] = (*_PARAMETER_ALIASES, "line_count")

    def is_offered(self, context: AvailabilityContext) -> bool:
        return context.edit_tool != "apply_patch"  # whole files are part of patches

    async def prepare(self, params: WriteToFileParams, ctx: ToolContext) -> PreparedWrite:
        path = resolve_visible_path(ctx, params.path)
        try:
            original = await load_original(ctx, path)
        except ToolError:
            if path.is_inside:
                raise
            original = OriginalFile(path, None)  # saving will report the same error
        if path.is_inside:
            _refuse_if_stale(original)
        content, taken_off = clean_content(params.content, params.path, ctx)
        text = _match_line_endings(original, content, ctx.protocol)
        data = original.encode(text)
        patch = await build_patch(original, text)
        tag = "editedExistingFile" if original.exists else "newFileCreated"
        return PreparedWrite(
            claims=(build_edit_claim(original, data),),
            row={"tool": tag, **build_edit_row_fields(path, patch)},
            path=path.display_path,
            diff=patch.text,
            original=original,
            new_bytes=data,
            patch=patch,
            stripped_parts=taken_off,
            notes=_describe_omission(original, text),
        )

    async def run_prepared(
        self, prepared: PreparedWrite, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        _refuse_if_stale(prepared.original)
        errors = await save_file(ctx, prepared.original, prepared.new_bytes)
        result = format_write_result(
            prepared.original,
            prepared.patch,
            prepared.stripped_parts,
            format_new_errors(errors, ctx.settings),
            prepared.notes,
            is_replaced=True,
        )
        return Outcome(result, new_errors=errors)


def _refuse_if_stale(original: OriginalFile) -> None:
    """Reject a stale file; outside of the workspace only after the call is allowed."""
    if original.is_stale:
        raise ToolError(
            f"{original.resolved_path.display_path} was changed by the user or by a command "
            "since you last saw it, so nothing was written: that change would have been lost. Read "
            "the file again, then write it with what is new in it."
        )


def clean_content(content: str, path: str, ctx: ToolContext) -> tuple[str, tuple[str, ...]]:
    """Return the content that the model meant, without additions that models tend to make. Entities
    are decoded in XML tasks only: there, some models escape too much."""
    taken_off: list[str] = []
    by_habit = ctx.protocol is ToolProtocol.XML and "claude" not in ctx.model.id.lower()
    # Markup that has entities and no bracket at all; with brackets, entities are meant.
    is_escaped = (
        "<" not in content and ">" not in content and ("&lt;" in content or "&gt;" in content)
    )
    if by_habit and is_escaped:
        content = unescape_entities(content)
        taken_off.append("the escaping of &lt; and &gt;")
    if (
        PurePath(path).suffix.lower() not in _MARKDOWN_SUFFIXES
        and strip_code_fence(content) != content
    ):
        content = strip_code_fence(content)
        taken_off.append("the code fence around it")
    if has_line_numbers(content):
        content = strip_line_numbers(content)
        taken_off.append("the line number in front of every line")
    return content, tuple(taken_off)


def _describe_omission(original: OriginalFile, text: str) -> tuple[str, ...]:
    """Find a line such as `# ... rest of code unchanged ...` that replaces existing text."""
    old, new = split_lines(original.text), split_lines(text)
    lost = len(old) - len(new)
    for number, line in enumerate(new, 1):
        if lost > 0 and _OMISSION_RE.match(line) and line not in old:
            return (
                f"Line {number} is `{line.strip()}`, and the file is {lost} lines shorter than"
                " before: nothing was filled in there. If those lines should stay, write them out.",
            )
    return ()


def _match_line_endings(original: OriginalFile, text: str, protocol: ToolProtocol) -> str:
    """A file of `\\r\\n` lines stays one when the new text says nothing about line ends, and a byte
    order mark that it has is not written twice. In XML a newline before the closing tag is not part
    of the content, so nothing can be said there about the last one: it stays as it was, and a new
    file has it."""
    if original.has_bom:
        text = text.removeprefix("\ufeff")
    old = original.text
    had_newline = old.endswith("\n") or not old
    if protocol is ToolProtocol.XML and had_newline and text and not text.endswith("\n"):
        text += "\r\n" if "\r\n" in text else "\n"
    if "\r\n" in text or old.count("\r\n") * 2 <= old.count("\n"):
        return text
    return text.replace("\n", "\r\n")
