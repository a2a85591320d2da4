"""What a user may choose for a session: modes, models, commands; and keys that are missing."""

from __future__ import annotations

import asyncio

import pytest
from acp.client.connection import ClientSideConnection
from acp.exceptions import RequestError
from acp.schema import ClientCapabilities

from joey.testing.script import Turn, call, fail, say, stop
from joey.testing.server import ModelServer
from tests.harness.acp.editor import connected, done, tools
from tests.harness.acp.protocol_schema import ProtocolSchema
from tests.harness.cli.binary import Joey


async def test_a_mode_is_chosen_before_and_between_prompts(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with (
        ModelServer([done(), done(), done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        made = await here.agent.new_session(cwd=str(joey.workspace), mcp_servers=[])
        assert made.modes is not None
        assert made.modes.current_mode_id == "code"
        known = [mode.id for mode in made.modes.available_modes]
        assert {"code", "ask", "architect", "debug"} <= set(known)
        session = made.session_id
        await here.agent.set_session_mode(session_id=session, mode_id="ask")
        await here.prompt(session, "one")
        assert "execute_command" not in tools(server.requests[0].body)
        await here.agent.set_session_mode(session_id=session, mode_id="code")
        await here.prompt(session, "two")
        assert "execute_command" in tools(server.requests[1].body)
        chosen = await here.agent.set_config_option(
            session_id=session, config_id="mode", value="ask"
        )
        assert chosen is not None and chosen.config_options[0].current_value == "ask"
        await here.prompt(session, "three")
        assert "execute_command" not in tools(server.requests[2].body)
        updates = here.editor.updates(session, "current_mode_update")
        assert [each["currentModeId"] for each in updates] == ["ask", "code", "ask"]
        options = here.editor.updates(session, "config_option_update")[-1]["configOptions"]
        assert options[0]["currentValue"] == "ask"
        with pytest.raises(RequestError, match="There is no mode 'poet'"):
            await here.agent.set_session_mode(session_id=session, mode_id="poet")


async def test_a_mode_that_the_model_switches_to_is_sent(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    switch = Turn(call("switch_mode", {"mode_slug": "debug", "reason": "it is broken"}))
    async with (
        ModelServer([switch, done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        await here.prompt(session, "go")
        (update,) = here.editor.updates(session, "current_mode_update")
        assert update["currentModeId"] == "debug"
        (call_,) = here.editor.calls(session).values()
        assert (call_["kind"], call_["status"]) == ("switch_mode", "completed")
        options = here.editor.updates(session, "config_option_update")[-1]["configOptions"]
        assert options[0]["currentValue"] == "debug"


async def test_another_model_counts_from_the_next_prompt_on(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with (
        ModelServer([done("one"), done("two"), done("three")]) as server,
        connected(joey, server.url, schema, arguments=["--model", "scripted"]) as here,
    ):
        made = await here.agent.new_session(cwd=str(joey.workspace), mcp_servers=[])
        assert made.config_options is not None
        model = made.config_options[1]
        assert (model.id, model.category, model.current_value) == ("model", "model", "scripted")
        names = [option.value for option in model.options]
        other = next(name for name in names if name != "scripted")
        session = made.session_id
        await here.prompt(session, "first")
        await here.agent.set_config_option(session_id=session, config_id="model", value=other)
        await here.prompt(session, "second")
        await here.agent.resume_session(session_id=session, cwd=str(joey.workspace))
        await here.prompt(session, "third")
        assert [each.body["model"] for each in server.requests] == ["scripted", other, other]
        assert "first" in str(server.requests[1].body["messages"])
        for id, value in (("model", "nonsense"), ("colour", "red")):
            with pytest.raises(RequestError, match="There is no"):
                await here.agent.set_config_option(session_id=session, config_id=id, value=value)


async def test_slash_commands_are_offered_and_understood(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    commands = joey.workspace / ".roo" / "commands"
    commands.mkdir(parents=True)
    text = "---\ndescription: Look it through\nargument-hint: what\n---\nReview it closely."
    (commands / "review.md").write_text(text, encoding="utf-8")
    async with (
        ModelServer([done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        (update,) = await here.editor.until(
            lambda: here.editor.updates(session, "available_commands_update")
        )
        review = {"name": "review", "description": "Look it through", "input": {"hint": "what"}}
        assert review in update["availableCommands"]
        await here.prompt(session, "/review the parser")
        assert "Review it closely." in str(server.requests[0].body["messages"])


async def test_without_a_key_the_editor_is_shown_what_to_do(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with connected(joey, None, schema) as here:
        asked = next(frame for _, frame in here.editor.frames if "result" in frame)
        (method,) = asked["result"]["authMethods"]
        assert method["id"] == "environment"
        assert "ANTHROPIC_API_KEY" in method["description"]
        for attempt in (
            here.agent.new_session(cwd=str(joey.workspace), mcp_servers=[]),
            here.agent.authenticate(method_id="environment"),
        ):
            with pytest.raises(RequestError) as caught:
                await attempt
            assert caught.value.code == -32000
            assert "ANTHROPIC_API_KEY" in str(caught.value)


async def greeting(agent: ClientSideConnection, version: int) -> tuple[int, list[str]]:
    can = ClientCapabilities.model_validate({"auth": {"terminal": True}})
    said = await agent.initialize(protocol_version=version, client_capabilities=can)
    return said.protocol_version, [method.id for method in said.auth_methods or ()]


@pytest.mark.parametrize(("asked", "agreed"), [(1, 1), (2, 1), (99, 1), (0, 1)])
async def test_the_versions_agree_on_what_both_know(
    joey: Joey, schema: ProtocolSchema | None, asked: int, agreed: int
) -> None:
    async with connected(joey, None, schema) as here:
        assert await greeting(here.agent, asked) == (agreed, ["terminal", "environment"])


async def test_a_wrong_setting_is_no_missing_key(joey: Joey, schema: ProtocolSchema | None) -> None:
    joey.home.mkdir()
    (joey.home / "settings.json").write_text("{ broken", encoding="utf-8")
    async with connected(joey, "http://127.0.0.1:9", schema) as here:
        greeted = next(frame for _, frame in here.editor.frames if "result" in frame)
        assert greeted["result"]["authMethods"] == []
        with pytest.raises(RequestError, match=r"settings\.json") as caught:
            await here.new(joey.workspace)
        assert caught.value.code == -32603


async def test_a_key_that_is_refused_is_reported_as_such(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    wrong = Turn(fail(401, "invalid x-api-key"))
    async with (
        ModelServer([wrong, done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        with pytest.raises(RequestError) as caught:
            await here.prompt(session, "go")
        assert caught.value.code == -32000
        assert await here.prompt(session, "again") == "end_turn"


async def test_a_refusal_ends_the_turn(joey: Joey, schema: ProtocolSchema | None) -> None:
    async with (
        ModelServer([Turn(say("I would rather not."), stop("refusal")), done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        assert await here.prompt(session, "do harm") == "refusal"
        assert len(server.requests) == 1
        assert await here.prompt(session, "do good") == "end_turn"


async def test_compact_sums_the_conversation_up(joey: Joey, schema: ProtocolSchema | None) -> None:
    summary = Turn(say("All that was said so far: one, and first."))
    async with (
        ModelServer([done("first " * 5000), summary, done("second")]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        (update,) = await here.editor.until(
            lambda: here.editor.updates(session, "available_commands_update")
        )
        assert "compact" in [command["name"] for command in update["availableCommands"]]
        await here.prompt(session, "one")
        assert await here.prompt(session, "/compact mind the names") == "end_turn"
        assert "mind the names" in str(server.requests[1].body["messages"])
        assert "condensed" in here.editor.text(session, "agent_thought_chunk")
        assert await here.prompt(session, "two") == "end_turn"
        assert "All that was said so far" in str(server.requests[2].body["messages"])


async def test_what_a_directory_brings_and_nobody_trusts_is_reported(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    (joey.workspace / ".roo").mkdir()
    theirs = '{"mcpServers": {"theirs": {"command": "touch", "args": ["started.txt"]}}}'
    (joey.workspace / ".roo" / "mcp.json").write_text(theirs, encoding="utf-8")
    async with (
        ModelServer([done()]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        await here.prompt(session, "go")
        assert "joey trust" in here.editor.text(session, "agent_thought_chunk")
    assert not (joey.workspace / "started.txt").exists()


async def test_two_prompts_at_once_begin_one_task(
    joey: Joey, schema: ProtocolSchema | None
) -> None:
    async with (
        ModelServer([done("one"), done("two")]) as server,
        connected(joey, server.url, schema) as here,
    ):
        session = await here.new(joey.workspace)
        stops = await asyncio.gather(here.prompt(session, "a"), here.prompt(session, "b"))
        assert set(stops) == {"end_turn"}
        await here.agent.close_session(session_id=session)
    assert len(joey.tasks) == 1
