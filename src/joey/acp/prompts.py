"""User messages: prompt blocks of an editor as text and images, and back as message chunks.

A link to a file of the workspace becomes a mention, which the engine reads with its own checks.
Embedded content is not the user's text: nothing in it is a mention or a command.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator, Sequence
from html import escape
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp.exceptions import RequestError

from acp import schema
from joey.acp.editor import SessionUpdate
from joey.acp.errors import INVALID_PARAMS
from joey.acp.tool_calls import build_image_block
from joey.client.images import ImageError, encode_image_data_uri
from joey.core.mentions import find_command_mentions, find_mentions, replace_spans
from joey.presentation.text import sanitize

PromptBlock = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)
IMAGE_MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MAX_PROMPT_CHARS = 8 * 1024 * 1024
_MENTION_ESCAPE_RE = re.compile(r"([\s\\])|(?<=.)([.,;:!?])$")


def parse_prompt(
    blocks: Sequence[PromptBlock], workspace: Path, commands: Collection[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """Parse a prompt into text for the engine and images as data URIs; `commands` are names of
    slash commands. Raises RequestError if it is empty or has content that is not supported."""
    message_parts: list[str] = []
    context: list[str] = []
    images: list[str] = []
    for index, block in enumerate(blocks):
        match block:
            case schema.TextContentBlock(text=text):
                message_parts.append(text)
            case schema.ImageContentBlock():
                images.append(_to_image_data_uri(block.data, index))
            case schema.ResourceContentBlock(uri=uri, name=name):
                message_parts.append(_format_link(uri, name, workspace))
            case schema.EmbeddedResourceContentBlock(
                resource=schema.BlobResourceContents() as blob
            ):
                media = blob.mime_type or ""
                if media in IMAGE_MEDIA_TYPES:
                    images.append(_to_image_data_uri(blob.blob, index))
                else:
                    kind = media or "its kind"
                    context.append(f"[{blob.uri} was sent along, but {kind} cannot be shown.]")
            case schema.EmbeddedResourceContentBlock(
                resource=schema.TextResourceContents() as resource
            ):
                message_parts.append(
                    _format_link(resource.uri, "", workspace, content_follows=True)
                )
                context.append(_format_embedded_text(resource, workspace, commands))
            case _:
                raise _build_prompt_error(index, "audio is not supported; send text instead")
    text = "\n\n".join(filter(None, ("".join(message_parts).strip(), *context)))
    if not text and not images:
        raise RequestError(INVALID_PARAMS, "prompt: there is nothing to send.")
    if len(text) > MAX_PROMPT_CHARS:
        problem = f"prompt: more than {MAX_PROMPT_CHARS // 2**20} million characters."
        raise RequestError(INVALID_PARAMS, problem)
    return text, tuple(images)


def _to_image_data_uri(data: str, index: int) -> str:
    """Build a data URI after checking the bytes: a service would reject an invalid image on every
    later turn too."""
    try:
        return encode_image_data_uri(base64.b64decode(data, validate=True), "what was sent")
    except ValueError as error:
        raise _build_prompt_error(index, "the image is not Base64") from error
    except ImageError as error:
        raise _build_prompt_error(index, str(error)) from error


def _build_prompt_error(index: int, problem: str) -> RequestError:
    return RequestError(INVALID_PARAMS, f"prompt[{index}]: {problem}.")


def _format_link(uri: str, name: str, workspace: Path, *, content_follows: bool = False) -> str:
    """Format a link as text."""
    path = parse_file_uri(uri)
    if path is None:
        return f"[{name}]({uri})" if name else uri
    if not path.is_relative_to(workspace):
        return str(path)
    relative = path.relative_to(workspace).as_posix()
    if content_follows:
        return relative
    escaped = _MENTION_ESCAPE_RE.sub(r"\\\g<0>", relative)
    return f" @/{escaped} "


def parse_file_uri(uri: str) -> Path | None:
    """Return the path that a `file:` URI names; None for other URIs."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return Path(uri) if not parts.scheme and uri.startswith("/") else None


def _format_embedded_text(
    resource: schema.TextResourceContents, workspace: Path, commands: Collection[str]
) -> str:
    """Wrap embedded text so that it cannot close its own tag or mention files."""
    contained = re.sub(r"<(?=\s*+(?:/\s*+)?context\b)", "&lt;", resource.text, flags=re.IGNORECASE)
    mentions = [
        mention.start
        for mention in find_mentions(contained)
        if not mention.is_bare_name or _exists(workspace / mention.subject)
    ]
    called = [
        mention.start for mention in find_command_mentions(contained) if mention.name in commands
    ]
    escaped = replace_spans(contained, [(start, start, "\\") for start in (*mentions, *called)])
    return f'<context ref="{escape(resource.uri)}">\n{escaped}\n</context>'


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # too long for a path, or in a directory that joey cannot read
        return False


def build_user_message_chunks(
    ts: int, text: str, images: tuple[str, ...] = ()
) -> Iterator[SessionUpdate]:
    """`images` are data URIs."""
    if text:
        block = schema.TextContentBlock(type="text", text=sanitize(text))
        yield schema.UserMessageChunk(
            session_update="user_message_chunk", content=block, message_id=str(ts)
        )
    for uri in images:
        yield schema.UserMessageChunk(
            session_update="user_message_chunk",
            content=build_image_block(uri),
            message_id=str(ts),
        )
