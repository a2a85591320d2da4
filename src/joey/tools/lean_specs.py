"""Short forms of the most useful tools, for models with a small context window.

They describe the important parameters; all others are still accepted.
"""

from __future__ import annotations

from typing import Any

from joey.core.models import ToolSpec

_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}


def _describe(text: str, kind: dict[str, str] = _STRING) -> dict[str, Any]:
    return {**kind, "description": text}


def _build(
    name: str, description: str, properties: dict[str, dict[str, Any]], *required: str
) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(name, description, schema, strict=False)


_PATH = _describe("Relative to the workspace.")
_SPECS = (
    _build(
        "read_file",
        "Read a file. Each line is prefixed with its number (`12 | text`), which is not part of the"
        " file. Read only the lines you need.",
        {
            "path": _PATH,
            "start_line": _describe("First line.", _INTEGER),
            "end_line": _describe("Last line.", _INTEGER),
        },
        "path",
    ),
    _build(
        "search_files",
        "Search the files of a directory with a regular expression, line by line.",
        {
            "path": _describe("Directory or file to search."),
            "regex": _STRING,
            "file_pattern": _describe("Only files like *.py."),
        },
        *("path", "regex"),
    ),
    _build(
        "list_files",
        "List a directory.",
        {"path": _STRING, "recursive": _describe("Everything below it.", {"type": "boolean"})},
        "path",
    ),
    _build(
        "edit",
        "Replace text in a file. `old_string` must match the file exactly, without line numbers,"
        " and occur once: include surrounding lines to make it unique.",
        {"file_path": _PATH, "old_string": _STRING, "new_string": _STRING},
        *("file_path", "old_string", "new_string"),
    ),
    _build(
        "write_to_file",
        "Create a file, or replace its entire content. Give the complete content.",
        {"path": _PATH, "content": _STRING},
        *("path", "content"),
    ),
    _build(
        "execute_command",
        "Run a bash command in the workspace. It gets no input. Pipe long output through head or"
        " tail.",
        {"command": _STRING},
        "command",
    ),
    _build(
        "read_command_output",
        "Read the output of an earlier command, or wait for one in the background.",
        {
            "artifact_id": _describe("As the result of the command named it."),
            "search": _describe("Only lines that match this regular expression."),
            "wait": _describe("Seconds to wait for its end.", {"type": "number"}),
        },
        "artifact_id",
    ),
    _build(
        "ask_followup_question",
        "Ask the user for something that you cannot find out.",
        {"question": _STRING, "follow_up": _describe("A suggested answer.")},
        "question",
    ),
    _build(
        "attempt_completion",
        "Present the result when everything is done and checked.",
        {"result": _describe("What was done, and how it was checked.")},
        "result",
    ),
)
LEAN_SPECS = {spec.name: spec for spec in _SPECS}
