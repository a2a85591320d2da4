"""Every command, over a real socket."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from joey.app.sandbox import detect_sandbox
from joey.core.wire.commands import COMMANDS, ORIGINAL_COMMANDS
from joey.server.commands import HANDLERS
from joey.testing.script import Turn, call, pause, say
from tests.harness.images import PNG as SMALL_PNG
from tests.harness.server.server_fixture import CommandFailedError, ServerFixture, done, open_server

PNG = f"data:image/png;base64,{base64.b64encode(SMALL_PNG).decode()}"
pytestmark = pytest.mark.contract("websocket:commands")
SEED = """startNewTask getCurrentTaskStack clearCurrentTask cancelCurrentTask resumeTask
isTaskInHistory cancelTask getConfiguration createProfile getProfiles setActiveProfile
getActiveProfile deleteProfile sendMessage pressPrimaryButton pressSecondaryButton setConfiguration
getMessages getTokenUsage isReady"""


def test_every_command_has_a_handler_and_the_original_twenty_are_there() -> None:
    assert set(HANDLERS) == set(COMMANDS)
    assert list(ORIGINAL_COMMANDS) == SEED.split()


async def test_the_welcome_names_what_can_be_done(tmp_path: Path) -> None:
    async with open_server(tmp_path) as here, here.socket() as socket:
        welcome = json.loads(await socket.recv())
        assert welcome["data"]["capabilities"] == list(COMMANDS)
        assert welcome["data"]["protocol"] == 1
        assert welcome["data"]["sandbox"] == detect_sandbox().level
        assert welcome["data"]["workspace"] == str(here.workspace)
        assert welcome["data"]["home"] == str(here.home)


@pytest.mark.parametrize("name", ["ping", "x" * 500_000, "half \ud83d"])
@pytest.mark.parametrize("request_id", ["r" * 500_000, "half \ud83d of a pair", "\0"])
async def test_request_id_and_command_name_come_back_as_they_were(
    tmp_path: Path, name: str, request_id: str
) -> None:
    frame = {"type": "command", "commandName": name, "requestId": request_id}
    async with open_server(tmp_path) as here, here.peer() as peer:
        response = await peer.raw(json.dumps(frame))
        assert (response["requestId"], response["commandName"]) == (request_id, name)
        code = None if name == "ping" else "INVALID_COMMAND"
        assert response.get("error", {}).get("code") == code
        too_deep = json.loads("[" * 100 + "]" * 100)
        response = await peer.raw(json.dumps(frame | {"arguments": {"x": too_deep}}))
        assert (response["requestId"], response["commandName"]) == (request_id, name)
        assert response["error"]["code"] == "INVALID_PARAMETER"


async def test_half_a_surrogate_pair_is_a_question_mark_to_the_task(tmp_path: Path) -> None:
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="cut \ud83d", title="\udc00"))["taskId"]
        await peer.asked("completion_result")
        (first, *_) = (await peer.ask("getMessages", task_id))["messages"]
        assert first["text"] == "cut ?"
        with pytest.raises(CommandFailedError, match="TASK_NOT_FOUND"):
            await peer.ask("getMessages", "\ud83d")
        not_json = await peer.raw('{"requestId": "\\ud83d", NaN}')
        assert not_json["error"]["code"] == "INVALID_COMMAND"


QUESTION = {"question": "Which?", "follow_up": [{"text": "The red one."}]}
YES, NO, MESSAGE = "yesButtonClicked", "noButtonClicked", "messageResponse"


@pytest.mark.parametrize("button", ["pressPrimaryButton", "pressSecondaryButton"])
async def test_a_question_is_answered_with_a_message_not_with_a_button(
    tmp_path: Path, button: str
) -> None:
    turns = (Turn(call("ask_followup_question", QUESTION)), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        ask_ts = await peer.asked("followup")
        for text in ({}, {"text": " "}):
            with pytest.raises(CommandFailedError, match=r"EXECUTION_ERROR.*sendMessage"):
                await peer.ask(button, task_id, **text)
            for response in (YES, NO, MESSAGE):
                with pytest.raises(CommandFailedError, match="INVALID_PARAMETER"):
                    await peer.ask("respond", task_id, askTs=ask_ts, response=response, **text)
        await peer.ask(button, task_id, text="The blue one.")
        await peer.asked("completion_result")
        assert last_result(here) == "<user_message>\nThe blue one.\n</user_message>"


def last_result(here: ServerFixture) -> str:
    """What the model is told of its last call, before the environment."""
    content = here.model.requests[-1].body["messages"][-1]["content"][0]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    return str(text).partition("\n\n<environment_details>")[0]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"response": NO}, "The user did not accept this result."),
        (
            {"response": NO, "images": [PNG]},
            "The user did not accept this result. They attached an image.",
        ),
        (
            {"response": MESSAGE, "images": [PNG, PNG]},
            "The user has provided feedback on the results: 2 images. Consider their input to"
            " continue the task.",
        ),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
async def test_a_no_and_an_image_reach_the_model_as_what_they_were(
    tmp_path: Path, answer: dict[str, Any], result: str, plain: bool
) -> None:
    turns = (Turn(say("It is done.")) if plain else done("first"), done("second"))
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go", mode="ask"))["taskId"]
        ask_ts = await peer.asked("completion_result")
        since = len(peer.events)
        await peer.ask("respond", task_id, askTs=ask_ts, **answer)
        await peer.asked("completion_result", since=since)
        sent = here.model.requests[-1].body["messages"][-1]
        assert result in json.dumps(sent)
        assert "<feedback>" not in json.dumps(sent)
        assert json.dumps(sent).count(PNG.partition(",")[2]) == len(answer.get("images", ()))


@pytest.mark.parametrize(
    ("response", "result"),
    [
        (NO, "The user did not allow this call; it was not carried out. They attached an image."),
        (YES, "The user allowed this call and attached an image."),
    ],
)
async def test_an_image_alone_comes_with_a_decision(
    tmp_path: Path, response: str, result: str
) -> None:
    write = Turn(call("write_to_file", {"path": "a.txt", "content": "one\n"}))
    async with open_server(tmp_path, write, done()) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        ask_ts = await peer.asked("tool")
        await peer.ask("respond", task_id, askTs=ask_ts, response=response, images=[PNG])
        await peer.asked("completion_result")
        assert last_result(here).startswith(result)


async def test_an_image_alone_answers_a_question(tmp_path: Path) -> None:
    turns = (Turn(call("ask_followup_question", QUESTION)), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        await peer.asked("followup")
        await peer.ask("sendMessage", task_id, images=[PNG])
        await peer.asked("completion_result")
        assert last_result(here) == "The user answered with an image."


async def test_a_task_that_somebody_else_wrote_is_not_deleted(tmp_path: Path) -> None:
    directory = tmp_path / "home" / "tasks" / "roos-own"
    directory.mkdir(parents=True)
    (directory / "ui_messages.json").write_text('[{"ts": 1, "type": "say", "say": "text"}]')
    async with open_server(tmp_path) as here, here.peer() as peer:
        with pytest.raises(CommandFailedError, match=r"EXECUTION_ERROR.*was not changed"):
            await peer.ask("deleteTask", "roos-own")
    assert directory.exists()


async def test_the_first_of_two_answers_counts(tmp_path: Path) -> None:
    write = Turn(call("write_to_file", {"path": "a.txt", "content": "one\n"}))
    async with open_server(tmp_path, write, done()) as here, here.peer() as one, here.peer() as two:
        task_id = (await one.ask("startNewTask", text="write it"))["taskId"]
        ask_ts = await one.asked("tool")
        assert await two.asked("tool") == ask_ts
        yes = await two.ask("respond", task_id, askTs=ask_ts, response="yesButtonClicked")
        no = await one.ask("respond", task_id, askTs=ask_ts, response="noButtonClicked")
        assert (yes, no) == ({"accepted": True}, {"accepted": False})
        for peer in (one, two):
            event = await peer.event("taskAskResponded")
            assert event["payload"]["response"] == "yesButtonClicked"
        await one.asked("completion_result")
        assert (here.workspace / "a.txt").exists()


async def test_no_is_an_answer_and_a_message_may_come_with_it(tmp_path: Path) -> None:
    write = Turn(call("write_to_file", {"path": "a.txt", "content": "one\n"}))
    async with open_server(tmp_path, write, done()) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="write it"))["taskId"]
        await peer.asked("tool")
        await peer.ask("pressSecondaryButton", task_id, text="not in this folder")
        await peer.asked("completion_result")
        assert not (here.workspace / "a.txt").exists()
        assert "not in this folder" in json.dumps(here.model.requests[-1].body)
        with pytest.raises(CommandFailedError, match="EXECUTION_ERROR"):
            await peer.ask("pressPrimaryButton", task_id)
            await peer.ask("pressPrimaryButton", task_id)


async def test_a_task_may_be_started_in_a_mode_a_directory_and_under_an_id(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        started = await peer.ask(
            "startNewTask",
            text="look",
            workspace=str(other),
            mode="ask",
            taskId="my-own-id",
            configuration={"apiModelId": "scripted", "apiProvider": "anthropic"},
        )
        assert started == {"taskId": "my-own-id"}
        created = await peer.event("taskCreated")
        assert created["payload"]["workspace"] == str(other)
        assert (created["payload"]["mode"], created["payload"]["model"]) == ("ask", "scripted")
        await peer.ask("switchMode", "my-own-id", mode="code")
        assert (await peer.event("taskModeSwitched"))["payload"] == {"modeSlug": "code"}
        with pytest.raises(CommandFailedError, match=r"EXECUTION_ERROR.*exists already"):
            await peer.ask("startNewTask", text="again", taskId="my-own-id")


async def test_the_configuration_of_one_task_is_its_own(tmp_path: Path) -> None:
    write = Turn(call("write_to_file", {"path": "a.txt", "content": "one\n"}))
    async with open_server(tmp_path, write, done()) as here, here.peer() as peer:
        await peer.ask("startNewTask", text="go", configuration={"alwaysAllowWrite": True})
        await peer.asked("completion_result")
        assert (here.workspace / "a.txt").exists()
        configuration = (await peer.ask("getConfiguration"))["configuration"]
        assert configuration["alwaysAllowWrite"] is False


async def test_settings_are_kept_and_secrets_do_not_come_back(tmp_path: Path) -> None:
    async with open_server(tmp_path, fontSize=12) as here, here.peer() as peer:
        values = {
            "alwaysAllowWrite": True,
            "mode": "ask",
            "apiProvider": "openai",
            "openAiApiKey": "sk-very-secret",
            "openAiBaseUrl": "http://user:word@127.0.0.1:1/v1",
            "openAiHeaders": {"X-Key": "also-secret"},
            "someToken": "secret-too",
        }
        assert await peer.ask("setConfiguration", values=values) == {"result": "success"}
        assert (await peer.event("modeChanged"))["payload"] == {"mode": "ask"}
        assert (await peer.event("providerProfileChanged"))["payload"] == {
            "name": "default",
            "provider": "openai",
        }
        configuration = (await peer.ask("getConfiguration"))["configuration"]
        assert (
            configuration["alwaysAllowWrite"],
            configuration["mode"],
            configuration["fontSize"],
        ) == (True, "ask", 12)
        assert configuration["apiProvider"] == "openai"
        entry = (await peer.ask("getProfileEntry", name="default"))["profile"]
        everything = json.dumps([configuration, entry])
        for secret in ("sk-very-secret", "also-secret", "word@", "secret-too"):
            assert secret not in everything
        kept = json.loads((here.home / "profiles.json").read_text())
        assert kept["profiles"]["default"]["openAiApiKey"] == "sk-very-secret"
        for name in ("profiles.json", "settings.json"):
            assert stat.S_IMODE((here.home / name).stat().st_mode) == 0o600
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*alwaysAllowWrite"):
            await peer.ask("setConfiguration", values={"alwaysAllowWrite": "perhaps"})
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*mode"):
            await peer.ask("setConfiguration", values={"mode": "no such mode"})
        assert (await peer.ask("getConfiguration"))["configuration"] == configuration


@pytest.mark.parametrize(
    ("key", "meant"),
    [("alwaysAlowWrite", "alwaysAllowWrite"), ("sandbox_network", "sandboxNetwork")],
)
async def test_a_misspelt_setting_is_named_and_nothing_is_stored(
    tmp_path: Path, key: str, meant: str
) -> None:
    async with open_server(tmp_path) as here, here.peer() as peer:
        values = {"alwaysAllowExecute": True, "apiProvider": "openai", key: True}
        message = f"INVALID_PARAMETER.*`{key}`.*Did you mean `{meant}`"
        with pytest.raises(CommandFailedError, match=message):
            await peer.ask("setConfiguration", values=values)
        with pytest.raises(CommandFailedError, match=message):
            await peer.ask("startNewTask", text="go", configuration=values)
        document = (await peer.ask("getConfiguration"))["configuration"]
        assert document["alwaysAllowExecute"] is False
        assert key not in document
        assert await peer.ask("getActiveProfile") == {"activeProfile": None}


async def test_settings_of_roo_code_and_of_later_versions_are_taken(tmp_path: Path) -> None:
    values = {"soundEnabled": True, "writeDelayMs": 1, "xaiApiKey": "k", "somethingNew": [1]}
    async with open_server(tmp_path) as here, here.peer() as peer:
        assert await peer.ask("setConfiguration", values=values) == {"result": "success"}


async def test_profiles_are_made_changed_chosen_and_deleted(tmp_path: Path) -> None:
    async with open_server(tmp_path) as here, here.peer() as peer:
        assert await peer.ask("getActiveProfile") == {"activeProfile": None}
        profile = {"provider": "anthropic", "model": "one", "apiKey": "k1"}
        made = await peer.ask("createProfile", name="work", profile=profile)
        assert made == {"profileId": "work"}
        await peer.ask("createProfile", name="home", profile={"provider": "ollama"}, activate=False)
        assert (await peer.ask("getProfiles"))["profiles"] == ["home", "work"]
        assert await peer.ask("getActiveProfile") == {"activeProfile": "work"}
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*exists already"):
            await peer.ask("createProfile", name="work")
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*does not exist"):
            await peer.ask("updateProfile", name="nowhere", profile={})
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*maxTokens"):
            await peer.ask("updateProfile", name="work", profile={"maxTokens": "many"})
        await peer.ask("updateProfile", name="work", profile={"model": "two"})
        entry = (await peer.ask("getProfileEntry", name="work"))["profile"]
        assert entry == {"provider": "anthropic", "model": "two"}
        kept = json.loads((here.home / "profiles.json").read_text())
        assert kept["profiles"]["work"]["apiKey"] == "k1"
        await peer.ask("upsertProfile", name="work", profile={"provider": "openai"})
        kept = json.loads((here.home / "profiles.json").read_text())
        assert kept["profiles"]["work"] == {"provider": "openai"}, "the key stays where it belongs"
        assert await peer.ask("setActiveProfile", name="home") == {"activeProfile": "home"}
        await peer.ask("deleteProfile", name="home")
        assert (await peer.ask("getProfiles"))["profiles"] == ["work"]
        for name in ("setActiveProfile", "deleteProfile", "getProfileEntry"):
            with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*no profile"):
                await peer.ask(name, name="home")
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*profile"):
            await peer.ask("startNewTask", text="x", profile="home")


async def test_modes_models_and_commands_are_named(tmp_path: Path) -> None:
    async with open_server(tmp_path) as here, here.peer() as peer:
        modes = (await peer.ask("getModes"))["modes"]
        assert {"code", "ask", "architect"} <= {mode["slug"] for mode in modes}
        models = (await peer.ask("getModels", provider="anthropic"))["models"]
        assert any(name.startswith("claude") for name in models)
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*provider"):
            await peer.ask("getModels", provider="nobody")
        commands = (await peer.ask("getCommands"))["commands"]
        assert [command["name"] for command in commands] == ["init", "review"]
        await peer.ask("switchMode", mode="debug")
        assert (await peer.event("modeChanged"))["payload"] == {"mode": "debug"}
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*mode"):
            await peer.ask("switchMode", mode="nowhere")


async def test_processes_left_behind_are_listed_and_killed(tmp_path: Path) -> None:
    command = {"command": "echo up; exec sleep 300", "timeout": 1}
    turns = (Turn(call("execute_command", command)), done())
    settings: Any = {"alwaysAllowExecute": True, "allowedCommands": ["*"]}
    async with open_server(tmp_path, *turns, **settings) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="start it"))["taskId"]
        await peer.asked("completion_result")
        [process] = (await peer.ask("getProcesses", task_id))["processes"]
        assert (process["taskId"], process["running"]) == (task_id, True)
        assert process["cwd"] == str(here.workspace)
        await peer.ask("killProcess", pid=process["pid"])
        left = (await peer.ask("getProcesses"))["processes"]
        assert not any(process["running"] for process in left)
        with pytest.raises(CommandFailedError, match="EXECUTION_ERROR"):
            await peer.ask("killProcess", pid=1)
        with pytest.raises(CommandFailedError, match="TASK_NOT_FOUND"):
            await peer.ask("getProcesses", "nobody")


async def test_the_current_task_is_cancelled_and_nothing_when_there_is_none(tmp_path: Path) -> None:
    async with open_server(tmp_path, Turn(say("a"), pause(60.0))) as here, here.peer() as peer:
        assert await peer.ask("cancelCurrentTask") == {"result": "success"}
        assert await peer.ask("clearCurrentTask", lastMessage="bye") == {"result": "success"}
        assert await peer.ask("getCurrentTaskStack") == {"taskStack": []}
        await peer.ask("startNewTask", text="go")
        await peer.event("message", where=lambda e: e["payload"]["message"].get("partial") is True)
        await peer.ask("cancelCurrentTask")
        await peer.event("taskAborted")


async def test_a_tool_that_fails_is_reported(tmp_path: Path) -> None:
    broken = Turn(call("search_files", {"path": ".", "regex": "("}))
    async with open_server(tmp_path, broken, done()) as here, here.peer() as peer:
        await peer.ask("startNewTask", text="find it")
        failed = await peer.event("taskToolFailed")
        assert failed["payload"]["toolName"] == "search_files"
        await peer.asked("completion_result")


async def test_an_image_reaches_the_model(tmp_path: Path) -> None:
    image = "data:image/png;base64,iVBORw0KGgo="
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        await peer.ask("startNewTask", images=[image])
        await peer.asked("completion_result")
        assert "iVBORw0KGgo=" in json.dumps(here.model.requests[0].body)
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*images"):
            await peer.ask("startNewTask", images=["http://elsewhere/a.png"])


async def test_without_a_key_the_user_is_shown_what_to_do(tmp_path: Path) -> None:
    async with open_server(tmp_path) as here, here.peer() as peer:
        await peer.ask("createProfile", name="bare", profile={"provider": "groq", "model": "m"})
        with pytest.raises(CommandFailedError, match=r"EXECUTION_ERROR.*GROQ_API_KEY"):
            await peer.ask("startNewTask", text="go")


async def test_a_task_at_rest_is_let_go_of_while_the_current_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joey.server.hub.IDLE_TASK_RELEASE_S", 0.05)
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        ids = []
        for _ in range(2):
            before = len(peer.events)
            ids.append((await peer.ask("startNewTask", text="go"))["taskId"])
            await peer.asked("completion_result", since=before)
            await peer.ask("pressPrimaryButton")
            await peer.event("taskFinished", since=before)
        async with asyncio.timeout(60):
            while here.hub.engine.find_open_task(ids[0]) is not None:
                await peer.ask("ping")
        assert (await peer.ask("getCurrentTaskStack"))["taskStack"] == [ids[1]]
        assert (await peer.ask("getTask", ids[0]))["task"]["live"] is False
