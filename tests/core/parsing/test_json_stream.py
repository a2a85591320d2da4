from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.parsing.json_stream import MAX_DEPTH, JsonStream
from tests.harness.core.streams import split_randomly

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), values, max_size=5)
encodings = st.sampled_from(
    [
        json.dumps,
        lambda value: json.dumps(value, ensure_ascii=False),
        lambda value: json.dumps(value, indent=2),
    ]
)
json_like = st.text(
    st.sampled_from('{}[]":,\\/untrfalse0123456789.eE+-dD8cC \n\té😀\ud83dab'), max_size=60
)


def read(*pieces: str) -> JsonStream:
    stream = JsonStream()
    for piece in pieces:
        stream.feed(piece)
    return stream


@pytest.mark.parametrize(
    ("text", "partial"),
    [
        ("", {}),
        ("  \n", {}),
        ("{", {}),
        ('{"path', {}),
        ('{"path"', {}),
        ('{"path":', {}),
        ('{"path": "', {"path": ""}),
        ('{"path": "hel', {"path": "hel"}),
        ('{"path": "hello.txt"}', {"path": "hello.txt"}),
        (
            '{"path": "hello.txt", "file_text": "Hello Wo',
            {"path": "hello.txt", "file_text": "Hello Wo"},
        ),
        ('{"a": "tab\\', {"a": "tab"}),
        ('{"a": "tab\\t', {"a": "tab\t"}),
        ('{"a": "\\u00', {"a": ""}),
        ('{"a": "\\u00e9', {"a": "é"}),
        ('{"a": "\\ud83d', {"a": ""}),
        ('{"a": "\\ud83d\\ude', {"a": ""}),
        ('{"a": "\\ud83d\\ude00', {"a": "😀"}),
        ('{"a": "back\\\\', {"a": "back\\"}),
        ('{"a": 12', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": tru', {}),
        ('{"a": true ', {"a": True}),
        ('{"a": null}', {"a": None}),
        ('{"a": [', {"a": []}),
        ('{"a": [1, 2', {"a": [1]}),
        ('{"a": [1, "x', {"a": [1, "x"]}),
        ('{"files": [{"path": "a"}, {"path": "b', {"files": [{"path": "a"}, {"path": "b"}]}),
        ('{"a": {"b": {"c": "d', {"a": {"b": {"c": "d"}}}),
        ('{"a": {"b": 1}, ', {"a": {"b": 1}}),
        ('{"a": 1, "a": "again', {"a": "again"}),
        ('{"a": "x"} trailing', {"a": "x"}),
    ],
)
def test_partial_shows_what_can_be_read_so_far(text: str, partial: dict[str, Any]) -> None:
    assert read(text).parse_partial() == partial
    watched = JsonStream()
    for character in text:
        watched.feed(character)
        watched.parse_partial()
    assert watched.parse_partial() == partial


@pytest.mark.parametrize(
    ("text", "partial"),
    [
        ("[1]", {}),
        ("nonsense", {}),
        ('{"a": "x" "b"', {"a": "x"}),
        ('{"a": "x", b', {"a": "x"}),
        ('{"a": "bad \\q escape', {"a": "bad "}),
        ('{"a": "raw\nnewline', {"a": "raw"}),
        ('{"a": nope, "b": 1', {}),
        ('{"a": "x"]', {"a": "x"}),
        ('{"a": ]', {}),
    ],
)
def test_partial_stays_where_the_text_stops_being_json(text: str, partial: dict[str, Any]) -> None:
    stream = read(text)
    assert stream.parse_partial() == partial
    stream.feed('", "later": "more"}')
    assert stream.parse_partial() == partial
    with pytest.raises(ValueError, match=r"\(byte \d+\)|complete"):
        stream.close()


@pytest.mark.parametrize(
    ("text", "stopped_at"),
    [
        ('{"a": 1} x', 8),
        ('{"a": "\\q"', 8),
        ('{"a": "\\u00zz"', 11),
        ('{"a": "\\ud83dx"', 13),
        ('{"a": "x', None),
        ("x", 0),
    ],
)
def test_the_scanner_stops_at_the_end_or_where_json_ends(text: str, stopped_at: int | None) -> None:
    assert read(text).end_offset == stopped_at
    assert read(*text).end_offset == stopped_at


def test_an_earlier_partial_does_not_change_when_more_arrives() -> None:
    stream = read('{"a": [1, ')
    before = stream.parse_partial()
    stream.feed('2], "b": "x"}')
    assert before == {"a": [1]}
    assert stream.parse_partial() == {"a": [1, 2], "b": "x"}


@pytest.mark.parametrize("text", ["", " \n "])
def test_no_text_means_no_arguments(text: str) -> None:
    assert read(text).close() == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": "x', r"ends before it is complete \(after 8 characters\)"),
        ('{"a" 1}', r"expected ':' \(byte 5\)"),
        ('{"a": 1} x', r"trailing characters \(byte 10\)"),
        ("[]", "expected a JSON object"),
        ("null", "expected a JSON object"),
        ('{"a": NaN}', r"invalid character \(byte 6\)"),
        ('{"a": "\\ud83d"}', "."),
        ('{"a": "\ud83d"}', "surrogates not allowed"),
        ('{"a":' * 5000, "levels deep"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "levels deep"),
    ],
)
def test_close_says_what_is_wrong_and_where(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read(text).close()


def test_arguments_with_many_brackets_side_by_side_are_not_deep() -> None:
    text = json.dumps({"rows": [[number] for number in range(1000)]})
    assert read(text).close() == json.loads(text)


@given(st.data(), objects, encodings)
@settings(max_examples=150)
def test_valid_json_is_read_the_same_at_every_split(
    data: st.DataObject, value: Any, encode: Any
) -> None:
    pieces = data.draw(split_randomly(encode(value)))
    stream = JsonStream()
    for piece in pieces:
        stream.feed(piece)
        stream.parse_partial()
    assert stream.parse_partial() == value
    assert stream.is_complete
    assert stream.close() == value


@given(
    st.data(),
    json_like | st.builds(lambda value, end: json.dumps(value)[:end], objects, st.integers(0, 80)),
)
@settings(max_examples=200)
def test_any_text_is_scanned_the_same_at_every_split(data: st.DataObject, text: str) -> None:
    whole = read(text)
    watched = JsonStream()
    for piece in data.draw(split_randomly(text)):
        watched.feed(piece)
        watched.parse_partial()
    assert watched.parse_partial() == whole.parse_partial()
    assert watched.end_offset == whole.end_offset
    assert watched.is_complete == whole.is_complete


@given(json_like.map(lambda text: "{" + text))
@settings(max_examples=200)
def test_scanner_and_strict_parser_agree_on_what_is_an_object(text: str) -> None:
    stream = read(text)
    try:
        value = stream.close()
    except ValueError:
        assert not stream.is_complete or text[stream.end_offset :].strip()
    else:
        assert stream.is_complete
        assert stream.parse_partial() == value


def test_a_long_string_watched_at_every_chunk_is_whole() -> None:
    content = 'line "one"\n\tindented é 😀\n' * 200
    text = json.dumps({"path": "a.py", "content": content})
    stream = JsonStream()
    seen = ""
    for start in range(0, len(text), 7):
        stream.feed(text[start : start + 7])
        now = stream.parse_partial().get("content", "")
        assert now.startswith(seen)
        seen = now
    assert seen == content
