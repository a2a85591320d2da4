"""Moved code is recognised, and every change to it is seen."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
from scripts.same_code import Moves, differences, main, read_moves

OLD = {
    "joey": "",
    "joey.words": '''"""Words."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from joey.letters import Letter, count as counted

if TYPE_CHECKING:
    from joey.pages import Page

MOST = 3
"""The longest."""


def _check(letters: list[Letter]) -> int:
    return counted(letters) + MOST


class Word:
    letters: list[Letter]

    def join(self, page: Page) -> str:
        from joey import letters

        MOST = 1
        return os.sep.join(letters.show(each) for each in self.letters) + str(MOST)


TABLE = {"a": 1}
TABLE["b"] = 2
''',
    "joey.letters": '''"""Letters."""
from joey.errors import JoeyError

HOME = "joey.words"


class Letter: ...


def count(letters):
    try:
        return len(letters)
    except JoeyError as error:
        raise error


def show(letter):
    return _check(letter)


def _check(letter):
    return letter
''',
    "joey.pages": "class Page:\n    parent: Page | None = None\n",
    "joey.errors": "class JoeyError(Exception): ...\n",
    "joey.shim": 'from joey.letters import Letter\n\n__all__ = ["Letter"]\n',
    "joey.uses": "from joey.shim import Letter\n\nletter = Letter()\n",
}
NEW = {
    "joey": "",
    "joey.text.words": '''"""Words and letters."""
from __future__ import annotations

import os

from joey.errors import JoeyError
from joey.text.pages import Page

HOME = "joey.text.words"


class Letter: ...


def count(letters):
    try:
        return len(letters)
    except JoeyError as error:
        raise error


def show(letter):
    return _check_letter(letter)


def _check_letter(letter):
    return letter


MOST = 3
"""The longest."""


class Word:
    letters: list[Letter]

    def join(self, page: Page) -> str:
        MOST = 1
        return os.sep.join(show(each) for each in self.letters) + str(MOST)


def _check(letters: list[Letter]) -> int:
    return count(letters) + MOST


