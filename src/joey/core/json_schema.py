"""Validation of JSON values against a JSON Schema.

The caller decides whether a text matches a regular expression, because it can limit the time that
takes; `collect_pattern_checks` tells which matches will be needed. Every keyword is evaluated
whatever the others say, so these matches depend on schema and value alone.

Loaded only when a result is checked; `structured_output` reads schemas without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from joey.core.structured_output import JsonSchema, resolve_reference

MAX_PROBLEMS = 10
MAX_DEPTH = 100
MAX_VALIDATION_STEPS = 200_000
"""Pairs of a schema and a value that are looked at; what needs more is not an answer."""
_MAX_SHOWN_CHARS = 80

PatternMatcher = Callable[[str, str], bool]
"""Whether an expression is found in a text."""


class ValidationLimitError(Exception):
    """Checking would take too long."""


def find_schema_problems(schema: JsonSchema, value: Any, matches: PatternMatcher) -> list[str]:
    """Where and how a value does not fit, a sentence each; nothing when it does."""
    try:
        return _Validator(schema, matches).find_problems(schema.document, value, "$", 0)
    except ValidationLimitError as error:
        return [str(error)]


def collect_pattern_checks(schema: JsonSchema, value: Any) -> frozenset[tuple[str, str]]:
    """The expressions, and the texts that they will be looked for in."""
    checks: set[tuple[str, str]] = set()

    def note(expression: str, text: str) -> bool:
        checks.add((expression, text))
        return True

    find_schema_problems(schema, value, note)
    return frozenset(checks)


class _Validator:
    def __init__(self, schema: JsonSchema, matches: PatternMatcher) -> None:
        self._schema = schema
        self._matches = matches
        self._steps = 0

    def find_problems(self, schema: Any, value: Any, path: str, depth: int) -> list[str]:
        self._steps += 1
        if self._steps > MAX_VALIDATION_STEPS:
            raise ValidationLimitError("It is too large to be checked.")
        if depth > MAX_DEPTH:
            raise ValidationLimitError(
                f"{path[:_MAX_SHOWN_CHARS]}… is nested too deeply to be checked."
            )
        if schema is True:
            return []
        if schema is False:
            return [f"{path}: nothing may stand here."]
        found = [*_check_value(schema, value, path)]
        for part in (
            self._check_text,
            self._check_array,
            self._check_object,
            self._check_combinators,
        ):
            found += part(schema, value, path, depth + 1)
        return found[:MAX_PROBLEMS]

    def _check_text(self, schema: Any, value: Any, path: str, depth: int) -> Iterator[str]:
        if not isinstance(value, str):
            return
        if "minLength" in schema and len(value) < schema["minLength"]:
            yield f"{path}: shorter than {schema['minLength']} characters."
        if "maxLength" in schema and len(value) > schema["maxLength"]:
            yield f"{path}: longer than {schema['maxLength']} characters."
        if "pattern" in schema and not self._matches(schema["pattern"], value):
            yield f"{path}: {_format_value(value)} does not match the pattern {schema['pattern']}"

    def _check_array(self, schema: Any, value: Any, path: str, depth: int) -> Iterator[str]:
        if not isinstance(value, list):
            return
        if len(value) < schema.get("minItems", 0):
            yield f"{path}: has {len(value)} items, and needs {schema['minItems']}."
        if len(value) > schema.get("maxItems", math.inf):
            yield f"{path}: has {len(value)} items, and may have {schema['maxItems']}."
        if schema.get("uniqueItems") and not _has_unique_items(value):
            yield f"{path}: the same item stands in it twice."
        first = schema.get("prefixItems", [])
        for number, item in enumerate(value):
            fitting = first[number] if number < len(first) else schema.get("items", True)
            yield from self.find_problems(fitting, item, f"{path}[{number}]", depth)

    def _check_object(self, schema: Any, value: Any, path: str, depth: int) -> Iterator[str]:
        if not isinstance(value, dict):
            return
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}: {name!r} is missing."
        if len(value) < schema.get("minProperties", 0):
            yield f"{path}: has {len(value)} properties, and needs {schema['minProperties']}."
        if len(value) > schema.get("maxProperties", math.inf):
            yield f"{path}: has {len(value)} properties, and may have {schema['maxProperties']}."
        known = schema.get("properties", {})
        additional = schema.get("additionalProperties", True)
        for name, member in value.items():
            if name in known:
                yield from self.find_problems(known[name], member, f"{path}.{name}", depth)
            elif additional is False:
                yield f"{path}: {name!r} is not a property that it may have."
            else:
                yield from self.find_problems(additional, member, f"{path}.{name}", depth)

    def _check_combinators(self, schema: Any, value: Any, path: str, depth: int) -> Iterator[str]:
        if "$ref" in schema:
            target = resolve_reference(self._schema.document, schema["$ref"])
            yield from self.find_problems(target, value, path, depth)
        for part in schema.get("allOf", ()):
            yield from self.find_problems(part, value, path, depth)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield from self._check_alternatives(keyword, schema[keyword], value, path, depth)
        if "not" in schema and not self.find_problems(schema["not"], value, path, depth):
            yield f"{path}: {_format_value(value)} is what `not` rules out."

    def _check_alternatives(
        self, keyword: str, parts: list[Any], value: Any, path: str, depth: int
    ) -> Iterator[str]:
        tried = [self.find_problems(part, value, path, depth) for part in parts]
        fitting = sum(1 for found in tried if not found)
        if fitting > 1 and keyword == "oneOf":
            yield f"{path}: fits {fitting} of the schemas of `oneOf`, and may fit one only."
        if not fitting:
            nearest = min(tried, key=len)
            yield f"{path}: fits none of the schemas of `{keyword}`; nearest: {nearest[0]}"


def _check_value(schema: Any, value: Any, path: str) -> Iterator[str]:
    """What does not depend on other schemas."""
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_has_type(kind, value) for kind in types):
            yield f"{path}: {_format_value(value)} is not of type {' or '.join(types)}."
    if "const" in schema and not _is_equal(schema["const"], value):
        yield f"{path}: {_format_value(value)} is not {_format_value(schema['const'])}."
    if "enum" in schema and not any(_is_equal(each, value) for each in schema["enum"]):
        yield f"{path}: {_format_value(value)} is none of {_format_value(schema['enum'])}."
    if _has_type("number", value):
        yield from _check_number(schema, value, path)


def _check_number(schema: Any, value: Any, path: str) -> Iterator[str]:
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{path}: {value} is less than {schema['minimum']}."
    if "maximum" in schema and value > schema["maximum"]:
        yield f"{path}: {value} is more than {schema['maximum']}."
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{path}: {value} is not more than {schema['exclusiveMinimum']}."
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        yield f"{path}: {value} is not less than {schema['exclusiveMaximum']}."
    if "multipleOf" in schema and not _is_multiple(value, schema["multipleOf"]):
        yield f"{path}: {value} is not a multiple of {schema['multipleOf']}."


def _is_multiple(value: float, divisor: float) -> bool:
    if isinstance(value, int) and isinstance(divisor, int):
        return value % divisor == 0
    ratio = value / divisor
    return math.isfinite(ratio) and math.isclose(ratio, round(ratio), rel_tol=1e-12)


def _has_type(kind: str, value: Any) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "integer" if isinstance(value, float):
            return value.is_integer()
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


def _is_equal(one: Any, other: Any) -> bool:
    """As JSON has it: 1 is 1.0, and neither is true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_equal(one[key], other[key]) for key in one)
    return bool(one == other)


def _has_unique_items(items: list[Any]) -> bool:
    keys = [_to_hashable(item) for item in items]
    return len(set(keys)) == len(keys)


def _to_hashable(value: Any) -> Any:
    """Equal for values that are equal as JSON has it, and fit for a set."""
    match value:
        case bool():
            return ("boolean", value)
        case list():
            return ("array", *map(_to_hashable, value))
        case dict():
            return (
                "object",
                frozenset((name, _to_hashable(member)) for name, member in value.items()),
            )
        case _:
            return value


def _format_value(value: Any) -> str:
    """A value in a few words."""
    text = value if isinstance(value, str) else repr(value)
    short = text if len(text) <= _MAX_SHOWN_CHARS else f"{text[: _MAX_SHOWN_CHARS - 1]}…"
    return repr(short) if isinstance(value, str) else short
