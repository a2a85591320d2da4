"""The WebSocket API as a table: what a client sends, and what must come back."""

from __future__ import annotations

from typing import Any

from joey.core.wire.events import ModePayload
from joey.server.commands import HANDLERS
from joey.testing.script import Turn, call, fail, pause, say, usage
from tests.harness.scripted_conversations import by_first_message
from tests.harness.server.exchange_steps import (
    Exchange,
    ExpectEvent,
    PauseReading,
    RunAction,
    SendFrame,
    asked,
    command,
    refused,
    row,
    started,
)
from tests.harness.server.server_fixture import ServerFixture, done

# What happens at the server -------------------------------------------------------------------


async def stop(here: ServerFixture) -> None:
    await here.hub.close()


async def break_a_command(here: ServerFixture) -> None:
    """A defect: `getModes` finds no modes. Its handler is put back by the player."""

    async def defect(hub: object, call: object) -> Any:
        raise RuntimeError("a defect on purpose")

    HANDLERS["getModes"] = defect


async def announce_too_much(here: ServerFixture) -> None:
    payload = ModePayload(mode="x" * 100_000)
    while not here.hub.counters.resync_count:
        here.hub.announce("modeChanged", payload)


# The table ------------------------------------------------------------------------------------

DONE = {"result": "success"}
YES, NO = "yesButtonClicked", "noButtonClicked"
WRITE = Turn(call("write_to_file", {"path": "a.txt", "content": "one\n"}))
LONG = Turn(say("It takes long"), pause(60.0))
PARTIAL = ExpectEvent("message", row(text="It takes long", partial=True))
SCRIPTS = {
    "the whole": [Turn(call("new_task", {"mode": "ask", "message": "a part"})), done()],
    "a part": [done("the part")],
}
WORK = {"provider": "anthropic", "model": "one", "apiKey": "k"}

