"""Every form of task folder opens, unaltered, as a history that a provider takes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from joey.core.events import TaskImported
from joey.core.history.api import ApiHistory
from joey.core.messages import Message, TextBlock, ToolUseBlock, extract_text, get_blocks
from joey.core.models import ToolProtocol
from joey.storage.task_store import JsonFileStore
from tests.harness.storage import roo_task_directories
from tests.harness.storage.adoption import look
from tests.harness.storage.roo_task_directories import FORMS, XML_FORMS
from tests.service_rules import check_messages


def adopted(home: Path, task_id: str) -> TaskImported:
    (record,) = JsonFileStore(home).read_records(task_id)
    assert isinstance(record.event, TaskImported)
    return record.event


def shown(event: TaskImported) -> list[Message]:
    """What the model would be shown."""
    history = ApiHistory(event.tool_protocol)
    history.apply(event)
    return list(history.request_messages)


def said(messages: Iterable[Message]) -> str:
    return "\n".join(extract_text(get_blocks(message)) for message in messages)


def check_shown(event: TaskImported) -> None:
    """The services' rules, but for the last reply, which resuming answers."""
    messages = shown(event)
    if messages[-1].role == "assistant":
        messages.pop()
    check_messages(messages)


@pytest.mark.contract("adoption:read")
@pytest.mark.parametrize("form", FORMS)
def test_a_directory_of_any_form_opens_and_stays_as_it_is(tmp_path: Path, form: str) -> None:
    directory = tmp_path / "tasks" / form
    FORMS[form](directory)
    before = look(directory)
    event = adopted(tmp_path, form)
    (listed,) = JsonFileStore(tmp_path).list_tasks()
    assert look(directory) == before
    assert listed.id == form
    check_shown(event)
    assert event.tool_protocol is (ToolProtocol.XML if form in XML_FORMS else ToolProtocol.NATIVE)
    stamps = [row["ts"] for row in event.rows]
    assert stamps == sorted(set(stamps))
    assert "shop" in str(event.rows[0]["text"])


def form_of(tmp_path: Path, form: str) -> TaskImported:
    FORMS[form](tmp_path / "tasks" / form)
    return adopted(tmp_path, form)


def test_old_names_are_distinguished_by_what_is_in_them(tmp_path: Path) -> None:
    cline, roo = form_of(tmp_path, "old-cline-name"), form_of(tmp_path, "old-roo-name")
    assert [row.get("say") for row in cline.rows[:3]] == ["text", "api_req_started", "reasoning"]
    assert "<read_file>" in said(cline.messages)
    assert any(isinstance(block, ToolUseBlock) for block in roo.messages[1].content)


def test_what_cline_has_taken_out_of_sight_stays_so(tmp_path: Path) -> None:
    event = form_of(tmp_path, "cline")
    assert "hidden" not in said(event.messages)
    assert len(event.messages) == 3


def test_of_a_file_that_was_cut_off_the_beginning_is_kept(tmp_path: Path) -> None:
    event = form_of(tmp_path, "cut-messages")
    assert event.messages[0].content[1:2] != ()
    assert "<user_message>" in said(event.messages)
    shorter = form_of(tmp_path, "cut-rows")
    assert 1 < len(shorter.rows) < len(roo_task_directories.rows())


def test_after_a_summary_the_model_sees_the_summary_alone(tmp_path: Path) -> None:
    assert said(shown(form_of(tmp_path, "condensed"))) == "## Summary\nIt is mended."
    january = form_of(tmp_path, "condensed-in-january")
    assert [message.role for message in shown(january)] == ["user", "assistant", "user"]
    assert "I look at it." not in said(shown(january))
    assert "I look at it." in said(january.messages)


def test_a_history_that_begins_with_a_reply_gets_the_task_before_it(tmp_path: Path) -> None:
    event = form_of(tmp_path, "starts-with-a-reply")
    assert shown(event)[0].content == (TextBlock("Mend the shop"),)


@pytest.mark.contract("adoption:read")
def test_a_task_of_fifty_megabytes_opens_whole(tmp_path: Path) -> None:
    directory = tmp_path / "tasks" / "large"
    roo_task_directories.long_task(directory, turns=1_000, padding=50_000)
    assert (directory / roo_task_directories.API).stat().st_size > 48_000_000
    before = (directory / roo_task_directories.API).stat().st_mtime_ns
    event = adopted(tmp_path, "large")
    assert (len(event.rows), len(event.messages)) == (1_999, 1_999)
    check_shown(event)
    assert (directory / roo_task_directories.API).stat().st_mtime_ns == before


def test_a_torn_file_is_salvaged_up_to_any_byte(tmp_path: Path) -> None:
    directory = tmp_path / "tasks" / "torn"
    data = json.dumps(roo_task_directories.native()).encode()
    for size in range(0, len(data), 41):
        roo_task_directories.write(directory, roo_task_directories.rows(), data[:size])
        check_shown(adopted(tmp_path, "torn"))
