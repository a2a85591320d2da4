"""The JSON Schema of every frame, generated from the types that check them.

`python -m joey.core.wire.schema` prints it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from joey.core.history.ui import Row
from joey.core.wire.commands import COMMANDS, Done, TaskNeed, Welcome
from joey.core.wire.events import PAYLOAD_TYPES
from joey.core.wire.frames import MAX_ID_CHARS, AuthFrame, ErrorCode

Schema = dict[str, Any]
_STRING_SCHEMA: Schema = {"type": "string"}
_TASK_ID_SCHEMA: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARS}


def build_wire_schema() -> Schema:
    """One document: a frame is anything that `oneOf` lists; each shape has a name in `$defs`."""
    kinds = list(COMMANDS.values())
    types: list[Any] = [Row, AuthFrame, Welcome]
    types += [
        *(kind.arguments_type for kind in kinds),
        *(kind.response_data_type for kind in kinds),
    ]
    types += PAYLOAD_TYPES.values()
    references, shapes = msgspec.json.schema_components(
        list(dict.fromkeys(types)), ref_template="#/$defs/{name}"
    )
    schema_by_type = dict(zip(dict.fromkeys(types), references, strict=True))
    commands = [
        _build_command_schema(kind.name, schema_by_type[kind.arguments_type], kind.task_need)
        for kind in kinds
    ]
    responses = [
        _build_response_schema(kind.name, schema_by_type[kind.response_data_type]) for kind in kinds
    ]
    responses += [
        _build_response_schema("welcome", schema_by_type[Welcome]),
        _build_response_schema("auth", schema_by_type[Done]),
    ]
    events = [
        _build_event_schema(name, schema_by_type[payload])
        for name, payload in PAYLOAD_TYPES.items()
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Frames of joey's WebSocket API",
        "oneOf": [
            {"$ref": "#/$defs/command"},
            {"$ref": "#/$defs/AuthFrame"},
            {"$ref": "#/$defs/response"},
            {"$ref": "#/$defs/event"},
        ],
        "$defs": {
            "command": {"oneOf": commands},
            "response": {"oneOf": [*responses, _build_error_schema()]},
            "event": {"oneOf": events},
            **dict(sorted(shapes.items())),
        },
    }


def _build_object_schema(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


def _build_command_schema(name: str, arguments: Schema, task: TaskNeed) -> Schema:
    taken = COMMANDS[name].arguments_type.__struct_fields__
    needed = any(field.required for field in msgspec.structs.fields(COMMANDS[name].arguments_type))
    schema = _build_object_schema(
        ["type", "commandName", "requestId", *(["arguments"] if needed else [])],
        type={"const": "command"},
        commandName={"const": name},
        requestId=_STRING_SCHEMA,
        taskId=_TASK_ID_SCHEMA,
        arguments=arguments if taken else {"anyOf": [{"type": "object"}, {"type": "null"}]},
    )
    if task is TaskNeed.NAMED:
        schema["required"].append("taskId")
    return schema


def _build_response_schema(name: str, data: Schema) -> Schema:
    return _build_object_schema(
        ["type", "status", "requestId", "commandName", "data"],
        type={"const": "response"},
        status={"const": "success"},
        requestId=_STRING_SCHEMA,
        commandName={"const": name},
        data=data,
    )


def _build_error_schema() -> Schema:
    return _build_object_schema(
        ["type", "status", "requestId", "commandName", "error"],
        type={"const": "response"},
        status={"const": "error"},
        requestId=_STRING_SCHEMA,
        commandName=_STRING_SCHEMA,
        error=_build_object_schema(
            ["code", "message"],
            code={"enum": [code.value for code in ErrorCode]},
            message=_STRING_SCHEMA,
        ),
    )


def _build_event_schema(name: str, payload: Schema) -> Schema:
    return _build_object_schema(
        ["type", "eventName", "payload", "seq"],
        type={"const": "event"},
        eventName={"const": name},
        taskId=_STRING_SCHEMA,
        payload=payload,
        seq={"type": "integer"},
    )


if __name__ == "__main__":
    json.dump(build_wire_schema(), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")
