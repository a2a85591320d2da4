"""Image files as data URIs, in the formats and sizes that models accept."""

from __future__ import annotations

import base64
from pathlib import Path

from joey.core.messages import detect_image_type
from joey.errors import UserError

MAX_IMAGE_BYTES = 5 * 1024 * 1024
MAX_IMAGES = 20


class ImageError(UserError):
    """An image has an unsupported format, is too large or unreadable, or there are too many."""


def load_image_data_uri(path: str) -> str:
    """Load an image file as a data URI. Raises ImageError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_IMAGE_BYTES + 1)
    except OSError as error:
        raise ImageError(f"the image {path} cannot be read: {error.strerror}") from error
    return encode_image_data_uri(data, path)


def encode_image_data_uri(data: bytes, name: str) -> str:
    """Encode an image as a data URI; `name` is used in errors. Raises ImageError."""
    if len(data) > MAX_IMAGE_BYTES:
        raise ImageError(
            f"the image {name} is larger than {MAX_IMAGE_BYTES // 1024 // 1024} MB; make it smaller"
        )
    media_type = detect_image_type(data)
    if media_type is None:
        raise ImageError(f"{name} is not a PNG, JPEG, GIF or WebP image")
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
