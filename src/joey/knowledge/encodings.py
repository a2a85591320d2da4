"""Bytes of a file as text: UTF-8 with or without its mark, or UTF-16 with it."""

from __future__ import annotations

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def text_of(data: bytes) -> str:
    """What is not UTF-8 is shown as far as it can be."""
    if data.startswith(_UTF_16):
        return data.decode("utf-16", errors="replace")
    return data.decode(errors="replace").removeprefix("\ufeff")
