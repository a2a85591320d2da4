"""`/help`, `/cost`, `/rewind` and the others while joey works or asks: never words, never a no."""

from __future__ import annotations

import asyncio
import json

from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.terminal import terminal

ASK = "say what to do instead › "
ACCEPT = "say what to change › "
WRITE = call("write_to_file", {"path": "new.txt", "content": "x"})
DONE = Turn(call("attempt_completion", {"result": "All done."}))


async def test_at_a_question_they_act_or_wait_and_the_question_stays(joey: Joey) -> None:
    async with ModelServer([Turn(say("I write."), WRITE), DONE]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until(ASK)
            for typed, expected in {
                "/help": "take the rewind back",
                "/cost": "tokens",
                "/rewind 2": "/rewind works when joey waits for your message; answer first",
                "/new": "/new works when joey waits for your message; answer first",
                "/hlep": "there is no command /hlep; did you mean /help?",
            }.items():
                screen.press(f"{typed}\n")
                assert expected in await screen.until(ASK)
            screen.press("y\n")
            await screen.until(ACCEPT)
            screen.press("/undo\n")
            await screen.until("answer first")
            await screen.until(ACCEPT)
        said = json.dumps([request.body["messages"] for request in server.requests])
    assert len(server.requests) == 2
    assert not any(name in said for name in ("/help", "/cost", "/rewind", "/new", "/hlep"))
    assert (joey.workspace / "new.txt").exists()


async def test_while_joey_works_they_act_or_wait_and_are_no_messages(joey: Joey) -> None:
    gate = asyncio.Event()
    turn = Turn(say("I think"), pause(gate), WRITE)
    async with ModelServer([turn, DONE]) as server:
        async with terminal(joey, *reach(server.url), "do it") as screen:
            await screen.until("I think")
            for name in ("/rewind", "/undo", "/fork", "/new"):
                screen.press(f"{name}\n")
                await screen.until(
                    f"{name} works when joey waits for your message; Ctrl-C stops it"
                )
            screen.press("/help\n")
            await screen.until("take the rewind back")
            gate.set()
            await screen.until(ASK)
            screen.press("y\n")
            await screen.until(ACCEPT)
            assert "before its next step" not in screen.text.replace(
                "message before its next step", ""
            )
        said = json.dumps(server.requests[-1].body["messages"])
    assert "/rewind" not in said and "/help" not in said


async def test_leaving_while_joey_works_stops_it(joey: Joey) -> None:
    gate = asyncio.Event()
    model = ModelServer([Turn(say("I think"), pause(gate), WRITE)])
    async with model as server, terminal(joey, *reach(server.url), "do it") as screen:
        await screen.until("I think")
        screen.press("/exit\n")
        assert await screen.ended() == 0
        gate.set()
