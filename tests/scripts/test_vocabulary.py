"""Identifiers that contain words to avoid are found, in Python and in TypeScript."""

from __future__ import annotations

import pytest
from scripts.vocabulary import find_in_file, main, project_files


def found(path: str, text: str) -> list[str]:
    return [finding.word for finding in find_in_file(path, text)]


@pytest.mark.parametrize(
    "text",
    [
        "the_folder = 1",
        "def make_bench(): ...",
        "class KeyShelf: ...",
        "task.told",
        "f(words=1)",
        "from x import hear",
        "def f(*, persons): ...",
        "HEARD_ALL = 1",
        'f"{a.folder}"',
        "case_of = Folders()",
    ],
)
def test_a_forbidden_word_in_an_identifier_is_found(text: str) -> None:
    assert len(found("src/joey/x.py", text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        '"""Words that a person told."""',
        "# the folder",
        'print("a picture")',
        "bencher = hearing = passwords = 1",
        'f"{{folder}} {a!r:>10}"',
    ],
)
def test_texts_and_longer_identifiers_are_not_found(text: str) -> None:
    assert found("src/joey/x.py", text) == []


def test_the_name_of_a_module_counts() -> None:
    assert found("tests/test_standing.py", "") == ["standing"]


def test_typescript_is_searched_without_its_texts() -> None:
    code = 'const heardAll = 1; // told\nconst a = <p className="folder">Reject with words</p>;'
    assert found("web/src/x.tsx", code) == ["heard"]


def test_the_shell_grammar_may_use_its_own_term() -> None:
    assert found("src/joey/core/permissions/shell.py", "words = 1") == []


def test_no_identifier_of_the_project_has_a_forbidden_word() -> None:
    assert main(project_files()) == 0
