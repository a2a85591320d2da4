"""Image files as data URIs, in the formats and sizes that models accept."""

from __future__ import annotations

import base64
from pathlib import Path

from joey.errors import UserError

MAX_IMAGE_BYTES = 5 * 1024 * 1024
MAX_IMAGES = 20
_IMAGE_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class ImageError(UserError):
    """Not an image that models can see, too large, too many, or not readable."""


def load_image_data_uri(path: str) -> str:
    """An image file as a data URI. Raises ImageError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_IMAGE_BYTES + 1)
    except OSError as error:
        raise ImageError(f"the image {path} cannot be read: {error.strerror}") from error
    return encode_image_data_uri(data, path)


def encode_image_data_uri(data: bytes, name: str) -> str:
    """An image as a data URI; `name` is for complaints. Raises ImageError."""
    if len(data) > MAX_IMAGE_BYTES:
        raise ImageError(
            f"the image {name} is larger than {MAX_IMAGE_BYTES // 1024 // 1024} MB; make it smaller"
        )
    media_type = _detect_media_type(data)
    if media_type is None:
        raise ImageError(f"{name} is not a PNG, JPEG, GIF or WebP image")
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def _detect_media_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _IMAGE_SIGNATURES if data.startswith(start)), None)
