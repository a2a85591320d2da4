from __future__ import annotations

import copy
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pickle import dumps, loads

import pytest

import joey
from joey.core.text import compile_regex

SOURCE = Path(joey.__file__).parent
USERS = sorted(
    ".".join(("joey", *path.relative_to(SOURCE).with_suffix("").parts))
    for path in SOURCE.rglob("*.py")
    if re.search(
        r"\nfrom joey\.core\.text import (?:\([^)]*|[^\n]*)\bcompile_regex\b",
        path.read_text(encoding="utf-8"),
    )
)


def test_it_is_what_the_module_re_compiles() -> None:
    word = compile_regex(r"(?P<first>\w)\w*", re.ASCII)
    assert word.sub("x", "ab, cd") == "x, x"
    assert [match["first"] for match in word.finditer("ab, cd")] == ["a", "c"]
    assert (word.pattern, word.flags) == (r"(?P<first>\w)\w*", re.ASCII)
    assert compile_regex(rb"\d").search(b"a1") is not None


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: loads(dumps(one))])
def test_it_can_be_copied_and_sent(again: Callable[[re.Pattern[str]], re.Pattern[str]]) -> None:
    for used in (False, True):
        word = compile_regex("A(b)", re.IGNORECASE)
        assert not used or word.match("ab")
        assert again(word).findall("abAB") == ["b", "B"]


def test_a_mistake_shows_at_the_first_use() -> None:
    wrong = compile_regex("(")
    with pytest.raises(re.error):
        wrong.search("")


@pytest.mark.parametrize("name", USERS)
def test_none_of_ours_has_a_mistake(name: str) -> None:
    ours = [
        each for each in vars(import_module(name)).values() if type(each) is type(compile_regex(""))
    ]
    for each in ours:
        assert isinstance(each.pattern, str | bytes)
