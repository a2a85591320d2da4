"""Local servers are asked for the window and the abilities of a model, with the real program."""

from __future__ import annotations

import asyncio
import json
import os
import re
from asyncio.subprocess import PIPE
from typing import Any

import pytest
from msgspec import structs

from tests.harness.cli.binary import LIMIT, Joey
from tests.harness.cli.local_server import (
    finish,
    list_files,
    local_model_server,
    refuse,
    say,
    stream_call,
)
from tests.harness.cli.served_models import (
    ADVICE,
    N_KEEP,
    OVERFLOWS,
    pages_of,
    props_llamacpp,
    reach,
    run_ollama,
    show_ollama,
)


@pytest.mark.contract("local:facts")
@pytest.mark.parametrize("window", [1, 4096])
@pytest.mark.parametrize("kind", ADVICE)
async def test_a_window_that_is_too_small_ends_the_run_before_any_request(
    joey: Joey, kind: str, window: int
) -> None:
    async with local_model_server(pages_of(kind, window), [finish()]) as server:
        done = await joey.run(*reach(kind, server), "do it")
        assert server.chats == []
        assert done.code == 78
        assert f"has a window of {window:,} tokens" in done.err
        assert ADVICE[kind] in done.err
        # The server was restarted as advised.
        server.pages.update(pages_of(kind, 65536))
        again = await joey.run(*reach(kind, server), "do it")
    assert (again.code, again.out.strip()) == (0, "All done."), again.err


@pytest.mark.contract("local:facts")
@pytest.mark.parametrize("model", ["Devstral", "Qwen3-Coder-30B-Q4_K_M.gguf"])
async def test_the_name_of_a_model_is_written_as_it_is(joey: Joey, model: str) -> None:
    async with local_model_server({"/props": props_llamacpp(4096)}) as server:
        flags = ["--provider", "llamacpp", "--base-url", f"{server.url}/v1", "-m", model]
        done = await joey.run("-p", *flags, "do it")
    assert f"joey: the model {model} at 127.0.0.1" in done.err


@pytest.mark.contract("local:facts")
@pytest.mark.parametrize("kind", ["ollama", "lmstudio", "llamacpp", "vllm"])
async def test_a_server_is_asked_once_for_an_address_and_a_model(joey: Joey, kind: str) -> None:
    pages = pages_of(kind, 65536)
    async with local_model_server(pages, [list_files(), finish()]) as server:
        first = await joey.run(*reach(kind, server), "do it")
        second = await joey.run(*reach(kind, server), "do it again")
        assert (first.code, second.code) == (0, 0), first.err + second.err
        # Ollama's window changes with a Modelfile, so each run asks for it.
        runs = 2 if kind == "ollama" else 1
        assert sorted(server.asked) == sorted([*pages] * runs)
    remembered = json.loads((joey.home / "served-models.json").read_text())
    (models,) = remembered["models"].values()
    assert models["my-model"]["said"]["contextWindow"] == 65536


@pytest.mark.contract("local:facts")
@pytest.mark.parametrize(
    ("kind", "pages"),
    [
        ("llamacpp", {"/props": props_llamacpp(65536, tools=False)}),
        ("ollama", {"/api/show": show_ollama(abilities=()), "/api/ps": run_ollama(65536)}),
    ],
)
async def test_a_model_without_tools_is_called_in_xml_from_its_first_request(
    joey: Joey, kind: str, pages: dict[str, Any]
) -> None:
    async with local_model_server(pages, [finish()]) as server:
        first = await joey.run(*reach(kind, server), "do it")
        second = await joey.run(*reach(kind, server), "do it again")
        assert (first.code, second.code) == (0, 0), first.err + second.err
        assert ["tools" in chat for chat in server.chats] == [False, False]
    assert "does not take tools for my-model; calling tools by XML tags" in first.err
    assert "XML" not in second.err


