"""Schema of settings and profiles: type, default and meaning of each key, parsing of values.

Types are declared in the structs, meanings are the strings under their fields: a new field needs no
second entry. Only commands about settings parse the source for that. `parse_value` parses values
that users write on a command line.
"""

from __future__ import annotations

import ast
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, field
from msgspec import inspect as types

from joey.config.settings import PROJECT_PERMISSIONS
from joey.core.settings import Profile, Settings
from joey.core.suggest import find_closest_name
from joey.errors import ConfigError

UNSTORABLE_REASON = "no file can hold this"
_UNION_ORIGINS = (Union, UnionType)


class ConfigKey(Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str
    type_description: str = field(name="kind")
    """In words: `true or false`, `whole number`, `list of texts`."""
    default: Any
    description: str = field(name="about")
    choices: tuple[str, ...] = ()
    """The allowed values."""
    is_list: bool = False
    may_be_list: bool = False
    """True if the value is one of the choices or a list."""
    project_permission: str = field(default="", name="project")
    """How project settings may change it; empty if they may not."""


@cache
def describe_setting_keys() -> dict[str, ConfigKey]:
    """Describe the settings by their names in the file, in the order of definition."""
    return {key.name: key for key in _describe_fields(Settings)}


@cache
def describe_profile_keys() -> dict[str, ConfigKey]:
    """Describe the keys of a profile, except its name."""
    return {key.name: key for key in _describe_fields(Profile) if key.name != "name"}


def find_key(name: str, keys: Iterable[str], noun: str = "setting") -> str:
    """Find a key in any spelling (`sandbox-network`). Raises ConfigError, which names the closest
    match."""
    known = list(keys)
    wanted = _normalize_key(name)
    found = [key for key in known if _normalize_key(key) == wanted]
    if found:
        return found[0]
    near = find_closest_name(name, known)
    meant = f" Did you mean `{near}`?" if near else ""
    raise ConfigError(f"There is no {noun} `{name}`.{meant}", field=noun, value=name)


def get_key_type(struct: type[Struct], key: str) -> Any:
    """The declared type of a key, for converting values."""
    return _collect_types(struct)[key]


@cache
def _collect_types(struct: type[Struct]) -> dict[str, Any]:
    hints = get_type_hints(struct, include_extras=True)
    names = zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)
    return {name: hints[field] for name, field in names}


def _normalize_key(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _describe_fields(struct: type[Struct]) -> Iterable[ConfigKey]:
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    meanings = _read_field_docs(struct)
    for struct_field in info.fields:
        default = struct_field.default
        if struct_field.default_factory is not msgspec.NODEFAULT:
            default = struct_field.default_factory()
        kind, name = struct_field.type, struct_field.encode_name
        choices = _list_choices(get_key_type(struct, name))
        parts = kind.types if isinstance(kind, types.UnionType) else ()
        lists = [each for each in parts if isinstance(each, types.VarTupleType)]
        objects = [each for each in parts if isinstance(each, types.DictType)]
        others = [*lists, *objects] if choices else [kind]
        yield ConfigKey(
            name=name,
            type_description=" or ".join([*choices, *map(_describe_type, others)]),
            default=msgspec.to_builtins(default),
            description=meanings.get(struct_field.name, ""),
            choices=tuple(choices),
            is_list=isinstance(kind, types.VarTupleType),
            may_be_list=bool(lists),
            project_permission=PROJECT_PERMISSIONS.get(name, "") if struct is Settings else "",
        )


def _list_choices(kind: Any) -> list[str]:
    """List the values of a declared type in order of declaration."""
    if kind is bool:
        return ["true", "false"]
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return [member.value for member in kind]
    found = [_list_choices(each) for each in get_args(kind) if get_origin(kind) in _UNION_ORIGINS]
    return next(filter(None, found), [])


def _describe_type(kind: types.Type) -> str:
    match kind:
        case types.IntType(ge=least, le=most):
            return f"whole number{_format_range(least, most)}"
        case types.FloatType(ge=least, le=most):
            return f"number{_format_range(least, most)}"
        case types.StrType():
            return "text"
        case types.VarTupleType(item_type=types.StrType()):
            return "list of texts"
        case types.VarTupleType():
            return "list of objects"
        case types.DictType(value_type=types.StrType()):
            return "object of texts"
        case types.DictType(value_type=types.IntType()):
            return "object of whole numbers"
        case types.UnionType(types=parts):
            return " or ".join(
                _describe_type(each) for each in parts if not isinstance(each, types.NoneType)
            )
        case types.DictType() | types.StructType() | types.CustomType():
            return "object"
        case _:
            return "value"


def _format_range(least: float | None, most: float | None) -> str:
    if least is None:
        return ""
    return f" from {least}" if most is None else f" from {least} to {most}"


def _read_field_docs(struct: type[Struct]) -> dict[str, str]:
    """Read the strings under the fields of a class, each as one line."""
    file = sys.modules[struct.__module__].__file__
    try:
        tree = ast.parse(Path(file or "").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}  # installed without sources: there are only names
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    body = next((node.body for node in classes if node.name == struct.__name__), [])
    found: dict[str, str] = {}
    for statement, below in pairwise(body):
        match statement, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str() as text)):
                found[name] = " ".join(text.split())
    return found


