"""Lists of items: every form is read the same, and a list that cannot be used starts nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from joey.batch.items import Item, ItemDefaults, ListError, ListFormat, Selection, load_items

ROWS = [
    {"id": "a", "prompt": "Do a.", "repo": "/tmp/r", "size": 3},
    {"id": "b-2", "prompt": "Do b.", "check": "true"},
]


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def load(path: Path, **defaults: str) -> list[Item]:
    return load_items(path, ItemDefaults(**defaults))


def test_json_and_jsonl_give_the_same_items(tmp_path: Path) -> None:
    lines = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n\n")
    array = write(tmp_path, "a.json", json.dumps(ROWS, indent=1))
    assert load(lines) == load(array)
    assert [item.id for item in load(lines)] == ["a", "b-2"]
    assert load(lines)[0].data == {"size": 3}


def test_csv_has_a_header_and_empty_cells_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'id,prompt,check\na,"Do, a",\nb,Do b,make test\n')
    assert load(path) == [
        Item(id="a", prompt="Do, a"),
        Item(id="b", prompt="Do b", check="make test"),
    ]


def test_a_directory_of_prompts_is_named_without_endings(tmp_path: Path) -> None:
    write(tmp_path, "two.md", "Do two.")
    write(tmp_path, "one.txt", "Do one.")
    write(tmp_path, "ignored.py", "no prompt")
    assert load(tmp_path) == [
        Item(id="one", prompt="Do one."),
        Item(id="two", prompt="Do two."),
    ]


def test_a_template_takes_any_field_and_options_fill_in_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", json.dumps({"id": "x", "bug": "it fails", "tags": ["t"]}))
    found = load(path, template="Fix {bug} of {id} {tags} {{here}}", repo="/r", check="make")
    assert found[0].prompt == 'Fix it fails of x ["t"] {here}'
    assert (found[0].repo, found[0].check) == ("/r", "make")


def test_a_csv_whose_header_names_a_field_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ListError, match=r"a\.csv: the header has 'id' twice"):
        load(write(tmp_path, "a.csv", "id,id,prompt\na,b,p\n"))


def test_an_item_says_more_than_an_option(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", json.dumps({"id": "x", "prompt": "p", "check": "own"}))
    assert load(path, check="default")[0].check == "own"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"id": "a", "prompt": "p"}\n{"id": "a", "prompt": "q"}', "two items have the id 'a'"),
        ('{"id": "a", "prompt": "p"}\n{"id": "A", "prompt": "q"}', "differ only in case"),
        ('{"id": "../a", "prompt": "p"}', "cannot name a file"),
        ('{"id": "a/b", "prompt": "p"}', "cannot name a file"),
        ('{"id": "", "prompt": "p"}', "cannot name a file"),
        ('{"id": "a."  , "prompt": "p"}', "cannot name a file"),
        ('{"prompt": "p"}', "missing required field `id`"),
        ('{"id": "a"}', "has no prompt"),
        ('{"id": "a", "prompt": "p", "limits": {"maxCost": -1}}', "limits"),
        ('{"id": "a", "prompt": ', "line 1 is not a JSON object"),
        ("[1, 2]", "not a JSON array of objects"),
        ("", "has no items"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_with_its_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ListError, match=r"a\.jsonl") as error:
        load(write(tmp_path, "a.jsonl", text))
    assert problem in str(error.value)


def test_a_field_that_an_item_does_not_have_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"id": "a", "bug": "x"}\n{"id": "b"}')
    with pytest.raises(ListError, match=r"line 2: the template uses \{bug\}, which item 'b'"):
        load(path, template="Fix {bug}")


def test_a_missing_list_and_one_that_is_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ListError, match="No such file"):
        load(tmp_path / "none.jsonl")
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ListError, match="not UTF-8"):
        load(tmp_path / "a.jsonl")


def test_swebench_rows_are_mapped(tmp_path: Path) -> None:
    row = {
        "instance_id": "django__django-11620",
        "problem_statement": "It fails.",
        "repo": "django/django",
        "base_commit": "abc123",
    }
    path = write(tmp_path, "a.jsonl", json.dumps(row))
    found = load_items(path, ItemDefaults(), ListFormat.SWEBENCH)[0]
    assert (found.id, found.prompt, found.ref, found.group) == (
        "django__django-11620",
        "It fails.",
        "abc123",
        "django/django",
    )
    assert found.repo == "https://github.com/django/django"


def test_items_are_selected_by_pattern_range_seed_and_count() -> None:
    items = [Item(id=f"{kind}-{n}", prompt="p") for n in range(5) for kind in ("a", "b")]

    def select(**options: object) -> list[str]:
        return [item.id for item in Selection(**options).apply(items)]  # type: ignore[arg-type]

    assert select(pattern="^a") == [f"a-{n}" for n in range(5)]
    assert select(first=2, last=4) == ["a-1", "b-1"]
    assert select(limit=1) == ["a-0"]
    assert select(seed=1) == select(seed=1) != [item.id for item in items]
    with pytest.raises(ListError, match="not a valid pattern"):
        select(pattern="(")


def test_a_digest_changes_with_everything_and_with_nothing_else() -> None:
    item = Item(id="a", prompt="p", data={"x": 1, "y": 2})
    assert item.digest == Item(id="a", prompt="p", data={"y": 2, "x": 1}).digest
    assert item.digest != Item(id="a", prompt="p", data={"x": 1, "y": 3}).digest
