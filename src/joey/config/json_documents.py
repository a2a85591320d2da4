"""JSON documents of the user's configuration.

Errors name the file and the position. A file is replaced atomically.
"""

from __future__ import annotations

import codecs
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
    """Read the JSON object of a file; None if there is none. Raises ConfigError naming file and
    line."""
    data = _read_bytes(path)
    return None if data is None else _parse_document(data, path)


def load_document(path: Path, kind: type[T]) -> T:
    """Read and convert the JSON object of a file; the defaults of `kind` if there is no file.
    Raises ConfigError."""
    return convert_document(read_document(path) or {}, kind, path)


def read_raw_document(path: Path) -> dict[str, msgspec.Raw] | None:
    """Read the top-level values of a JSON object without decoding them, for large files of which
    little is needed; None if there is no file. Raises ConfigError naming file and line."""
    data = _read_bytes(path)
    if data is None:
        return None
    try:
        return msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8), type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        document = _parse_document(data, path)  # reports the position
        return {key: msgspec.Raw(json.dumps(value).encode()) for key, value in document.items()}


def _read_bytes(path: Path) -> bytes | None:
    try:
        with open_regular_file(path) as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


def _parse_document(data: bytes, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=_reject_json_constant)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8 and try again.") from error
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
    """Reject constants that Python accepts but JSON does not, such as NaN, which would disable
    limits."""
    raise ValueError(f"{constant} is not a number")


def convert_document(value: dict[str, Any], kind: type[T], path: Path, within: str = "") -> T:
    """Convert an object's known keys. Raises ConfigError naming file and key, never the value."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _explain_wrong_value(error, path, within) from None


def decode_raw_value(value: msgspec.Raw, kind: type[T], path: Path, within: str) -> T:
    """Convert a value that is not decoded yet; see `convert_document`."""
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.ValidationError as error:
        raise _explain_wrong_value(error, path, within) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: `{within}` is not valid JSON ({error}).") from error


def _explain_wrong_value(error: msgspec.ValidationError, path: Path, within: str) -> ConfigError:
    location, problem = split_validation_error(error)
    key = ".".join(filter(None, (within, location)))
    if problem.startswith("Invalid"):  # and names the value
        problem = "This value is not one of those that can be chosen"
    if problem.startswith("Expected `bool"):
        problem = "This must be true or false"
    named = f"`{key}`: " if key else ""
    return ConfigError(
        f"{path}: {named}{problem}. Correct it, or remove the key to use the default."
    )


def write_document(path: Path, value: dict[str, Any]) -> None:
    """Write a document. Raises ConfigError."""
    replace_config_file(path, f"{json.dumps(value, indent=2, ensure_ascii=False)}\n")


def replace_config_file(path: Path, text: str) -> None:
    """Replace a file atomically, readable by its owner alone. Raises ConfigError."""
    path = Path(os.path.realpath(path))  # a symbolic link stays one
    try:
        make_private_directory(path.parent)
        replace_file(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
