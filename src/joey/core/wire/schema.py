"""The JSON Schema of every frame, generated from the types that check them.

`python -m joey.core.wire.schema` prints it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from joey.core.history.ui import Row
from joey.core.wire.commands import COMMANDS, Authenticated, CommandSpec, TaskNeed, Welcome
from joey.core.wire.events import PAYLOAD_TYPES
from joey.core.wire.frames import MAX_ID_CHARS, AuthFrame, ErrorCode

Schema = dict[str, Any]
_STRING_SCHEMA: Schema = {"type": "string"}
_INTEGER_SCHEMA: Schema = {"type": "integer"}
_TASK_ID_SCHEMA: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARS}


def build_wire_schema() -> Schema:
    """Build one document: a frame matches one of `oneOf`; each type has a name in `$defs`."""
    kinds = list(COMMANDS.values())
    data_types: dict[str, Any] = {kind.name: kind.response_data_type for kind in kinds}
    data_types |= {"welcome": Welcome, "auth": Authenticated}
    arguments = (kind.arguments_type for kind in kinds)
    types: list[Any] = [Row, AuthFrame, Welcome, *arguments, *data_types.values()]
    types = list(dict.fromkeys([*types, *PAYLOAD_TYPES.values()]))
    references, shapes = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    schema_by_type = dict(zip(types, references, strict=True))
    commands = [_build_command_schema(kind, schema_by_type[kind.arguments_type]) for kind in kinds]
    responses = [
        _build_object_schema(
            type={"const": "response"},
            status={"const": "success"},
            requestId=_STRING_SCHEMA,
            commandName={"const": name},
            data=schema_by_type[data_type],
        )
        for name, data_type in data_types.items()
    ]
    events = [
        _build_object_schema(
            ["type", "eventName", "payload", "seq"],
            type={"const": "event"},
            eventName={"const": name},
            taskId=_STRING_SCHEMA,
            payload=schema_by_type[payload],
            seq=_INTEGER_SCHEMA,
            record=_INTEGER_SCHEMA,
            part=_INTEGER_SCHEMA,
        )
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
            "response": {"oneOf": [*responses, _ERROR_SCHEMA]},
            "event": {"oneOf": events},
            **dict(sorted(shapes.items())),
        },
    }


def _build_object_schema(required: list[str] | None = None, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required or [*properties]}


def _build_command_schema(kind: CommandSpec, arguments: Schema) -> Schema:
    fields = msgspec.structs.fields(kind.arguments_type)
    required = ["type", "commandName", "requestId"]
    required += ["arguments"] if any(field.required for field in fields) else []
    required += ["taskId"] if kind.task_need is TaskNeed.NAMED else []
    return _build_object_schema(
        required,
        type={"const": "command"},
        commandName={"const": kind.name},
        requestId=_STRING_SCHEMA,
        taskId=_TASK_ID_SCHEMA,
        arguments=arguments if fields else {"anyOf": [{"type": "object"}, {"type": "null"}]},
    )


_ERROR_SCHEMA = _build_object_schema(
    type={"const": "response"},
    status={"const": "error"},
    requestId=_STRING_SCHEMA,
    commandName=_STRING_SCHEMA,
    error=_build_object_schema(
        code={"enum": [code.value for code in ErrorCode]}, message=_STRING_SCHEMA
    ),
)


if __name__ == "__main__":
    json.dump(build_wire_schema(), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")