TABLE = {"a": 1}
TABLE["b"] = 2
''',
    "joey.text": "",
    "joey.text.pages": "class Page:\n    parent: Page | None = None\n",
    "joey.errors": "class JoeyError(Exception): ...\n",
    "joey.uses": "from joey.text.words import Letter\n\nletter = Letter()\n",
}
MAP = """old\tnew\tkind
joey.words\tjoey.text.words\tmodule
joey.letters\tjoey.text.words\tmodule
joey.letters._check\tjoey.text.words._check_letter\tname
joey.pages\tjoey.text.pages\tmodule
joey.shim\t\tshim
"""


def seen(new: dict[str, str], table: str = MAP) -> str:
    trees = [{name: ast.parse(text) for name, text in tree.items()} for tree in (OLD, new)]
    return "\n".join(differences(trees[0], trees[1], read_moves(table.splitlines())))


def changed(old: str, new: str, module: str = "joey.text.words") -> dict[str, str]:
    assert old in NEW[module]
    return NEW | {module: NEW[module].replace(old, new)}


def test_code_that_only_moved_is_the_same() -> None:
    assert seen(NEW) == ""


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("+ MOST", "- MOST", "joey.text.words.MOST"),
        ("MOST = 3", "MOST = 4", "MOST = 4"),
        ('"""The longest."""', '"""The shortest."""', "The shortest"),
        ("count(letters) + MOST", "show(letters) + MOST", "show(letters)"),
        ("return _check_letter(letter)", "return _check(letter)", "joey.text.words._check(letter)"),
        ("class Letter: ...", "class Letter(str): ...", "str"),
        ("        MOST = 1\n", "", "str(joey.text.words.MOST)"),
        ("except JoeyError as error", "except OSError as error", "OSError"),
        ("list[Letter]\n\n", "list[Word]\n\n", "Word"),
        ('HOME = "joey.text.words"', 'HOME = "joey.words"', "joey.words"),
        ('TABLE["b"] = 2\n', "", "TABLE"),
        ("os.sep", "os.altsep", "altsep"),
        ("def count(letters)", "async def count(letters)", "async"),
        ("def count(letters)", "@cache\ndef count(letters)", "cache"),
        ("def _check(letters: list[Letter])", "def _check(letters: list[Letter] = [])", "=[]"),
        ("from joey.text.pages import Page", "from joey.errors import Page", "joey.errors.Page"),
    ],
)
def test_a_planted_change_is_shown(old: str, new: str, shown: str) -> None:
    assert shown in seen(changed(old, new))


def test_a_definition_that_is_lost_or_new_is_named() -> None:
    lost = seen(changed("class Page:\n    parent: Page | None = None\n", "", "joey.text.pages"))
    assert "joey.text.pages.Page is gone" in lost
    more = seen(
        changed(
            "class JoeyError(Exception): ...",
            "class JoeyError(Exception): ...\nX = 1",
            "joey.errors",
        )
    )
    assert "joey.errors.X is new" in more


def test_statements_that_change_places_are_seen() -> None:
    table = 'TABLE = {"a": 1}\nTABLE["b"] = 2\n'
    other = 'TABLE["b"] = 2\nTABLE = {"a": 1}\n'
    assert "another order" in seen(changed(table, other))


def test_a_definition_in_another_module_than_the_map_says_is_seen() -> None:
    table = MAP + "joey.words.Word\tjoey.text.pages.Word\tname\n"
    assert "joey.text.pages.Word" in seen(NEW, table)


def test_different_definitions_that_become_one_name_are_seen() -> None:
    old = {"joey.a": ast.parse("X = 1"), "joey.b": ast.parse("X = 2")}
    new = {"joey.a": ast.parse("X = 1\nX = 2")}
    moves = read_moves(["old\tnew\tkind", "joey.b\tjoey.a\tmodule"])
    assert "different definitions" in "".join(differences(old, new, moves))


def test_a_statement_that_is_repeated_is_seen() -> None:
    old = {"joey.a": ast.parse("X = []\nX.append(1)")}
    new = {"joey.a": ast.parse("X = []\nX.append(1)\nX.append(1)")}
    assert [*differences(old, new, Moves())] != []


def test_the_other_branch_of_imports_for_types_is_compared() -> None:
    text = "if TYPE_CHECKING:\n    from a import B\nelse:\n    B = {}"
    old, new = ({"joey.a": ast.parse(text.format(value))} for value in (1, 2))
    assert [*differences(old, new, Moves())] != []


def test_a_shim_that_holds_code_is_refused() -> None:
    with pytest.raises(ValueError, match="words holds more than imports"):
        seen(NEW, MAP.replace("joey.words\tjoey.text.words\tmodule", "joey.words\t\tshim"))


def test_a_text_changes_only_where_the_map_says() -> None:
    tree = {"joey.a": ast.parse('X = "one.py"'), "joey.b": ast.parse('X = "one.py"')}
    new = {"joey.a": ast.parse('X = "two.py"'), "joey.b": ast.parse('X = "two.py"')}
    moves = read_moves(["old\tnew\tkind", "joey.a!one.py\ttwo.py\ttext"])
    (difference,) = differences(tree, new, moves)
    assert "joey.b.X" in difference
    assert [*differences(tree, tree | {"joey.a": new["joey.a"]}, moves)] == []


def test_an_expression_changes_only_where_the_map_says() -> None:
    old = {
        "joey.a": ast.parse("X = f(__file__).parent"),
        "joey.b": ast.parse("X = f(__file__).parent"),
    }
    new = {name: ast.parse("X = f(__file__).parent.parent") for name in old}
    moves = read_moves(
        ["old\tnew\tkind", "joey.a!f(__file__).parent\tf(__file__).parent.parent\tcode"]
    )
    (difference,) = differences(old, new, moves)
    assert "joey.b.X" in difference


def test_a_definition_of_a_shim_may_move_elsewhere() -> None:
    table = MAP.replace("joey.pages\tjoey.text.pages\tmodule", "joey.pages\t\tshim")
    assert seen(NEW, table + "joey.pages.Page\tjoey.text.pages.Page\tname\n") == ""


@pytest.mark.parametrize(
    "row", ["joey.a\tjoey.b\tplace", "joey.a\tjoey.b\tmodule\njoey.a\tjoey.c\tmodule"]
)
def test_a_map_that_is_not_understood_is_refused(row: str) -> None:
    with pytest.raises(ValueError, match="bad row"):
        read_moves(["old\tnew\tkind", *row.splitlines()])


def test_an_unknown_name_is_not_mistaken_for_a_builtin() -> None:
    old, new = {"joey.a": ast.parse("X = y")}, {"joey.a": ast.parse("X = z")}
    assert [*differences(old, new, Moves())] != []


def test_commits_and_directories_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "src" / "joey" / "a.py"
    module.parent.mkdir(parents=True)
    module.write_text("X = 1\n")
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    (tmp_path / "map.tsv").write_text("old\tnew\tkind\n")
    assert main(["HEAD", str(tmp_path), "map.tsv"]) == 0
    assert capsys.readouterr().out == "the same code\n"
    module.write_text("X = 2\n")
    assert main(["HEAD", str(tmp_path), "map.tsv"]) == 1
    assert "1 differences" in capsys.readouterr().out
    assert main([]) == 2
