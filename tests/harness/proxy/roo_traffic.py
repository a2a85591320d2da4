"""Generator of traffic of Roo Code and of tests against it: 85 requests in 43 conversations.

    python -m tests.harness.proxy.roo_traffic > traffic.jsonl

Each line is one exchange: `at` (milliseconds since 1970), `user_agent`, `request`, `response`. It
uses nothing of joey, so that a report on it is checked against independent numbers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

REAL_AGENT = "OpenAI/JS 5.12.2"
TEST_AGENT = "axios/1.13.1"
FIRST_REAL_MS = 1_761_768_760_000  # 2025-10-29 20:12:40 UTC
FIRST_TEST_MS = 1_761_769_719_000  # 20:28:39
REAL_TURNS = (7, 1, 4, 2, 2, 2, 2, 2, 2, 2)
"""Requests of each conversation with the real client."""
TEST_TURNS = (2,) * 26 + (1,) * 7
TOOLS = """
read_file fetch_instructions search_files list_files list_code_definition_names apply_diff
write_to_file insert_content search_and_replace execute_command ask_followup_question
attempt_completion switch_mode new_task
""".split()  # noqa: SIM905 (easier to read than a literal)
SECTIONS = (
    ("MARKDOWN RULES", "All responses must show filenames as clickable links.", 400),
    ("TOOL USE", "", 0),
    ("TOOL USE GUIDELINES", "Assess what you know, then choose one tool.", 2600),
    ("CAPABILITIES", "You can run commands, list files and read them.", 1900),
    ("MODES", "Architect, Code, Ask and Debug are available.", 1500),
    ("RULES", "Paths are relative to the workspace directory.", 4200),
    ("SYSTEM INFORMATION", "Operating System: Windows 11\nDefault Shell: PowerShell 7", 700),
    ("OBJECTIVE", "Work through the goals one at a time.", 1800),
    ("USER'S CUSTOM INSTRUCTIONS", "Speak English. Rules of the mode follow.", 900),
)
COMPLAINT = (
    "[ERROR] You did not use a tool in your previous response! Please retry with a tool use.\n\n"
    "# Reminder: Instructions for Tool Use\n\nTool uses are formatted using XML-style tags."
)
FUNCTIONS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name} for tests",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for name in ("get_weather", "read_file")
]
"""What the tests try, and the real client does not use."""
FENCED_REPLY = (
    "I will read the file first.\n\n```tool_code\n"
    '{"tool":"file_system","action":"read_file","parameters":{"path":"src/app.ts"}}\n```'
)


def build_prompt() -> str:
    parts = ["You are Roo, a highly skilled software engineer with extensive knowledge.\n\n"]
    for heading, opening, size in SECTIONS:
        text = describe_tools() if heading == "TOOL USE" else opening
        text += "".join(f"\n- Point {n} about {heading.lower()}." for n in range(size // 34))
        parts.append(f"====\n\n{heading}\n\n{text}\n\n")
    return "".join(parts)


def describe_tools() -> str:
    texts = ["Tool uses are formatted using XML-style tags.\n\n# Tools\n"]
    for name in TOOLS:
        texts.append(
            f"\n## {name}\nDescription: Use {name} where the task needs it. {'Details. ' * 40}\n"
            f"Parameters:\n- path: (required) What it works on\nUsage:\n<{name}>\n"
            f"<path>path/to/file</path>\n</{name}>\n"
        )
    return "".join(texts)


def build_user_message(text: str, minute: int) -> dict[str, Any]:
    details = f"<environment_details>\n# Current Time\n2025-10-29T20:{minute:02}:00Z\n"
    parts = [text, details + "# Current Mode\n<slug>code</slug>\n</environment_details>"]
    return {"role": "user", "content": [{"type": "text", "text": part} for part in parts]}


def build_replies(conversation: int, turns: int) -> list[str]:
    """A call in the wrong form first, then calls in tags."""
    replies = [f"Conversation {conversation}. {FENCED_REPLY}"]
    for turn in range(1, turns):
        path = f"src/file{conversation}_{turn}.ts"
        replies.append(f"Reading on.\n\n<read_file>\n<path>{path}</path>\n</read_file>")
    return replies


def build_stream(text: str, prompt_tokens: int) -> str:
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}}]}
        for piece in (text[:20], text[20:])
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": len(text) // 4}
    chunks.append({"choices": [], "usage": usage})
    events = [f"data: {json.dumps({'id': 'chatcmpl-1', **chunk})}\n\n" for chunk in chunks]
    return "".join([*events, "data: [DONE]\n\n"])


def build_conversation(
    number: int, turns: int, start_ms: int, task: str
) -> Iterator[dict[str, Any]]:
    prompt = build_prompt()
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": prompt},
        build_user_message(f"<task>{task}</task>", 12),
    ]
    for turn, reply in enumerate(build_replies(number, turns)):
        request = {
            "model": "qwen3-max",
            "temperature": 0,
            "messages": list(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        yield {
            "at": start_ms + turn * 5_000,
            "user_agent": REAL_AGENT,
            "request": request,
            "response": build_stream(reply, len(json.dumps(messages)) // 4),
        }
        messages.append({"role": "assistant", "content": reply})
        answer = COMPLAINT if turn == 0 else f"[read_file for 'file{turn}'] Result:\nexport {{}}"
        messages.append(build_user_message(answer, 13 + turn))


def build_test_conversation(number: int, turns: int, start_ms: int) -> Iterator[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "What does the file say?"}]
    for turn in range(turns):
        request = {"model": "qwen3-max", "messages": list(messages), "tools": FUNCTIONS}
        call_id = f"call_{number}_{turn}"
        call = {
            "id": call_id,
            "type": "function",
            "function": {"name": "read_file", "arguments": '{"path": "a.txt"}'},
        }
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": 90, "completion_tokens": 12}
        yield {
            "at": start_ms + turn * 1_000,
            "user_agent": TEST_AGENT,
            "request": request | {"stream": False},
            "response": json.dumps({"id": "x", "choices": [choice], "usage": usage}),
            "content_type": "application/json",
        }
        result = {"role": "tool", "tool_call_id": call_id, "content": "hello"}
        messages += [message, result]


def build_traffic() -> list[dict[str, Any]]:
    """In the order of arrival; conversations of the same client overlap."""
    exchanges: list[dict[str, Any]] = []
    for number, turns in enumerate(REAL_TURNS, 1):
        start = FIRST_REAL_MS + (number - 1) * 53_000
        task = f"Improve part {number} of the key vault"
        exchanges += build_conversation(number, turns, start, task)
    for number, turns in enumerate(TEST_TURNS, 100):
        start = FIRST_TEST_MS + (number - 100) * 3_000
        exchanges += build_test_conversation(number, turns, start)
    return sorted(exchanges, key=lambda each: int(each["at"]))


if __name__ == "__main__":
    for line in build_traffic():
        sys.stdout.write(json.dumps(line) + "\n")
