"""The WebSocket API as a table: what a client sends, and what must come back."""

from __future__ import annotations

from typing import Any

from joey.core.wire.events import ModePayload
from joey.server.commands import HANDLERS
from joey.testing.script import Turn, call, fail, pause, say, usage
from tests.parts import by_part
from tests.server.house import House, done
from tests.server.scenes import Deaf, Do, Hear, Say, Scene, asked, command, refused, row, started

# What happens at the server -------------------------------------------------------------------


async def stop(here: House) -> None:
    await here.hub.close()


async def break_a_command(here: House) -> None:
    """A defect: `getModes` finds no modes. Its handler is put back by the player."""

    async def defect(hub: object, call: object) -> Any:
        raise RuntimeError("a defect on purpose")

    HANDLERS["getModes"] = defect


async def announce_too_much(here: House) -> None:
    payload = ModePayload(mode="x" * 100_000)
    while not here.hub.counters.resyncs:
        here.hub.announce("modeChanged", payload)


# The table ------------------------------------------------------------------------------------

DONE = {"result": "success"}
YES, NO = "yesButtonClicked", "noButtonClicked"
WRITE = Turn(call("write_to_file", {"path": "a.txt", "content": "one\n"}))
LONG = Turn(say("It takes long"), pause(60.0))
PARTIAL = Hear("message", row(text="It takes long", partial=True))
PARTS = {
    "the whole": [Turn(call("new_task", {"mode": "ask", "message": "a part"})), done()],
    "a part": [done("the part")],
}
WORK = {"provider": "anthropic", "model": "one", "apiKey": "k"}

