"""What local servers tell about their models, in `joey doctor`, `joey models` and runs that name
only an address."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.harness.cli.binary import Joey
from tests.harness.cli.local_server import LocalModelServer, finish, local_model_server, refuse
from tests.harness.cli.served_models import (
    ADVICE,
    list_lmstudio,
    list_vllm,
    pages_of,
    props_llamacpp,
    run_ollama,
    show_ollama,
)

USAGE = {"usage": {"prompt_tokens": 20, "completion_tokens": 16}}
TOOL_CHOICE_ERROR = {
    "object": "error",
    "message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be'
    " set",
    "type": "BadRequestError",
    "code": 400,
}


async def findings(joey: Joey, **env: str) -> dict[str, dict[str, Any]]:
    done = await joey.run("doctor", "--json", env={**joey.env, **env})
    return {finding["name"]: finding for finding in done.json["findings"]}


def save_profiles(joey: Joey, servers: dict[str, LocalModelServer], provider: str = "") -> None:
    profiles = {
        f"my-{kind}": {"provider": provider or kind, "baseUrl": f"{server.url}/v1"}
        for kind, server in servers.items()
    }
    joey.home.mkdir()
    (joey.home / "profiles.json").write_text(json.dumps({"profiles": profiles}))


@pytest.mark.contract("local:facts")
async def test_doctor_reports_window_abilities_and_speed_of_ollama(joey: Joey) -> None:
    speed = {"eval_count": 16, "eval_duration": 400_000_000}
    speed |= {"prompt_eval_count": 20, "prompt_eval_duration": 100_000_000}
    pages = {
        "/api/tags": {"models": [{"name": "other:8b"}, {"name": "my-model"}]},
        "/api/show": show_ollama(abilities=("vision", "thinking")),
        "/api/ps": run_ollama(65536),
    }
    async with local_model_server(pages, [refuse(200, speed)]) as server:
        found = await findings(joey, OLLAMA_HOST=server.url)
        assert [chat["model"] for chat in server.chats] == ["my-model"]
        assert server.chats[0]["options"]["num_ctx"] == 65536  # another one would load it again
    assert found["Local models"]["found"].splitlines()[2:] == [
        "  my-model: window 65,536 of at most 131,072 tokens; no tools: joey uses XML calls;"
        " images, thinking; prompt 200 tokens/s; output 40.0 tokens/s",
        "  other:8b: not loaded; window 32,768 of at most 131,072 tokens;"
        " no tools: joey uses XML calls; images, thinking",
        "  To use it: joey --provider ollama -m my-model",
    ]


async def test_doctor_passes_over_facts_that_are_none(joey: Joey) -> None:
    speed = {"eval_count": 16, "eval_duration": "fast"}
    shown = {**show_ollama(), "parameters": f"num_ctx {'9' * 5000}"}
    pages = {
        "/api/tags": {"models": [{"name": "my-model"}]},
        "/api/show": shown,
        "/api/ps": {"models": [{"name": "my-model", "context_length": True}]},
    }
    async with local_model_server(pages, [refuse(200, speed)]) as server:
        found = await findings(joey, OLLAMA_HOST=server.url)
    line = found["Local models"]["found"].splitlines()[2]
    assert line.startswith("  my-model: window 32,768 of at most 131,072 tokens")
    assert "tokens/s" not in line


@pytest.mark.contract("local:facts")
async def test_doctor_reports_the_servers_at_the_addresses_of_profiles(joey: Joey) -> None:
    models = {"/v1/models": list_vllm(40960)}
    timings = {"prompt_per_second": 321.4, "predicted_per_second": 42.25}
    stats = {"tokens_per_second": 51.5, "time_to_first_token": 0.1}
    pages: dict[str, dict[str, Any]] = {
        "lmstudio": {
            **models,
            "/api/v0/models": list_lmstudio(8192),
            "/api/v0/chat/completions": {**USAGE, "stats": stats},
        },
        "llamacpp": {**models, "/props": props_llamacpp(16384)},
        "vllm": models,
    }
    answers = {"llamacpp": [refuse(200, {**USAGE, "timings": timings})]}
    async with AsyncExitStack() as stack:
        servers = {
            kind: await stack.enter_async_context(local_model_server(each, answers.get(kind, ())))
            for kind, each in pages.items()
        }
        save_profiles(joey, servers)
        found = await findings(joey)
    lines = found["Local models"]["found"].splitlines()
    assert lines[0] == "3 servers"
    assert lines[1] == f"lmstudio at {servers['lmstudio'].url}/v1 (profile my-lmstudio)"
    assert [line for line in lines if line.startswith("  my-model")] == [
        "  my-model: window 8,192 of at most 131,072 tokens; tools; prompt 200 tokens/s;"
        " output 51.5 tokens/s",
        "  my-model: window 16,384 tokens; tools; prompt 321 tokens/s; output 42.2 tokens/s",
        "  my-model: window 40,960 tokens",
    ]
    assert lines[-1] == "  To use it: joey --profile my-vllm -m my-model"


@pytest.mark.contract("local:facts")
async def test_doctor_finds_out_what_server_is_at_an_address(joey: Joey) -> None:
    pages = {"/v1/models": list_vllm(40960), "/props": props_llamacpp(16384)}
    async with local_model_server(pages, [refuse(200, USAGE)]) as server:
        save_profiles(joey, {"openai": server})
        found = await findings(joey)
    lines = found["Local models"]["found"].splitlines()
    assert lines[1] == f"llamacpp at {server.url}/v1 (profile my-openai)"
    assert lines[2].startswith("  my-model: window 16,384 tokens; tools; output ")


@pytest.mark.contract("local:facts")
async def test_doctor_leaves_a_model_alone_that_is_not_loaded(joey: Joey) -> None:
    entry = list_lmstudio(8192)["data"][0]
    entry |= {"state": "not-loaded"}
    del entry["loaded_context_length"]
    embedder = {"id": "nomic-embed", "type": "embeddings", "state": "loaded"}
    pages = {
        "/v1/models": {"data": [{"id": "nomic-embed"}, {"id": "my-model"}]},
        "/api/v0/models": {"data": [embedder, entry]},
        "/api/v0/chat/completions": USAGE,
    }
    async with local_model_server(pages, [refuse(200, USAGE)]) as server:
        save_profiles(joey, {"lmstudio": server})
        found = await findings(joey)
        assert server.chats == []
        assert not any("chat" in path for path in server.asked)
    assert found["Local models"]["found"].splitlines()[2:] == [
        "  my-model: not loaded; window up to 131,072 tokens; tools",
        "  To use it: joey --profile my-lmstudio -m my-model",
    ]


@pytest.mark.contract("local:facts")
async def test_doctor_says_how_to_start_vllm_with_tools(joey: Joey) -> None:
    pages = {"/v1/models": list_vllm(40960)}

    def answer(chat: dict[str, Any]) -> Any:
        return refuse(400, TOOL_CHOICE_ERROR) if "tools" in chat else refuse(200, USAGE)

    async with local_model_server(pages, answer) as server:
        save_profiles(joey, {"vllm": server})
        local = (await findings(joey))["Local models"]
        assert len(server.chats) == 2
    assert "window 40,960 tokens; no tools: joey uses XML calls; output" in local["found"]
    assert "vllm serve my-model --enable-auto-tool-choice --tool-call-parser" in local["advice"]


@pytest.mark.contract("local:facts")
async def test_doctor_warns_of_a_window_in_which_no_task_fits(joey: Joey) -> None:
    pages = {
        "/api/tags": {"models": [{"name": "my-model"}]},
        "/api/show": show_ollama(2048),
        "/api/ps": {"models": []},
    }
    async with local_model_server(pages) as server:
        local = (await findings(joey, OLLAMA_HOST=server.url))["Local models"]
    assert local["status"] == "warn"
    assert "(2,048 tokens) is too small for joey; for a larger one, run" in local["advice"]


@pytest.mark.contract("local:facts")
async def test_doctor_fails_a_chosen_model_in_whose_window_no_task_fits(joey: Joey) -> None:
    pages = {"/v1/models": list_vllm(4096)}
    async with local_model_server(pages, [refuse(200, USAGE)]) as server:
        flags = ("--provider", "vllm", "-m", "my-model", "--base-url", f"{server.url}/v1")
        added = await joey.run("profiles", "add", "mine", *flags, "--no-key", "--use")
        assert added.code == 0, added.err
        done = await joey.run("doctor", "--json")
        model = {each["name"]: each for each in done.json["findings"]}["Model"]
        assert (done.code, model["status"]) == (1, "fail")
        assert "has a window of 4,096 tokens, and joey needs about 5,000" in model["advice"]
        assert ADVICE["vllm"] in model["advice"]
        server.pages.update({"/v1/models": list_vllm(40960)})
        assert (await findings(joey))["Model"]["status"] == "ok"


@pytest.mark.contract("local:facts")
async def test_a_running_server_is_offered_where_no_model_is_chosen(joey: Joey) -> None:
    pages = {"/v1/models": list_vllm(40960)}
    async with local_model_server(pages) as server:
        save_profiles(joey, {"vllm": server})
        done = await joey.run("profiles", "use", "my-vllm")
        assert done.code == 0, done.err
        done = await joey.run("doctor", "--json")
        offline = await joey.run("doctor", "--json", "--offline")
    model = {each["name"]: each for each in done.json["findings"]}["Model"]
    assert (done.code, model["status"]) == (0, "warn")
    assert model["advice"] == (
        "Type joey --profile my-vllm -m my-model, or make it the default:"
        " joey profiles set my-vllm model my-model"
    )
    assert offline.code == 1


# joey models --------------------------------------------------------------------------------------


async def list_windows(joey: Joey, *flags: str) -> dict[str, int | None]:
    done = await joey.run("models", "--json", *flags)
    assert done.code == 0, done.err
    return {each["id"]: each.get("contextWindow") for each in done.json}


@pytest.mark.contract("local:facts")
@pytest.mark.parametrize("kind", ["ollama", "lmstudio", "llamacpp", "vllm", "openai"])
async def test_models_have_the_windows_that_their_server_tells(joey: Joey, kind: str) -> None:
    served = pages_of("llamacpp" if kind == "openai" else kind, 20480)
    async with local_model_server({"/v1/models": list_vllm(1), **served}) as server:
        save_profiles(joey, {kind: server})
        await joey.run("profiles", "set", f"my-{kind}", "model", "qwen3-coder:30b")
        await joey.run("profiles", "use", f"my-{kind}")
        windows = await list_windows(joey)
    # The server does not have the other one, so that its window would be an assumption.
    assert windows["qwen3-coder:30b"] is None
    assert windows["my-model"] == 20480


@pytest.mark.contract("local:facts")
async def test_without_a_choice_the_models_of_all_running_servers_are_listed(joey: Joey) -> None:
    pages = {
        "/api/tags": {"models": [{"name": "my-model"}, {"name": "qwen3-coder:30b"}]},
        "/api/show": show_ollama(),
        "/api/ps": run_ollama(65536),
    }
    bare = await joey.run("models")
    assert bare.code == 78
    async with (
        local_model_server(pages) as ollama,
        local_model_server({"/v1/models": list_vllm(40960)}) as vllm,
    ):
        save_profiles(joey, {"vllm": vllm})
        env = {**joey.env, "OLLAMA_HOST": ollama.url}
        listed = await joey.run("models", env=env)
        offline = await joey.run("models", "--offline", env=env)
    assert listed.code == 0, listed.err
    assert [line.split("\t")[::3] for line in listed.out.splitlines()] == [
        ["my-model", "ollama"],
        ["qwen3-coder:30b", "ollama"],
        ["my-model", "vllm"],
    ]
    assert [line.split("\t")[1] for line in listed.out.splitlines()] == ["65k", "32k", "40k"]
    assert offline.code == 78


# --base-url ---------------------------------------------------------------------------------------


def reach_address(server: LocalModelServer) -> list[str]:
    return ["-p", "--base-url", f"{server.url}/v1", "-m", "my-model"]


@pytest.mark.contract("local:facts")
@pytest.mark.parametrize("kind", ["ollama", "lmstudio", "llamacpp", "vllm"])
async def test_a_server_at_a_local_address_is_asked_for_its_window(joey: Joey, kind: str) -> None:
    async with local_model_server(pages_of(kind, 20480), [finish()]) as server:
        done = await joey.run(*reach_address(server), "do it")
        assert done.code == 0, done.err
        again = await joey.run(*reach_address(server), "do it again")
        assert again.code == 0, again.err
        assert set(server.chat_paths) == {
            "/api/chat" if kind == "ollama" else "/v1/chat/completions"
        }
    remembered = json.loads((joey.home / "served-models.json").read_text())
    ((models),) = remembered["models"].values()
    said = models["my-model"]["said"]
    assert (said["contextWindow"], said["server"]) == (20480, kind)


@pytest.mark.contract("local:facts")
@pytest.mark.parametrize("kind", ADVICE)
async def test_too_small_a_window_at_a_local_address_ends_the_run(joey: Joey, kind: str) -> None:
    async with local_model_server(pages_of(kind, 4096), [finish()]) as server:
        done = await joey.run(*reach_address(server), "do it")
        assert server.chats == []
    assert done.code == 78
    assert "has a window of 4,096 tokens" in done.err
    assert ADVICE[kind] in done.err


@pytest.mark.contract("local:facts")
async def test_a_server_of_another_kind_is_used_as_before(joey: Joey) -> None:
    async with local_model_server({}, [finish()]) as server:
        done = await joey.run(*reach_address(server), "do it")
    assert (done.code, done.out.strip()) == (0, "All done."), done.err


@pytest.mark.contract("local:facts")
async def test_a_refusal_of_tools_says_how_to_start_vllm(joey: Joey) -> None:
    answers = [refuse(400, TOOL_CHOICE_ERROR), finish()]
    async with local_model_server({"/v1/models": list_vllm(40960)}, answers) as server:
        model = "Qwen/Qwen3-Coder-30B-A3B-Instruct"
        flags = ["-p", "--provider", "vllm", "--base-url", f"{server.url}/v1", "-m", model]
        done = await joey.run(*flags, "do it")
    assert done.code == 0, done.err
    assert "calling tools by XML tags from now on" in done.err
    command = f"vllm serve {model} --enable-auto-tool-choice --tool-call-parser qwen3_coder\n"
    assert f"! For native calls, run: {command}" in done.err