EXCHANGES = (
    Exchange(
        "a task from its beginning to its end",
        (
            command("isReady", {"ready": True}),
            started("Create a Python function to calculate Fibonacci numbers"),
            ExpectEvent(
                "taskCreated", {"title": "Create a Python function to calculate Fibonacci numbers"}
            ),
            ExpectEvent("taskStarted", {}),
            ExpectEvent("taskActive", {}),
            ExpectEvent(
                "message", {"action": "created", **row(type="say", say="text", partial=True)}
            ),
            ExpectEvent("message", {"action": "updated", **row(text="I'll do it.", partial=False)}),
            ExpectEvent("taskTokenUsageUpdated", {"usage": {"totalTokensIn": 7}, "toolUsage": {}}),
            ExpectEvent("taskCompleted", {"usage": {"totalTokensIn": 7}, "toolUsage": {}}),
            asked("taskIdle", "completion_result"),
            command("getCurrentTaskStack", {"taskStack": ["$task"]}),
            command("isTaskInHistory", {"inHistory": True}, task="$task"),
            command("getMessages", {"messages": ..., "seq": ...}, task="$task"),
            command("getTokenUsage", {"usage": {"totalTokensIn": 7}}, task="$task"),
            command("getTask", {"task": {"id": "$task", "live": True}}, task="$task"),
            command("getEvents", {"events": ..., "seq": ...}, task="$task"),
            command("pressPrimaryButton", DONE, task="$task"),
            ExpectEvent("taskAskResponded", {"askTs": "$ask", "response": YES}),
            ExpectEvent("taskFinished", {}),
            command("clearCurrentTask", DONE, lastMessage="bye"),
            command("getCurrentTaskStack", {"taskStack": []}),
        ),
        (Turn(say("I'll do it.", chunk=3), *done().steps, usage(input=7, output=3)),),
    ),
    Exchange(
        "yes, no, and words",
        (
            started(),
            asked("taskInteractive", "tool"),
            command("pressSecondaryButton", DONE, task="$task"),
            ExpectEvent("taskAskResponded", {"response": NO}),
            asked("taskInteractive", "tool"),
            command(
                "respond",
                {"accepted": True},
                task="$task",
                askTs="$ask",
                response=YES,
            ),
            command(
                "respond",
                {"accepted": False},
                task="$task",
                askTs="$ask",
                response=NO,
            ),
            asked("taskIdle", "completion_result"),
            command("sendMessage", DONE, task="$task", message="and now?"),
            ExpectEvent("taskUserMessage", {}),
            asked("taskIdle", "completion_result"),
        ),
        (WRITE, WRITE, done(), done()),
    ),
    Exchange(
        "stopped and resumed",
        (
            started(),
            PARTIAL,
            command("cancelTask", DONE, task="$task"),
            ExpectEvent("taskAborted", {"reason": "user_cancelled"}),
            command("resumeTask", DONE, task="$task"),
            asked("taskResumable", "resume_task"),
            command("pressPrimaryButton", DONE, task="$task"),
            PARTIAL,
            command("cancelCurrentTask", DONE),
            ExpectEvent("taskAborted", {"reason": "user_cancelled"}),
        ),
        (LONG, LONG),
    ),
    Exchange(
        "a message that waits although something is asked",
        (
            started(),
            asked("taskInteractive", "tool"),
            command("sendMessage", DONE, task="$task", message="the tests too", queue=True),
            ExpectEvent("queuedMessagesUpdated", {"queue": [{"text": "the tests too"}]}),
            command("pressPrimaryButton", DONE, task="$task"),
            ExpectEvent("queuedMessagesUpdated", {"queue": []}),
            asked("taskIdle", "completion_result"),
        ),
        (WRITE, done()),
    ),
    Exchange(
        "words that wait",
        (
            started(),
            PARTIAL,
            command("sendMessage", DONE, task="$task", message="the tests too"),
            ExpectEvent("queuedMessagesUpdated", {"queue": [{"text": "the tests too"}]}),
            command(
                "getTask",
                {"task": {"queue": [{"id": ...}]}},
                task="$task",
                keep={"queued": "task.queue.0.id"},
            ),
            command("editQueue", DONE, task="$task", id="$queued", text="all tests"),
            ExpectEvent("queuedMessagesUpdated", {"queue": [{"text": "all tests"}]}),
            command("editQueue", DONE, task="$task", id="$queued", remove=True),
            ExpectEvent("queuedMessagesUpdated", {"queue": []}),
        ),
        (LONG,),
    ),
    Exchange(
        "condensed at rest",
        (
            started(),
            asked("taskIdle", "completion_result"),
            command("pressPrimaryButton", DONE, task="$task"),
            ExpectEvent("taskFinished", {}),
            command("condenseTask", DONE, task="$task", instructions="Mind the tests."),
            ExpectEvent("message", row(say="condense_context", partial=True)),
            ExpectEvent(
                "message", row(say="condense_context", contextCondense={"summary": "It went."})
            ),
            refused("condenseTask", "EXECUTION_ERROR", "condense", task="$task"),
        ),
        # Asked for a summary, the model says the same again; only its words count.
        (Turn(say("It went."), *done("It was much work. " * 200).steps),),
    ),
    Exchange(
        "modes, lists and a tool that fails",
        (
            started(),
            ExpectEvent("todosUpdated", {"todos": [{"content": "look"}]}),
            ExpectEvent("taskToolFailed", {"toolName": "search_files", "error": ...}),
            asked("taskIdle", "completion_result"),
            command("getTodos", {"todos": [{"content": "look"}]}, task="$task"),
            command("setApprovalLevel", DONE, task="$task", level="edits"),
            ExpectEvent("permissionsChanged", {"level": "edits"}),
            command("switchMode", DONE, task="$task", mode="ask"),
            ExpectEvent("taskModeSwitched", {"modeSlug": "ask"}),
            command("listTasks", {"tasks": [{"id": "$task"}], "total": 1}),
            command("searchTasks", {"tasks": [{"id": "$task"}]}, query="go"),
            command("subscribe", {"tasks": {"$task": ...}}),
            command("subscribe", {"taskId": "$task"}, task="$task", since=0),
            ExpectEvent("taskCreated"),
            command("deleteTask", DONE, task="$task"),
            ExpectEvent("taskDeleted", {}),
            command("isTaskInHistory", {"inHistory": False}, task="$task"),
        ),
        (
            Turn(call("update_todo_list", {"todos": "[x] look"})),
            Turn(call("search_files", {"path": ".", "regex": "("})),
            done(),
        ),
    ),
    Exchange(
        "a subtask",
        (
            started("the whole"),
            ExpectEvent("taskSpawned", {"childTaskId": ...}, keep={"child": "childTaskId"}),
            ExpectEvent("taskPaused", {"childTaskIds": ["$child"]}),
            ExpectEvent("taskDelegated", {"childTaskId": "$child"}),
            ExpectEvent("taskCreated", {"parentId": "$task"}, "$child"),
            ExpectEvent("taskCompleted", {"isSubtask": True}, "$child"),
            ExpectEvent("taskDelegationCompleted", {"childTaskId": "$child", "summary": ...}),
            ExpectEvent("taskUnpaused", {}),
            ExpectEvent("taskDelegationResumed", {"childTaskId": "$child"}),
            asked("taskIdle", "completion_result"),
        ),
        (by_first_message(SCRIPTS),) * 2,
        {"autoApprovalEnabled": True, "alwaysAllowSubtasks": True},
    ),
    Exchange(
        "going back",
        (
            started("make a.txt"),
            asked("taskIdle", "completion_result"),
            command("getMessages", task="$task", keep={"first": "messages.0.ts"}),
            command("getCheckpoints", task="$task", keep={"empty": "checkpoints.0.id"}),
            command(
                "diffCheckpoint",
                {"files": [{"path": "a.txt", "kind": "added", "before": None, "after": "one\n"}]},
                task="$task",
                checkpoint="$empty",
            ),
            command(
                "rewindTask",
                {"done": False, "changes": {"files": [{"path": "a.txt", "kind": "removed"}]}},
                task="$task",
                messageTs="$first",
                files=True,
                preview=True,
            ),
            command("rewindTask", {"done": True}, task="$task", messageTs="$first", files=True),
            ExpectEvent("taskAborted"),
            ExpectEvent("taskRewound", {"messageTs": "$first", "removed": ...}),
            command("getMessages", {"messages": [{"ts": "$first"}]}, task="$task"),
            command("undoRewind", {"done": True}, task="$task"),
            ExpectEvent("taskRewound", {"removed": []}),
            ExpectEvent("message", {"action": "created"}),
            command("restoreCheckpoint", {"done": True}, task="$task", checkpoint="$empty"),
            command("editMessage", {"done": True}, task="$task", messageTs="$first", text="no"),
            ExpectEvent("taskRewound", {"messageTs": None}),
            ExpectEvent("message", row(text="no", say="text")),
            asked("taskIdle", "completion_result"),
            command("forkTask", {"taskId": ...}, task="$task", keep={"fork": "taskId"}),
            ExpectEvent("taskCreated", {"title": "no"}, "$fork"),
            command("getTask", {"task": {"status": "aborted"}}, task="$fork"),
            refused("rewindTask", "EXECUTION_ERROR", "no message 7", task="$task", messageTs=7),
            refused("rewindTask", "TASK_NOT_FOUND", "'nobody'", task="nobody", messageTs=7),
            refused(
                "editMessage", "INVALID_PARAMETER", "text", task="$task", messageTs=7, text=" "
            ),
            refused("forkTask", "INVALID_PARAMETER", "profile", task="$task", profile="nobody"),
            refused("diffCheckpoint", "EXECUTION_ERROR", "'x'", task="$task", checkpoint="x"),
        ),
        (WRITE, done(), done()),
        {"autoApprovalEnabled": True, "alwaysAllowWrite": True},
    ),
    Exchange(
        "a model that fails",
        (
            started(),
            ExpectEvent("countdown", {"seconds": 1, "attempt": 1}),
            asked("taskIdle", "api_req_failed"),
            command("pressSecondaryButton", DONE, task="$task"),
            ExpectEvent("taskFailed", {"message": ...}),
        ),
        (Turn(fail(529, "Too busy.")),),
        {"requestDelaySeconds": 0.1, "maxRetries": 1},
    ),
    Exchange(
        "settings and profiles",
        (
            command("getConfiguration", {"configuration": {"mode": "code"}}),
            command("setConfiguration", DONE, values={"mode": "ask"}),
            ExpectEvent("modeChanged", {"mode": "ask"}, None),
            command("getActiveProfile", {"activeProfile": None}),
            command("createProfile", {"profileId": "work"}, name="work", profile=WORK),
            ExpectEvent("providerProfileChanged", {"name": "work", "provider": "anthropic"}, None),
            command("createProfile", {"profileId": "home"}, name="home"),
            command("setActiveProfile", {"activeProfile": "work"}, name="work"),
            command("getActiveProfile", {"activeProfile": "work"}),
            command("getProfiles", {"profiles": ["home", "work"]}),
            command("deleteProfile", DONE, name="home"),
            command("updateProfile", {"profileId": "work"}, name="work", profile={"model": "two"}),
            command("getProfileEntry", {"profile": {"model": "two"}}, name="work"),
            command("upsertProfile", {"profileId": "new"}, name="new", profile=WORK),
        ),
    ),
    Exchange(
        "what there is",
        (
            command("getModes", {"modes": ...}),
            command("getModels", {"models": ...}, provider="anthropic"),
            command("getCommands", {"commands": ...}),
            command("getRecordings", {"sessions": [], "total": 0}),
            command("getPermissions", {"rules": ...}),
            command(
                "revokePermission",
                {"revoked": False},
                setting="allowedCommands",
                text="ls",
                scope="directory",
            ),
            refused("getRecording", "EXECUTION_ERROR", "nothing is recorded", session=1),
            refused("compareRecordedRequests", "EXECUTION_ERROR", "recorded", session=1, turn=2),
            command("ping", {"pong": ...}),
        ),
    ),
    Exchange(
        "a process that was left behind",
        (
            started(),
            asked("taskIdle", "completion_result"),
            command(
                "getProcesses",
                {"processes": [{"taskId": "$task", "running": True}]},
                task="$task",
                keep={"pid": "processes.0.pid"},
            ),
            command("killProcess", DONE, pid="$pid"),
        ),
        (Turn(call("execute_command", {"command": "exec sleep 300", "timeout": 1})), done()),
        {"alwaysAllowExecute": True, "allowedCommands": ["*"]},
    ),
    Exchange(
        "mistakes of the client",
        (
            refused("fly", "INVALID_COMMAND", "fly"),
            SendFrame("{", error="INVALID_COMMAND", reason="not JSON"),
            SendFrame(b"{}", error="INVALID_COMMAND", reason="text"),
            refused("startNewTask", "INVALID_PARAMETER", "text"),
            refused("cancelTask", "INVALID_PARAMETER", "taskId"),
            refused("getMessages", "TASK_NOT_FOUND", "'nobody'", task="nobody"),
            command("createProfile", name="keyless", profile={"provider": "groq", "model": "m"}),
            refused("startNewTask", "EXECUTION_ERROR", "GROQ_API_KEY", text="go"),
            SendFrame(
                {"type": "auth", "token": "wrong"}, error="PERMISSION_DENIED", reason="token"
            ),
            command("ping", {"pong": ...}),
        ),
    ),
    Exchange(
        "a defect of the server",
        (
            RunAction(break_a_command),
            refused("getModes", "SERVER_ERROR", "its log"),
            command("ping", {"pong": ...}),
        ),
    ),
    Exchange(
        "a server that stops",
        (
            RunAction(stop),
            refused("startNewTask", "API_NOT_READY", "shutting down", text="go"),
            command("isReady", {"ready": False}),
        ),
    ),
    Exchange(
        "a client that reads too slowly",
        (
            PauseReading(announce_too_much),
            ExpectEvent("resync", {}, None),
            command("ping", {"pong": ...}),
        ),
    ),
)
