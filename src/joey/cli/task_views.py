"""Text views of stored tasks: Markdown transcript, numbered messages, table of tasks, rewinds.

Messages are numbered from the end: the last is 1. Rows that are hidden from users have no number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.cli.exit_codes import UsageError
from joey.cli.output import format_table
from joey.core.events import Record
from joey.core.history.branch import find_live_branch
from joey.core.history.ui import UiHistory
from joey.core.rewind import RewindPreview
from joey.core.task_types import IDLE_STATES, AskKind, RowKind, TaskState
from joey.core.tool_calls import (
    COMMAND_TOOL_NAME,
    CallKind,
    decode_row,
    parse_plain_text,
    summarize_call_row,
)
from joey.errors import TaskNotFoundError
from joey.ports.storage import FoundTask, Store, TaskIndex, TaskMetadata
from joey.presentation.phrases import (
    RESTORED_FILE_CHANGE_TEXTS,
    UNRESTORABLE_REASON_TEXTS,
    describe_error,
)
from joey.presentation.questions import parse_follow_up
from joey.presentation.text import to_one_line

_FENCE_RE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)
_CHECKBOX_MARKS = {"completed": "x", "in_progress": "-"}


def render_markdown(
    task: TaskMetadata, rows: Sequence[dict[str, Any]], subtasks: Sequence[str] = ()
) -> str:
    """Render a task as Markdown; `subtasks` are lines of a list."""
    title = task.title.strip().split("\n")[0][:120] or task.id
    sections = [f"# {title}", _format_metadata(task)]
    if subtasks:
        sections.append("\n".join(["Subtasks:", "", *subtasks]))
    for number, row in enumerate(rows):
        sections += _render_row(row, first=number == 0)
    return "\n\n".join(sections) + "\n"


def read_rows(store: Store, task_id: str) -> list[dict[str, Any]]:
    """Read the UI history of a task from its journal."""
    return build_rows(store.read_records(task_id))


def build_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    history = UiHistory()
    for record in find_live_branch(records):
        history.apply(record.event)
    return [msgspec.to_builtins(row) for row in history.rows]


def _format_metadata(task: TaskMetadata) -> str:
    facts = {
        "Task": task.id,
        "Subtask of": task.parent_id or "",
        "Workspace": task.workspace,
        "Model": task.model,
        "Mode": task.mode,
        "Protocol": task.tool_protocol,
        "Status": task.status,
        "Begun": _format_utc_time(task.created),
        "Tokens": f"{task.tokens_in} in, {task.tokens_out} out",
        "Cost": f"${task.total_cost:.4f}" if task.total_cost else "",
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)


def _render_row(row: dict[str, Any], *, first: bool) -> Iterator[str]:
    """Render one row; bookkeeping rows are left out."""
    kind, text = str(row.get("ask") or row.get("say")), str(row.get("text") or "")
    if first:
        kind = RowKind.USER_FEEDBACK
    match kind:
        case RowKind.USER_FEEDBACK:
            yield f"## User\n\n{text}"
            yield from (f"({len(images)} images)" for images in [row.get("images")] if images)
        case RowKind.TEXT if text.strip():
            yield f"## Assistant\n\n{text}"
        case RowKind.REASONING if text.strip():
            quoted = "\n".join(f"> {line}" for line in text.split("\n"))
            yield f"> *Reasoning*\n>\n{quoted}"
        case RowKind.TOOL | AskKind.USE_MCP_SERVER | AskKind.COMMAND:
            yield from _render_tool_call(row, text)
        case RowKind.MCP_SERVER_RESPONSE if text:
            yield f"Answer of the server:\n\n{format_code_block(text)}"
        case RowKind.COMMAND_OUTPUT if text:
            yield f"Output:\n\n{format_code_block(text)}"
        case AskKind.FOLLOWUP:
            asked = parse_follow_up(text)
            suggested = "".join(f"\n- {one.answer}" for one in asked.suggestions)
            yield f"## Question\n\n{asked.question}\n{suggested}".rstrip()
        case RowKind.SUBTASK_RESULT if text:
            yield f"Result of the subtask:\n\n{text}"
        case RowKind.COMPLETION_RESULT if text:
            yield f"## {'Assistant' if row.get('tool') else 'Result'}\n\n{text}"
        case RowKind.ERROR | RowKind.DIFF_ERROR:
            yield f"**Error:** {describe_error(text)}"


def _render_tool_call(row: dict[str, Any], text: str) -> Iterator[str]:
    if (summary := summarize_call_row(row)) is None:
        return
    if summary.kind is CallKind.EXECUTE:
        command = parse_plain_text(COMMAND_TOOL_NAME, text)
        yield f"### Command{_format_approval_state(row)}\n\n{format_code_block(command, 'sh')}"
        return
    subject = f" `{summary.subject}`" if summary.subject else ""
    yield f"### {summary.title}{subject}{_format_approval_state(row)}"
    if change := row.get("diff") or summary.diff:
        yield format_code_block(str(change), "diff")
    if summary.tool == "update_todo_list":
        todos = decode_row(text).get("todos")
        items = format_todos(todos) if isinstance(todos, list) else []
        yield "\n".join(f"- {item}" for item in items) or "(the list is empty)"
    if summary.arguments:
        yield format_code_block(summary.arguments, "json")


def format_todos(todos: Sequence[Any]) -> list[str]:
    """Format todo items with check boxes: `[x] write it`."""
    return [
        f"[{_CHECKBOX_MARKS.get(str(todo.get('status')), ' ')}] {todo.get('content')}"
        for todo in todos
        if isinstance(todo, dict)
    ]


def _format_approval_state(row: dict[str, Any]) -> str:
    state = row.get("approvalState")
    return f" ({state})" if row.get("type") == "ask" and state else ""


def format_code_block(text: str, language: str = "") -> str:
    """Format a code block with a fence longer than any in the text."""
    longest = max((len(match[1]) for match in _FENCE_RE.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _format_utc_time(milliseconds: int) -> str:
    if not milliseconds:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


MAX_ROW_TEXT_CHARS = 200
_HIDDEN_ROW_KINDS = frozenset(
    {RowKind.API_REQ_STARTED, RowKind.API_REQ_FINISHED, RowKind.CHECKPOINT_SAVED}
)
_ASKS_HIDDEN_IF_EMPTY = frozenset(
    {AskKind.COMPLETION_RESULT, AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK}
)
"""Questions that only follow what was said before."""
_ROW_KIND_LABELS: dict[str, str] = {
    RowKind.TEXT: "joey",
    RowKind.REASONING: "thoughts",
    RowKind.USER_FEEDBACK: "you",
    RowKind.COMPLETION_RESULT: "result",
    RowKind.COMMAND_OUTPUT: "output",
    AskKind.FOLLOWUP: "question",
}


class NumberedRow(Struct, frozen=True):
    number: int
    """From the end; the last is 1."""
    ts: int
    kind: str
    text: str


def number_rows(rows: Sequence[Mapping[str, Any]]) -> list[NumberedRow]:
    """Number the rows that users see, the first one first."""
    visible = [(row, position == 0) for position, row in enumerate(rows) if is_visible_row(row)]
    return [
        NumberedRow(
            len(visible) - position,
            int(row["ts"]),
            _label_row_kind(row, first),
            _extract_row_text(row),
        )
        for position, (row, first) in enumerate(visible)
    ]


def is_visible_row(row: Mapping[str, Any]) -> bool:
    """Whether users see this row."""
    if row.get("partial") or row.get("say") in _HIDDEN_ROW_KINDS:
        return False
    return not (row.get("ask") in _ASKS_HIDDEN_IF_EMPTY and not row.get("text"))


def format_row_table(rows: Sequence[NumberedRow], width: int | None) -> list[str]:
    zone = datetime.now().astimezone().tzname()
    heading = ["number", "message", f"time ({zone})", "what", "words"]
    cells = [
        [
            str(row.number),
            str(row.ts),
            _format_row_time(row.ts),
            row.kind,
            to_one_line(row.text, MAX_ROW_TEXT_CHARS),
        ]
        for row in rows
    ]
    return format_table([heading, *cells], width, fixed_columns={0, 1, 2, 3})


def find_row_ts(rows: Sequence[Mapping[str, Any]], name: str, task_id: str) -> int:
    """Find a row by its number from the end, or by its `ts`. Raises UsageError."""
    listed = number_rows(rows)
    if name.isascii() and name.isdigit():
        number = int(name)
        if number in (int(row["ts"]) for row in rows):
            return number
        for row in listed:
            if row.number == number:
                return row.ts
    raise UsageError(
        f"there is no message {to_one_line(name, 40)!r} in task {task_id};"
        f" joey tasks show {task_id} --rows lists them"
    )


def _label_row_kind(row: Mapping[str, Any], first: bool) -> str:
    if first:
        return "you"
    name = str(row.get("say") or row.get("ask") or "")
    if name in (RowKind.TOOL, AskKind.COMMAND):
        return str(row.get("tool") or name)
    return _ROW_KIND_LABELS.get(name, name)


def _extract_row_text(row: Mapping[str, Any]) -> str:
    text = str(row.get("text") or "")
    if (summary := summarize_call_row(row)) is None:
        return str(decode_row(text).get("question") or text)
    if summary.tool == "update_todo_list":
        return " ".join(format_todos(decode_row(text).get("todos") or ())) or "(the list is empty)"
    return summary.message or summary.subject or text


def _format_row_time(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000).astimezone().strftime("%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return ""


MAX_TITLE_CHARS = 60
MAX_CELL_CHARS = 1000
_STATUS_LABELS = {TaskState.ABORTED: "interrupted"}
_ACTIVE_STATUS_LABELS = {TaskState.WAITING: "waiting", TaskState.DELEGATED: "delegated"}
_SUBTASK_PREFIX = "↳ "


def format_task_table(
    found: Sequence[FoundTask], store: Store, *, with_directory: bool, width: int | None
) -> list[str]:
    """Format a heading and one line per task, within a terminal of `width`; None cuts nothing."""
    zone = datetime.now().astimezone().tzname()
    directory = ["folder"] if with_directory else []
    rows = [["id", f"changed ({zone})", "status", "model", "cost", *directory, "task"]]
    for each in found:
        task = each.task
        cost = f"${task.total_cost:.2f}" if task.total_cost else ""
        texts = [
            task.model,
            cost,
            *([task.workspace] if with_directory else []),
            f"{_SUBTASK_PREFIX}{task.title}" if task.parent_id else task.title,
        ]
        updated = datetime.fromtimestamp((task.updated or task.created) / 1000).astimezone()
        facts = [each.short_id, updated.strftime("%Y-%m-%d %H:%M"), determine_status(task, store)]
        rows.append([*facts, *(to_one_line(text, MAX_CELL_CHARS) for text in texts)])
    return format_table(rows, width, fixed_columns={0, 1, 2, 4})


def render_subtask_tree(task: TaskMetadata, index: TaskIndex, store: Store) -> list[str]:
    """Render the subtasks of a task, and theirs, as a Markdown list."""
    task_tree = {each.id: each for each in index.list_descendants(task.id)}
    short = {task_id: index.shorten_id(task_id) for task_id in task_tree}
    return list(_render_subtasks(task, task_tree, short, store, 0))


def _render_subtasks(
    task: TaskMetadata,
    task_tree: dict[str, TaskMetadata],
    short: Mapping[str, str],
    store: Store,
    level: int,
) -> Iterator[str]:
    # The child names its parent even if a dead process did not record it in the parent.
    own = [each.id for each in task_tree.values() if each.parent_id == task.id]
    for child_id in dict.fromkeys((*task.child_ids, *reversed(own))):
        # Each is shown once, even if the files form a cycle.
        if (child := task_tree.pop(child_id, None)) is None:
            continue
        facts = f"{short[child_id]} · {determine_status(child, store)} · {child.mode}"
        yield f"{'  ' * level}- {facts} · {to_one_line(child.title, MAX_TITLE_CHARS)}"
        yield from _render_subtasks(child, task_tree, short, store, level + 1)


def determine_status(task: TaskMetadata, store: Store) -> str:
    """Determine the status of a task now; one that a dead process left unfinished was
    interrupted."""
    try:
        state = TaskState(task.status)
    except ValueError:
        return to_one_line(task.status, 12)
    if state not in IDLE_STATES or state is TaskState.CREATED:
        if not is_locked(task, store):
            return "interrupted"
        return _ACTIVE_STATUS_LABELS.get(state, "running")
    return _STATUS_LABELS.get(state, str(state))


def with_current_status(task: TaskMetadata, store: Store) -> TaskMetadata:
    """Replace the stored status with the current one."""
    return structs.replace(task, status=determine_status(task, store))


def is_locked(task: TaskMetadata, store: Store) -> bool:
    try:
        return store.is_locked(task.id)
    except TaskNotFoundError:
        # Just deleted, or only its metadata ever existed.
        return False


Rows = Sequence[Mapping[str, Any]]
MAX_LISTED_ITEMS = 10


def describe_rewind(changes: RewindPreview, rows: Rows) -> Iterator[str]:
    """Describe each change of a rewind in a line. Messages are counted as users see them; restored
    ones that are not among the rows yet are not counted."""
    yield from _format_count(
        "message goes", "messages go", _count_visible_rows(changes.removed_row_timestamps, rows)
    )
    if set(changes.restored_row_timestamps) <= {row["ts"] for row in rows}:
        back = _count_visible_rows(changes.restored_row_timestamps, rows)
        yield from _format_count("message is restored", "messages are restored", back)
    else:
        yield "  the messages are restored"
    if changes.todos_before != changes.todos_after:
        yield (
            f"  todos: {_summarize_todos(changes.todos_before)} → "
            f"{_summarize_todos(changes.todos_after)}"
        )
    if changes.mode_before != changes.mode_after:
        yield f"  mode: {changes.mode_before} → {changes.mode_after}"
    if changes.revokes_edit_grant:
        yield "  edits, which you allowed for this task, need approval again"
    yield from _format_count(
        "summary is undone", "summaries are undone", changes.removed_summary_count
    )
    ran = (
        "command was run since, and is not undone:",
        "commands were run since, and are not undone:",
    )
    yield from _format_items(*ran, changes.unreverted_commands)
    begun = ("subtask was started since, and stays:", "subtasks were started since, and stay:")
    yield from _format_items(*begun, changes.detached_subtasks)
    for kind, fate in RESTORED_FILE_CHANGE_TEXTS.items():
        paths = [each.path for each in changes.files if each.kind == kind]
        yield from _format_items(f"file is {fate}:", f"files are {fate}:", paths)
    others = "of these, modified outside joey:"
    yield from _format_items(others, others, changes.conflicting_paths)
    for why, reason in UNRESTORABLE_REASON_TEXTS.items():
        paths = [each.path for each in changes.unrestorable_files if each.reason == why]
        is_left = f"restored ({reason}):"
        yield from _format_items(f"file is not {is_left}", f"files are not {is_left}", paths)


def merge_rows(before: Rows, after: Rows) -> list[Mapping[str, Any]]:
    """Merge the earlier and the current rows, ordered by time."""
    return sorted({row["ts"]: row for row in (*before, *after)}.values(), key=itemgetter("ts"))


def find_last_visible_ts(changes: RewindPreview, rows: Rows) -> int | None:
    """Find the last message that stays, as users see them."""
    end = changes.last_row_ts
    if end is None or end not in (row["ts"] for row in rows):
        return end
    removed = set(changes.removed_row_timestamps)
    visible = [row["ts"] for row in rows if is_visible_row(row) and row["ts"] not in removed]
    return max((ts for ts in visible if ts <= end), default=end)


def summarize_row(rows: Rows, ts: int | None) -> str:
    """Summarize a row."""
    row = next((row for row in rows if row["ts"] == ts), {})
    return to_one_line(str(row.get("path") or row.get("text") or ""), 60)


def _count_visible_rows(moments: Sequence[int], rows: Rows) -> int:
    timestamps = set(moments)
    return sum(row["ts"] in timestamps and is_visible_row(row) for row in rows)


def _format_count(singular: str, plural: str, count: int) -> Iterator[str]:
    if count:
        yield f"  {count} {singular if count == 1 else plural}"


def _format_items(singular: str, plural: str, items: Sequence[str]) -> Iterator[str]:
    yield from _format_count(singular, plural, len(items))
    yield from (f"    {to_one_line(thing)}" for thing in items[:MAX_LISTED_ITEMS])
    if len(items) > MAX_LISTED_ITEMS:
        yield f"    and {len(items) - MAX_LISTED_ITEMS} more"


def _summarize_todos(todos: Sequence[object]) -> str:
    done = sum(getattr(todo, "status", "") == "completed" for todo in todos)
    return f"{done} of {len(todos)} done" if todos else "none"
