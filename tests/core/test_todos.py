from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.task_types import TodoStatus, parse_todos
from tests.harness.bounded import run_bounded


@pytest.mark.parametrize(
    ("line", "content", "status"),
    [
        ("[ ] write it", "write it", "pending"),
        ("[] write it", "write it", "pending"),
        ("[x] write it", "write it", "completed"),
        ("[X] write it", "write it", "completed"),
        ("[-] write it", "write it", "in_progress"),
        ("[~] write it", "write it", "in_progress"),
        ("- [ x ] write it  ", "write it", "completed"),
        ("  -  [ - ]  write it", "write it", "in_progress"),
        ("[x] keep [brackets] inside", "keep [brackets] inside", "completed"),
        ("* [ ] write it", "write it", "pending"),
        ("+ [x] write it", "write it", "completed"),
        ("1. [ ] write it", "write it", "pending"),
        ("  12) [-] write it", "write it", "in_progress"),
    ],
)
def test_a_line_of_a_checklist_is_an_item(line: str, content: str, status: TodoStatus) -> None:
    (todo,) = parse_todos(line)
    assert (todo.content, todo.status) == (content, status)


@pytest.mark.parametrize("line", ["", "# Plan", "1. write it", "- write it", "[y] write it", "[x]"])
def test_other_lines_are_passed_over(line: str) -> None:
    assert parse_todos(line) == ()


def test_long_runs_of_spaces_are_read_in_no_time() -> None:
    run_bounded(
        "from joey.core.task_types import parse_todos\n"
        "parse_todos('[ ] a' + ' ' * 200_000 + 'b\\n[' + ' ' * 200_000)"
    )


def test_lines_may_end_with_carriage_returns() -> None:
    assert [todo.content for todo in parse_todos("[ ] one\r\n[x] two\r\n")] == ["one", "two"]


def test_the_id_is_the_md5_of_content_and_status() -> None:
    (todo,) = parse_todos("[x] ship")
    assert todo.id == hashlib.md5(b"shipcompleted").hexdigest()


contents = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
marks = st.sampled_from([(" ", "pending"), ("-", "in_progress"), ("x", "completed")])


@given(st.lists(st.tuples(contents, marks), max_size=8))
def test_every_item_of_a_checklist_is_read(rows: list[tuple[str, tuple[str, TodoStatus]]]) -> None:
    markdown = "\n".join(f"[{mark}] {content}" for content, (mark, _) in rows)
    read = parse_todos(markdown)
    assert [(todo.content, todo.status) for todo in read] == [(c, s) for c, (_, s) in rows]
