"""Whatever Roo has hidden stays in a history, and is there again when it goes back."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from joey.core.events import Record, TaskImported, TaskRewound
from joey.core.history.branch import find_cut_point, find_live_branch
from joey.core.history.ui import get_ts
from joey.core.messages import Message, ToolResultBlock, extract_text, get_blocks
from joey.core.models import ToolProtocol
from joey.core.rewind import FoldedHistory, build_rewind_preview, get_row_say
from joey.ports.storage import TaskMetadata
from joey.storage.roo_task_directory import write_roo_directory
from joey.storage.task_store import JsonFileStore
from tests.harness.counts import shortened_examples
from tests.harness.storage import roo_task_directories
from tests.harness.storage.roo_sessions import STEPS, Condense, Form, RooSession, Truncate, Turn
from tests.harness.storage.roo_task_directories import FORMS, message, say, text
from tests.service_rules import check_messages

PHRASES_RE = re.compile(r"\b(?:Task|Words|Reply|Found|Summary|Marker|Thought):? [\w ]+")


def records_of(home: Path, ui: Any, api: Any, protocol: ToolProtocol) -> Sequence[Record]:
    shutil.rmtree(home / "tasks", ignore_errors=True)
    item = roo_task_directories.item("made", toolProtocol=protocol.value)
    roo_task_directories.write(home / "tasks" / "made", ui, api, item=item)
    return JsonFileStore(home).read_records("made")


def played(
    home: Path, form: Form, protocol: ToolProtocol, *steps: Turn | Condense | Truncate
) -> tuple[RooSession, Sequence[Record]]:
    session = RooSession(form, protocol)
    session.play(list(steps))
    return session, records_of(home, session.ui, session.api, protocol)


def gone_back(records: Sequence[Record], row_ts: int, *, keep: bool = True) -> Sequence[Record]:
    cut = find_cut_point(find_live_branch(records), row_ts, keep=keep)
    going = TaskRewound(
        ts=records[-1].event.ts + 1, to_seq=cut.last_seq, last_row_ts=cut.last_row_ts
    )
    return find_live_branch([*records, Record(records[-1].seq + 1, going)])


def said(messages: Iterable[Message]) -> str:
    texts = []
    for each in messages:
        texts.append(extract_text(get_blocks(each)))
        texts += [str(b.content) for b in get_blocks(each) if isinstance(b, ToolResultBlock)]
    return "\n".join(texts)


def check_valid(history: FoldedHistory) -> None:
    messages = list(history.api.request_messages)
    if messages and messages[-1].role == "assistant":
        messages.pop()
    if messages:
        check_messages(messages)


@pytest.mark.contract("adoption:resumed")
@shortened_examples(40, 150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    form=st.sampled_from(["january", "april"]),
    protocol=st.sampled_from(ToolProtocol),
    steps=STEPS,
)
def test_a_service_takes_every_history_now_and_gone_back_to_any_row(
    tmp_path: Path, form: Form, protocol: ToolProtocol, steps: list[Turn | Condense | Truncate]
) -> None:
    session, records = played(tmp_path, form, protocol, *steps)
    history = FoldedHistory(records)
    check_valid(history)
    assert len(history.projection.recent_user_messages) == sum(
        row.get("say") == "user_feedback" for row in session.ui
    )
    for place, row in enumerate(history.row_timestamps):
        back = FoldedHistory(gone_back(records, row))
        check_valid(back)
        assert back.row_timestamps == history.row_timestamps[: place + 1]
        check_halves(session.ui[place + 1 :], back)


def check_halves(gone: list[dict[str, Any]], back: FoldedHistory) -> None:
    """What no row shows is not in the messages, and what people said in a row is."""
    kept = said(back.api.list_stored_messages())
    for row in gone:
        if row.get("say") in ("user_feedback", "text"):
            assert not re.search(rf"\b{row['text']}\b", kept)
        for details in (row.get("contextCondense"), row.get("contextTruncation")):
            name = details and (details.get("truncationId") or details["summary"].split()[1])
            assert not name or f" {name}" not in kept
    for shown in back.ui.rows:
        assert isinstance(shown, dict)
        if shown.get("say") == "text" and shown["text"].startswith("Reply"):
            assert re.search(rf"\b{shown['text']}\b", kept)


@pytest.mark.contract("adoption:resumed")
@pytest.mark.parametrize("protocol", ToolProtocol)
@pytest.mark.parametrize("form", ["january", "april"])
def test_summaries_within_summaries_come_off_one_by_one(
    tmp_path: Path, form: Form, protocol: ToolProtocol
) -> None:
    turns, last = [Turn()] * 5, Condense(named=False)
    session, records = played(tmp_path, form, protocol, *turns, Condense(), *turns, last, Turn())
    condensed = [row["ts"] for row in session.ui if row.get("say") == "condense_context"]
    first, second = "Summary c6", "Summary c12"
    shown = said(FoldedHistory(records).api.request_messages)
    assert second in shown and first not in shown and "Reply 2" not in shown
    before_second = said(
        FoldedHistory(gone_back(records, condensed[1], keep=False)).api.request_messages
    )
    assert first in before_second and second not in before_second
    assert "Reply 8" in before_second and "Reply 2" not in before_second
    before_first = FoldedHistory(gone_back(records, condensed[0], keep=False))
    whole = said(before_first.api.request_messages)
    assert "Summary" not in whole
    assert [f"Reply {number}" for number in range(1, 6)] == re.findall(r"Reply \d+", whole)


@pytest.mark.contract("adoption:resumed")
def test_a_preview_tells_of_the_summaries_that_would_go(tmp_path: Path) -> None:
    turns = [Turn()] * 5
    session, records = played(
        tmp_path, "april", ToolProtocol.NATIVE, *turns, Condense(), *turns, Truncate(), Turn()
    )
    first = next(row["ts"] for row in session.ui if row.get("say") == "api_req_started")
    assert build_rewind_preview(records, gone_back(records, first)).removed_summary_count == 2


@pytest.mark.contract("export:roo", "adoption:resumed")
@shortened_examples(20, 60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    form=st.sampled_from(["january", "april"]),
    protocol=st.sampled_from(ToolProtocol),
    steps=STEPS,
)
def test_what_is_hidden_goes_with_an_export_and_comes_back_too(
    tmp_path: Path, form: Form, protocol: ToolProtocol, steps: list[Turn | Condense | Truncate]
) -> None:
    _, records = played(tmp_path, form, protocol, *steps)
    task = TaskMetadata(id="again", tool_protocol=protocol)
    write_roo_directory(task, records, tmp_path / "tasks", force=True)
    again = JsonFileStore(tmp_path).read_records("again")
    here, there = FoldedHistory(records), FoldedHistory(again)
    assert said(there.api.build_current_messages()) == said(here.api.build_current_messages())
    assert there.row_timestamps == here.row_timestamps
    for row in here.row_timestamps:
        mine, theirs = FoldedHistory(gone_back(records, row)), FoldedHistory(gone_back(again, row))
        check_valid(theirs)
        # A result whose call was hidden when it was exported is text since then.
        phrases = [
            sorted(PHRASES_RE.findall(said(each.api.request_messages))) for each in (mine, theirs)
        ]
        assert phrases[0] == phrases[1]


def test_without_times_replies_go_with_their_requests(tmp_path: Path) -> None:
    session = RooSession("january", ToolProtocol.NATIVE)
    session.play([Turn(), Turn(), Turn()])
    bare = [{k: v for k, v in each.items() if k != "ts"} for each in session.api]
    records = records_of(tmp_path, session.ui, bare, ToolProtocol.NATIVE)
    replies = [row["ts"] for row in session.ui if str(row.get("text")).startswith("Reply")]
    for number, row in enumerate(replies):
        shown = said(FoldedHistory(gone_back(records, row)).api.request_messages)
        assert len(re.findall(r"Reply \d", shown)) == number + 1


def test_a_message_without_a_time_goes_with_the_one_before_it(tmp_path: Path) -> None:
    api = [
        message("user", 0, text("go")),
        {"role": "assistant", "content": "Reply 1"},
        message("user", 4, text("Words 2")),
        {"role": "assistant", "content": "Reply 2"},
    ]
    rows = [say(0, "text", "go"), say(2, "text", "Reply 1"), say(3, "user_feedback", "Words 2")]
    records = records_of(tmp_path, rows, api, ToolProtocol.NATIVE)
    back = gone_back(records, rows[1]["ts"])
    assert said(FoldedHistory(back).api.request_messages) == "go\nReply 1"


TAGS = st.fixed_dictionaries(
    {},
    optional={
        "condenseParent": st.sampled_from(["a", "b", "c"]),
        "truncationParent": st.sampled_from(["a", "b", "c"]),
        "isSummary": st.booleans(),
        "condenseId": st.sampled_from(["a", "b", "c"]),
        "isTruncationMarker": st.booleans(),
        "truncationId": st.sampled_from(["a", "b", "c"]),
        "ts": st.integers(0, 60),
    },
)
BLOCKS = st.lists(
    st.one_of(
        st.builds(text, st.sampled_from(["x", " ", "y"])),
        st.builds(roo_task_directories.call, st.sampled_from(["1", "2", "a b", ""])),
        st.builds(roo_task_directories.call, st.just("3"), st.sampled_from(["odd name", "ok"])),
        st.builds(roo_task_directories.result, st.sampled_from(["1", "2", "3", "a b", ""])),
        st.just({"type": "thinking", "thinking": "hm", "signature": "s"}),
        st.just({"type": "reasoning", "text": "hm"}),
        st.just(roo_task_directories.IMAGE),
    ),
    max_size=4,
)
MESSAGES = st.builds(
    lambda role, content, tags: {"role": role, "content": content, **tags},
    st.sampled_from(["user", "assistant"]),
    BLOCKS,
    TAGS,
)


@pytest.mark.contract("adoption:resumed")
@shortened_examples(50, 200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(api=st.lists(MESSAGES, max_size=8), protocol=st.sampled_from(ToolProtocol))
def test_no_order_of_blocks_and_no_tags_make_a_history_that_a_service_refuses(
    tmp_path: Path, api: list[Any], protocol: ToolProtocol
) -> None:
    rows = [{"ts": ts, "type": "say", "say": "text", "text": "x"} for ts in range(0, 60, 10)]
    records = records_of(tmp_path, rows, api, protocol)
    for row in range(10, 60, 20):
        back = FoldedHistory(gone_back(records, row))
        check_valid(back)
    history = FoldedHistory(records)
    check_valid(history)
    assert history.api.request_messages


@pytest.mark.parametrize("form", FORMS)
def test_a_directory_of_any_form_goes_back_to_any_row(tmp_path: Path, form: str) -> None:
    FORMS[form](tmp_path / "tasks" / form)
    records = JsonFileStore(tmp_path).read_records(form)
    event = records[0].event
    assert isinstance(event, TaskImported)
    for row in event.rows:
        check_valid(FoldedHistory(gone_back(records, row["ts"])))


def test_rows_made_up_for_a_lost_file_tell_of_what_is_hidden(tmp_path: Path) -> None:
    session = RooSession("april", ToolProtocol.NATIVE)
    session.play([Turn(), Turn(), Condense(), Turn()])
    records = records_of(tmp_path, None, session.api, ToolProtocol.NATIVE)
    rows = FoldedHistory(records).ui.rows
    (condensed,) = [get_ts(row) for row in rows if get_row_say(row) == "condense_context"]
    back = FoldedHistory(gone_back(records, condensed, keep=False))
    assert "Reply 2" in said(back.api.request_messages)
    assert "Summary" not in said(back.api.request_messages)
