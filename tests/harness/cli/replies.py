"""Replies of a scripted model, and what it was sent."""

from __future__ import annotations

import json

from joey.testing.script import Call, Turn, say
from joey.testing.server import Request

RUN = ("-p", "-y", "--no-sandbox", "--output-format", "json")


PROTOCOLS = ["native", "xml"]


def as_xml(each: Call) -> str:
    assert isinstance(each.input, dict)
    inner = "".join(f"<{key}>{value}</{key}>\n" for key, value in each.input.items())
    return f"<{each.name}>\n{inner}</{each.name}>\n"


def reply(protocol: str, *calls: Call) -> Turn:
    return Turn(*calls) if protocol == "native" else Turn(say("".join(map(as_xml, calls))))


def last_message(request: Request) -> str:
    return json.dumps(request.body["messages"][-1])
