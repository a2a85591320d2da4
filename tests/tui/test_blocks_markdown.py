from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from joey.tui.blocks.block_layout import CHUNK_LINES
from joey.tui.blocks.markdown import MAX_LINE_CHARS, TABLE_CHUNK_ROWS, MarkdownParser, parse_inline
from joey.tui.blocks.styled_text import to_plain_text
from joey.tui.blocks.text import MarkdownBlock
from tests.harness.counts import shortened_examples
from tests.harness.tui.conversation_harness import block_lines, piece_lines

SAMPLE = """\
# Title
Words that are *longer* than one line of forty columns.

- one **bold**
  - [x] nested
1. first thing with a text that goes on for a while
> quoted words

| name | what it is |
|------|:----------:|
| a    | `code`     |
| b    | long words that have to be broken |
after the table
```python
def f(x):
\treturn "x"  # so
```
end | with a bar
***
\x1b[31mred\x1b[0m and \u202eturned
"""


def drawn(text: str, width: int = 40) -> list[str]:
    return block_lines(MarkdownBlock(text), width)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n\n  \n", []),
        ("plain", ["plain"]),
        ("one\ntwo", ["one", "two"]),
        ("one\n\n\n\ntwo", ["one", "", "two"]),
        ("## Head", ["Head"]),
        ("text\n## Head", ["text", "", "Head"]),
        ("#no head", ["#no head"]),
        ("- a\n* b\n+ c", ["• a", "• b", "• c"]),
        ("- [ ] open\n- [x] done", ["☐ open", "☑ done"]),
        ("12. twelve", ["12. twelve"]),
        ("> said\n> > deeper", ["│ said", "│ │ deeper"]),
        ("---", ["─" * 20]),
        ("a [word](http://x.y/z) b", ["a word (http://x.y/z) b"]),
        ("<http://x.y>", ["<http://x.y>"]),
        ("`` a`b `` and \\*stars\\*", ["a`b and *stars*"]),
        ("snake_case_name and 2 * 3 * 4", ["snake_case_name and 2 * 3 * 4"]),
        ("**not closed", ["**not closed"]),
        ("```\ncode\n\n  more\n```", ["  code", "", "    more"]),
        ("```py\nnever closed", ["  never closed"]),
        ("  ```\n  in a list\n  ```", ["  in a list"]),
        ("~~~\n```\n~~~\nout", ["  ```", "", "out"]),
        ("a | b", ["a | b"]),
        ("a | b\n---|---\n1 | 2", ["a   │ b", "────┼────", "1   │ 2"]),
        ("| a |\n|---|", ["a", "───"]),
        ("你好，世界 👍", ["你好，世界 👍"]),
        ("tab\there", ["tab here"]),
    ],
)
def test_markdown_is_drawn(text: str, lines: list[str]) -> None:
    assert drawn(text) == lines


def test_lines_are_broken_below_their_text() -> None:
    assert drawn("- one two three four", 12) == ["• one two", "  three four"]
    assert drawn("> one two three", 10) == ["│ one two", "│ three"]
    assert drawn("> > > > > one two", 9) == ["│ │ │ │ │", "one two"]
    assert drawn("10. one two three", 10) == ["10. one", "    two", "    three"]


def test_a_table_gives_way_to_the_screen() -> None:
    lines = drawn("|a|b|\n|-|-|\n|short|many words that do not fit at all|", 24)
    assert lines == [
        "a     │ b",
        "──────┼─────────────────",
        "short │ many words that",
        "      │ do not fit at",
        "      │ all",
    ]


def test_marks_become_styles() -> None:
    assert list(parse_inline("a **b `c`** ~~d~~")) == [
        ("a ", ""),
        ("b ", "bold"),
        ("c", "bold code"),
        (" ", ""),
        ("d", "strike"),
    ]


def test_code_is_coloured() -> None:
    prose = MarkdownBlock("```python\nreturn 1\n```")
    line = prose.build_stable_parts(expanded=False)[0].render_lines(40)[0]
    assert ("return", "keyword") in line
    assert ("1", "number") in line


def test_what_commands_the_terminal_is_not_drawn() -> None:
    assert drawn("\x1b]0;title\x07a\x1b[2Jb\rc\u202ed") == ["abc<U+202E>d"]


def test_a_megabyte_without_a_blank_is_drawn_whole() -> None:
    lines = drawn("x" * 1_000_000, 100)
    assert "".join(lines) == "x" * 1_000_000


def test_a_long_line_keeps_its_indent() -> None:
    lines = drawn("- " + "word " * MAX_LINE_CHARS, 30)
    assert {line[:2] for line in lines} == {"• ", "  "}
    assert sum(line.count("word") for line in lines) == MAX_LINE_CHARS


pieces = st.lists(
    st.sampled_from(
        [
            *("# ", "- ", "1. ", "> ", "```", "```py\n", "~~~", "|", "|-|-|\n", "---\n", "**"),
            *("`", "_", "\n", "\n\n", "word ", "a b", "你好", "\t", "\x1b[1m", "\x1b", "[x](y)"),
            *(
                "  ",
                "y" * 50,
                "z " * (MAX_LINE_CHARS // 2),
                "code\n" * CHUNK_LINES,
                "|c|d|\n" * TABLE_CHUNK_ROWS,
            ),
        ]
    ),
    max_size=40,
)


@shortened_examples(25, 100)
@given(st.data(), pieces.map("".join))
@example(None, SAMPLE)
def test_any_split_of_a_stream_gives_the_same_lines(data: st.DataObject | None, text: str) -> None:
    whole = MarkdownParser()
    whole.feed(text)
    whole.close()
    streamed, at = MarkdownParser(), 0
    while at < len(text):
        size = 1 if data is None else data.draw(st.integers(1, max(1, len(text) // 2)))
        streamed.feed(text[at : at + size])
        for piece in streamed.build_open_parts():
            assert piece.measure_height(20) == len(piece.render_lines(20))
        at += size
    streamed.close()
    assert piece_lines(streamed.stable_parts, 20) == piece_lines(whole.stable_parts, 20)
    assert streamed.build_open_parts() == []


@given(pieces.map("".join), st.integers(1, 60))
def test_a_piece_knows_its_height_before_it_is_drawn(text: str, width: int) -> None:
    markdown = MarkdownParser()
    markdown.feed(text)
    markdown.close()
    for piece in markdown.stable_parts:
        assert piece.measure_height(width) == len(piece.render_lines(width)), to_plain_text(
            piece.render_lines(width)[0]
        )


def test_no_more_is_drawn_again_than_the_open_end() -> None:
    markdown = MarkdownParser()
    for _ in range(10_000):
        markdown.feed("A line of code\n")
    first = markdown.stable_parts[0]
    markdown.feed("```python\n")
    for _ in range(10_000):
        markdown.feed("def f(): return 1\n")
        assert sum(piece.measure_height(80) for piece in markdown.build_open_parts()) < CHUNK_LINES
    assert markdown.stable_parts[0] is first
