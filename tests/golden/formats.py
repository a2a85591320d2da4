"""Describe types as they are encoded: keys, tags, enumerated values, defaults, constraints.

The names of Python types and attributes never occur in a description.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, inspect

_SCALARS: dict[type[inspect.Type], str] = {
    inspect.AnyType: "any",
    inspect.NoneType: "null",
    inspect.BoolType: "bool",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.StrType: "str",
    inspect.BytesType: "bytes",
}
_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_OPTIONS = ("omit_defaults", "forbid_unknown_fields", "array_like")


def describe(kind: Any) -> Any:
    """The encoded form of a type, as JSON."""
    return _describe(inspect.type_info(kind), ())


def by_tag(union: Any) -> dict[str, Any]:
    """The encoded form of each type of a tagged union, by its tag."""
    info = inspect.type_info(union)
    types = info.types if isinstance(info, inspect.UnionType) else (info,)
    found = {}
    for each in types:
        assert isinstance(each, inspect.StructType) and isinstance(each.tag, str)
        found[each.tag] = _describe(each, ())
    return found


def _describe(info: inspect.Type, above: tuple[type, ...]) -> Any:
    match info:
        case inspect.Metadata(type=inner):
            return _describe(inner, above)
        case inspect.StructType(cls=cls) if cls in above:
            return f"recursive: {len(above) - above.index(cls)} levels up"
        case inspect.StructType():
            return _describe_struct(info, above)
        case inspect.EnumType(cls=enum):
            return {"one of": sorted(member.value for member in enum)}
        case inspect.LiteralType(values=values):
            return {"one of": sorted(values, key=repr)}
        case inspect.UnionType(types=types):
            kinds = [_describe(each, above) for each in types]
            kinds.sort(key=lambda each: json.dumps(each, sort_keys=True))
            plain = all(isinstance(each, str) for each in kinds)
            return " | ".join(kinds) if plain else {"any of": kinds}
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return {"array of": _describe(item, above), **_constraints(info)}
        case inspect.SetType(item_type=item) | inspect.FrozenSetType(item_type=item):
            return {"array of": _describe(item, above), **_constraints(info)}
        case inspect.TupleType(item_types=items):
            return {"array of exactly": [_describe(each, above) for each in items]}
        case inspect.DictType(key_type=key, value_type=value):
            return {"map of": [_describe(key, above), _describe(value, above)]}
        case inspect.CustomType() if info.cls is object:
            return "any"
    name = _SCALARS[type(info)]
    limits = [f"{name} {value!r}" for name, value in _constraints(info).items()]
    return " ".join([name, *limits])


def _describe_struct(info: inspect.StructType, above: tuple[type, ...]) -> dict[str, Any]:
    config = info.cls.__struct_config__
    described: dict[str, Any] = {
        "keys": {
            field.encode_name: _describe_field(field, (*above, info.cls)) for field in info.fields
        }
    }
    if info.tag is not None:
        described["tag"] = {info.tag_field: info.tag}
    if options := [name for name in _OPTIONS if getattr(config, name)]:
        described["options"] = options
    return described


def _describe_field(field: inspect.Field, above: tuple[type, ...]) -> Any:
    kind = _describe(field.type, above)
    if field.required:
        return f"{kind}, required" if isinstance(kind, str) else {"required": kind}
    default = field.default
    if default is NODEFAULT and callable(field.default_factory):
        default = field.default_factory()
    if default is NODEFAULT or default is UNSET:
        return f"{kind}, may be absent" if isinstance(kind, str) else {"may be absent": kind}
    encoded = msgspec.to_builtins(default)
    if isinstance(kind, str):
        return f"{kind} = {json.dumps(encoded)}"
    return {"optional": kind, "default": encoded}


def _constraints(info: inspect.Type) -> dict[str, Any]:
    found = {name: getattr(info, name, None) for name in _CONSTRAINTS}
    return {name: value for name, value in found.items() if value is not None}