_TRUE_VALUES = frozenset({"true", "yes", "on", "1"})
_FALSE_VALUES = frozenset({"false", "no", "off", "0"})
_COMMAND_LIST_KEYS = frozenset({"allowedCommands", "deniedCommands", "commandTimeoutAllowlist"})


def parse_value(struct: type[Struct], key: ConfigKey, arguments: Sequence[str]) -> Any:
    """Parse a value. Raises ConfigError, which says what is valid."""
    if key.name in _COMMAND_LIST_KEYS and len(arguments) > 1:
        _check_commands_quoted(key, arguments)
    if key.is_list and not (len(arguments) == 1 and arguments[0].lstrip().startswith("[")):
        return check_value(
            struct, key, [_parse_json_or_text(word) if "{" in word else word for word in arguments]
        )
    if key.may_be_list and _is_list_input(key, arguments):
        return check_value(struct, key, list(arguments))
    if len(arguments) != 1:
        raise ConfigError(
            f"`{key.name}` takes one value ({key.type_description}); quote it if it has spaces.",
            field=key.name,
        )
    return check_value(struct, key, _parse_single_value(struct, key, arguments[0]))


def _check_commands_quoted(key: ConfigKey, arguments: Sequence[str]) -> None:
    """Check the quotes of commands. Raises ConfigError: without quotes, the words of one command
    would become separate rules, and the first, which names only a program, would allow much
    more."""
    if all(" " in word.strip() for word in arguments):
        return
    one, several = (
        shlex.quote(" ".join(arguments)),
        " ".join(f"--add {shlex.quote(w)}" for w in arguments),
    )
    count = len(arguments)
    raise ConfigError(
        f"`{key.name}` holds commands, and these words could be one command or {count}."
        f" One: {one}; {count}: {several}.",
        field=key.name,
    )


def _is_list_input(key: ConfigKey, arguments: Sequence[str]) -> bool:
    """Whether the input is a list where one item could be a choice or a misspelt one."""
    if len(arguments) != 1:
        return True
    word = arguments[0].strip()
    return word[:1] not in ("", "[", "{", '"') and find_closest_name(word, key.choices) is None


def check_storable(value: Any) -> None:
    """Raise ValueError for an unpaired surrogate or an infinite number."""
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


def check_value(struct: type[Struct], key: ConfigKey, value: Any) -> Any:
    """Return the value if it is valid for this key. Raises ConfigError."""
    try:
        check_storable(value)
        msgspec.convert(value, get_key_type(struct, key.name))
        msgspec.convert({key.name: value}, struct)
    except msgspec.ValidationError as error:
        if key.choices and not (key.may_be_list and isinstance(value, list)):
            raise ConfigError(_format_invalid_choice(key, value), field=key.name) from None
        why = _explain_invalid_value(key, value, error)
    except ValueError:
        why = UNSTORABLE_REASON
    else:
        return value
    article = "an" if key.type_description[0] in "aeio" else "a"
    kind = f"must be {article} {key.type_description}"
    allowed = f"can be {_list_alternatives(key)}" if key.choices else kind
    message = f"`{key.name}` {allowed}: {why.removesuffix('.')}."
    raise ConfigError(message, field=key.name) from None


def _list_alternatives(key: ConfigKey) -> str:
    *others, last = key.type_description.split(" or ")
    return f"{', '.join(others)} or {last}" if others else last


def _explain_invalid_value(key: ConfigKey, value: Any, error: msgspec.ValidationError) -> str:
    """Explain an invalid value; msgspec names the violated constraint only in its message."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        return "this is not valid JSON"
    why = str(error).removesuffix(f" - at `$.{key.name}`")
    is_out_of_range = why.startswith(("Expected `int` ", "Expected `float` "))
    return f"{json.dumps(value)} is not in this range" if is_out_of_range else why


def _parse_single_value(struct: type[Struct], key: ConfigKey, text: str) -> Any:
    if key.choices == ("true", "false"):
        word = text.strip().lower()
        return True if word in _TRUE_VALUES else False if word in _FALSE_VALUES else text
    kind = get_key_type(struct, key.name)
    if key.choices and text.lstrip()[:1] in ("[", "{"):
        return _parse_json_or_text(text)
    if key.choices or kind is str or kind == str | None:
        quoted = _parse_json_or_text(text) if text.startswith('"') else text
        return quoted if isinstance(quoted, str) else text
    return _parse_json_or_text(text)


def _parse_json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _format_invalid_choice(key: ConfigKey, value: Any) -> str:
    near = find_closest_name(str(value), key.choices)
    meant = f" Did you mean {near}?" if near else ""
    listed = f" Write a list as words: {key.name} ONE TWO." if key.may_be_list else ""
    shown = json.dumps(value, ensure_ascii=False)
    return f"`{key.name}` can be {_list_alternatives(key)}, not {shown}.{meant}{listed}"
