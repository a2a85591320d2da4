"""The tools as text, for models that call them with tags: made from the same specifications
that native models get as JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from joey.core.models import ToolSpec


def catalogue(tools: Sequence[tuple[ToolSpec, str | None]]) -> str:
    """`# Tools`, then each tool; the second of a pair replaces the generated usage."""
    if not tools:
        return ""
    return "\n\n".join(["# Tools", *(_tool(spec, usage) for spec, usage in tools)])


def _tool(spec: ToolSpec, usage: str | None) -> str:
    parameters = "\n".join(_parameters(spec)) or "(none)"
    return "\n\n".join(
        [
            f"## {spec.name}\nDescription: {spec.description.strip()}",
            f"Parameters:\n{parameters}",
            f"Usage:\n{usage.strip() if usage is not None else _usage(spec)}",
        ]
    )


def _parameters(spec: ToolSpec) -> Iterator[str]:
    for name, schema in _properties(spec).items():
        need = "required" if _is_required(spec, name) else "optional"
        description = str(schema.get("description", "")).strip()
        choices = _choices(schema)
        said = " ".join(
            part
            for part in (description, f"One of: {', '.join(choices)}." if choices else "")
            if part
        )
        yield f"- {name}: ({need}) {said}".rstrip()


def _usage(spec: ToolSpec) -> str:
    lines = [f"<{spec.name}>"]
    for name, schema in _properties(spec).items():
        note = "" if _is_required(spec, name) else " (optional)"
        lines.append(f"<{name}>{_placeholder(name, schema)}{note}</{name}>")
    return "\n".join([*lines, f"</{spec.name}>"])


def _placeholder(name: str, schema: dict[str, Any]) -> str:
    kinds = _kinds(schema)
    if choices := _choices(schema):
        return " or ".join(choices)
    if "boolean" in kinds:
        return "true or false"
    if kinds & {"integer", "number"}:
        return "a number"
    if kinds & {"array", "object"}:
        return f"{name} as JSON"
    return f"{name} here"


def _is_required(spec: ToolSpec, name: str) -> bool:
    """Strict schemas list every property as required and make the optional ones nullable."""
    return name in spec.parameters.get("required", ()) and "null" not in _kinds(
        _properties(spec)[name]
    )


def _properties(spec: ToolSpec) -> dict[str, dict[str, Any]]:
    properties: dict[str, dict[str, Any]] = spec.parameters.get("properties", {})
    return properties


def _kinds(schema: dict[str, Any]) -> frozenset[str]:
    kind = schema.get("type", ())
    kinds = {kind} if isinstance(kind, str) else set(kind)
    for key in ("anyOf", "oneOf"):
        for variant in schema.get(key, ()):
            kinds |= _kinds(variant)
    return frozenset(kinds)


def _choices(schema: dict[str, Any]) -> list[str]:
    choices = [str(choice) for choice in schema.get("enum", ()) if choice is not None]
    for variant in schema.get("anyOf", ()):
        choices += _choices(variant)
    return choices
