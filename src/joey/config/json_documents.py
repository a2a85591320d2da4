"""JSON documents of the user's configuration.

Errors name the file and the place, so that the user can act on them. A file is replaced atomically.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from joey.core.text import split_validation_error
from joey.errors import ConfigError
from joey.system.files import make_private_directory, open_regular_file, replace_file

T = TypeVar("T")


def read_document(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None without one. Raises ConfigError naming file and line."""
    try:
        with open_regular_file(path) as file:
            text = file.read().decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8 and try again.") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    return parse_document(text, path)


def parse_document(text: str, path: Path) -> dict[str, Any]:
    """The JSON object in the text of a file. Raises ConfigError."""
    try:
        value = json.loads(text, parse_constant=_reject_json_constant)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}, line {error.lineno}, column {error.colno}: not valid JSON ({error.msg})."
            " Correct it, or move the file away to use the defaults."
        ) from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply to be a configuration file.") from error
    except ValueError as error:
        raise ConfigError(
            f"{path}: not valid JSON ({error}). Correct it, or move the file away to use the"
            " defaults."
        ) from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must hold a JSON object: {{ … }}.")
    return value


def _reject_json_constant(constant: str) -> None:
    """What Python takes for a number, and JSON does not: no limit would be kept by it."""
    raise ValueError(f"{constant} is no number")


def convert_document(value: dict[str, Any], kind: type[T], path: Path, within: str = "") -> T:
    """Convert an object's known keys. Raises ConfigError naming file and key, never the value."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        location, problem = split_validation_error(error)
        key = ".".join(filter(None, (within, location)))
        if problem.startswith("Invalid"):  # and names the value
            problem = "This value is not one of those that can be chosen"
        named = f"`{key}`: " if key else ""
        raise ConfigError(
            f"{path}: {named}{problem}. Correct it, or remove the key to use the default."
        ) from None


def write_document(path: Path, value: dict[str, Any]) -> None:
    """Replace a file atomically, readable by its owner alone. Raises ConfigError."""
    path = Path(os.path.realpath(path))  # a link to where the user keeps such files stays one
    try:
        make_private_directory(path.parent)
        replace_file(path, f"{json.dumps(value, indent=2, ensure_ascii=False)}\n".encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
