"""Structured output: the JSON Schema of a task's result, and the JSON of that result."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.text import compile_regex


class JsonSchema(Struct, frozen=True):
    """A schema that the `SchemaValidator` port has accepted."""

    document: dict[str, Any] | bool


_CODE_FENCE_RE = compile_regex(r"\s*```[A-Za-z]*[ \t]*\n(?P<inside>.*)\n[ \t]*```\s*", re.DOTALL)


class StructuredResult(Struct, frozen=True):
    json_text: str
    value: Any


def parse_structured_result(result: str) -> StructuredResult:
    """Parse the JSON of a result, which may be in a code fence. Raises ValueError, which says why
    it is not JSON."""
    fenced = _CODE_FENCE_RE.fullmatch(result)
    text = (fenced["inside"] if fenced else result).strip()
    try:
        return StructuredResult(text, msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def render_schema_instructions(schema: JsonSchema) -> str:
    """Render the section of the system prompt; the same schema always gives the same bytes."""
    document = msgspec.json.encode(schema.document).decode()
    return (
        "FORM OF THE RESULT\n\nA program reads the result of this task. The `result` of"
        " `attempt_completion` must be one JSON value and nothing else: no words around it, no code"
        f" fence. It must be valid against this JSON Schema:\n\n{document}\n\nA result that is not"
        " valid is refused, and you are told what is wrong with it."
    )
