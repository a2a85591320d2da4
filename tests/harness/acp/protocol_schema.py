"""The protocol's published JSON Schema, as a judge of every frame in both directions."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

_SCHEMA_DIRECTORY = "node_modules/@agentclientprotocol/sdk/schema/v1"


class ProtocolSchema:
    def __init__(self, packages: Path) -> None:
        self._schemas = [
            json.loads((packages / _SCHEMA_DIRECTORY / name).read_text(encoding="utf-8"))
            for name in ("schema.json", "schema.unstable.json")
        ]
        """What is stable, and what is not yet: forks of sessions."""
        self._named = [_by_method(schema["$defs"]) for schema in self._schemas]

    def check(self, frames: list[tuple[str, dict[str, Any]]]) -> None:
        """All frames of a connection, as (sender, frame): each fits what its method wants."""
        asked: dict[tuple[str, Any], str] = {}
        for sender, frame in frames:
            method = frame.get("method")
            if method is not None:
                kind = "Request" if "id" in frame else "Notification"
                if "id" in frame:
                    asked[sender, frame["id"]] = method
                self._fits(method, kind, frame.get("params"))
                continue
            other = "agent" if sender == "client" else "client"
            method = asked.pop((other, frame["id"]), None)
            assert method is not None, f"an answer to nothing: {frame}"
            if "error" in frame:
                self._validator(0, "Error").validate(frame["error"])
            else:
                self._fits(method, "Response", frame["result"])

    def _fits(self, method: str, kind: str, value: Any) -> None:
        if (method, kind) == ("session/update", "Notification"):
            _check_update(value)
        for number, named in enumerate(self._named):
            if (method, kind) in named:
                self._validator(number, named[method, kind]).validate(value)
                return
        raise AssertionError(f"the schema knows no {kind} of {method}")

    @cache  # noqa: B019 (there is one for all tests)
    def _validator(self, number: int, name: str) -> Draft202012Validator:
        schema = self._schemas[number]
        return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})


def _by_method(definitions: dict[str, Any]) -> dict[tuple[str, str], str]:
    kinds = ("Request", "Response", "Notification")
    return {
        (definition["x-method"], kind): name
        for name, definition in definitions.items()
        for kind in kinds
        if "x-method" in definition and name.endswith(kind)
    }


def _check_update(params: Any) -> None:
    """What the schema cannot say: paths are absolute."""
    update = params["update"]
    for content in update.get("content", ()) if isinstance(update.get("content"), list) else ():
        if content["type"] == "diff":
            assert content["path"].startswith("/"), content
    for location in update.get("locations") or ():
        assert location["path"].startswith("/"), location
