"""The child process of one custom tool: `python -I custom_tool_runner.py describe|run FILE`.

A separate module because it is run by its path in a separate process. It only imports the standard
library, so that tools cannot see joey's modules either.

A tool is a Python file with a function `run`. The docstring of the function (or of the file) is the
description for the model; the parameters are those of the function, or the JSON Schema in
`PARAMETERS`.

    def run(city: str, days: int = 3) -> str:
        'The weather of a city.'
        return f"{city}: sunny for {days} days"

`run` may be asynchronous, and gets the current mode if it has a parameter named `mode_slug`. Its
result is what it returns; what it prints goes to stderr.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import re
import sys
import types
import typing
from pathlib import Path
from typing import Any

_JSON_TYPE_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}
_MODE_PARAMETER = "mode_slug"


class InvalidToolError(Exception):
    """The file cannot be used; the text says why."""


def load(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("joey_custom_tool", path)
    if spec is None or spec.loader is None:
        raise InvalidToolError("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    if not callable(getattr(module, "run", None)):
        raise InvalidToolError("it has no function `run`")
    return module


def describe(path: Path) -> dict[str, Any]:
    module = load(path)
    name = getattr(module, "NAME", path.stem)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name):
        raise InvalidToolError(f"{name!r} is not a valid tool name")
    description = inspect.getdoc(module.run) or inspect.getdoc(module) or ""
    if not description.strip():
        raise InvalidToolError("it has no docstring that says what it does")
    schema = getattr(module, "PARAMETERS", None) or build_schema(module.run)
    return {"name": name, "description": description.strip(), "schema": schema}


def build_schema(function: Any) -> dict[str, Any]:
    """Build the JSON Schema of a function's parameters, in the strict form."""
    hints = typing.get_type_hints(function)
    properties: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == _MODE_PARAMETER:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidToolError("`run` must name its parameters, or PARAMETERS describe them")
        property = _build_type_schema(hints.get(parameter.name, str))
        if parameter.default is not parameter.empty:
            property["type"] = [property["type"], "null"]
        properties[parameter.name] = property
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _build_type_schema(hint: Any) -> dict[str, Any]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (hint,) = (each for each in inner if each is not type(None))
        return _build_type_schema(hint)
    if origin is typing.Literal:
        return {"type": "string", "enum": list(inner)}
    if hint is list or origin is list:
        return {"type": "array", "items": _build_type_schema(inner[0] if inner else str)}
    simple = _JSON_TYPE_NAMES.get(origin or hint)
    if simple is None:
        raise InvalidToolError(f"a parameter of type {hint} cannot be described; use PARAMETERS")
    return {"type": simple}


def call_tool(path: Path, arguments: dict[str, Any], mode: str) -> str:
    function: Any = load(path).run
    wanted = inspect.signature(function).parameters
    given = {name: value for name, value in arguments.items() if value is not None}
    if _MODE_PARAMETER in wanted:
        given[_MODE_PARAMETER] = mode
    result = function(**given)
    if inspect.isawaitable(result):
        result = asyncio.run(_await_result(result))
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


async def _await_result(result: Any) -> Any:
    return await result


def main() -> None:
    """Answer with one line of JSON on the original stdout; prints go to stderr."""
    answer_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    action, path = sys.argv[1], Path(sys.argv[2])
    try:
        if action == "describe":
            answer: dict[str, Any] = {"tool": describe(path)}
        else:
            asked = json.load(sys.stdin)
            answer = {"result": call_tool(path, asked["arguments"], asked["mode"])}
    except InvalidToolError as error:
        answer = {"error": str(error)}
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    with answer_to:
        answer_to.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
