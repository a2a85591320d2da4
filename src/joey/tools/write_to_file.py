"""Write a whole file, new or in place of an old one."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.asks import Answer
from joey.core.models import ModelInfo
from joey.core.modes import Group
from joey.core.text import has_line_numbers, strip_line_numbers, unescape_entities
from joey.ports import ToolContext
from joey.tools.arguments import convert, missing
from joey.tools.base import Access, Claim, Outcome, Prepared, Tool
from joey.tools.file_edit import (
    Original,
    edit_facts,
    load_original,
    make_patch,
    save,
    write_result,
)

_MARKDOWN = frozenset({".md", ".mdx", ".markdown"})


class WriteToFileParams(Struct, frozen=True):
    path: Annotated[str, Meta(description="Path of the file, relative to the workspace.")]
    content: Annotated[
        str,
        Meta(
            description="The whole content of the file, from the first line to the last, without"
            " line numbers and without anything left out."
        ),
    ]


class PreparedWrite(Prepared, frozen=True, kw_only=True):
    original: Original
    data: bytes


class WriteToFile(Tool[WriteToFileParams, PreparedWrite]):
    name: ClassVar[str] = "write_to_file"
    aliases: ClassVar[tuple[str, ...]] = ("write_file",)
    group: ClassVar[Group] = Group.EDIT
    params: ClassVar[type[Struct]] = WriteToFileParams
    xml_params: ClassVar[tuple[str, ...]] = ("file_text", "line_count")

    def parse(self, arguments: dict[str, Any]) -> WriteToFileParams:
        params = convert(arguments, WriteToFileParams, self.name, {"file_text": "content"})
        if not params.path.strip():
            raise missing(self.name, "path")
        return params

    async def prepare(self, params: WriteToFileParams, ctx: ToolContext) -> PreparedWrite:
        original = await load_original(ctx, params.path)
        place = original.place
        text = _with_line_ends_of(original, clean_content(params.content, params.path, ctx.model))
        data = original.encode(text)
        patch = await make_patch(original, text)
        tag = "editedExistingFile" if original.exists else "newFileCreated"
        return PreparedWrite(
            claims=(Claim(Access.WRITE, place=place),),
            row={"tool": tag, **edit_facts(place, patch)},
            path=place.shown,
            diff=patch.text,
            original=original,
            data=data,
        )

    async def run(
        self, prepared: PreparedWrite, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        await save(ctx, prepared.original, prepared.data)
        return Outcome(write_result(prepared.original, ctx.protocol))


def clean_content(content: str, path: str, model: ModelInfo) -> str:
    """What the model meant to be in the file, without what it put around it by habit."""
    if "claude" not in model.id.lower() and _is_escaped_throughout(content):
        content = unescape_entities(content)
    if PurePath(path).suffix.lower() not in _MARKDOWN:
        content = _without_fence(content)
    return strip_line_numbers(content) if has_line_numbers(content) else content


def _is_escaped_throughout(content: str) -> bool:
    """Markup that has entities and no bracket at all; with brackets, entities are meant."""
    if "<" in content or ">" in content:
        return False
    return "&lt;" in content or "&gt;" in content


def _without_fence(content: str) -> str:
    """Content that is wrapped in a Markdown code block as a whole, without the wrapping."""
    stripped = content.strip()
    first, newline, rest = stripped.partition("\n")
    if not (newline and first.startswith("```") and rest.endswith("```")):
        return content
    body, newline, last = rest.rpartition("\n")
    if last.strip() != "```":
        return content
    return f"{body}\n" if newline else ""


def _with_line_ends_of(original: Original, text: str) -> str:
    """A file of `\\r\\n` lines stays one when the new text says nothing about line ends."""
    data = original.data or b""
    crlf = data.count(b"\r\n")
    if "\r\n" in text or crlf * 2 <= data.count(b"\n"):
        return text
    return text.replace("\n", "\r\n")
