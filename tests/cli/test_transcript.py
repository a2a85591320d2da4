from __future__ import annotations

import json
from typing import Any

from joey.cli.task_views import format_code_block, render_markdown
from joey.ports.storage import TaskMetadata

TASK = TaskMetadata(id="t1", title="fix it\nplease", workspace="/w", model="m", created=1)


def row(kind: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {"ts": 1, "type": "say", "say": kind, "text": text, **more}


PROMPT = row("text", "fix it\nplease")


def test_a_task_begins_with_its_title_and_its_facts() -> None:
    document = render_markdown(TASK, [PROMPT])
    assert document.startswith("# fix it\n\n- Task: t1\n- Workspace: /w\n")
    assert "## User\n\nfix it\nplease" in document


def test_the_first_text_is_the_users_and_later_ones_are_the_assistants() -> None:
    document = render_markdown(TASK, [PROMPT, row("text", "Yes."), row("user_feedback", "more")])
    assert document.index("## User") < document.index("## Assistant\n\nYes.")
    assert "## User\n\nmore" in document


def test_bookkeeping_is_left_out() -> None:
    rows = [PROMPT, row("api_req_started", '{"cost":1}'), row("api_req_retry_delayed", "503")]
    document = render_markdown(TASK, rows)
    assert "cost" not in document
    assert "503" not in document


def test_changes_and_commands_are_blocks_of_code() -> None:
    edit = {"tool": "appliedDiff", "path": "a.py", "content": "-old\n+new"}
    rows = [
        PROMPT,
        row("tool", json.dumps(edit), tool="apply_diff", path="a.py", approvalState="approved"),
        {"ts": 3, "type": "ask", "ask": "command", "text": "make", "approvalState": "rejected"},
        row("command_output", "all good"),
    ]
    document = render_markdown(TASK, rows)
    assert "### Edit `a.py`\n\n```diff\n-old\n+new\n```" in document
    assert "### Command (rejected)\n\n```sh\nmake\n```" in document
    assert "```\nall good\n```" in document


def test_questions_results_reasoning_and_errors_have_their_place() -> None:
    question = json.dumps({"question": "Which?", "suggest": [{"answer": "this"}]})
    rows = [
        PROMPT,
        row("reasoning", "one\ntwo"),
        {"ts": 2, "type": "ask", "ask": "followup", "text": question},
        row("error", "it broke"),
        row("completion_result", "done"),
    ]
    document = render_markdown(TASK, rows)
    assert "> *Reasoning*\n>\n> one\n> two" in document
    assert "## Question\n\nWhich?\n\n- this" in document
    assert "**Error:** it broke" in document
    assert document.endswith("## Result\n\ndone\n")


def test_rows_of_any_shape_do_not_stop_the_export() -> None:
    rows: list[dict[str, Any]] = [{}, row("tool", "no json"), row("tool", "[1]"), {"say": None}]
    assert render_markdown(TaskMetadata(id="t"), rows).startswith("# t")


def test_a_fence_is_longer_than_any_inside_it() -> None:
    assert format_code_block("```\ncode\n```") == "````\n```\ncode\n```\n````"


def test_calls_of_servers_have_their_arguments_and_answers() -> None:
    call = {"type": "use_mcp_tool", "serverName": "s", "toolName": "t", "arguments": '{"a": 1}'}
    asked = {"ts": 2, "type": "ask", "ask": "use_mcp_server", "text": json.dumps(call)}
    read = {"type": "access_mcp_resource", "serverName": "s", "uri": "file:///a"}
    rows = [
        PROMPT,
        asked | {"approvalState": "approved"},
        row("mcp_server_response", "forty-two"),
        row("tool", json.dumps(read)),
    ]
    document = render_markdown(TASK, rows)
    assert '### MCP tool `s: t` (approved)\n\n```json\n{"a": 1}\n```' in document
    assert "Answer of the server:\n\n```\nforty-two\n```" in document
    assert "### MCP resource `s: file:///a`\n" in document


def test_a_todo_list_is_a_list_with_boxes() -> None:
    todos = [
        {"id": "1", "content": "read", "status": "completed"},
        {"id": "2", "content": "write", "status": "in_progress"},
        {"id": "3", "content": "test", "status": "pending"},
    ]
    text = json.dumps({"tool": "updateTodoList", "todos": todos})
    document = render_markdown(TASK, [PROMPT, row("tool", text, tool="update_todo_list")])
    assert "- [x] read\n- [-] write\n- [ ] test" in document


def test_a_custom_tool_has_its_arguments() -> None:
    text = json.dumps({"tool": "customTool", "name": "greet", "arguments": '{"name": "Ann"}'})
    document = render_markdown(TASK, [PROMPT, row("tool", text, tool="greet")])
    assert '### Custom tool `greet`\n\n```json\n{"name": "Ann"}\n```' in document
