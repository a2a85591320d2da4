"""Conversations for the scripted model, in both protocols."""

from __future__ import annotations

from typing import Any

from tests.golden.homes import Turn, call, redacted, say, think, usage

Call = tuple[str, dict[str, Any]]

WORK: list[Call] = [
    ("list_files", {"path": ".", "recursive": "false"}),
    ("read_file", {"path": "a.txt"}),
    ("write_to_file", {"path": "b.txt", "content": "one\ntwo\n"}),
    ("execute_command", {"command": "printf 'out\\n'"}),
    ("update_todo_list", {"todos": "[x] look\n[-] write\n[ ] check"}),
    ("search_files", {"path": ".", "regex": "hel+o"}),
    ("read_file", {"path": "missing.txt"}),
    ("write_to_file", {"path": "no_content.txt"}),
    ("execute_command", {"command": "rm a.txt"}),
    ("ask_followup_question", {"question": "Which?", "follow_up": "FOLLOW_UP"}),
    ("switch_mode", {"mode_slug": "ask", "reason": "to explain"}),
]
"""A call of each kind of outcome: done, failed, misused, refused."""
_NATIVE: dict[str, Any] = {"FOLLOW_UP": [{"text": "red"}, {"text": "blue", "mode": "code"}]}
_XML = {"FOLLOW_UP": '<suggest>red</suggest><suggest mode="code">blue</suggest>'}


def turn(protocol: str, number: int, *calls: Call, text: str = "I act.") -> Turn:
    """A reply of the model; ids and tokens follow from its number."""
    tokens = usage(input=1000 + number, output=10 + number, cache_reads=number, cache_writes=2)
    if protocol == "native":
        made = (
            call(name, _given(arguments, _NATIVE), id=f"toolu_{number:03}_{place}")
            for place, (name, arguments) in enumerate(calls)
        )
        return Turn(say(text), *made, tokens)
    written = "\n".join(_element(name, arguments) for name, arguments in calls)
    return Turn(say(f"{text}\n{written}"), tokens)


def thoughtful(number: int, *calls: Call) -> Turn:
    """A reply with thoughts, which only the native protocol carries."""
    base = turn("native", number, *calls)
    return Turn(think("Let me see.", signature="sig-1"), redacted("c2VjcmV0"), *base.steps)


def finish(protocol: str, number: int, result: str = "All done.") -> Turn:
    return turn(protocol, number, ("attempt_completion", {"result": result}), text="Nearly.")


def conversation(protocol: str) -> list[Turn]:
    """All of `WORK`, one call a turn, two at first, and the result."""
    first = [WORK[0], WORK[1]]
    opening = thoughtful(1, *first) if protocol == "native" else turn(protocol, 1, *first)
    turns = [turn(protocol, number, each) for number, each in enumerate(WORK[2:], 2)]
    return [opening, *turns, finish(protocol, len(turns) + 2)]


def _given(arguments: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: values.get(value, value) if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _element(name: str, arguments: dict[str, Any]) -> str:
    tags = (f"<{key}>{value}</{key}>" for key, value in _given(arguments, _XML).items())
    return "\n".join([f"<{name}>", *tags, f"</{name}>"])
