"""An exported task is one that Roo reads, and that an import brings back as it was."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joey.core.events import (
    CallDropped,
    CheckpointSaved,
    ContextCondensed,
    ContextTruncated,
    Durable,
    Record,
    ReplyReceived,
    RequestStarted,
    RowPart,
    TaskImported,
    ToolStarted,
    UserMessage,
)
from joey.core.history.api import ApiHistory
from joey.core.history.ui import UiHistory
from joey.core.messages import TextBlock, TextPart
from joey.core.rewind import FoldedHistory
from joey.errors import StoreError
from joey.ports.storage import TaskMetadata
from joey.storage.roo_import import find_foreign_tasks, find_task_locations_under, import_task
from joey.storage.roo_task_directory import encode_roo_files, write_roo_directory
from joey.storage.task_store import JsonFileStore
from tests.harness.storage import roo_task_directories
from tests.harness.storage.records import created
from tests.harness.storage.roo_task_directories import FORMS, UI


def read_back(directory: Path) -> tuple[Any, Any, str]:
    (record,) = JsonFileStore(directory.parent.parent).read_records(directory.name)
    return content([record])


def content(records: Any) -> tuple[Any, Any, str]:
    ui, api = UiHistory(), ApiHistory(records[0].event.tool_protocol)
    for record in records:
        ui.apply(record.event)
        api.apply(record.event)
    rows, messages = msgspec.to_builtins(ui.rows), msgspec.to_builtins(api.list_stored_messages())
    return rows, messages, str(api.tool_protocol)


@pytest.mark.contract("export:roo")
@pytest.mark.parametrize("form", FORMS)
def test_what_is_exported_comes_back_the_same(tmp_path: Path, form: str) -> None:
    FORMS[form](tmp_path / "a" / "tasks" / form)
    store = JsonFileStore(tmp_path / "a")
    (task,) = store.list_tasks()
    (record,) = store.read_records(form)
    assert isinstance(record.event, TaskImported)
    task = msgspec.structs.replace(task, tool_protocol=record.event.tool_protocol.value)
    write_roo_directory(task, [record], tmp_path / "out")
    (found,) = find_foreign_tasks(
        find_task_locations_under(tmp_path / "out"), tmp_path / "b" / "tasks"
    )
    import_task(found, tmp_path / "b" / "tasks")
    assert content(JsonFileStore(tmp_path / "b").read_records(form)) == content([record])


TEXTS = st.text(string.ascii_letters + "äß€🙂 \n<>&\"'{}[]", min_size=1, max_size=20).filter(
    str.strip
)
REPLY = st.lists(
    st.one_of(
        st.builds(roo_task_directories.text, TEXTS),
        st.builds(lambda text: {"type": "reasoning", "text": text}, TEXTS),
        st.builds(lambda a, b: {"type": "thinking", "thinking": a, "signature": b}, TEXTS, TEXTS),
        st.builds(lambda a: roo_task_directories.call("x", path=a, lines=[1, {"n": None}]), TEXTS),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.contract("export:roo")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(st.tuples(TEXTS, REPLY), min_size=1, max_size=4))
def test_any_conversation_survives_export_and_import(
    tmp_path: Path, turns: list[tuple[str, list[dict[str, Any]]]]
) -> None:
    api, ui = [], []
    for place, (text, reply) in enumerate(turns):
        api += [roo_task_directories.message("user", 2 * place, roo_task_directories.text(text))]
        api += [roo_task_directories.message("assistant", 2 * place + 1, *reply)]
        ui += [roo_task_directories.say(place, "user_feedback" if place else "text", text)]
    source = tmp_path / "tasks" / "made"
    roo_task_directories.write(source, ui, api)
    records = JsonFileStore(tmp_path).read_records("made")
    task = TaskMetadata(id="again", tool_protocol="native")
    directory = write_roo_directory(task, records, tmp_path / "tasks", force=True)
    assert read_back(directory) == content(records)


@pytest.mark.contract("export:roo")
def test_the_directory_has_the_files_and_facts_that_roo_lists(tmp_path: Path) -> None:
    FORMS["april"](tmp_path / "tasks" / "april")
    store = JsonFileStore(tmp_path)
    (task,) = store.list_tasks()
    directory = write_roo_directory(task, store.read_records("april"), tmp_path / "out")
    names = {"ui_messages.json", "api_conversation_history.json", "task_metadata.json"}
    assert {path.name for path in directory.iterdir()} == names | {"history_item.json"}
    item = json.loads((directory / "history_item.json").read_bytes())
    size = item.pop("size")
    assert size == sum((directory / name).stat().st_size for name in names - {"task_metadata.json"})
    used = {"tokensIn": 200, "tokensOut": 14, "cacheWrites": 0, "cacheReads": 0, "totalCost": 0.5}
    assert item == {
        "id": "april",
        "number": 1,
        "ts": roo_task_directories.START + 7000,
        "task": "Mend the shop",
        "workspace": "/home/ann/shop",
        "mode": "code",
        "apiConfigName": "default",
        **used,
    }
    assert json.loads((directory / "task_metadata.json").read_bytes()) == {"files_in_context": []}


@pytest.mark.contract("export:roo")
def test_what_is_there_is_replaced_only_with_force(tmp_path: Path) -> None:
    FORMS["april"](tmp_path / "tasks" / "april")
    store = JsonFileStore(tmp_path)
    (task,) = store.list_tasks()
    (tmp_path / "out" / "april").mkdir(parents=True)
    (tmp_path / "out" / "april" / UI).write_text("mine")
    with pytest.raises(StoreError, match="--force"):
        write_roo_directory(task, store.read_records("april"), tmp_path / "out")
    assert (tmp_path / "out" / "april" / UI).read_text() == "mine"
    write_roo_directory(task, store.read_records("april"), tmp_path / "out", force=True)
    assert (tmp_path / "out" / "april" / UI).read_text() != "mine"


@pytest.mark.contract("export:roo")
def test_secrets_are_left_out_and_altered_thinking_is_no_longer_signed(tmp_path: Path) -> None:
    address = "git clone https://ann:hunter2@example.org/shop"
    thought = {"type": "thinking", "thinking": address, "signature": "c2ln"}
    use = roo_task_directories.call(
        "c1", "use_mcp_tool", api_key="hunter2", url=address, keep="this"
    )
    api = [
        roo_task_directories.message("user", 0, roo_task_directories.text(address)),
        roo_task_directories.message("assistant", 1, thought, use),
    ]
    roo_task_directories.write(
        tmp_path / "tasks" / "t1", [roo_task_directories.say(0, "text", address)], api
    )
    store = JsonFileStore(tmp_path)
    (task,) = store.list_tasks()
    files = encode_roo_files(task, store.read_records("t1"))
    assert not any(b"hunter2" in data for data in files.values())
    block, call = json.loads(files["api_conversation_history.json"])[1]["content"]
    assert "signature" not in block
    assert call["input"] == {"url": "git clone https://example.org/shop", "keep": "this"}


@pytest.mark.contract("export:roo")
def test_summaries_cuts_and_checkpoints_are_exported_as_roo_writes_them(tmp_path: Path) -> None:
    asked = [
        RequestStarted(ts=10 * n, api_protocol="anthropic", content=(TextBlock(f"Words {n}"),))
        for n in range(1, 8)
    ]
    replied = [
        ReplyReceived(ts=10 * n + 2, parts=(RowPart(10 * n + 1, TextPart(f"Reply {n}")),))
        for n in range(1, 8)
    ]
    turns = [event for pair in zip(asked, replied, strict=True) for event in pair]
    events: list[Durable] = [
        created().event,
        UserMessage(ts=2, text="Words", is_first=True),
        *turns[:4],
        ContextCondensed(
            ts=25,
            condense_id="c1",
            summary="Sum",
            content=(TextBlock("Sum"),),
            tokens_before=9,
            tokens_after=3,
        ),
        *turns[4:],
        CheckpointSaved(ts=90, id="abc", previous_id="def"),
        ContextTruncated(
            ts=91, truncation_id="t1", hidden_message_count=3, tokens_before=9, tokens_after=3
        ),
    ]
    records = [Record(n, event) for n, event in enumerate(events, 1)]
    task = TaskMetadata(id="out", tool_protocol="native")
    directory = write_roo_directory(task, records, tmp_path / "tasks")
    api = json.loads((directory / roo_task_directories.API).read_bytes())
    plain = ("role", "content", "ts")
    extra_fields = [{k: v for k, v in message.items() if k not in plain} for message in api]
    assert extra_fields[:5] == [{"condenseParent": "c1"}] * 4 + [
        {"isSummary": True, "condenseId": "c1"}
    ]
    assert extra_fields[5:8] == [{"truncationParent": "t1"}] * 3
    assert extra_fields[8] == {"isTruncationMarker": True, "truncationId": "t1"}
    assert not any(extra_fields[9:])
    rows = {row.get("say"): row for row in json.loads((directory / UI).read_bytes())}
    assert rows["condense_context"]["contextCondense"]["condenseId"] == "c1"
    assert rows["sliding_window_truncation"]["contextTruncation"]["messagesRemoved"] == 3
    assert rows["checkpoint_saved"]["checkpoint"] == {"to": "abc", "from": "def"}
    again, before = (
        FoldedHistory(JsonFileStore(tmp_path).read_records("out")),
        FoldedHistory(records),
    )
    assert [m.content for m in again.api.request_messages] == [
        m.content for m in before.api.request_messages
    ]


def test_an_empty_task_is_not_exported() -> None:
    records: list[Record] = []
    with pytest.raises(StoreError, match="empty"):
        encode_roo_files(TaskMetadata(id="none"), records)


@pytest.mark.contract("export:roo")
def test_calls_that_the_rules_allowed_are_asked_and_answered_for_roo() -> None:
    started = [
        ("execute_command", "make test"),
        ("browser_action", "http://localhost:8000"),
        ("browser_action", '{"tool":"browserAction","action":"click","coordinate":"1,2"}'),
        ("mcp--a--b", '{"type":"use_mcp_tool","serverName":"a","toolName":"b"}'),
        ("read_file", '{"tool":"readFile","path":"a"}'),
    ]
    events: list[Durable] = [created().event, UserMessage(ts=2, text="go", is_first=True)]
    events += [
        ToolStarted(ts=ts, call_id=str(ts), tool=tool, text=text)
        for ts, (tool, text) in enumerate(started, 3)
    ]
    events.append(CallDropped(ts=9, tool="read_file", text='{"tool":"read_file"}'))
    records = [Record(seq, event) for seq, event in enumerate(events, 1)]
    rows = json.loads(encode_roo_files(TaskMetadata(id="t"), records)[UI])
    shown = [(row.get("ask") or row["say"], row["text"], row.get("isAnswered")) for row in rows]
    assert shown[1:] == [
        ("command", "make test", True),
        ("browser_action_launch", "http://localhost:8000", True),
        ("browser_action", '{"action": "click", "coordinate": "1,2"}', None),
        ("use_mcp_server", started[3][1], True),
        ("tool", started[4][1], True),
        ("tool", '{"tool":"read_file"}', None),
    ]
