from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.edits.encodings import detect_encoding


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"", "utf-8"),
        (b"caf\xe9\n", "utf-8"),
        (b"\xef\xbb\xbfa", "utf-8"),
        ("a\nb".encode("utf-16"), "utf-16-le"),
        (b"\xfe\xff" + "a\nb".encode("utf-16-be"), "utf-16-be"),
        (b"a\0b", None),
        ("ab".encode("utf-32"), None),
        (b"\xff\xfea\0b", None),
        (b"\xff\xfe\x00\xd8a\0", None),
    ],
)
def test_a_file_is_known_by_its_mark(data: bytes, name: str | None) -> None:
    encoding = detect_encoding(data)
    assert (encoding.name if encoding else None) == name


@given(st.sampled_from([b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"]), st.binary(max_size=40))
def test_every_text_becomes_the_same_bytes_again(mark: bytes, rest: bytes) -> None:
    data = mark + rest
    encoding = detect_encoding(data)
    if encoding is not None:
        assert encoding.encode(encoding.decode(data)) == data
