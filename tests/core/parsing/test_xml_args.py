from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.parsing.xml_elements import decode_entities, parse_args_xml
from tests.harness.bounded import run_bounded
from tests.harness.core.streams import XML_PIECES


@pytest.mark.contract("calls:xml")
def test_nested_files_become_structure() -> None:
    raw = """
      <file>
        <path>src/app.ts</path>
      </file>
      <file>
        <path> src/b &amp; c.ts </path>
        <line_range>1-10</line_range>
        <line_range>20-30</line_range>
      </file>
    """
    assert parse_args_xml(raw) == {
        "file": [
            {"path": ["src/app.ts"]},
            {"path": ["src/b & c.ts"], "line_range": ["1-10", "20-30"]},
        ]
    }


def test_diffs_are_taken_as_they_are_written() -> None:
    diff = "<<<<<<< SEARCH\n  <div>&amp;</div>\n=======\n  <p></content></p>\n>>>>>>> REPLACE"
    raw = (
        f"<file><path>a</path><diff><content>\n{diff}\n</content><start_line>3</start_line></diff>"
        "<diff><content>second</content></diff></file>"
    )
    assert parse_args_xml(raw) == {
        "file": [
            {
                "path": ["a"],
                "diff": [{"content": [diff], "start_line": ["3"]}, {"content": ["second"]}],
            }
        ]
    }


def test_a_diff_that_holds_text_is_a_leaf() -> None:
    raw = "<file><path>a</path><diff>\n<b>x</b>\n</diff></file>"
    assert parse_args_xml(raw) == {"file": [{"path": ["a"], "diff": ["<b>x</b>"]}]}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("", {}),
        ("only words", {}),
        ("<path>a", {}),
        ("<path>a <b> c</path>", {"path": ["a <b> c"]}),
        ("<file><path>a</path>", {"path": ["a"]}),
        ("</file><path>a</path>", {"path": ["a"]}),
        ("<path/>", {"path": [""]}),
        ('<suggest mode="code">Go</suggest>', {"suggest": ["Go"]}),
        ("<path><![CDATA[ a<b>&amp; ]]></path>", {"path": [" a<b>&amp; "]}),
        ("<content>no end", {}),
        ("<path>a</path><path>b</path>", {"path": ["a", "b"]}),
    ],
)
def test_what_models_write_is_read_as_far_as_it_goes(raw: str, expected: dict[str, object]) -> None:
    assert parse_args_xml(raw) == expected


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("&lt;a&gt; &amp; &quot;b&quot; &apos;c&apos;", "<a> & \"b\" 'c'"),
        ("&#233;&#xE9;", "éé"),
        ("&amp;lt;", "&lt;"),
        (
            "a&copy=1 &unknown; &#xD800; &#9999999; &#0;",
            "a&copy=1 &unknown; &#xD800; &#9999999; &#0;",
        ),
    ],
)
def test_entities_are_decoded_once(text: str, decoded: str) -> None:
    assert decode_entities(text) == decoded


@pytest.mark.parametrize(
    "raw",
    [
        "'<file><path>a</path><diff><content>' * 60_000",
        "'<file><path>a</path>' * 60_000",
        "'<a><![CDATA[' * 60_000 + ']]>' + ' ' * 500_000",
        "'<content>x</content>y' * 60_000",
        "''.join(f'<a{n}><content>x</content>y' for n in range(30_000))",
        "'<a>' * 60_000 + '</a>' * 60_000",
    ],
)
def test_what_is_never_closed_is_read_in_no_time(raw: str) -> None:
    run_bounded(f"from joey.core.parsing.xml_elements import parse_args_xml\nparse_args_xml({raw})")


def test_a_literal_element_may_hold_its_closing_tag_many_times() -> None:
    content = "x</content>y" * 10_000
    raw = f"<file><path>a</path><diff><content>{content}</content></diff></file>"
    assert parse_args_xml(raw) == {"file": [{"path": ["a"], "diff": [{"content": [content]}]}]}


@given(st.lists(st.sampled_from([*XML_PIECES, "<diff>", "</diff>", "<![CDATA["])).map("".join))
@settings(max_examples=100)
def test_no_text_is_an_error(raw: str) -> None:
    parse_args_xml(raw)
