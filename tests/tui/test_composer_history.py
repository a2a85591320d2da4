"""Earlier prompts: going through them, searching them, and the file that keeps them."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from joey.tui.widgets import prompt_history
from joey.tui.widgets.draft import MARK_START, Draft
from joey.tui.widgets.prompt_history import PromptHistory
from tests.harness.tui.composer_harness import open_composer

HERE = Path("/work")


def past(*texts: str, file: Path | None = None, directory: Path = HERE) -> PromptHistory:
    history = PromptHistory(file, directory)
    for text in texts:
        history.add(Draft(text))
    return history


def texts(history: PromptHistory) -> list[str]:
    return [draft.text for draft in history.load_drafts()]


# Going through it


async def test_up_and_down_go_through_the_history_and_back_to_the_draft() -> None:
    async with open_composer(past("one", "two")) as user:
        await user.write("dra")
        await user.press("up")
        assert user.text == "two"
        await user.press("up", "up")
        assert user.text == "one"
        await user.press("down", "down")
        assert user.text == "dra"
        await user.press("f", "t", "enter")
        assert user.sent == ["draft"]


async def test_the_arrows_move_in_the_text_first() -> None:
    async with open_composer(past("earlier")) as user:
        await user.write("one\ntwo")
        await user.press("up", "X")
        assert user.text == "oneX\ntwo"
        await user.press("up")
        assert user.text == "earlier"


async def test_wrapped_lines_count_as_lines() -> None:
    async with open_composer(past("earlier"), size=(30, 20)) as user:
        await user.write("the quick brown fox jumps over the lazy dog")
        await user.press("up")
        assert user.text.startswith("the quick")
        await user.press("up")
        assert user.text == "earlier"


async def test_lines_of_an_earlier_prompt_do_not_stop_the_way_up() -> None:
    async with open_composer(past("first", "a\nb\nc")) as user:
        await user.press("up", "up")
        assert user.text == "first"
        await user.press("down", "down", "down")
        assert user.composer.is_empty


async def test_what_was_changed_on_the_way_stays_changed() -> None:
    async with open_composer(past("one", "two")) as user:
        await user.press("up", "X", "up", "down")
        assert user.text == "twoX"


async def test_what_was_sent_is_recalled_with_its_pastes_and_its_mark() -> None:
    async with open_composer() as user:
        await user.write("see ")
        await user.paste("line\n" * 20)
        await user.press("enter", *"!ls", "enter", "up")
        assert (user.mark, user.text) == ("!", "ls")
        await user.press("up")
        assert (user.mark, user.text) == ("›", "see [pasted text #1, 20 lines]")
        await user.press("enter")
        assert user.sent == ["see " + "line\n" * 20] * 2


# Searching


async def test_ctrl_r_finds_a_prompt_by_its_text() -> None:
    async with open_composer(past("fix the parser", "write docs", "fix the tests")) as user:
        await user.write("draft")
        await user.press("ctrl+r", *"FIX")
        assert user.offered == ["fix the tests", "fix the parser"]
        assert user.text == "draft"
        await user.press("ctrl+r", "enter")
        assert (user.text, user.offered, user.sent) == ("fix the parser", [], [])


async def test_escape_leaves_the_search_with_the_draft_as_it_was() -> None:
    async with open_composer(past("one")) as user:
        await user.write("draft")
        await user.press("ctrl+r", "o", "escape")
        assert (user.text, user.offered, user.app.escaped) == ("draft", [], 0)


async def test_a_search_without_hits_says_so_and_takes_nothing() -> None:
    async with open_composer(past("one")) as user:
        await user.write("draft")
        await user.press("ctrl+r", *"xyz", "enter")
        assert user.text == "draft"


async def test_a_key_that_edits_takes_what_was_found() -> None:
    async with open_composer(past("fix it")) as user:
        await user.press("ctrl+r", "f", "ctrl+a", "X")
        assert user.text == "Xfix it"


# The file


def test_prompts_are_kept_for_their_directory_alone(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "prompts.sqlite"
    past("one", "two", file=file)
    past("elsewhere", file=file, directory=Path("/other"))
    assert texts(PromptHistory(file, HERE)) == ["one", "two"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_another_process_wrote_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "prompts.sqlite"
    mine = past("one", file=file)
    past("theirs", file=file)
    mine.add(Draft("two"))
    assert texts(mine) == ["one", "theirs", "two"]


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    history = past("one")
    assert texts(history) == ["one"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "secret",
    [
        f"use ghp_{'a1' * 15}",
        "the password: correct-horse-battery",
        "curl https://me:hunter22@example.org/x",
        "-----BEGIN RSA PRIVATE KEY-----\nabc",
    ],
)
def test_a_prompt_with_a_key_in_it_is_recalled_but_never_written(
    tmp_path: Path, secret: str
) -> None:
    file = tmp_path / "prompts.sqlite"
    history = past("one", secret, "two", file=file)
    assert texts(history) == ["one", secret, "two"]
    assert secret.rsplit(maxsplit=1)[-1].encode() not in file.read_bytes()
    assert texts(PromptHistory(file, HERE)) == ["one", "two"]


def test_a_key_in_a_folded_paste_is_not_written_either(tmp_path: Path) -> None:
    file = tmp_path / "prompts.sqlite"
    draft = Draft(f"{MARK_START}pasted text #1, 9 lines", {1: "AKIAIOSFODNN7EXAMPLE"})
    PromptHistory(file, HERE).add(draft)
    assert not file.exists()


def test_the_text_file_of_earlier_versions_is_imported_once(tmp_path: Path) -> None:
    old = tmp_path / "prompts.jsonl"
    lines = [{"at": at, "folder": str(HERE), "text": f"old {at}"} for at in (1, 2)]
    old.write_bytes(
        b"\n".join(json.dumps(line).encode() for line in lines)
        + b'\n\xff\n{"at": "x"}\n[]\n{"at":1,"folder":"/work","te'
    )
    file = tmp_path / "prompts.sqlite"
    history = PromptHistory(file, HERE)
    assert texts(history) == ["old 1", "old 2"]
    history.add(Draft("new"))
    assert not old.exists()
    old.write_text(json.dumps(lines[0]), encoding="utf-8")
    assert texts(PromptHistory(file, HERE)) == ["old 1", "old 2", "new"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_is_no_database_is_reported_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "prompts.sqlite"
    file.write_text("my own text\n" * 1000, encoding="utf-8")
    history = past("one", file=file)
    assert (texts(history), "not a database" in history.storage_error) == (["one"], True)
    assert file.read_text(encoding="utf-8").startswith("my own text")


def test_entries_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "prompts.sqlite"
    past("one", file=file)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("INSERT INTO prompts (at, folder, entry) VALUES (1, ?, '[]')", [str(HERE)])
    assert texts(PromptHistory(file, HERE)) == ["one"]


def test_the_file_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_history, "_MAX_FILE_BYTES", 50_000)
    file = tmp_path / "prompts.sqlite"
    history = PromptHistory(file, HERE)
    for number in range(60):
        history.add(Draft(f"prompt {number} {'x' * 2_000}"))
        assert file.stat().st_size <= 80_000
    assert texts(PromptHistory(file, HERE))[-1].startswith("prompt 59 ")
    assert [path.name for path in tmp_path.iterdir()] == ["prompts.sqlite"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_reported_and_the_session_goes_on(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("no folder", encoding="utf-8")
    history = past("one", file=tmp_path / "taken" / "prompts.sqlite")
    assert texts(history) == ["one"]
    assert "not stored" in history.storage_error


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "prompts.sqlite")
    history = past("one", file=tmp_path / "prompts.sqlite")
    assert (texts(history), "not a regular file" in history.storage_error) == (["one"], True)


def test_what_somebody_wrote_into_the_file_cannot_command_the_terminal(tmp_path: Path) -> None:
    entry = {"at": 1, "folder": str(HERE), "text": "a\x1b[2Jb\u202e", "pasted": {"1": "\x07c"}}
    (tmp_path / "prompts.jsonl").write_text(json.dumps(entry), encoding="utf-8")
    assert PromptHistory(tmp_path / "prompts.sqlite", HERE).load_drafts() == [
        Draft("ab<U+202E>", {1: "c"})
    ]


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine", encoding="utf-8")
    (tmp_path / "prompts.sqlite").symlink_to(tmp_path / "precious")
    assert past("one", file=tmp_path / "prompts.sqlite").storage_error
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "mine"


WRITER = """
import sys
from pathlib import Path
from joey.tui.widgets import prompt_history
from joey.tui.widgets.draft import Draft
prompt_history._MAX_FILE_BYTES = int(sys.argv[3])
history = prompt_history.PromptHistory(Path(sys.argv[1]), Path("/work"))
for number in range(60):
    history.add(Draft(f"{sys.argv[2]} {number} {'x' * 500}"))
assert not history.storage_error, history.storage_error
"""


@pytest.mark.parametrize("largest", [2_000_000, 30_000])
def test_two_processes_write_at_once_and_no_prompt_is_lost(tmp_path: Path, largest: int) -> None:
    file = tmp_path / "prompts.sqlite"
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file), name, str(largest)])
        for name in ("left", "right")
    ]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    entries = texts(PromptHistory(file, HERE))
    for name in ("left", "right"):
        numbers = [int(entry.split()[1]) for entry in entries if entry.startswith(name)]
        assert numbers == sorted(numbers)
        if largest > 1_000_000:
            assert numbers == list(range(60))
    assert entries[-1].split()[1] == "59"
