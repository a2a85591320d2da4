"""Configuration files: JSON objects written by people, with errors that people can act on."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from joey.errors import ConfigError
from joey.private_folders import make_folder

T = TypeVar("T")
_PLACE = re.compile(r" - at `\$\.?(.*)`$")


def read_document(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file, or None when there is no file.

    Raises:
        ConfigError: it cannot be read or is not a JSON object; the text names file and line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8 and try again.") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}, line {error.lineno}, column {error.colno}: not valid JSON ({error.msg})."
            " Correct it, or move the file away to use the defaults."
        ) from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply to be a configuration file.") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must hold a JSON object: {{ … }}.")
    return value


def convert_document(value: dict[str, Any], kind: type[T], path: Path, within: str = "") -> T:
    """Check the known keys of an object; unknown ones are passed over.

    Raises:
        ConfigError: a value is of the wrong kind; the text names file and key, never the value.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        key = ".".join(filter(None, (within, place[1] if place else "")))
        problem = _PLACE.sub("", str(error))
        if problem.startswith("Invalid"):
            problem = "This value is not one of those that can be chosen"
        named = f"`{key}`: " if key else ""
        raise ConfigError(
            f"{path}: {named}{problem}. Correct it, or remove the key to use the default."
        ) from None


def write_document(path: Path, value: dict[str, Any]) -> None:
    """Replace a file, readable by its owner alone; no moment shows half of it.

    Raises:
        ConfigError: it cannot be written; what was there is untouched.
    """
    data = json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
    try:
        make_folder(path.parent)
        descriptor, temporary = tempfile.mkstemp(".tmp", ".joey-", path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
