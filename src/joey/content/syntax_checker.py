"""Syntax errors in Python, JSON and TOML, found without another program.

Parsing blocks the event loop, and some texts take very long. So a text that might be slow is parsed
in a separate process: `python -m joey.content.syntax_checker .py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import warnings
from collections.abc import Callable

import msgspec

from joey.content.worker_main import serve_request
from joey.core.diagnostics import Diagnostic
from joey.errors import ToolError

_MAX_INLINE_BYTES_BY_SUFFIX = {
    ".py": 64 * 1024,
    ".pyi": 64 * 1024,
    ".json": 1024 * 1024,
    ".toml": 4096,
}
_warnings_lock = threading.Lock()
"""What is done about warnings is one for all threads."""


def can_parse(suffix: str) -> bool:
    return suffix in _SYNTAX_CHECKERS


async def find_syntax_errors(
    path: str, suffix: str, data: bytes, timeout_s: float
) -> list[Diagnostic]:
    """Find the syntax errors of a file's text; empty if parsing takes too long."""
    if len(data) <= _MAX_INLINE_BYTES_BY_SUFFIX[suffix]:
        return await asyncio.to_thread(_SYNTAX_CHECKERS[suffix], path, data)
    # The child process runs this module too and does not need the import.
    from joey.content.isolated_workers import run_isolated

    try:
        answer = await run_isolated("joey.content.syntax_checker", suffix, data, timeout_s)
    except ToolError:
        return []
    found = msgspec.json.decode(answer, type=list[Diagnostic])
    return [msgspec.structs.replace(problem, path=path) for problem in found]


def _check_python(path: str, data: bytes) -> list[Diagnostic]:
    try:
        with _warnings_lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        return [Diagnostic(path, error.lineno or 1, "python", error.msg, type(error).__name__)]
    except (ValueError, RecursionError, MemoryError) as error:
        return [Diagnostic(path, 1, "python", str(error) or type(error).__name__)]
    return []


def _check_json(path: str, data: bytes) -> list[Diagnostic]:
    try:
        json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        return [Diagnostic(path, error.lineno, "json", error.msg)]
    except (ValueError, RecursionError) as error:
        return [Diagnostic(path, 1, "json", str(error))]
    return []


def _check_toml(path: str, data: bytes) -> list[Diagnostic]:
    import tomllib

    try:
        tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        message = str(error)
        line = message.rpartition("(at line ")[2].partition(",")[0]
        return [Diagnostic(path, int(line) if line.isdigit() else 1, "toml", message)]
    return []


_SYNTAX_CHECKERS: dict[str, Callable[[str, bytes], list[Diagnostic]]] = {
    ".py": _check_python,
    ".pyi": _check_python,
    ".json": _check_json,
    ".toml": _check_toml,
}


if __name__ == "__main__":
    serve_request(lambda data: msgspec.json.encode(_SYNTAX_CHECKERS[sys.argv[1]]("", data)))