SCENES = (
    Scene(
        "a task from its beginning to its end",
        (
            command("isReady", {"ready": True}),
            started("Create a Python function to calculate Fibonacci numbers"),
            Hear(
                "taskCreated", {"title": "Create a Python function to calculate Fibonacci numbers"}
            ),
            Hear("taskStarted", {}),
            Hear("taskActive", {}),
            Hear("message", {"action": "created", **row(type="say", say="text", partial=True)}),
            Hear("message", {"action": "updated", **row(text="I'll do it.", partial=False)}),
            Hear("taskTokenUsageUpdated", {"usage": {"totalTokensIn": 7}, "toolUsage": {}}),
            Hear("taskCompleted", {"usage": {"totalTokensIn": 7}, "toolUsage": {}}),
            asked("taskIdle", "completion_result"),
            command("getCurrentTaskStack", {"taskStack": ["$task"]}),
            command("isTaskInHistory", {"inHistory": True}, task="$task"),
            command("getMessages", {"messages": ..., "seq": ...}, task="$task"),
            command("getTokenUsage", {"usage": {"totalTokensIn": 7}}, task="$task"),
            command("getTask", {"task": {"id": "$task", "live": True}}, task="$task"),
            command("getEvents", {"events": ..., "seq": ...}, task="$task"),
            command("pressPrimaryButton", DONE, task="$task"),
            Hear("taskAskResponded", {"askTs": "$ask", "response": YES}),
            Hear("taskFinished", {}),
            command("clearCurrentTask", DONE, lastMessage="bye"),
            command("getCurrentTaskStack", {"taskStack": []}),
        ),
        (Turn(say("I'll do it.", chunk=3), *done().steps, usage(input=7, output=3)),),
    ),
    Scene(
        "yes, no, and words",
        (
            started(),
            asked("taskInteractive", "tool"),
            command("pressSecondaryButton", DONE, task="$task"),
            Hear("taskAskResponded", {"response": NO}),
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
            Hear("taskUserMessage", {}),
            asked("taskIdle", "completion_result"),
        ),
        (WRITE, WRITE, done(), done()),
    ),
    Scene(
        "stopped and resumed",
        (
            started(),
            PARTIAL,
            command("cancelTask", DONE, task="$task"),
            Hear("taskAborted", {"reason": "user_cancelled"}),
            command("resumeTask", DONE, task="$task"),
            asked("taskResumable", "resume_task"),
            command("pressPrimaryButton", DONE, task="$task"),
            PARTIAL,
            command("cancelCurrentTask", DONE),
            Hear("taskAborted", {"reason": "user_cancelled"}),
        ),
        (LONG, LONG),
    ),
    Scene(
        "a message that waits although something is asked",
        (
            started(),
            asked("taskInteractive", "tool"),
            command("sendMessage", DONE, task="$task", message="the tests too", queue=True),
            Hear("queuedMessagesUpdated", {"queue": [{"text": "the tests too"}]}),
            command("pressPrimaryButton", DONE, task="$task"),
            Hear("queuedMessagesUpdated", {"queue": []}),
            asked("taskIdle", "completion_result"),
        ),
        (WRITE, done()),
    ),
    Scene(
        "words that wait",
        (
            started(),
            PARTIAL,
            command("sendMessage", DONE, task="$task", message="the tests too"),
            Hear("queuedMessagesUpdated", {"queue": [{"text": "the tests too"}]}),
            command(
                "getTask",
                {"task": {"queue": [{"id": ...}]}},
                task="$task",
                keep={"queued": "task.queue.0.id"},
            ),
            command("editQueue", DONE, task="$task", id="$queued", text="all tests"),
            Hear("queuedMessagesUpdated", {"queue": [{"text": "all tests"}]}),
            command("editQueue", DONE, task="$task", id="$queued", remove=True),
            Hear("queuedMessagesUpdated", {"queue": []}),
        ),
        (LONG,),
    ),
    Scene(
        "condensed at rest",
        (
            started(),
            asked("taskIdle", "completion_result"),
            command("pressPrimaryButton", DONE, task="$task"),
            Hear("taskFinished", {}),
            command("condenseTask", DONE, task="$task", instructions="Mind the tests."),
            Hear("message", row(say="condense_context", partial=True)),
            Hear("message", row(say="condense_context", contextCondense={"summary": "It went."})),
            refused("condenseTask", "EXECUTION_ERROR", "condense", task="$task"),
        ),
        # Asked for a summary, the model says the same again; only its words count.
        (Turn(say("It went."), *done("It was much work. " * 200).steps),),
    ),
    Scene(
        "modes, lists and a tool that fails",
        (
            started(),
            Hear("todosUpdated", {"todos": [{"content": "look"}]}),
            Hear("taskToolFailed", {"toolName": "search_files", "error": ...}),
            asked("taskIdle", "completion_result"),
            command("getTodos", {"todos": [{"content": "look"}]}, task="$task"),
            command("switchMode", DONE, task="$task", mode="ask"),
            Hear("taskModeSwitched", {"modeSlug": "ask"}),
            command("listTasks", {"tasks": [{"id": "$task"}], "total": 1}),
            command("searchTasks", {"tasks": [{"id": "$task"}]}, query="go"),
            command("subscribe", {"tasks": {"$task": ...}}),
            command("subscribe", {"taskId": "$task"}, task="$task", since=0),
            Hear("taskCreated"),
            command("deleteTask", DONE, task="$task"),
            Hear("taskDeleted", {}),
            command("isTaskInHistory", {"inHistory": False}, task="$task"),
        ),
        (
            Turn(call("update_todo_list", {"todos": "[x] look"})),
            Turn(call("search_files", {"path": ".", "regex": "("})),
            done(),
        ),
    ),
    Scene(
        "a subtask",
        (
            started("the whole"),
            Hear("taskSpawned", {"childTaskId": ...}, keep={"child": "childTaskId"}),
            Hear("taskPaused", {"childTaskIds": ["$child"]}),
            Hear("taskDelegated", {"childTaskId": "$child"}),
            Hear("taskCreated", {"parentId": "$task"}, "$child"),
            Hear("taskCompleted", {"isSubtask": True}, "$child"),
            Hear("taskDelegationCompleted", {"childTaskId": "$child", "summary": ...}),
            Hear("taskUnpaused", {}),
            Hear("taskDelegationResumed", {"childTaskId": "$child"}),
            asked("taskIdle", "completion_result"),
        ),
        (by_part(PARTS),) * 2,
        {"autoApprovalEnabled": True, "alwaysAllowSubtasks": True},
    ),
    Scene(
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
            Hear("taskAborted"),
            Hear("taskRewound", {"messageTs": "$first", "removed": ...}),
            command("getMessages", {"messages": [{"ts": "$first"}]}, task="$task"),
            command("undoRewind", {"done": True}, task="$task"),
            Hear("taskRewound", {"removed": []}),
            Hear("message", {"action": "created"}),
            command("restoreCheckpoint", {"done": True}, task="$task", checkpoint="$empty"),
            command("editMessage", {"done": True}, task="$task", messageTs="$first", text="no"),
            Hear("taskRewound", {"messageTs": None}),
            Hear("message", row(text="no", say="text")),
            asked("taskIdle", "completion_result"),
            command("forkTask", {"taskId": ...}, task="$task", keep={"fork": "taskId"}),
            Hear("taskCreated", {"title": "no"}, "$fork"),
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
    Scene(
        "a model that fails",
        (
            started(),
            Hear("countdown", {"seconds": 1, "attempt": 1}),
            asked("taskIdle", "api_req_failed"),
            command("pressSecondaryButton", DONE, task="$task"),
            Hear("taskFailed", {"message": ...}),
        ),
        (Turn(fail(529, "Too busy.")),),
        {"requestDelaySeconds": 0.1, "maxRetries": 1},
    ),
    Scene(
        "settings and profiles",
        (
            command("getConfiguration", {"configuration": {"mode": "code"}}),
            command("setConfiguration", DONE, values={"mode": "ask"}),
            Hear("modeChanged", {"mode": "ask"}, None),
            command("getActiveProfile", {"activeProfile": None}),
            command("createProfile", {"profileId": "work"}, name="work", profile=WORK),
            Hear("providerProfileChanged", {"name": "work", "provider": "anthropic"}, None),
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
    Scene(
        "what there is",
        (
            command("getModes", {"modes": ...}),
            command("getModels", {"models": ...}, provider="anthropic"),
            command("getCommands", {"commands": ...}),
            command("ping", {"pong": ...}),
        ),
    ),
    Scene(
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
    Scene(
        "mistakes of the client",
        (
            refused("fly", "INVALID_COMMAND", "fly"),
            Say("{", error="INVALID_COMMAND", reason="not JSON"),
            Say(b"{}", error="INVALID_COMMAND", reason="text"),
            refused("startNewTask", "INVALID_PARAMETER", "text"),
            refused("cancelTask", "INVALID_PARAMETER", "taskId"),
            refused("getMessages", "TASK_NOT_FOUND", "'nobody'", task="nobody"),
            command("createProfile", name="keyless", profile={"provider": "groq", "model": "m"}),
            refused("startNewTask", "EXECUTION_ERROR", "GROQ_API_KEY", text="go"),
            Say({"type": "auth", "token": "wrong"}, error="PERMISSION_DENIED", reason="token"),
            command("ping", {"pong": ...}),
        ),
    ),
    Scene(
        "a defect of the server",
        (
            Do(break_a_command),
            refused("getModes", "SERVER_ERROR", "its log"),
            command("ping", {"pong": ...}),
        ),
    ),
    Scene(
        "a server that stops",
        (
            Do(stop),
            refused("startNewTask", "API_NOT_READY", "shutting down", text="go"),
            command("isReady", {"ready": False}),
        ),
    ),
    Scene(
        "a client that reads too slowly",
        (Deaf(announce_too_much), Hear("resync", {}, None), command("ping", {"pong": ...})),
    ),
)
