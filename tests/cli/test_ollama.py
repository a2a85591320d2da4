"""Ollama is spoken to on its own wire, which says how large the window must be."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from tests.harness.cli.binary import Joey
from tests.harness.cli.local_server import Answer, finish, local_model_server, refuse
from tests.harness.cli.served_models import reach, run_ollama, show_ollama


def stream(*messages: dict[str, Any], prompt: int = 5000, reason: str = "stop") -> Answer:
    """As docs/api.md of Ollama shows it."""
    head = {"model": "my-model", "created_at": "2026-11-01T08:52:19.385406455Z"}
    lines = [{**head, "message": {"role": "assistant", **each}, "done": False} for each in messages]
    end = {
        **head,
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": reason,
        "total_duration": 4883583458,
        "load_duration": 1334875,
        "prompt_eval_count": prompt,
        "prompt_eval_duration": 342546000,
        "eval_count": 282,
        "eval_duration": 4535599000,
    }
    body = "".join(f"{json.dumps(line)}\n" for line in (*lines, end))
    return Answer(body.encode(), content_type="application/x-ndjson")


def call(name: str, **arguments: object) -> dict[str, Any]:
    return {"content": "", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


PAGES = {"/api/show": show_ollama(abilities=("tools", "thinking")), "/api/ps": {"models": []}}


@pytest.mark.contract("local:facts")
async def test_a_task_with_thoughts_and_calls(joey: Joey) -> None:
    (joey.workspace / "a.txt").write_text("what it says\n")
    answers = [
        stream(
            {"content": "", "thinking": "I should "},
            {"content": "", "thinking": "look."},
            call("read_file", files=[{"path": "a.txt"}]),
        ),
        stream({"content": "Done. "}, call("attempt_completion", result="It says what it says.")),
    ]
    async with local_model_server(PAGES, answers) as server:
        done = await joey.run(*reach("ollama", server), "what does a.txt say?")
        assert server.chat_paths == ["/api/chat", "/api/chat"]
        first, second = server.chats
    assert (done.code, done.out.strip()) == (0, "It says what it says."), done.err
    assert first["options"]["num_ctx"] == 32768
    assert 0 < first["options"]["num_predict"] <= 8192
    assert first["keep_alive"] == "30m"
    assert "read_file" in [tool["function"]["name"] for tool in first["tools"]]
    assistant, result = second["messages"][-2:]
    assert assistant["thinking"] == "I should look."
    assert assistant["tool_calls"][0]["function"]["arguments"] == {"files": [{"path": "a.txt"}]}
    assert (result["role"], result["tool_name"]) == ("tool", "read_file")
    assert "what it says" in result["content"]


@pytest.mark.contract("local:facts")
@pytest.mark.parametrize(
    ("pages", "window"),
    [
        ({"/api/show": show_ollama(8192), "/api/ps": {"models": []}}, 8192),
        ({"/api/show": show_ollama(), "/api/ps": run_ollama(65536)}, 65536),
        ({"/api/show": show_ollama(), "/api/ps": run_ollama(4096)}, 32768),
    ],
)
async def test_the_window_is_that_of_the_modelfile_or_of_the_loaded_model(
    joey: Joey, pages: dict[str, Any], window: int
) -> None:
    answers = [stream(call("attempt_completion", result="All done."))]
    async with local_model_server(pages, answers) as server:
        done = await joey.run(*reach("ollama", server), "do it")
        assert [chat["options"]["num_ctx"] for chat in server.chats] == [window], done.err


async def test_a_profile_chooses_the_window_up_to_that_of_the_model(joey: Joey) -> None:
    answers = [stream(call("attempt_completion", result="All done."))]
    async with local_model_server(PAGES, answers) as server:
        joey.home.mkdir(exist_ok=True)
        profile = {"provider": "ollama", "model": "my-model", "baseUrl": f"{server.url}/v1"}
        for wanted, sent in ((65536, 65536), (1_000_000, 131072)):
            own = {**profile, "contextWindow": wanted}
            profiles = {"active": "own", "profiles": {"own": own}}
            (joey.home / "profiles.json").write_text(json.dumps(profiles))
            done = await joey.run("-p", "do it")
            assert server.chats[-1]["options"]["num_ctx"] == sent, done.err


OUT_OF_MEMORY = "model requires more system memory (9 GiB) than is available (4 GiB)"
ERRORS = {
    "stream": Answer(
        f"{json.dumps({'error': OUT_OF_MEMORY})}\n".encode(), content_type="application/x-ndjson"
    ),
    "status": refuse(500, {"error": OUT_OF_MEMORY}),
    "cuda": refuse(500, {"error": "llama runner process has terminated: cudaMalloc failed"}),
}


@pytest.mark.parametrize("kind", ERRORS)
async def test_a_model_that_needs_too_much_memory_is_tried_with_a_smaller_window(
    joey: Joey, kind: str
) -> None:
    answers = [ERRORS[kind], stream(call("attempt_completion", result="All done."))]
    async with local_model_server(PAGES, answers) as server:
        done = await joey.run(*reach("ollama", server), "do it")
        assert [chat["options"]["num_ctx"] for chat in server.chats] == [32768, 8192]
    assert (done.code, done.out.strip()) == (0, "All done."), done.err
    assert "too little memory for a window of 32,768 tokens; trying 8,192" in done.err


async def test_a_model_that_does_not_fit_into_memory_ends_the_run_with_what_to_do(
    joey: Joey,
) -> None:
    async with local_model_server(PAGES, [ERRORS["stream"]] * 3) as server:
        done = await joey.run(*reach("ollama", server), "do it")
        assert len(server.chats) == 2
    assert done.code == 78
    assert "requires more system memory" in done.err
    assert "stop other models (`ollama ps` lists them), use a smaller one" in done.err


async def test_a_smaller_window_of_the_modelfile_counts_from_the_next_run_on(joey: Joey) -> None:
    answers = [stream(call("attempt_completion", result="All done."))] * 2
    pages = {"/api/show": show_ollama(65536), "/api/ps": {"models": []}}
    async with local_model_server(pages, answers) as server:
        await joey.run(*reach("ollama", server), "do it")
        server.pages["/api/show"] = show_ollama(16384)
        await joey.run(*reach("ollama", server), "do it")
        assert [chat["options"]["num_ctx"] for chat in server.chats] == [65536, 16384]


async def test_the_advised_commands_make_the_window_larger(joey: Joey) -> None:
    answers = [stream(call("attempt_completion", result="All done."))] * 2
    pages = {"/api/show": show_ollama(4096), "/api/ps": {"models": []}}
    async with local_model_server(pages, answers) as server:
        done = await joey.run(*reach("ollama", server), "do it")
        assert done.code == 78
        assert "contextWindow` of the profile" not in done.err
        advised = re.findall(r"`joey ([^`]*)`", done.err)
        assert len(advised) == 2, done.err
        for line in advised:
            changed = await joey.run(*shlex.split(line))
            assert changed.code == 0, changed.err
        done = await joey.run("-p", "do it")
        assert [chat["options"]["num_ctx"] for chat in server.chats] == [32768], done.err
        small = {"provider": "ollama", "model": "my-model", "baseUrl": f"{server.url}/v1"}
        profiles = {"active": "own", "profiles": {"own": small}}
        (joey.home / "profiles.json").write_text(json.dumps(profiles))
        done = await joey.run("-p", "do it")
    assert "run `joey profiles set own contextWindow 32768`" in done.err


async def test_a_model_whose_own_window_is_small_is_to_be_replaced(joey: Joey) -> None:
    shown = show_ollama()
    shown["model_info"]["llama.context_length"] = 4096
    listed = {"models": [{"name": "my-model"}]}
    pages = {"/api/show": shown, "/api/ps": {"models": []}, "/api/tags": listed}
    async with local_model_server(pages, [finish()]) as server:
        done = await joey.run(*reach("ollama", server), "do it")
        doctor = await joey.run("doctor", env={**joey.env, "OLLAMA_HOST": server.url})
    assert (done.code, server.chats) == (78, [])
    assert "and the reply: use a model with a larger window." in done.err
    assert "for a larger one, use a model with a larger window." in doctor.out
    assert "contextWindow" not in done.err + doctor.out


async def test_the_advised_window_is_one_that_the_model_has(joey: Joey) -> None:
    shown = show_ollama(4096)
    shown["model_info"]["llama.context_length"] = 8192
    async with local_model_server({"/api/show": shown, "/api/ps": {"models": []}}) as server:
        done = await joey.run(*reach("ollama", server), "do it")
    assert "`joey profiles set local contextWindow 8192`" in done.err
