"""Worker that checks JSON Schemas, and JSON values against them, with the jsonschema library.

`python -m joey.content.json_schema_worker schema` reads a schema on stdin and prints its problems,
including keywords that would be ignored: such a constraint is worse than none. `... value` reads
`[schema, value]` and prints the problems of the value; `... arguments` does the same with a
third-party schema, in the draft it names. Recursion and regular expressions can run forever; the
engine never imports this module. No reference is ever fetched.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import TYPE_CHECKING, Any

from joey.content.worker_main import serve_request
from joey.errors import ToolError

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

MAX_PROBLEMS = 10
_MAX_REASON_CHARS = 300
_ANNOTATION_KEYWORDS = frozenset(
    {"$schema", "$id", "$anchor", "$dynamicAnchor", "$vocabulary", "$comment", "$defs"}
    | {"definitions", "title", "description", "default", "examples", "format", "deprecated"}
    | {"readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema"}
    | {"then", "else", "minContains", "maxContains"}
)
"""They demand nothing by themselves."""
_SAME_VALUE_KEYWORDS = frozenset(
    {"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
    | {"dependentSchemas"}
)
_SCHEMA_KEYWORDS = frozenset(
    {"items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems"}
    | {"unevaluatedProperties", "not", "if", "then", "else"}
)
_SCHEMA_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED_SCHEMAS_KEYWORDS = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)


def check_schema(document: Any) -> None:
    """Check a schema. Raises ToolError, which names the place and what is wrong or not supported
    there."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    meta = Draft202012Validator(
        Draft202012Validator.META_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    if error := best_match(meta.iter_errors(document)):
        place = "/".join(("#", *map(str, error.absolute_path)))
        hint = "; `prefixItems` takes a list" if place.endswith("/items") else ""
        raise ToolError(f"The JSON schema is wrong at {place}: {_format_reason(error)}{hint}.")
    _check_references(document, _ANNOTATION_KEYWORDS | Draft202012Validator.VALIDATORS.keys())


def _check_references(document: Any, keywords: frozenset[str]) -> None:
    """Check that each keyword is known and each reference leads to a schema in the document."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(document))
    pointers: dict[int, str] = {}
    targets: list[tuple[str, Any]] = []
    same_value_parts: dict[int, list[int]] = {}
    waiting = [(document, "#", resolver)]
    while waiting:
        schema, pointer, resolver = waiting.pop()
        if isinstance(schema, bool):
            continue
        pointers[id(schema)] = pointer
        own_parts = same_value_parts.setdefault(id(schema), [])
        resolver = resolver.in_subresource(DRAFT202012.create_resource(schema))
        for keyword, value in schema.items():
            place = f"{pointer}/{keyword}"
            parts = list(_list_parts(keyword, value))
            if keyword not in keywords:
                raise ToolError(
                    f"The JSON schema uses `{keyword}` at {pointer}, which joey does not check."
                    " Say it with other keywords, or leave it out."
                )
            if keyword in ("$ref", "$dynamicRef"):
                try:
                    parts = [("", resolver.lookup(value).contents)]
                except Unresolvable as error:
                    outside = "leads out of the document; only `#…` is supported"
                    reason = "leads nowhere" if value.startswith("#") else outside
                    raise ToolError(
                        f"The JSON schema is wrong at {place}: {value!r} {reason}."
                    ) from error
                targets += ((place, target) for _, target in parts)
            else:
                waiting += ((part, f"{place}{step}", resolver) for step, part in parts)
            if keyword in _SAME_VALUE_KEYWORDS:
                own_parts += (id(part) for _, part in parts)
    for place, target in targets:
        if id(target) not in pointers and not isinstance(target, bool):
            raise ToolError(f"The JSON schema is wrong at {place}: what it leads to is no schema.")
    try:
        TopologicalSorter(same_value_parts).prepare()
    except CycleError as error:
        place = min(pointers[schema_id] for schema_id in error.args[1])
        raise ToolError(f"The JSON schema refers to itself without end at {place}.") from error


def _list_parts(keyword: str, value: Any) -> Iterator[tuple[str, Any]]:
    if keyword in _SCHEMA_KEYWORDS:
        yield "", value
    elif keyword in _SCHEMA_LIST_KEYWORDS:
        yield from ((f"/{number}", part) for number, part in enumerate(value))
    elif keyword in _NAMED_SCHEMAS_KEYWORDS:
        yield from ((f"/{name}", part) for name, part in value.items())


def find_problems(document: Any, value: Any) -> list[str]:
    """Return the problems of a value, one sentence each."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend
    from referencing import Registry

    validator = extend(Draft202012Validator, {"multipleOf": _check_multiple})
    if isinstance(document, dict):
        document = {name: part for name, part in document.items() if name != "$schema"}
    errors = validator(document, registry=Registry()).iter_errors(value)
    return [_format_problem(error) for error in islice(errors, MAX_PROBLEMS)]


def find_argument_problems(document: Any, value: Any) -> list[str]:
    """Return the problems of arguments for an unchecked schema; none if the schema is invalid."""
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    validator = validator_for(document, default=Draft202012Validator)
    try:
        validator.check_schema(document)
    except SchemaError:
        return []
    errors = validator(document, registry=Registry()).iter_errors(value)
    return [_format_problem(error) for error in islice(errors, MAX_PROBLEMS)]


def _check_multiple(
    validator: Validator, divisor: float, value: Any, schema: Any
) -> Iterator[ValidationError]:
    """Check for a multiple in decimal arithmetic: 0.3 is a multiple of 0.1."""
    from jsonschema import ValidationError

    if validator.is_type(value, "number") and Fraction(str(value)) % Fraction(str(divisor)):
        yield ValidationError(f"{value!r} is not a multiple of {divisor}")


def _format_problem(error: ValidationError) -> str:
    return f"{error.json_path}: {_format_reason(error)}."


def _format_reason(error: ValidationError) -> str:
    """Format the library's reason; if all alternatives fail, with the problem of the closest
    one."""
    text = error.message.replace("is not a 'regex'", "is not a regular expression")
    half = _MAX_REASON_CHARS // 2
    if len(text) > _MAX_REASON_CHARS:  # it begins with the value and ends with the problem
        text = f"{text[:half]}…{text[-half:]}"
    counts = Counter(each.schema_path[0] for each in error.context or ())
    nearest = min(error.context or (), key=lambda each: counts[each.schema_path[0]], default=None)
    return text if nearest is None else f"{text}; nearest: {_format_problem(nearest)[:-1]}"


def answer_request(kind: str, data: bytes) -> bytes:
    request = json.loads(data)
    if kind == "schema":
        try:
            check_schema(request)
        except ToolError as error:
            return str(error).encode()
        return b""
    find = find_argument_problems if kind == "arguments" else find_problems
    return json.dumps(find(*request)).encode()


if __name__ == "__main__":
    serve_request(lambda data: answer_request(sys.argv[1], data))
