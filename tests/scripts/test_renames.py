"""Renamed members and locals are recognised, and every other change is seen."""

from __future__ import annotations

import ast

import pytest
from scripts.same_code import differences, read_moves

OLD = {
    "joey": "",
    "joey.shop": '''"""A shop."""
from msgspec import Struct

MOST = 3
"""How many."""


class Goods(Struct, rename="camel"):
    """What is sold."""

    tag: str
    price: int = 1
    """In cents."""

    def told(self, words):
        """Say `words`."""
        heard = [each for each in words if each]
        return self.price + len(heard)


def sell(goods, whom):
    match goods:
        case Goods(price=cents) if cents > MOST:
            return goods.told(words=[whom])
    return Goods(tag="x", price=2)
''',
}
NEW = {
    "joey": "",
    "joey.shop": '''"""A shop."""
from msgspec import Struct, field

MAX_CENTS = 3


class Article(Struct, rename="camel"):
    """An article."""

    label: str = field(name="tag")
    cents: int = field(default=1, name="price")

    def describe(self, lines):
        """Describe `lines`."""
        texts = [each for each in lines if each]
        return self.cents + len(texts)


def sell(article, buyer):
    match article:
        case Article(cents=cents) if cents > MAX_CENTS:
            return article.describe(lines=[buyer])
    return Article(label="x", cents=2)
''',
}
ROWS = [
    ("joey.shop.MOST", "joey.shop.MAX_CENTS", "name"),
    ("joey.shop.Goods", "joey.shop.Article", "name"),
    ("joey.shop.Goods.tag", "label", "key"),
    ("joey.shop.Goods.price", "cents", "key"),
    ("joey.shop.Goods.told", "describe", "member"),
    ("joey.shop.Goods.told:words", "lines", "local"),
    ("joey.shop.Goods.told:heard", "texts", "local"),
    ("joey.shop.sell:goods", "article", "local"),
    ("joey.shop.sell:whom", "buyer", "local"),
]


def found(old: dict[str, str], new: dict[str, str], rows: list[tuple[str, str, str]]) -> list[str]:
    lines = ["old\tnew\tkind", *("\t".join(row) for row in rows)]
    before, after = ({name: ast.parse(text) for name, text in tree.items()} for tree in (old, new))
    return [*differences(before, after, read_moves(lines))]


def test_renamed_members_keys_and_locals_are_the_same_code() -> None:
    assert found(OLD, NEW, ROWS) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_rename_that_is_not_listed_is_a_difference(row: tuple[str, str, str]) -> None:
    assert found(OLD, NEW, [each for each in ROWS if each is not row]) != []


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        ("cents > MAX_CENTS", "cents >= MAX_CENTS"),
        ("return self.cents + len(texts)", "return self.cents + len(lines)"),
        ("lines=[buyer]", "lines=[article]"),
        ('label: str = field(name="tag")', "label: str"),
        ('field(default=1, name="price")', 'field(default=2, name="price")'),
        ("cents=2", "label=2"),
        ("MAX_CENTS = 3", "MAX_CENTS = 4"),
        ("def sell(article, buyer):", "def sell(buyer, article):"),
    ],
)
def test_every_other_change_is_a_difference(now: str, changed: str) -> None:
    text = NEW["joey.shop"]
    assert now in text
    assert found(OLD, NEW | {"joey.shop": text.replace(now, changed)}, ROWS) != []
