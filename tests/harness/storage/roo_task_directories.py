"""Task folders as Roo Code, Zoo Code and Cline have written them over the years, sound and broken.

Each form is a function that fills one folder. What is in them follows the formats, not any real
conversation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

UI, API = "ui_messages.json", "api_conversation_history.json"
LEGACY, ITEM = "claude_messages.json", "history_item.json"
START = 1_767_600_000_000
PIXEL = "iVBORw0KGgoAAAANSUhEUg"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
ENVIRONMENT = (
    "<environment_details>\n# Current Workspace Directory (/home/ann/shop) Files\na.py\n"
    "# Current Mode\n<slug>code</slug>\n</environment_details>"
)


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def call(call_id: str, name: str = "read_file", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments or {"path": "a"}}


def result(call_id: str, content: str = "1 | x") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def say(place: int, kind: str, content: str, **more: Any) -> dict[str, Any]:
    return {"ts": START + place * 1000, "type": "say", "say": kind, "text": content, **more}


def ask(place: int, kind: str, content: str, **more: Any) -> dict[str, Any]:
    return {"ts": START + place * 1000, "type": "ask", "ask": kind, "text": content, **more}


def spent(place: int, cost: float | None = 0.25) -> dict[str, Any]:
    facts: dict[str, Any] = {"apiProtocol": "anthropic", "tokensIn": 100, "tokensOut": 7}
    return say(place, "api_req_started", json.dumps(facts | ({"cost": cost} if cost else {})))


def message(role: str, place: int, *content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": list(content), "ts": START + place * 1000, **more}


def rows(task: str = "Mend the shop") -> list[dict[str, Any]]:
    return [
        say(0, "text", task, images=[f"data:image/png;base64,{PIXEL}"]),
        spent(1),
        say(2, "reasoning", "Where is it?", partial=False),
        say(3, "text", "I look at it.", partial=False),
        ask(4, "tool", json.dumps({"tool": "readFile", "path": "a.py"}), isAnswered=True),
        spent(5),
        say(6, "completion_result", "Mended.", partial=False),
        ask(7, "completion_result", ""),
        ask(8, "resume_completed_task", ""),
    ]


def native(task: str = "Mend the shop") -> list[dict[str, Any]]:
    return [
        message("user", 0, text(f"<user_message>\n{task}\n</user_message>"), IMAGE,
                text(ENVIRONMENT)),
        message("assistant", 3, {"type": "thinking", "thinking": "Where?", "signature": "c2ln"},
                text("I look at it."), call("toolu_01", path="a.py"), id="msg_01"),
        message("user", 4, result("toolu_01"), text(ENVIRONMENT)),
        message("assistant", 6, call("toolu_02", "attempt_completion", result="Mended.")),
    ]  # fmt: skip


def xml() -> list[dict[str, Any]]:
    read = "I look.\n<read_file>\n<path>a.py</path>\n</read_file>"
    return [
        message("user", 0, text("<task>\nMend the shop\n</task>"), text(ENVIRONMENT)),
        message("assistant", 3, text(read)),
        message("user", 4, text("[read_file for 'a.py'] Result:"), text("1 | x")),
        message(
            "assistant",
            6,
            text("<attempt_completion>\n<result>Mended.</result>\n</attempt_completion>"),
        ),
    ]


def item(task_id: str, **more: Any) -> dict[str, Any]:
    known = {"id": task_id, "number": 3, "ts": START + 7000, "task": "Mend the shop"}
    used = {"tokensIn": 200, "tokensOut": 14, "totalCost": 0.5}
    return {**known, **used, "workspace": "/home/ann/shop", "mode": "code", **more}


def write(directory: Path, ui: Any = None, api: Any = None, **others: Any) -> None:
    """Values are written as JSON, bytes as they are."""
    directory.mkdir(parents=True, exist_ok=True)
    names = {"item": ITEM, "legacy": LEGACY, "metadata": "task_metadata.json"}
    files = {UI: ui, API: api, **{names.get(name, name): value for name, value in others.items()}}
    for name, value in files.items():
        if isinstance(value, bytes):
            (directory / name).write_bytes(value)
        elif value is not None:
            (directory / name).write_text(json.dumps(value), encoding="utf-8")


def cut(value: Any, share: float = 0.7) -> bytes:
    data = json.dumps(value).encode()
    return data[: int(len(data) * share)]


def _april(directory: Path) -> None:
    write(directory, rows(), native(), item=item(directory.name), metadata={"files_in_context": []})


def _condensed(directory: Path) -> None:
    old = [{**each, "condenseParent": "c1"} for each in native()]
    summary = message("user", 8, text("## Summary\nIt is mended."), isSummary=True, condenseId="c1")
    write(directory, rows(), [*old, summary], item=item(directory.name))


def _condensed_in_january(directory: Path) -> None:
    first, *others = native()
    old = [{**each, "condenseParent": "c1"} for each in others]
    summary = message("assistant", 5, text("Summary."), isSummary=True, condenseId="c1")
    write(directory, rows(), [first, *old, summary, message("user", 9, text("Go on"))])


def _truncated(directory: Path) -> None:
    first, *others = native()
    hidden = [{**each, "truncationParent": "t1"} for each in others[:2]]
    marker = message("user", 5, text("[…]"), isTruncationMarker=True, truncationId="t1")
    write(directory, rows(), [first, *hidden, marker, others[2]])


def _cline(directory: Path) -> None:
    first, second, *_ = xml()
    middle = [message("user", 4, text("hidden")), message("assistant", 4, text("hidden too"))]
    after = [message("user", 5, text("[read_file for 'a.py'] Result:\nx"))]
    begun = say(0, "task", "Mend the shop")
    ui = [begun, *rows()[1:-1], say(9, "text", "", conversationHistoryDeletedRange=[2, 3])]
    write(directory, ui, [first, second, *middle, *after])


def _open_calls(directory: Path) -> None:
    history = [*native()[:2], message("assistant", 4, call("toolu_09"), call("toolu_08"))]
    write(directory, rows()[:5], history)


def _twisted_calls(directory: Path) -> None:
    history = [
        message("user", 0, text("go")),
        message("assistant", 1, call("c1"), call("c1"), call("functions.read_file:0")),
        message("user", 2, result("functions.read_file:0"), result("c1"), result("ghost")),
        message("assistant", 3, call("c1"), call("")),
        message("assistant", 3, text("   "), call("c7")),
        message("user", 4, text("wait"), result("c7"), call("c8")),
        message("assistant", 5, result("c7"), text("done")),
    ]
    write(directory, rows(), history, item=item(directory.name, toolProtocol="native"))


def _reasoning(directory: Path) -> None:
    standalone = {"role": "assistant", "type": "reasoning", "encrypted_content": "x", "summary": []}
    thought = {"type": "reasoning", "text": "hm", "summary": []}
    signed = {"type": "thoughtSignature", "thoughtSignature": "s"}
    details = [{"type": "reasoning.text", "text": "hm", "index": 0}]
    answer = message("assistant", 3, thought, call("c1"), signed, reasoning_details=details)
    history = [native()[0], standalone, answer, message("user", 4, result("c1"))]
    write(directory, rows(), history)


def _wrong_types(directory: Path) -> None:
    odd: list[Any] = [None, 7, "x", [], {}, {"role": "user"}, {"role": "tool", "content": "x"}]
    odd += [{"role": "assistant", "content": [None, 3, {"type": 5}, {"type": "image"}]}]
    ui: list[Any] = [None, *rows(), {"ts": "then", "type": "say", "say": "text", "text": 5}, 3]
    write(directory, ui, [*odd, *native(), *odd], item=[1], metadata=b"{")


def _half_written(directory: Path) -> None:
    write(
        directory, None, native(), **{f".{UI}.bak_1_ab.tmp": rows(), f".{UI}.new_2_ab.tmp": b"[{"}
    )


def _nothing_but_leftovers(directory: Path) -> None:
    write(directory, **{f".{UI}.bak_1_a.tmp": rows(), f".{API}.new_2_b.tmp": native()})


def _starts_with_a_reply(directory: Path) -> None:
    write(directory, rows(), native()[1:])


def _without_times(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: it for name, it in value.items() if name != "ts"} for value in values]


def _at_one_time(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [value | {"ts": START} for value in values]


def _saved_by_an_editor(directory: Path) -> None:
    write(directory, json.dumps(rows()).encode("utf-16"), json.dumps(native()).encode("utf-8-sig"))


def _in_latin_1(directory: Path) -> None:
    encoded = json.dumps(rows("Räum den shop auf"), ensure_ascii=False)
    write(directory, encoded.encode("latin-1"), native())


def _all_cut(directory: Path) -> None:
    known = item(directory.name, toolProtocol="native")
    write(directory, cut(rows()), cut(native()), item=cut(known), metadata=b'{"files_in_con')


FORMS: dict[str, Callable[[Path], None]] = {
    "april": _april,
    "january-xml": lambda directory: write(
        directory, rows(), xml(), metadata={"files_in_context": []}
    ),
    "condensed": _condensed,
    "condensed-in-january": _condensed_in_january,
    "truncated-context": _truncated,
    "cline": _cline,
    "old-cline-name": lambda directory: write(directory, None, xml(), legacy=rows()),
    "old-roo-name": lambda directory: write(directory, rows(), legacy=native()),
    "open-calls": _open_calls,
    "twisted-calls": _twisted_calls,
    "reasoning": _reasoning,
    "wrong-types": _wrong_types,
    "half-written": _half_written,
    "only-rows": lambda directory: write(directory, rows()),
    "only-messages": lambda directory: write(directory, None, native()),
    "cut-rows": lambda directory: write(directory, cut(rows()), native()),
    "cut-messages": lambda directory: write(directory, rows(), cut(native())),
    "zeroed-tail": lambda directory: write(directory, cut(rows()) + bytes(4096), cut(native())),
    "starts-with-a-reply": _starts_with_a_reply,
    "no-times": lambda directory: write(
        directory, _without_times(rows()), _without_times(native())
    ),
    "rows-without-times": lambda directory: write(directory, _without_times(rows()), native()),
    "messages-without-times": lambda directory: write(directory, rows(), _without_times(xml())),
    "one-time": lambda directory: write(directory, _at_one_time(rows()), _at_one_time(native())),
    "saved-by-an-editor": _saved_by_an_editor,
    "latin-1": _in_latin_1,
    "all-cut": _all_cut,
    "old-name-alone": lambda directory: write(directory, legacy=native()),
}
"""Every form that opens where it is."""

ONLY_IMPORTED: dict[str, Callable[[Path], None]] = {"leftovers": _nothing_but_leftovers}
"""Forms that only an import makes into a task."""

XML_FORMS = ("january-xml", "cline", "old-cline-name", "messages-without-times")


def long_task(directory: Path, turns: int, padding: int) -> None:
    """`turns` calls and results with `padding` characters each."""
    ui, api = [rows()[0]], [native()[0]]
    body = "line of code\n" * (padding // 13)
    for turn in range(1, turns):
        name = f"toolu_{turn}"
        ui += [spent(turn), say(turn, "text", f"Step {turn}", partial=False)]
        api += [message("assistant", turn, text(f"Step {turn}"), call(name))]
        api += [message("user", turn, result(name, body))]
    write(directory, ui, api)
