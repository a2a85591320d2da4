"""Images that a model may see: their names, and limits on number and size per call."""

from __future__ import annotations

import base64

from joey.core.settings import Settings

IMAGE_SUFFIXES = frozenset(
    (
        *(".png", ".jpg", ".jpeg", ".gif", ".webp"),
        *(".svg", ".bmp", ".ico", ".tiff", ".tif", ".avif"),
    )
)
_BYTES_PER_MEGABYTE = 1024 * 1024


class ImageBudget:
    """The remaining budget for images of a call."""

    def __init__(self, settings: Settings) -> None:
        self._max_image_bytes = settings.max_image_file_size * _BYTES_PER_MEGABYTE
        self._max_total_bytes = settings.max_total_image_size * _BYTES_PER_MEGABYTE
        self._used_bytes = 0

    def explain_refusal(self, size: int) -> str | None:
        """Explain why an image of this size is not shown, if so."""
        if size > self._max_image_bytes:
            return (
                f"Image file is too large ({_format_megabytes(size)}); the limit is"
                f" {_format_megabytes(self._max_image_bytes)}."
            )
        if self._used_bytes + size > self._max_total_bytes:
            return (
                f"Image skipped: with its {_format_megabytes(size)}, the images of this call would "
                f"be more than {_format_megabytes(self._max_total_bytes)}. Read it in a call of "
                "its own."
            )
        return None

    def consume(self, size: int) -> None:
        self._used_bytes += size


def encode_data_uri(media: str, data: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def _format_megabytes(size: int) -> str:
    return f"{size / _BYTES_PER_MEGABYTE:.1f} MB"
