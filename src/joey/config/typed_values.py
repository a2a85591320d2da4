"""Values as people write them on a command line, for keys whose kind is known."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from joey.config.described_keys import DescribedKey, type_of
from joey.core.near_names import nearest
from joey.errors import ConfigError

_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})
_OF_COMMANDS = frozenset({"allowedCommands", "deniedCommands", "commandTimeoutAllowlist"})


def read_value(struct: type[Struct], key: DescribedKey, words: Sequence[str]) -> Any:
    """The value that these words stand for.

    Raises:
        ConfigError: it cannot be one of this key; the text says what can.
    """
    if key.name in _OF_COMMANDS and len(words) > 1:
        _check_quoted(key, words)
    if key.is_list and not (len(words) == 1 and words[0].lstrip().startswith("[")):
        return checked(struct, key, [_from_json(word) if "{" in word else word for word in words])
    if key.may_be_list and _are_items(key, words):
        return checked(struct, key, list(words))
    if len(words) != 1:
        raise ConfigError(f"`{key.name}` takes one value ({key.kind}); quote it if it has spaces.")
    return checked(struct, key, _plain_value(struct, key, words[0]))


def _check_quoted(key: DescribedKey, words: Sequence[str]) -> None:
    """Raises ConfigError: without quotes, the words of one command would be rules of their own,
    and the first of them, which names a program alone, allows much more."""
    if all(" " in word.strip() for word in words):
        return
    one, several = shlex.quote(" ".join(words)), " ".join(f"--add {shlex.quote(w)}" for w in words)
    count = len(words)
    raise ConfigError(
        f"`{key.name}` holds commands, and these words may be one or {count} of them."
        f" One: {one}; {count}: {several}."
    )


def _are_items(key: DescribedKey, words: Sequence[str]) -> bool:
    """Whether words stand for a list where one of them could be a choice, or a slip of one."""
    if len(words) != 1:
        return True
    word = words[0].strip()
    return word[:1] not in ("", "[", "{", '"') and nearest(word, key.choices) is None


def checked(struct: type[Struct], key: DescribedKey, value: Any) -> Any:
    """The value, if it can be one of this key.

    Raises:
        ConfigError
    """
    article = "an" if key.kind[0] in "aeio" else "a"
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        msgspec.convert(value, type_of(struct, key.name))
        msgspec.convert({key.name: value}, struct)
    except msgspec.ValidationError as error:
        if key.choices and not (key.may_be_list and isinstance(value, list)):
            raise ConfigError(_not_among(key, value)) from None
        why = str(error).removesuffix(f" - at `$.{key.name}`")
        if why.startswith(("Expected `int` ", "Expected `float` ")):
            why = f"{json.dumps(value)} is not in this range"
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            why = "this is not valid JSON"
        raise ConfigError(f"`{key.name}` must be {article} {key.kind}: {why}.") from None
    except ValueError:
        why = "no file can hold this"  # half a character, or a number without end
        raise ConfigError(f"`{key.name}` must be {article} {key.kind}: {why}.") from None
    return value


def _plain_value(struct: type[Struct], key: DescribedKey, text: str) -> Any:
    if key.choices == ("true", "false"):
        word = text.strip().lower()
        return True if word in _YES else False if word in _NO else text
    kind = type_of(struct, key.name)
    if key.choices and text.lstrip()[:1] in ("[", "{"):
        return _from_json(text)
    if key.choices or kind is str or kind == str | None:
        quoted = _from_json(text) if text.startswith('"') else text
        return quoted if isinstance(quoted, str) else text
    return _from_json(text)


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _not_among(key: DescribedKey, value: Any) -> str:
    *others, last = key.kind.split(" or ")
    allowed = f"{', '.join(others)} or {last}" if others else last
    near = nearest(str(value), key.choices)
    meant = f" Did you mean {near}?" if near else ""
    listed = f" A list is written as words: {key.name} ONE TWO." if key.may_be_list else ""
    shown = json.dumps(value, ensure_ascii=False)
    return f"`{key.name}` can be {allowed}, not {shown}.{meant}{listed}"
