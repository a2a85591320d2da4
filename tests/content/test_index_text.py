from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from joey.content.code_index_chunks import (
    MAX_LINE_CHARS,
    MAX_PASSAGE_CHARS,
    MAX_PASSAGE_LINES,
    MAX_QUERY_TERMS,
    extract_name_parts,
    extract_query_terms,
    split_passages,
)

LINES = st.lists(
    st.sampled_from(
        ["", "    x = 1", "def one(a):", "class Two:", "  # a note", "@wraps", "y" * 400, "z" * 900]
    ),
    max_size=300,
)


def method(name: str, lines: int) -> str:
    return "\n".join([f"    def {name}(self):", *["        work()"] * lines])


@pytest.mark.contract("index:search")
def test_passages_end_where_a_definition_begins() -> None:
    text = "class A:\n" + "\n\n".join(method(f"m{number}", 18) for number in range(9))
    cut = split_passages("a.py", text)
    assert len(cut) > 2
    assert all(passage.text.lstrip().startswith(("def m", "class A")) for passage in cut)


@pytest.mark.contract("index:search")
def test_decorators_and_comments_stay_with_what_they_are_about() -> None:
    first, second = split_passages(
        "a.py",
        "def one():\n" + "    work()\n" * 40 + "\n# about two\n@cache\ndef two():\n" + "  x\n" * 40,
    )
    assert first.end_line == 41
    assert second.text.startswith("# about two\n@cache\ndef two():")


def test_without_a_place_to_cut_passages_share_some_lines() -> None:
    first, second, *_ = split_passages(
        "a.txt", "\n".join(f"line {number}" for number in range(1, 200))
    )
    assert (first.start_line, first.end_line) == (1, MAX_PASSAGE_LINES)
    assert first.end_line - 10 < second.start_line <= first.end_line


@given(LINES)
@hypothesis_settings(max_examples=150)
def test_every_line_with_something_in_it_is_in_a_passage(lines: list[str]) -> None:
    cut = split_passages("a.py", "\n".join(lines))
    covered: set[int] = set()
    for passage in cut:
        shown = passage.text.split("\n")
        assert len(shown) == passage.end_line - passage.start_line + 1 <= MAX_PASSAGE_LINES
        assert len(passage.text) <= MAX_PASSAGE_CHARS + MAX_LINE_CHARS
        for number, line in enumerate(shown, passage.start_line):
            whole = lines[number - 1]
            assert line == whole or (line == f"{whole[:MAX_LINE_CHARS]}…")
            covered.add(number)
    assert covered >= {number for number, line in enumerate(lines, 1) if line.strip()}
    assert [passage.start_line for passage in cut] == sorted(
        {passage.start_line for passage in cut}
    )


def test_lines_end_at_line_feeds_alone() -> None:
    (passage,) = split_passages("a.py", "one\r\ntwo\x0cstill two\u2028and still\r\nthree")
    assert (passage.start_line, passage.end_line) == (1, 3)
    assert passage.text.split("\n")[1] == "two\x0cstill two\u2028and still"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.py", "    async def fetch_user(self):"),
        ("a.ts", "export async function fetchUser(id) {"),
        ("a.ts", "export const fetchUser = async () => {"),
        ("a.rs", "pub(crate) fn fetch_user() -> User {"),
        ("a.go", "func (s *Server) fetchUser() {"),
        ("a.java", "    public static User fetchUser(int id) {"),
        ("a.c", "static user_t *fetch_user(int id)"),
        ("a.md", "## How to fetch a user"),
    ],
)
def test_first_lines_of_definitions_are_known(name: str, line: str) -> None:
    (passage,) = split_passages(name, f"before();\n{line}\nafter\n")
    assert line.strip() in passage.definitions


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("readConfigFile", "read Config File"),
        ("HTTPServer", "HTTP Server"),
        ("parseJSON", "parse JSON"),
        ("sha256Sum", "sha 256 Sum"),
        ("old_nameOfThing", "name Of Thing"),
        ("plain words MAX_SIZE Title", ""),
    ],
)
def test_compound_names_are_taken_apart(text: str, parts: str) -> None:
    assert extract_name_parts(text) == parts


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("where is the token refreshed?", ("token", "refreshed")),
        ("readConfigFile", ("readconfigfile", "read", "config")),
        ("parse_args", ("parse", "args")),
        ("how is it", ("how", "is", "it")),
        ('"quoted" AND (odd) OR *', ("quoted", "odd")),
        ("Größe straße", ("größe", "straße")),
        ("?!", ()),
    ],
)
def test_terms_that_say_nothing_are_left_out_unless_there_are_no_others(
    query: str, terms: tuple[str, ...]
) -> None:
    assert extract_query_terms(query) == terms


def test_a_long_query_is_cut() -> None:
    assert (
        len(extract_query_terms(" ".join(f"word{number}" for number in range(10_000))))
        == MAX_QUERY_TERMS
    )
