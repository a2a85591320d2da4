"""Calls as JSON objects and as Python expressions, in the forms that models use."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from joey.core.messages import UnusableCall
from joey.core.parsing.call_arguments import ARGUMENT_KEYS
from joey.core.parsing.call_names import ToolNames
from joey.core.parsing.lenient_json import Repair


class NotACallError(ValueError):
    """The text is not a call; with a problem, it was meant as one."""

    def __init__(
        self,
        problem: str = "",
        *,
        unknown_tool: str | None = None,
        tool: str | None = None,
        is_unfinished: bool = False,
    ) -> None:
        """With `is_unfinished`, the text ends inside of the call, so everything after its beginning
        is part of it."""
        super().__init__(problem)
        self.is_unfinished = is_unfinished
        self.passed_over: UnusableCall | None = None
        """A complete call that text follows."""
        self.unusable = UnusableCall(problem, unknown_tool, tool) if problem else None


class WrittenCall(Struct, frozen=True):
    name: str
    arguments: Any = {}
    repairs: frozenset[Repair] = frozenset()


_NAME_KEYS = ("action", "tool", "tool_name", "name", "function_name", "recipient_name", "function")
_OTHER_KEYS = frozenset(
    {
        *("description", "duration", "duration_ms", "error", "exitCode", "exit_code", "level"),
        *("output", "response", "result", "returns", "stderr", "stdout", "timestamp"),
    }
)
"""Keys of objects that describe a tool, or tell what a call gave."""
_CALL_KEYS = ("function", "function_call", "tool_call")
_LIST_KEYS = ("tool_calls", "tool_uses", "function_calls", "calls")
_MAX_PYTHON_CHARS = 200_000


def iter_json_calls(
    values: Iterable[Any], repairs: frozenset[Repair], tools: ToolNames
) -> Iterator[WrittenCall]:
    for value in values:
        match value:
            case list():
                yield from iter_json_calls(value, repairs, tools)
            case dict():
                nested = [
                    holder[key]
                    for holder in (value, _find_parallel_uses(value))
                    for key in _LIST_KEYS
                    if isinstance(holder.get(key), list)
                ]
                if nested:
                    yield from iter_json_calls(nested[0], repairs, tools)
                else:
                    yield _read_json_call(value, repairs, tools)
            case _:
                raise NotACallError


def _find_parallel_uses(value: dict[str, Any]) -> dict[str, Any]:
    """Find the calls in the wrapper with which GPT models make several calls at once."""
    name, arguments = value.get("name"), value.get("arguments", value.get("parameters"))
    is_wrapper = isinstance(name, str) and name.startswith("multi_tool_use")
    return arguments if is_wrapper and isinstance(arguments, dict) else {}


def _read_json_call(
    value: dict[str, Any], repairs: frozenset[Repair], tools: ToolNames
) -> WrittenCall:
    """Read an object that names a tool and its arguments in one of the usual ways."""
    named = {key: value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)}
    known = [key for key, name in named.items() if tools.find(name) is not None]
    is_flat = (
        bool(known) and named[known[0]] in tools.by_name and value.keys().isdisjoint(ARGUMENT_KEYS)
    )
    own_keys = tools.by_name[named[known[0]]].parameters if is_flat else frozenset[str]()
    if not (_OTHER_KEYS - own_keys).isdisjoint(value):
        raise NotACallError
    for key in _CALL_KEYS:
        if isinstance(function := value.get(key), dict):
            return _read_json_call(function, repairs, tools)
    arguments = [value[key] for key in ARGUMENT_KEYS if _may_be_arguments(value.get(key))]
    if known and arguments:
        return WrittenCall(named[known[0]], arguments[0], repairs)
    if is_flat:
        flat = {key: inner for key, inner in value.items() if key not in named}
        return WrittenCall(named[known[0]], flat, repairs)
    if named and arguments:
        name = next(iter(named.values()))
        raise NotACallError(f'Unknown tool "{name}".', unknown_tool=name)
    match list(value.items()):
        case [(str(name), dict(inner))] if name in tools.by_name:
            return WrittenCall(name, inner, repairs)
        case _:
            raise NotACallError


def _may_be_arguments(value: Any) -> bool:
    match value:
        case dict() | str() | [dict()]:
            return True
        case _:
            return False


def iter_python_calls(text: str) -> Iterator[WrittenCall]:
    """Iterate over calls `name(key="value")`, which may be in a list or inside of `print`."""
    if len(text) > _MAX_PYTHON_CHARS:
        raise NotACallError
    try:
        module = ast.parse(text.strip())
    except SyntaxError as error:
        is_unfinished = any(word in str(error) for word in ("never closed", "unterminated"))
        raise NotACallError(is_unfinished=is_unfinished) from None
    except (ValueError, RecursionError, MemoryError):
        raise NotACallError from None
    for statement in module.body:
        match statement:
            case ast.Expr(value=ast.List(elts=nodes) | ast.Tuple(elts=nodes)):
                yield from map(_read_python_call, nodes)
            case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=[node], keywords=[])):
                yield _read_python_call(node)
            case ast.Expr(value=node):
                yield _read_python_call(node)
            case _:
                raise NotACallError


def _read_python_call(node: ast.expr) -> WrittenCall:
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="call")
            | ast.Name(id=name)
            | ast.Attribute(attr=name),
            args=[],
        ):
            try:
                arguments = {
                    keyword.arg or "": ast.literal_eval(keyword.value) for keyword in node.keywords
                }
                return WrittenCall(name, json.loads(json.dumps(arguments)))
            except (ValueError, TypeError, MemoryError, RecursionError):
                raise NotACallError from None
        case _:
            raise NotACallError
