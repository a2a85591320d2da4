"""The `generate_image` tool: has an image generated and writes it to a file."""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import PurePath
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from joey.core.messages import detect_image_type
from joey.core.modes import ToolGroup
from joey.core.path_access import ResolvedPath
from joey.core.task_types import Answer, RowKind
from joey.core.text import compile_regex
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
    resolve_visible_path,
)
from joey.tools.images import ImageBudget, encode_data_uri

_IMAGE_URI_RE = compile_regex(r"data:image/(png|jpe?g|webp);base64,(.*)", re.DOTALL)
_SUFFIX_BY_FORMAT = {"png": ".png", "jpeg": ".jpeg", "webp": ".webp"}
_INPUT_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})


class GenerateImageParams(Struct, frozen=True):
    prompt: Annotated[str, Meta(description="What the picture shall show, or what to change.")]
    path: Annotated[str, Meta(description="Where to put it, relative to the workspace.")]
    image: Annotated[str | None, Meta(description="Path of an image to start from.")] = None


class PreparedImage(PreparedToolCall, frozen=True, kw_only=True):
    prompt: str
    target_path: ResolvedPath
    source_path: ResolvedPath | None


class GenerateImage(Tool[GenerateImageParams, PreparedImage]):
    name: ClassVar[str] = "generate_image"
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    params: ClassVar[type[Struct]] = GenerateImageParams

    def is_offered(self, context: AvailabilityContext) -> bool:
        return context.capabilities.image_generator is not None

    async def prepare(self, params: GenerateImageParams, ctx: ToolContext) -> PreparedImage:
        if ctx.capabilities.image_generator is None:
            raise ToolError("No model for pictures is configured (setting `imageProfile`).")
        target = resolve_visible_path(ctx, params.path)
        source = resolve_visible_path(ctx, params.image) if params.image else None
        claims = [Claim(Access.WRITE, path=target)]
        row: dict[str, Any] = {
            "tool": "generateImage",
            "path": target.display_path,
            "content": params.prompt,
            "isOutsideWorkspace": not target.is_inside,
            "isProtected": target.is_protected,
        }
        if source is not None:
            if PurePath(source.display_path).suffix.lower() not in _INPUT_SUFFIXES:
                raise ToolError(f"{source.display_path} is not a picture that can be started from.")
            claims.append(Claim(Access.READ, path=source))
            row["inputImage"] = source.display_path
        return PreparedImage(
            claims=tuple(claims),
            row=row,
            path=target.display_path,
            prompt=params.prompt,
            target_path=target,
            source_path=source,
        )

    async def run_prepared(
        self, prepared: PreparedImage, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        assert ctx.capabilities.image_generator is not None
        source = (
            await _load_input_image(prepared.source_path, ctx)
            if prepared.source_path is not None
            else None
        )
        uri = await ctx.capabilities.image_generator.generate(prepared.prompt, source)
        format, data = _decode_image_uri(uri)
        target = await _add_missing_suffix(format, prepared.target_path, ctx)
        await ctx.files.write(target, data)
        return Outcome(f"The picture is in {target.display_path}.", rows=((RowKind.IMAGE, uri),))


async def _load_input_image(path: ResolvedPath, ctx: ToolContext) -> str:
    kind = await ctx.files.stat(path)
    if not kind.is_file:
        raise ToolError(f"There is no picture {path.display_path} to start from.")
    if refusal := ImageBudget(ctx.settings).explain_refusal(kind.size):
        raise ToolError(refusal)
    data = await ctx.files.read(path)
    media = detect_image_type(data)
    if media is None:
        raise ToolError(f"{path.display_path} is not a picture of a kind that is known.")
    return encode_data_uri(media, data)


def _decode_image_uri(uri: str) -> tuple[str, bytes]:
    found = _IMAGE_URI_RE.fullmatch(uri)
    if found is None:
        raise ToolError("The service gave something that is not a PNG, JPEG or WebP picture.")
    try:
        data = base64.b64decode(found[2], validate=True)
    except binascii.Error as error:
        raise ToolError("The service gave a picture that is damaged.") from error
    return found[1].replace("jpg", "jpeg"), data


async def _add_missing_suffix(format: str, target: ResolvedPath, ctx: ToolContext) -> ResolvedPath:
    """Add the image's suffix to an approved name without one, if that replaces no other file."""
    if PurePath(target.path_as_given).suffix:
        return target
    named = ctx.files.resolve(f"{target.path_as_given}{_SUFFIX_BY_FORMAT[format]}")
    if (named.is_ignored, named.is_inside, named.is_protected) != (
        False,
        target.is_inside,
        target.is_protected,
    ):
        return target
    is_beside = named.path.parent == target.path.parent
    return named if is_beside and not (await ctx.files.stat(named)).exists else target