@pytest.mark.contract("local:facts")
@pytest.mark.parametrize("kind", OVERFLOWS)
async def test_a_window_is_learnt_from_a_refusal(joey: Joey, kind: str) -> None:
    answers = [list_files(), refuse(400, OVERFLOWS[kind]), finish("Summary."), finish()]
    async with local_model_server({}, answers) as server:
        done = await joey.run(*reach(kind, server), "do it")
    assert done.code in (0, 78), done.err
    remembered = json.loads((joey.home / "served-models.json").read_text())
    (models,) = remembered["models"].values()
    assert models["my-model"]["said"] == {"contextWindow": 9216}


@pytest.mark.contract("local:facts")
async def test_a_refusal_without_a_number_is_followed_by_a_look_at_the_window(joey: Joey) -> None:
    async with local_model_server(pages_of("lmstudio", 65536), [finish()]) as server:
        assert (await joey.run(*reach("lmstudio", server), "do it")).code == 0
    # It is started again with another window; 65,536 is remembered.
    pages = pages_of("lmstudio", 4096)
    async with local_model_server(pages, [refuse(400, N_KEEP)], port=server.port) as server:
        done = await joey.run(*reach("lmstudio", server), "do it")
        assert len(server.chats) == 1
    assert done.code == 78
    assert "has a window of 4,096 tokens" in done.err
    assert ADVICE["lmstudio"] in done.err


@pytest.mark.contract("local:facts")
async def test_a_message_that_is_too_long_names_the_window_and_the_way_out(joey: Joey) -> None:
    async with local_model_server(pages_of("llamacpp", 8192), [finish()]) as server:
        done = await joey.run(*reach("llamacpp", server), "word " * 12000)
        assert server.chats == []
    assert "window of 8,192 tokens" in done.err
    assert re.search(r"the new message \d+,\d{3}\.", done.err)
    assert ADVICE["llamacpp"] in done.err


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (
            "ollama",
            "Get it with `ollama pull my-model`, or choose another: joey models lists them.",
        ),
        ("lmstudio", "Choose another: joey models lists them."),
    ],
)
async def test_a_model_that_is_not_there_is_named(joey: Joey, kind: str, advice: str) -> None:
    missing = refuse(404, {"error": "model 'my-model' not found"})
    async with local_model_server(pages_of(kind, 65536), [missing]) as server:
        done = await joey.run(*reach(kind, server), "do it")
    assert done.code == 78
    assert f"joey: {kind} (127.0.0.1:{server.port}) has no model 'my-model'. {advice}" in done.err


async def test_one_task_is_counted_in_the_singular(joey: Joey) -> None:
    async with local_model_server(pages_of("lmstudio", 65536), [finish()]) as server:
        assert (await joey.run(*reach("lmstudio", server), "do it")).code == 0
    done = await joey.run("doctor", "--offline", "--json")
    assert '"1 task"' in done.out


@pytest.mark.parametrize("kind", ["lmstudio", "llamacpp", "vllm"])
async def test_the_address_of_a_local_server_may_be_given_without_a_path(
    joey: Joey, kind: str
) -> None:
    async with local_model_server(pages_of(kind, 65536), [finish()]) as server:
        flags = ["--provider", kind, "--base-url", server.url, "-m", "my-model"]
        done = await joey.run("-p", *flags, "do it")
        assert server.chat_paths == ["/v1/chat/completions"]
    assert (done.code, done.out.strip()) == (0, "All done."), done.err


NOT_LMSTUDIOS = {"error": "Unexpected endpoint or method. (POST /chat/completions). Returning 200"}


@pytest.mark.parametrize(("status", "said"), [(404, {"detail": "Not Found"}), (200, NOT_LMSTUDIOS)])
async def test_where_an_address_lacks_its_path_the_usual_one_is_suggested(
    joey: Joey, status: int, said: dict[str, str]
) -> None:
    pages = {"/chat/completions": refuse(status, said)}
    async with local_model_server(pages) as server:
        done = await joey.run("-p", "--base-url", server.url, "-m", "my-model", "do it")
        assert server.asked.count("/chat/completions") == 1
    assert done.code == 78
    assert f"--base-url, which is {server.url} (did you mean {server.url}/v1?)" in done.err


