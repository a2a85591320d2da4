"""Folders that Roo wrote, healthy and otherwise."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joey.core.events import TaskImported
from joey.core.history.api import ApiHistory
from joey.core.messages import (
    ImageBlock,
    ImageSource,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnsignedReasoningBlock,
)
from joey.core.models import ToolProtocol
from joey.errors import StoreError
from joey.ports.storage import TaskMetadata
from joey.storage.task_store import JsonFileStore
from tests.harness.paths import ROO_TASKS
from tests.harness.storage.records import said

NATIVE = "0198c0de-7a11-7000-8000-00000000aaaa"
XML = "5f0c9b1e-xml"
SEED = "1704067200000"
UI, API = "ui_messages.json", "api_conversation_history.json"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copytree(ROO_TASKS, tmp_path / "tasks")
    return tmp_path


def adopted(home: Path, task_id: str) -> TaskImported:
    log, records = JsonFileStore(home).open(task_id)
    log.close()
    (record,) = records
    assert record.seq == 1
    assert isinstance(record.event, TaskImported)
    return record.event


def go_on(home: Path, task_id: str) -> None:
    log, _ = JsonFileStore(home).open(task_id)
    log.append(said(2))
    log.close()


def shown(event: TaskImported) -> list[Message]:
    """What the model would be shown."""
    history = ApiHistory(event.tool_protocol)
    history.apply(event)
    return list(history.request_messages)


def task_with(home: Path, ui: Any = None, api: Any = None) -> str:
    directory = home / "tasks" / "made"
    directory.mkdir(parents=True)
    for name, value in ((UI, ui), (API, api)):
        if value is not None:
            (directory / name).write_text(json.dumps(value), encoding="utf-8")
    return "made"


def blocks(message: Message) -> tuple[Any, ...]:
    assert isinstance(message.content, tuple)
    return message.content


def user(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content), **more}


def assistant(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content), **more}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def call(name: str, call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def result(call_id: str, content: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


ROWS = [
    {"ts": 10, "type": "say", "say": "text", "text": "Do it"},
    {"ts": 20, "type": "say", "say": "text", "text": "Doing it"},
    {"ts": 30, "type": "ask", "ask": "tool", "text": '{"tool":"readFile"}'},
    {"ts": 40, "type": "ask", "ask": "followup", "text": '{"question":"Which one?"}'},
    {"ts": 50, "type": "say", "say": "user_feedback", "text": "The first"},
    {"ts": 60, "type": "say", "say": "completion_result", "text": "Done"},
]


@pytest.mark.contract("adoption:read")
def test_a_native_task_is_adopted_with_its_facts_and_its_open_call(home: Path) -> None:
    event = adopted(home, NATIVE)
    assert (event.task_id, event.workspace, event.mode) == (NATIVE, "/home/ann/shop", "debug")
    assert event.tool_protocol is ToolProtocol.NATIVE
    assert [message.role for message in event.messages] == ["user", "assistant"] * 2
    assert event.messages[1].id == "msg_01"
    (last,) = blocks(event.messages[-1])
    assert last == ToolUseBlock(
        id="toolu_02", name="execute_command", input={"command": "npm test"}
    )


@pytest.mark.contract("adoption:read", "protocol:choice")
def test_an_xml_task_is_adopted_as_xml_with_facts_from_its_texts(home: Path) -> None:
    event = adopted(home, XML)
    assert event.tool_protocol is ToolProtocol.XML
    assert (event.workspace, event.mode) == ("/home/ben/hello", "code")
    assert event.messages[-1].content == (
        "<attempt_completion>\n<result>app.py now greets in German.</result>\n</attempt_completion>"
    )


def test_a_directory_in_the_seed_layout_is_adopted_too(home: Path) -> None:
    event = adopted(home, f"task_{SEED}")
    assert event.task_id == SEED
    assert event.rows[0]["text"] == "Add error handling to auth.ts"
    assert event.rows[2]["approvalState"] == "approved"
    assert len(event.messages) == 4


def test_rows_get_unique_rising_times_and_nothing_streams_any_more(home: Path) -> None:
    event = adopted(home, XML)
    stamps = [row["ts"] for row in event.rows]
    assert stamps == sorted(set(stamps))
    assert event.ts > max(stamps)
    assert not any(row.get("partial") for row in event.rows)


def test_loose_ends_of_the_ui_history_are_taken_off(home: Path) -> None:
    kinds = [row.get("say") or row.get("ask") for row in adopted(home, NATIVE).rows]
    assert kinds[-1] == "command_output"
    assert kinds.count("api_req_started") == 2


@pytest.mark.contract("adoption:read")
async def test_originals_stay_and_are_kept_as_copies_when_a_snapshot_replaces_them(
    home: Path,
) -> None:
    directory = home / "tasks" / NATIVE
    originals = {path.name: path.read_bytes() for path in directory.iterdir()}
    log, _ = JsonFileStore(home).open(NATIVE)
    await log.write_snapshot([b"{}"], [], TaskMetadata(id=NATIVE))
    assert {path.name for path in directory.iterdir()} == {*originals, "lock"}
    log.append(said(2))
    assert {name: (directory / name).read_bytes() for name in originals} == originals
    await log.write_snapshot([b"{}"], [], TaskMetadata(id=NATIVE))
    log.close()
    for name in (UI, API):
        assert (directory / name.replace(".json", ".roo.json")).read_bytes() == originals[name]
        assert (directory / name).read_bytes() != originals[name]


@pytest.mark.contract("adoption:read")
def test_an_adopted_task_goes_on_in_its_own_directory(home: Path) -> None:
    log, _ = JsonFileStore(home).open(NATIVE)
    log.append(said(2))
    log.close()
    log, records = JsonFileStore(home).open(NATIVE)
    log.close()
    assert log.directory == home / "tasks" / NATIVE
    assert isinstance(records[0].event, TaskImported)
    assert records[1:] == [said(2)]


def test_adopting_again_never_overwrites_an_earlier_copy(home: Path) -> None:
    directory = home / "tasks" / SEED
    shutil.move(home / "tasks" / f"task_{SEED}", directory)
    go_on(home, SEED)
    first = (directory / "ui_messages.roo.json").read_bytes()
    (directory / "journal.jsonl").unlink()
    (directory / UI).write_text(json.dumps(ROWS), encoding="utf-8")
    go_on(home, SEED)
    assert (directory / "ui_messages.roo.json").read_bytes() == first
    assert json.loads((directory / "ui_messages.roo-1.json").read_bytes()) == ROWS


def test_the_old_name_of_the_api_history_is_read_and_kept(tmp_path: Path) -> None:
    task = task_with(tmp_path, ROWS)
    old = tmp_path / "tasks" / task / "claude_messages.json"
    old.write_text('[{"role":"user","content":"Do it"}]', encoding="utf-8")
    event = adopted(tmp_path, task)
    assert [message.content for message in event.messages] == ["Do it"]
    assert old.exists()


@pytest.mark.parametrize(
    "damaged", [None, b"", b"[]", b"{}", b'[{"role":"us', b"\xff\xfe", b"null"]
)
def test_a_lost_api_history_is_rebuilt_from_what_was_said(
    tmp_path: Path, damaged: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    task = task_with(tmp_path, ROWS)
    if damaged is not None:
        (tmp_path / "tasks" / task / API).write_bytes(damaged)
    with caplog.at_level(logging.WARNING):
        event = adopted(tmp_path, task)
    assert [(message.role, message.content) for message in shown(event)] == [
        ("user", (TextBlock("Do it"),)),
        ("assistant", (TextBlock("Doing it"), TextBlock("Which one?"))),
        ("user", (TextBlock("The first"),)),
        ("assistant", (TextBlock("Done"),)),
    ]
    assert API in caplog.text


@pytest.mark.parametrize("leftover", [f".{API}.bak_1_ab.tmp", f".{API}.new_1_ab.tmp"])
def test_a_leftover_of_an_interrupted_save_is_better_than_rebuilding(
    tmp_path: Path, leftover: str
) -> None:
    task = task_with(tmp_path, ROWS)
    directory = tmp_path / "tasks" / task
    (directory / leftover).write_text('[{"role":"user","content":"saved"}]', encoding="utf-8")
    assert [message.content for message in adopted(tmp_path, task).messages] == ["saved"]


def test_the_newest_readable_leftover_is_taken(tmp_path: Path) -> None:
    task = task_with(tmp_path, ROWS)
    directory = tmp_path / "tasks" / task
    for age, content in enumerate(('[{"ro', '[{"role":"user","content":"new"}]', "[1]")):
        path = directory / f".{API}.bak_{age}_x.tmp"
        path.write_text(content, encoding="utf-8")
        os.utime(path, (1000 - age, 1000 - age))
    assert [message.content for message in adopted(tmp_path, task).messages] == ["new"]


@pytest.mark.parametrize("damaged", [None, b"[", b"nonsense"])
def test_a_lost_ui_history_is_rebuilt_from_the_messages_and_kept(
    home: Path, damaged: bytes | None
) -> None:
    directory = home / "tasks" / XML
    (directory / UI).unlink()
    if damaged is not None:
        (directory / UI).write_bytes(damaged)
    rows = adopted(home, XML).rows
    assert [(row["say"], row["text"]) for row in rows if row["say"] != "text"] == [
        ("user_feedback", "German, please")
    ]
    assert rows[0]["text"] == "Add a greeting to app.py"
    go_on(home, XML)
    if damaged is not None:
        assert (directory / "ui_messages.roo.json").read_bytes() == damaged


def test_rows_rebuilt_from_native_messages_show_calls_and_the_result(home: Path) -> None:
    directory = home / "tasks" / f"task_{SEED}"
    (directory / UI).unlink()
    rows = adopted(home, SEED).rows
    assert [row["say"] for row in rows] == ["text", "text", "tool", "completion_result"]
    assert (rows[2]["tool"], rows[2]["path"]) == ("read_file", "src/auth.ts")
    assert [row["ts"] for row in rows] == [1, 2, 3, 4]


def test_two_unusable_files_are_an_error_that_names_them_and_changes_nothing(
    tmp_path: Path,
) -> None:
    task = task_with(tmp_path, "no rows", {"no": "messages"})
    directory = tmp_path / "tasks" / task
    with pytest.raises(StoreError, match=f"neither {UI} nor {API}"):
        JsonFileStore(tmp_path).open(task)
    assert {path.name for path in directory.glob("*.json*")} == {UI, API}


async def test_a_journal_that_cannot_be_read_at_all_is_made_up_for_from_the_snapshots(
    home: Path,
) -> None:
    log, _ = JsonFileStore(home).open(SEED)
    log.close()
    (log.directory / "journal.jsonl").write_bytes(b"\0" * 100 + b"\n")
    assert adopted(home, SEED).rows[0]["text"] == "Add error handling to auth.ts"
    assert (log.directory / "journal.unreadable-1").read_bytes() == b"\0" * 100 + b"\n"


def test_messages_hidden_by_a_summary_or_a_truncation_stay_hidden(tmp_path: Path) -> None:
    api = [
        user(text("old"), condenseParent="c1"),
        assistant(text("older"), truncationParent="gone"),
        user(text("summary"), isSummary=True, condenseId="c1"),
        assistant(text("cut"), truncationParent="t1"),
        user(text("marker"), isTruncationMarker=True, truncationId="t1"),
        assistant(text("new")),
    ]
    event = adopted(tmp_path, task_with(tmp_path, ROWS, api))
    said = [block.text for message in shown(event) for block in blocks(message)]
    assert said == ["Do it", "older", "summary", "marker", "new"]
    kept = [block.text for message in event.messages for block in blocks(message)]
    assert kept == ["old", "older", "summary", "cut", "marker", "new"]


@pytest.mark.contract("history:api")
def test_every_call_has_one_result_and_every_result_a_call(tmp_path: Path) -> None:
    api = [
        user(text("go")),
        assistant(call("read_file", "c1"), call("list_files", "c2")),
        user(result("c2", "two"), result("c9", "stray"), result("c2", "again"), text("words")),
        assistant(call("read_file", "c1")),
        user(result("c1", "second")),
        assistant(call("read_file", "c3")),
        user(text("never mind")),
        assistant(call("read_file", "c4")),
    ]
    messages = shown(adopted(tmp_path, task_with(tmp_path, ROWS, api)))
    ids = [
        block.id
        for message in messages
        for block in blocks(message)
        if isinstance(block, ToolUseBlock)
    ]
    assert ids == ["c1", "c2", "c1_2", "c3", "c4"]
    first, second, third = blocks(messages[2]), blocks(messages[4]), blocks(messages[6])
    assert [block.tool_use_id for block in first[:2]] == ["c1", "c2"]
    assert "interrupted" in first[0].content
    assert first[1].content == "two"
    assert [block.text.splitlines()[-1] for block in first[2:]] == ["stray", "again", "words"]
    assert second == (ToolResultBlock("c1_2", "second"),)
    assert [type(block) for block in third] == [ToolResultBlock, TextBlock]


@pytest.mark.contract("history:api")
def test_a_result_under_a_wrong_id_belongs_to_the_call_at_its_position(tmp_path: Path) -> None:
    api = [
        user(text("go")),
        assistant(call("read_file", "c1")),
        user(result("other", "one")),
        assistant(call("read_file", "c2"), call("list_files", "c3")),
        user(result("x", "two"), result("y", "three")),
        assistant(call("read_file", "c4")),
        user(result("c1", "late")),
    ]
    messages = shown(adopted(tmp_path, task_with(tmp_path, ROWS, api)))
    assert blocks(messages[2]) == (ToolResultBlock("c1", "one"),)
    assert blocks(messages[4]) == (ToolResultBlock("c2", "two"), ToolResultBlock("c3", "three"))
    interrupted, late = blocks(messages[6])
    assert "interrupted" in interrupted.content
    assert late.text.endswith("late")


def test_calls_without_ids_become_text_in_an_xml_task(tmp_path: Path) -> None:
    api = [
        user(text("go")),
        assistant({"type": "tool_use", "name": "read_file", "input": {"path": "a.py", "n": 1}}),
        user(result("", "1 | x")),
    ]
    event = adopted(tmp_path, task_with(tmp_path, ROWS, api))
    assert event.tool_protocol is ToolProtocol.XML
    messages = shown(event)
    assert blocks(messages[1])[0].text == ("<read_file>\n<path>a.py</path>\n<n>1</n>\n</read_file>")
    assert blocks(messages[2])[0].text == "[read_file] Result:\n1 | x"


def test_blocks_of_unknown_kinds_are_left_out_or_become_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api = [
        user(text("go"), {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}),
        assistant(
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "reasoning", "text": "why", "summary": [{"a": 1}], "encrypted_content": "e"},
            {"type": "hologram", "beam": 1},
            {"type": "essay", "text": "kept"},
            {"type": "thoughtSignature", "thoughtSignature": "s"},
        ),
        {"role": "system", "content": "no"},
        {"type": "reasoning", "role": "assistant", "encrypted_content": "x", "summary": []},
        "junk",
    ]
    with caplog.at_level(logging.WARNING):
        messages = adopted(tmp_path, task_with(tmp_path, ROWS, api)).messages
    assert blocks(messages[0])[1] == TextBlock("[image: http://x/y.png]")
    assert blocks(messages[1]) == (
        UnsignedReasoningBlock(text="unsigned"),
        UnsignedReasoningBlock(text="why", summary=({"a": 1},), encrypted_content="e"),
        TextBlock("kept"),
    )
    assert len(messages) == 2
    assert "hologram" in caplog.text


def test_half_of_an_emoji_does_not_make_a_file_unreadable(tmp_path: Path) -> None:
    task = task_with(tmp_path, ROWS)
    broken = b'\xef\xbb\xbf[{"role":"user","content":"cut \\ud83d here","ts":1e1}]'
    (tmp_path / "tasks" / task / API).write_bytes(broken)
    (message,) = adopted(tmp_path, task).messages
    assert (message.content, message.ts) == ("cut ? here", 10)


def test_neighbours_of_the_same_role_become_one_message(tmp_path: Path) -> None:
    api = [
        {"role": "user", "content": "one", "ts": 5},
        user(text("two"), ts=7),
        assistant(text("a"), id="r1", reasoning_details=[1]),
        assistant(text("b"), reasoning_details=[2]),
    ]
    first, second = shown(adopted(tmp_path, task_with(tmp_path, ROWS, api)))
    assert (first.content, first.ts) == ((TextBlock("one"), TextBlock("two")), 7)
    assert (second.id, second.reasoning_details) == ("r1", (1, 2))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "type",
                    "text",
                    "ts",
                    "say",
                    "ask",
                    "id",
                    "name",
                    "input",
                    "source",
                ]
            ),
            inner
            | st.sampled_from(["user", "assistant", "say", "tool_use", "tool_result", "image"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ui=st.lists(JSON, max_size=3), api=st.lists(JSON, max_size=3))
def test_whatever_json_is_in_the_files_the_task_opens_with_what_was_readable(
    tmp_path: Path, ui: list[Any], api: list[Any]
) -> None:
    shutil.rmtree(tmp_path / "tasks", ignore_errors=True)
    event = adopted(tmp_path, task_with(tmp_path, [*ROWS, *ui], api))
    assert event.rows[: len(ROWS)] == tuple(ROWS)
    assert event.messages


@pytest.mark.contract("protocol:choice")
@pytest.mark.parametrize(
    ("item", "environment", "protocol"),
    [
        ('{"toolProtocol": "xml"}', "", ToolProtocol.XML),
        ('{"toolProtocol": "smoke signals"}', "", ToolProtocol.NATIVE),
        ("{}", "<tool_format>xml</tool_format>", ToolProtocol.XML),
        ('{"toolProtocol": "native"}', "<tool_format>xml</tool_format>", ToolProtocol.NATIVE),
    ],
)
def test_the_protocol_is_the_stated_one_else_the_one_in_the_texts(
    tmp_path: Path, item: str, environment: str, protocol: ToolProtocol
) -> None:
    task = task_with(tmp_path, ROWS, [user(text("go"), text(f"details {environment}"))])
    (tmp_path / "tasks" / task / "history_item.json").write_text(item, encoding="utf-8")
    assert adopted(tmp_path, task).tool_protocol is protocol


def test_images_and_signed_thinking_come_over_unchanged(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    shown = ImageBlock(ImageSource(media_type="image/png", data="AA"))
    answer = result("c1", "") | {
        "content": [text("seen"), image, {"type": "odd"}],
        "is_error": True,
    }
    api = [
        user(image),
        assistant(
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "opaque"},
            call("read_file", "c1"),
        ),
        user(answer),
    ]
    messages = adopted(tmp_path, task_with(tmp_path, ROWS, api)).messages
    assert [blocks(message) for message in messages] == [
        (shown,),
        (
            ThinkingBlock("hm", "sig"),
            RedactedThinkingBlock("opaque"),
            ToolUseBlock("c1", "read_file", {}),
        ),
        (ToolResultBlock("c1", [TextBlock("seen"), shown], is_error=True),),
    ]


@pytest.mark.parametrize("tag", ["attempt_completion>\n<result", "ask_followup_question><question"])
def test_a_task_whose_only_call_is_its_last_is_known_by_the_call(tmp_path: Path, tag: str) -> None:
    reply = {"role": "assistant", "content": [text(f"Done.\n<{tag}>42")]}
    assert (
        adopted(tmp_path, task_with(tmp_path, ROWS, [user(text("go")), reply])).tool_protocol
        == "xml"
    )
    quoted = {"role": "assistant", "content": [text(f"Such as `<{tag}>`")]}
    native = task_with(tmp_path / "b", ROWS, [user(text("go")), quoted])
    assert adopted(tmp_path / "b", native).tool_protocol == "native"
