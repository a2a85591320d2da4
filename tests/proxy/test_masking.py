"""Secrets are masked byte for byte, at every split, and nothing else is."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.proxy.masking import FormMasker, JsonMasker, make_body_masker, mask_headers, mask_target

NAMES = tuple(
    "authorization x-api-key cookie api_key apiKey key token secret password API_KEY".split()  # noqa: SIM905
)
PUBLIC = (
    "prompt_cache_key",
    "max_tokens",
    "content",
    "keys",
    "monkey",
    "text",
    "role",
    "\\",
    '"key',
)

scalars = (
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([*NAMES, '"key": "x"'])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*NAMES, *PUBLIC]) | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


class Masked(str):
    """A string that is written as stars."""


def plant(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: Masked(inner)
                if isinstance(inner, str)
                and name.lower().replace("-", "_") in {n.lower().replace("-", "_") for n in NAMES}
                else plant(inner)
                for name, inner in value.items()
            }
        case list():
            return [plant(inner) for inner in value]
        case _:
            return value


def written(value: Any, mask: bool, ascii_only: bool, space: str) -> str:
    """JSON as `json.dumps` writes it, with the values of secrets masked if `mask`."""
    match value:
        case dict():
            fields = (
                f"{json.dumps(name, ensure_ascii=ascii_only)}{space}:{space}"
                + written(inner, mask, ascii_only, space)
                for name, inner in value.items()
            )
            return "{" + f",{space}".join(fields) + "}"
        case list():
            return "[" + ",".join(written(inner, mask, ascii_only, space) for inner in value) + "]"
        case Masked() if mask:
            size = len(
                json.dumps(str(value), ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
            )
            return '"' + "*" * (size - 2) + '"'
        case _:
            return json.dumps(value, ensure_ascii=ascii_only)


def feed(masker: Any, data: bytes, cuts: list[int]) -> bytes:
    borders = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(borders)]
    fed = [masker.feed(piece) for piece in pieces]
    assert [len(piece) for piece in fed] == [len(piece) for piece in pieces]
    return b"".join(fed)


@given(
    values.map(lambda value: plant({"a": value})),
    st.lists(st.integers(0, 10_000), max_size=6),
    st.booleans(),
    st.sampled_from(["", " ", "\n\t  "]),
)
def test_values_of_secret_fields_are_masked_at_any_split(
    body: Any, cuts: list[int], ascii_only: bool, space: str
) -> None:
    sent = written(body, False, ascii_only, space).encode("utf-8", "surrogatepass")
    kept = written(body, True, ascii_only, space).encode("utf-8", "surrogatepass")
    assert feed(JsonMasker(), sent, cuts) == kept
    assert feed(JsonMasker(), sent, list(range(len(sent)))) == kept


@pytest.mark.parametrize(
    "body",
    [
        rb'{"\"key":"0"}',
        rb'{"a\"key":"0"}',
        rb'{"\\\"key":"0"}',
        rb'{"text":"\"key\":\"0\""}',
        rb'{"text":"{\"key\": 0,\n\"token\":"}',
        b'{"' + b"a" * 1300 + rb'\"key":"0"}',
    ],
)
def test_an_escaped_quote_begins_no_name(body: bytes) -> None:
    for cut in range(len(body)):
        assert feed(JsonMasker(), body, [cut]) == body
    assert feed(JsonMasker(), body, list(range(len(body)))) == body


@pytest.mark.parametrize("cut", range(60))
def test_a_name_that_is_spelled_with_escapes_is_recognised(cut: int) -> None:
    body = rb'{"\u006bey" : "abc\"d", "\u0041PI_key":"xyz"}'
    assert feed(JsonMasker(), body, [cut]) == rb'{"\u006bey" : "******", "\u0041PI_key":"***"}'


def test_any_amount_of_space_before_a_value_is_skipped() -> None:
    body = b'{"key"' + b" " * 5000 + b":" + b"\n" * 5000 + b'"abc"}'
    assert feed(JsonMasker(), body, list(range(len(body)))) == body.replace(b"abc", b"***")


def test_bodies_that_are_not_json_stay_as_they_are() -> None:
    assert JsonMasker().feed(b'text "key": "abc"') == b'text "key": "abc"'


@given(st.lists(st.integers(0, 100)))
def test_forms_are_masked(cuts: list[int]) -> None:
    body = b"a=1&api_key=se%20cret&b=key&%6Bey=x=y&refresh_token=r"
    kept = b"a=1&api_key=*********&b=key&%6Bey=***&refresh_token=*"
    assert feed(make_body_masker("application/x-www-form-urlencoded"), body, cuts) == kept
    assert feed(FormMasker(), b"a=b", []) == b"a=b"


@given(st.lists(st.integers(0, 260)))
def test_parts_of_multipart_forms_are_masked(cuts: list[int]) -> None:
    head = b"--B b\r\nContent-Disposition: form-data; "
    body = (
        head + b'name="api_key"\r\n\r\nse\r\ncret--B b\r\n'
        b"--B b\r\ncontent-disposition: form-data; filename=key; name=purpose\r\n\r\nkey=a\r\n"
        + head
        + b'name="token"\r\nContent-Type: text/plain\r\n\r\nabc\r\n--B b--\r\n'
    )
    kept = body.replace(b"se\r\ncret--B b", b"**\r\n*********").replace(b"\nabc\r", b"\n***\r")
    masker = make_body_masker('multipart/form-data; boundary="B b"; charset=utf-8')
    assert feed(masker, body, cuts) == kept


@pytest.mark.parametrize("content_type", ["", "application/x-www-form-urlencoded", "text/plain"])
def test_json_is_masked_whatever_type_is_declared(content_type: str) -> None:
    body = b' {"a":"x=y&key=z","api_key":"a=b&c"}'
    kept = body.replace(b"a=b&c", b"*****")
    for cut in range(len(body)):
        assert feed(make_body_masker(content_type), body, [cut]) == kept


@given(st.lists(st.integers(0, 300)))
def test_json_in_parts_of_multipart_bodies_is_masked(cuts: list[int]) -> None:
    body = (
        b"--B\r\nContent-Disposition: form-data; name=config\r\n\r\n"
        b'{"api_key":"abc",\r\n"text":"key=a"}\r\n'
        b'--B\r\nContent-Disposition: form-data; name=file; filename="a.jsonl"\r\n\r\n'
        b'{"token":"def"}\n{"secret": "ghi"}\r\n--B--\r\n'
    )
    kept = re.sub(b"abc|def|ghi", b"***", body)
    assert feed(make_body_masker("multipart/form-data; boundary=B"), body, cuts) == kept
    assert feed(make_body_masker("multipart/mixed; boundary=B"), body, cuts) == kept


@given(st.lists(st.integers(0, 300)))
def test_unusual_spellings_of_multipart_forms_are_masked(cuts: list[int]) -> None:
    body = (
        b"--B \t\r\nContent-Disposition: form-data;\r\n\tname=token\r\n\r\nabc\r\n"
        b"--B\nContent-Disposition: form-data; name=secret\n\nabc\n--B--  \n"
    )
    masker = make_body_masker("multipart/form-data; boundary=B")
    assert feed(masker, body, cuts) == body.replace(b"abc", b"***")


def test_targets_and_headers_are_masked() -> None:
    assert mask_target(b"/v1/key=a?key=abc&alt=sse#x") == b"/v1/key=a?key=***&alt=sse#x"
    assert mask_target(b"/v1/messages") == b"/v1/messages"
    headers = (("Authorization", "Bearer a"), ("X-Custom-Api-Key", "b"), ("Accept", "c"))
    assert mask_headers(headers) == (
        ("Authorization", "********"),
        ("X-Custom-Api-Key", "*"),
        ("Accept", "c"),
    )
