"""Habits from other coding agents, in the real program."""

from __future__ import annotations

import json

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach

DONE = Turn(call("attempt_completion", {"result": "Looked."}))


async def test_instructions_commands_and_skills_of_claude_code_are_used(joey: Joey) -> None:
    files = {
        "CLAUDE.md": "Always answer in verse.",
        ".cursorrules": "Never use tabs.",
        ".claude/commands/explain.md": "Explain the function $1 to $ARGUMENTS.",
        ".claude/skills/brew/SKILL.md": "---\nname: brew\ndescription: Brew tea\n---\nBoil it.",
    }
    for name, text in files.items():
        path = joey.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    async with ModelServer([DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "/explain median of @CLAUDE.md")
        request = json.dumps(server.requests[0].body)
    assert "joey: following CLAUDE.md and .cursorrules\n" in done.err
    for text in ("Always answer in verse.", "Never use tabs.", "Brew tea"):
        assert text in request
    assert "Explain the function median to median of @CLAUDE.md." in request
    assert "1 | Always answer in verse." in request


async def test_the_json_result_has_turns_duration_and_model(joey: Joey) -> None:
    turns = [Turn(say("I look."), call("list_files", {"path": "."})), DONE]
    async with ModelServer(turns) as server:
        done = await joey.run("-p", "--output-format", "json", *reach(server.url), "look")
    assert done.json["turns"] == 2
    assert done.json["durationMs"] > 0
    assert done.json["model"] == "scripted"


async def test_the_json_result_of_a_run_that_never_began_has_neither_turns_nor_model(
    joey: Joey,
) -> None:
    done = await joey.run("-p", "--output-format", "json", "--mode", "nonesuch", "look")
    assert done.json["turns"] == 0
    assert done.json["model"] is None


async def test_allowing_everything_without_a_budget_is_said_in_one_line(joey: Joey) -> None:
    async with ModelServer([DONE, DONE, DONE]) as server:
        done = await joey.run("-p", "-y", "--no-sandbox", *reach(server.url), "look")
        limited = await joey.run(
            *("-p", "-y", "--no-sandbox", "--max-tokens", "20000"), *reach(server.url), "look"
        )
        asking = await joey.run("-p", *reach(server.url), "look")
    note = (
        "joey: no budget is set: --max-tokens N limits this run, the setting allowedMaxRequests"
        " every run\n"
    )
    assert done.err.count(note) == 1
    assert done.out == "Looked.\n"
    assert "no budget" not in limited.err + asking.err


async def test_the_price_of_a_model_is_said_before_its_answer(joey: Joey) -> None:
    async with ModelServer([DONE, DONE]) as server:
        flags = ("--provider", "anthropic", "--base-url", server.url, "-m", "claude-sonnet-5-5")
        done = await joey.run("-p", "-y", "--no-sandbox", *flags, "look")
        asking = await joey.run("-p", *flags, "look")
    price = "joey: claude-sonnet-5-5 costs $2 in, $10 out per million tokens\n"
    assert price in done.err
    assert price in asking.err
    assert (
        "joey: no budget is set: --max-budget-usd N limits this run, the setting allowedMaxCost"
        " every run\n"
    ) in done.err
    assert "no budget" not in asking.err


async def test_resuming_without_an_id_needs_a_user_who_chooses(joey: Joey) -> None:
    done = await joey.run("-p", "-r")
    assert done.code == 2
    assert "joey tasks list" in done.err


async def test_a_mode_of_a_file_that_cannot_be_read_is_missed_with_the_reason(joey: Joey) -> None:
    (joey.workspace / ".roomodes").write_text("customModes:\n  - slug: [docs\n")
    done = await joey.run("-p", "--mode", "docs", *reach("http://127.0.0.1:9"), "look")
    assert done.code == 2
    said = " ".join(done.err.split())
    assert "there is no mode 'docs'. Known ones: architect, code" in said
    assert ".roomodes is not used: line 3" in said


async def test_the_price_of_a_model_is_said_when_its_profile_is_made(joey: Joey) -> None:
    flags = ("--provider", "anthropic", "-m", "claude-sonnet-5-5", "--no-key")
    done = await joey.run("profiles", "add", "work", *flags)
    assert "claude-sonnet-5-5 costs $2 in, $10 out per million tokens" in done.out + done.err


async def test_a_model_on_this_machine_has_no_price(joey: Joey) -> None:
    done = await joey.run("profiles", "add", "local", "--provider", "ollama", "-m", "qwen3:8b")
    assert done.code == 0
    assert "costs" not in done.out + done.err
