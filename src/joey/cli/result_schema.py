"""`--json-schema`: the form that the result must have."""

from __future__ import annotations

from pathlib import Path

import msgspec

from joey.cli.exit_codes import UsageError
from joey.core.structured_output import Schema, read_schema
from joey.errors import ConfigError

MAX_SCHEMA = 1024 * 1024


def load_schema(given: str) -> Schema:
    """A schema that is written out, or in a file.

    Raises:
        UsageError: the file cannot be read, or what is written out is no schema that can be
            checked.
        ConfigError: the file has none.
    """
    if not given.lstrip().startswith("{"):
        return _schema(_read(given), given)
    try:
        return _schema(given.encode("utf-8", "replace"), "--json-schema")
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _schema(text: bytes, where: str) -> Schema:
    try:
        return read_schema(msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise ConfigError(f"{where} is not JSON: {error}.") from error
    except RecursionError as error:
        raise ConfigError(f"{where} is nested too deeply to be a schema.") from error


def _read(file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MAX_SCHEMA + 1)
    except OSError as error:
        raise UsageError(f"the JSON schema {file} cannot be read: {error.strerror}") from error
    if len(data) > MAX_SCHEMA:
        raise ConfigError(f"{file} is larger than {MAX_SCHEMA // 1024 // 1024} MB.")
    return data.removeprefix(b"\xef\xbb\xbf")
