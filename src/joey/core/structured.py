"""A result that is to be JSON: how the model is told, and how its words are read."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.json_schema_document import Schema
from joey.core.regex import regex

_FENCE = regex(r"\s*```[A-Za-z]*[ \t]*\n(?P<inside>.*)\n[ \t]*```\s*", re.DOTALL)


class Structured(Struct, frozen=True):
    text: str
    """The JSON as it was written."""
    value: Any


def read_structured(result: str) -> Structured:
    """The JSON of a result, also of one that stands in a code fence.

    Raises:
        ValueError: it is no JSON; the text says why.
    """
    fenced = _FENCE.fullmatch(result)
    text = (fenced["inside"] if fenced else result).strip()
    try:
        return Structured(text, msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def instructions(schema: Schema) -> str:
    """The section of the system prompt; the same bytes for the same schema."""
    document = msgspec.json.encode(schema.document).decode()
    return (
        "FORM OF THE RESULT\n\nA program reads the result of this task. The `result` of"
        " `attempt_completion` must be one JSON value and nothing else: no words around it, no code"
        f" fence. It must be valid against this JSON Schema:\n\n{document}\n\nA result that is not"
        " valid is refused, and you are told what is wrong with it."
    )
