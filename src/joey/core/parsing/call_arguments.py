"""Arguments of a call: read from JSON, and repaired if their meaning is clear."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from joey.core.parsing.call_names import KnownTool, find_parameter, rename_parameters
from joey.core.parsing.lenient_json import Repair, parse_lenient_json

ARGUMENT_KEYS = (
    *("arguments", "parameters", "args", "input", "params", "tool_input", "action_input"),
    "kwargs",
)
"""Keys under which models put the arguments of a call."""


class CallArguments(Struct, frozen=True):
    values: dict[str, Any]
    repairs: frozenset[Repair] = frozenset()


def parse_arguments(text: str, tool: KnownTool) -> tuple[CallArguments, ...]:
    """Parse arguments, usually one object; two objects in a row are the arguments of two calls.

    Raises ValueError with the problem and its position.
    """
    try:
        value = msgspec.json.decode(text) if text.strip() else {}
    except (ValueError, RecursionError):
        read = parse_lenient_json(text)
        several = frozenset({Repair.SEVERAL_CALLS}) if len(read.values) > 1 else frozenset()
        return tuple(repair_value(value, tool, read.repairs | several) for value in read.values)
    return (repair_value(value, tool),)


def parse_bare_text(text: str, tool: KnownTool) -> dict[str, Any]:
    """Parse the arguments of a call that holds only text: as JSON, or as the one parameter it
    needs."""
    if text.startswith("{"):
        try:
            given = [arguments.values for arguments in parse_arguments(text, tool)]
        except ValueError:
            given = []
        if len(given) == 1 and tool.find_problem(given[0]) is None:
            return given[0]
    return {} if tool.bare_parameter is None else {tool.bare_parameter: text}


def repair_value(
    value: Any, tool: KnownTool, repairs: frozenset[Repair] = frozenset()
) -> CallArguments:
    """Repair arguments that were encoded twice, wrapped, put into a list, or named differently.

    Raises ValueError if there is no object.
    """
    if isinstance(value, str):
        decoded = parse_lenient_json(value)
        if len(decoded.values) == 1:
            return repair_value(
                decoded.values[0], tool, repairs | decoded.repairs | {Repair.ENCODED_TWICE}
            )
    if isinstance(value, list) and len(value) == 1:
        return repair_value(value[0], tool, repairs | {Repair.LIST_OF_ONE})
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object with the arguments at its top")
    wrapped = _find_wrapped(value, tool)
    if wrapped is not None:
        return repair_value(wrapped, tool, repairs | {Repair.WRAPPED})
    renamed = rename_parameters(tool, value)
    if renamed.keys() != value.keys():
        repairs |= {Repair.PARAMETER_NAME}
    return CallArguments(renamed, repairs)


def _find_wrapped(value: dict[str, Any], tool: KnownTool) -> Any:
    """Return the wrapped object, if the outer one has no parameters of the tool."""
    if not tool.parameters or not tool.parameters.isdisjoint(value):
        return None
    inner = [
        value[key]
        for key in ARGUMENT_KEYS
        if isinstance(value.get(key), dict)
        or (isinstance(value.get(key), str) and not _is_parameter_text(key, value[key], tool))
    ]
    return inner[0] if len(inner) == 1 else None


def _is_parameter_text(key: str, text: str, tool: KnownTool) -> bool:
    """Whether the key is a spelling of a parameter, such as `input` for the patch, and its value is
    text."""
    is_object = text.lstrip().startswith("{")
    return find_parameter(tool.parameters, key) is not None and not is_object
