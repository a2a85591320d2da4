"""What a run of `joey -p` leaves and prints: histories, JSON results, calls of hooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden.golden import check_json
from tests.golden.homes import ModelServer, Turn, fail, say
from tests.golden.masks import Masks, merged, shape
from tests.golden.program import Program, reach
from tests.golden.scripts import conversation, finish, turn
from tests.harness.cli.binary import Finished

PROTOCOLS = ("native", "xml")
FLAGS = ("--no-sandbox", "--allow-writes", "--allow", "printf", "--deny", "rm")
HISTORIES = ("api_conversation_history.json", "ui_messages.json", "task_metadata.json")


async def play(program: Program, protocol: str, *flags: str) -> Finished:
    async with ModelServer(conversation(protocol)) as server:
        run = await program.run(
            *("-p", *flags, *FLAGS, "--protocol", protocol, *reach(server.url)),
            "Look at @/a.txt, and work.",
        )
        program.server_url = server.url
    return run


def masks(program: Program, *values: Any) -> Masks:
    return Masks(values, {**program.paths, program.server_url: "<server>"})


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_histories_and_result_are_the_same(tmp_path: Path, protocol: str) -> None:
    program = Program(tmp_path, alwaysAllowModeSwitch=True)
    run = await play(program, protocol, "--output-format", "json")
    task_id = run.json["taskId"]
    files = {name: program.task_file(task_id, name) for name in HISTORIES}
    masking = masks(program, run.json, files)
    for name, content in files.items():
        check_json(f"histories/{protocol}/{name}", masking.mask(content))
    check_json(f"outputs/{protocol}/json.json", {"exit code": run.code, **masking.mask(run.json)})
    preview = await program.run("tasks", "rewind", task_id, "2", "--preview", "--json")
    check_json(f"outputs/{protocol}/rewind_preview.json", shape(preview.json))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_lines_of_stream_json_are_the_same(tmp_path: Path, protocol: str) -> None:
    """Whole lines as they are; of lines that grow, which keys each kind has."""
    program = Program(tmp_path, alwaysAllowModeSwitch=True)
    run = await play(program, protocol, "--output-format", "stream-json")
    whole = [line for line in run.lines if line.get("done") or line["type"] == "system"]
    check_json(
        f"outputs/{protocol}/stream_json.json",
        {
            "exit code": run.code,
            "whole lines": masks(program, whole).mask(whole),
            "kinds of lines": kinds(run.lines),
        },
    )


def kinds(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The shapes of lines, by what tells them apart."""
    found: dict[str, list[Any]] = {}
    for line in lines:
        names = (line.get("type"), line.get("subtype"), "done" if line.get("done") else None)
        found.setdefault(" ".join(filter(None, names)), []).append(shape(line))
    return {name: merged(shapes) for name, shapes in found.items()}


HOOKS = {
    "beforeTool": "cat >> seen.jsonl",
    "afterTool": """cat >> seen.jsonl; printf '{"message": "noted"}'""",
    "onCompletion": "cat >> seen.jsonl",
}


async def test_what_hooks_read_is_the_same(tmp_path: Path) -> None:
    hooks = [{"event": event, "command": command} for event, command in HOOKS.items()]
    program = Program(tmp_path, alwaysAllowModeSwitch=True, hooks=hooks)
    turns = [
        turn("native", 1, ("read_file", {"path": "a.txt"})),
        turn("native", 2, ("execute_command", {"command": "printf out"})),
        turn("native", 3, ("read_file", {"path": "missing.txt"})),
        finish("native", 4),
    ]
    async with ModelServer(turns) as server:
        run = await program.run("-p", *FLAGS, *reach(server.url), "work")
    assert run.code == 0, run.err
    text = (program.workspace / "seen.jsonl").read_text(encoding="utf-8")
    calls = [json.loads(line) for line in text.splitlines()]
    check_json("outputs/hooks.json", Masks(calls, program.paths).mask(calls))


FAILURES = {
    "not allowed": [
        turn("native", 1, ("execute_command", {"command": "make"})),
        finish("native", 2),
    ],
    "unknown model": [Turn(fail(404, "no such model", code="not_found_error"))],
    "wrong key": [Turn(fail(401, "bad key"))],
    "plain answer": [Turn(say("It is so."))],
    "turns": [turn("native", 1, ("read_file", {"path": "a.txt"}))],
}
ENDS = {"turns": ("--max-turns", "1")}


@pytest.mark.parametrize("case", FAILURES)
async def test_other_ends_of_a_run_are_the_same(tmp_path: Path, case: str) -> None:
    """Code, exit code and keys of the result; its sentences may be reworded."""
    program = Program(tmp_path)
    async with ModelServer(FAILURES[case]) as server:
        run = await program.run(
            *("-p", "--no-sandbox", "--output-format", "json", *ENDS.get(case, ())),
            *(*reach(server.url), "work"),
        )
    result = {key: value for key, value in run.json.items() if key != "events"}
    said = {key: run.json[key] for key in ("type", "success", "code", "exitCode")}
    check_json(f"outputs/ends/{case.replace(' ', '_')}.json", {"keys": shape(result), **said})


async def test_commands_on_standard_input_are_answered_the_same(tmp_path: Path) -> None:
    program = Program(tmp_path)
    commands: list[Any] = [
        {"command": "ping", "requestId": "1"},
        {"command": "message", "requestId": "2", "prompt": "nobody there"},
        {"command": "wrong", "requestId": "3"},
        {"command": "start", "requestId": "4", "prompt": "work"},
    ]
    stdin = "".join(f"{json.dumps(each)}\n" for each in commands).encode()
    flags = ("-p", "--no-sandbox", "--input-format", "stream-json")
    turns = [turn("native", 1, ("read_file", {"path": "a.txt"})), finish("native", 2)]
    async with ModelServer(turns) as server:
        run = await program.run(
            *(*flags, "--output-format", "stream-json", *reach(server.url)), stdin=stdin
        )
    codes = [
        {key: line.get(key) for key in ("subtype", "command", "requestId", "code", "success")}
        for line in run.lines
        if line["type"] == "control"
    ]
    first = masks(program, run.lines[0]).mask(run.lines[0])
    check_json(
        "outputs/stdin.json",
        {"exit code": run.code, "first": first, "control": codes, "kinds": kinds(run.lines)},
    )