async def test_without_a_model_the_usual_path_of_an_address_is_suggested_too(joey: Joey) -> None:
    async with local_model_server({}) as server:
        done = await joey.run("-p", "--base-url", server.url, "do it")
    assert done.code == 78
    expected = f"does not list its models (status 404; did you mean {server.url}/v1?)."
    assert expected in done.err


START = {
    "ollama": "Start it with `OLLAMA_HOST=127.0.0.1:{} ollama serve`",
    "lmstudio": "Start it with `lms server start --port {}`",
    "llamacpp": "Start it with `llama-server -m my-model.gguf -c 32768 --port {}`",
    "vllm": "Start it with `vllm serve my-model --port {}`",
}


@pytest.mark.contract("local:facts")
@pytest.mark.parametrize("kind", START)
async def test_a_server_that_is_not_running_is_tried_once_more_and_named(
    joey: Joey, kind: str
) -> None:
    async with local_model_server({}) as server:
        pass
    done = await joey.run(*reach(kind, server), "do it")
    assert done.code == 75
    assert f"{kind} is not running at 127.0.0.1:{server.port}" in done.err
    assert START[kind].format(server.port) in done.err
    assert "(retry 1 of 1)" in done.err
    assert "retry 2" not in done.err


@pytest.mark.contract("local:facts")
@pytest.mark.parametrize("kind", ["ollama", "lmstudio"])
async def test_a_server_that_breaks_off_an_answer_is_waited_for(joey: Joey, kind: str) -> None:
    joey.settings(requestDelaySeconds=0.2)
    pages, broken = pages_of(kind, 65536), structs.replace(finish(), is_broken_off=True)
    async with local_model_server(pages, [broken]) as server:
        process = await joey.start(*reach(kind, server), "do it", stdout=PIPE, stderr=PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        lines = await read_until(process.stderr, "(retry 1 of 6)")
    lines += await read_until(process.stderr, "(retry 3 of 6)")
    async with local_model_server(pages, [finish()], port=server.port):
        out, err = await process.communicate()
    assert (process.returncode, out) == (0, b"All done.\n"), err
    assert "was lost in the middle of the answer" in lines
    assert f"(retry 2 of 6): {kind} is not running" in lines
    assert "ry again" not in lines


async def test_a_server_that_has_answered_before_is_waited_for(joey: Joey) -> None:
    joey.settings(requestDelaySeconds=0.2)
    pages = pages_of("lmstudio", 65536)
    wait = say("<execute_command>\n<command>cat < go</command>\n</execute_command>")
    go = joey.workspace / "go"
    os.mkfifo(go)
    async with local_model_server(pages, [wait]) as server:
        flags = [*reach("lmstudio", server), "--yes"]
        process = await joey.start(*flags, "do it", stdout=PIPE, stderr=PIPE)
        assert process.stderr is not None
        await read_until(process.stderr, "cat < go")
    await asyncio.to_thread(go.write_text, "on\n")
    await read_until(process.stderr, "(retry 2 of 6)")
    async with local_model_server(pages, [finish()], port=server.port):
        out, err = await process.communicate()
    assert (process.returncode, out) == (0, b"All done.\n"), err


async def read_until(stream: asyncio.StreamReader, text: str) -> str:
    read = ""
    async with asyncio.timeout(LIMIT):
        while text not in read:
            line = await stream.readline()
            assert line, read
            read += line.decode()
    return read


@pytest.mark.contract("local:truncation")
async def test_a_server_that_cuts_its_prompts_is_noticed_at_the_second_request(joey: Joey) -> None:
    answers = [list_files(prompt_tokens=4096), finish(prompt_tokens=4096)]
    async with local_model_server(pages_of("vllm", 32768), answers) as server:
        done = await joey.run(*reach("vllm", server), "do it")
    assert done.code == 0, done.err
    assert "cuts prompts to 4,096 of about" in done.err
    assert ADVICE["vllm"] in done.err


async def test_honest_counts_are_no_truncation(joey: Joey) -> None:
    answers = [list_files(prompt_tokens=5200), finish(prompt_tokens=5400)]
    async with local_model_server(pages_of("vllm", 32768), answers) as server:
        done = await joey.run(*reach("vllm", server), "do it")
    assert done.code == 0, done.err
    assert "cuts prompts" not in done.err


@pytest.mark.contract("local:facts")
async def test_replies_of_local_models_have_a_limit(joey: Joey) -> None:
    async with local_model_server(pages_of("vllm", 32768), [finish()]) as server:
        done = await joey.run(*reach("vllm", server), "do it")
        assert done.code == 0, done.err
        assert [chat["max_tokens"] for chat in server.chats] == [6554]


@pytest.mark.parametrize("kind", ["ollama", "llamacpp", "lmstudio", "vllm"])
async def test_a_server_that_only_its_address_names_is_spoken_to_like_a_named_one(
    joey: Joey, kind: str
) -> None:
    """Its replies come back with their thoughts, and have a limit."""
    think = {"reasoning_content": "Hm."}
    looked = stream_call("list_files", {"path": "."}, delta=think)
    own: dict[str, Any] = {"thinking": "Hm.", "role": "assistant", "content": ""}
    own["tool_calls"] = [{"function": {"name": "list_files", "arguments": {"path": "."}}}]
    lines = ({"message": own, "done": False}, {"done": True, "done_reason": "stop"})
    looked = structs.replace(looked, ollama_body="\n".join(map(json.dumps, lines)).encode() + b"\n")
    async with local_model_server(pages_of(kind, 65536), [looked, finish()]) as server:
        done = await joey.run("-p", "--base-url", f"{server.url}/v1", "-m", "my-model", "do it")
        assert done.code == 0, done.err
        last = server.chats[-1]
    (reply,) = (each for each in last["messages"] if each["role"] == "assistant")
    assert reply.get("reasoning_content", reply.get("thinking")) == "Hm."
    assert last["options"]["num_predict"] if kind == "ollama" else last["max_tokens"]


@pytest.mark.contract("local:facts")
async def test_summaries_have_a_limit(joey: Joey) -> None:
    (joey.workspace / "long.txt").write_text("some words of this file\n" * 1500)
    read = say("<read_file>\n<args><file><path>long.txt</path></file></args>\n</read_file>", 7000)
    answers = [read, list_files(prompt_tokens=24000), say("Summary."), finish()]
    async with local_model_server(pages_of("vllm", 32768), answers) as server:
        done = await joey.run(*reach("vllm", server), "do it")
        limits = {chat["max_tokens"] for chat in server.chats}
    assert min(limits) < 6554 and max(limits) == 6554, (limits, done.err)


@pytest.mark.contract("local:facts")
async def test_a_json_document_instead_of_a_stream_is_the_reply(joey: Joey) -> None:
    arguments = json.dumps({"result": "All done."})
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "attempt_completion", "arguments": arguments},
    }
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "my-model",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None, "tool_calls": [call]},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 5000, "completion_tokens": 9, "total_tokens": 5009},
    }
    async with local_model_server(pages_of("vllm", 32768), [refuse(200, document)]) as server:
        done = await joey.run(*reach("vllm", server), "do it")
    assert (done.code, done.out.strip()) == (0, "All done."), done.err


@pytest.mark.contract("local:facts")
async def test_open_models_at_loopback_have_no_price(joey: Joey) -> None:
    async with local_model_server({}, [finish()]) as server:
        flags = ("-p", "--provider", "openai", "--base-url", f"{server.url}/v1")
        done = await joey.run(*flags, "-m", "qwen3-coder", "do it", "--output-format", "json")
    assert done.code == 0, done.err
    assert done.json["cost"]["totalCost"] == 0


async def test_a_server_error_that_cannot_heal_is_not_retried(joey: Joey) -> None:
    error = {"code": 500, "message": "Jinja Exception: roles must alternate", "type": "server"}
    refusal = refuse(500, {"error": error})
    async with local_model_server(pages_of("llamacpp", 32768), [refusal]) as server:
        done = await joey.run(*reach("llamacpp", server), "do it")
        assert len(server.chats) == 1
    assert done.code == 1
    assert "roles must alternate" in done.err
