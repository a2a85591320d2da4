"""Write the task folders in `data/corpus`: `python -m tests.golden.write_corpus`.

They stand for all tasks that users have on disk, so they are written once and stay: a later joey
has to load what an earlier one wrote. To cover a new format, add a task and keep the others.

Real tasks are played through `joey serve` and scripted models. In the files, the folders and
addresses of the machine are replaced by those in `STAND_INS`.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.golden.golden import DATA, ROOT
from tests.golden.homes import ModelServer, Turn, fail, pause, say
from tests.golden.live import MESSAGE, NO, Client, serving
from tests.golden.program import Program
from tests.golden.scripts import conversation, finish, turn

CORPUS = DATA / "corpus"
STAND_INS = {"workspace": "/home/ann/shop", "home": "/home/ann", "server": "model.test"}
FOREIGN = ROOT / "tests" / "stores" / "roo_tasks"
REPOSITORY = "../repository"
"""Seen from the workspace, in which the server runs."""
KEPT_FILES = {
    "api_conversation_history.json",
    "history_item.json",
    "imported.json",
    "journal.jsonl",
    "task_metadata.json",
    "ui_messages.json",
}
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
SETTINGS: dict[str, Any] = {
    "deniedCommands": ["rm"],
    "sandbox": "off",
    "requestDelaySeconds": 0,
    "maxRetries": 1,
}

Play = Callable[[Client, str], Awaitable[None]]


def write(protocol: str, number: int, content: str) -> Turn:
    return turn(protocol, number, ("write_to_file", {"path": "c.txt", "content": content}))


def work(protocol: str) -> tuple[list[Turn], Play]:
    """Every kind of outcome, approvals, a question, feedback with an image."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Look at @/a.txt, and work.")
        await client.answer(task_id, "tool")
        await client.answer(task_id, "command", text="Quickly, please.")
        await client.answer(task_id, "followup", MESSAGE, text="green", images=[PIXEL])
        if protocol == "native":
            await client.answer(task_id, "tool", NO, text="Stay in this mode.")
        else:
            await client.answer(task_id, "tool")
        await client.answer(task_id, "completion_result", MESSAGE, text="Once more.")
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)

    return [*conversation(protocol), finish(protocol, 20, "Done once more.")], play


def rewind(protocol: str) -> tuple[list[Turn], Play]:
    """A rewind with the files, one that is undone, and an edited message."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Write one.")
        await client.answer(task_id, "tool")
        await client.answer(task_id, "completion_result", MESSAGE, text="Now two.")
        await client.answer(task_id, "tool")
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)
        rows = await client.rows(task_id)
        feedback = next(row["ts"] for row in rows if row.get("say") == "user_feedback")
        await client.ask("rewindTask", task_id, messageTs=feedback, keep=False, files=True)
        await client.ask("undoRewind", task_id)
        await client.ask("editMessage", task_id, messageTs=feedback, text="Now three.")
        await client.answer(task_id, "tool")
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)

    turns = [write(protocol, 1, "one\n"), finish(protocol, 2, "First.")]
    turns += [write(protocol, 3, "two\n"), finish(protocol, 4, "Second.")]
    return [*turns, write(protocol, 5, "three\n"), finish(protocol, 6, "Third.")], play


def condense(protocol: str) -> tuple[list[Turn], Play]:
    """A conversation that is condensed, and continued."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Read it.")
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)
        await client.ask("condenseTask", task_id, instructions="Mind the colours.")
        await client.event(
            lambda frame: (
                frame["eventName"] == "message"
                and frame["payload"]["message"].get("say") == "condense_context"
            )
        )
        await client.ask("sendMessage", task_id, message="And again.")
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)

    turns = [turn(protocol, 1, ("read_file", {"path": "a.txt"})), finish(protocol, 2)]
    return [*turns, Turn(say("The file says hello.")), finish(protocol, 4, "Same.")], play


def subtask(protocol: str) -> tuple[list[Turn], Play]:
    """A task that hands its work to another one."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Delegate it.")
        await client.answer(task_id, "tool")
        spawned = await client.wait_for_event("taskSpawned", task_id)
        await client.answer(spawned["payload"]["childTaskId"], "tool")
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)

    given = {"mode": "ask", "message": "Say what a.txt holds.", "todos": "[ ] read"}
    turns = [turn(protocol, 1, ("new_task", given)), finish(protocol, 2, "It holds hello.")]
    return [*turns, finish(protocol, 3, "The subtask knows.")], play


def image(protocol: str) -> tuple[list[Turn], Play]:
    """A task that begins with an image, and its fork."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "What is this?", images=[PIXEL])
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)
        fork = (await client.ask("forkTask", task_id, text="Are you sure?"))["taskId"]
        await client.answer(fork, "completion_result")
        await client.wait_for_event("taskFinished", fork)

    return [finish(protocol, 1, "A pixel."), finish(protocol, 2, "Quite sure.")], play


def failures(protocol: str) -> tuple[list[Turn], Play]:
    """Retries, a failed request, a queued message, a cancelled reply, a resumed task."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Try it.")
        await client.answer(task_id, "api_req_failed")
        await client.event(
            lambda frame: (
                frame["eventName"] == "message"
                and frame["payload"]["message"].get("text") == "Some words"
            )
        )
        await client.ask("sendMessage", task_id, message="Hurry up.", queue=True)
        await client.ask("sendMessage", task_id, message="Never mind.", queue=True)
        queue = (await client.wait_for_event("queuedMessagesUpdated", task_id))["payload"]["queue"]
        while len(queue) < 2:
            queue = (await client.wait_for_event("queuedMessagesUpdated", task_id))["payload"][
                "queue"
            ]
        await client.ask("editQueue", task_id, id=queue[1]["id"], remove=True)
        await client.ask("cancelTask", task_id)
        await client.wait_for_event("taskAborted", task_id)
        await client.ask("resumeTask", task_id, configuration={"includeCurrentTime": False})
        await client.answer(task_id, "resume_task", MESSAGE, text="Go on.")
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)

    down = Turn(fail(529, "overloaded"))
    slow = Turn(say("Some words"), pause(60.0))
    return [down, down, down, slow, finish(protocol, 5), finish(protocol, 6)], play


def limit(protocol: str) -> tuple[list[Turn], Play]:
    """A task that fails at a limit."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Read on.", limits={"maxTurns": 1})
        await client.wait_for_event("taskFailed", task_id)

    return [turn(protocol, 1, ("read_file", {"path": "a.txt"}))], play


def truncate(protocol: str) -> tuple[list[Turn], Play]:
    """A window that is too small, without summaries: the oldest turns are hidden."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Read much.", configuration={"autoCondenseContext": False})
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)

    # The tokens that a reply states grow with its number.
    first = turn(protocol, 1, ("read_file", {"path": "long.txt"}))
    second = turn(protocol, 6_000, ("list_files", {"path": ".", "recursive": "false"}))
    return [first, second, finish(protocol, 3)], play


def withdrawn(protocol: str) -> tuple[list[Turn], Play]:
    """A task that is cancelled while it asks."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Write it.")
        await client.asked(task_id, "tool")
        await client.ask("cancelTask", task_id)
        await client.wait_for_event("taskAborted", task_id)

    return [write(protocol, 1, "one\n")], play


def worktree(protocol: str) -> tuple[list[Turn], Play]:
    """A subtask that works in a worktree of its own."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Delegate it.", workspace=REPOSITORY)
        await client.answer(task_id, "tool")
        spawned = await client.wait_for_event("taskSpawned", task_id)
        child = spawned["payload"]["childTaskId"]
        await client.answer(child, "tool")
        await client.answer(child, "tool")
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)

    given = {"mode": "code", "message": "Write it.", "todos": None, "worktree": True}
    turns = [turn(protocol, 1, ("new_task", given)), write(protocol, 2, "one\n")]
    return [*turns, finish(protocol, 3, "Written."), finish(protocol, 4)], play


def refused(protocol: str) -> tuple[list[Turn], Play]:
    """A service that takes no more tools: the task goes on in XML."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Read it.")
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)

    first = turn(protocol, 1, ("read_file", {"path": "a.txt"}))
    refusal = Turn(fail(400, "scripted does not support tools"))
    return [first, refusal, finish("xml", 3)], play


def broken(protocol: str) -> tuple[list[Turn], Play]:
    """A result that is sent back, because an edit left an error."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Write it.")
        await client.answer(task_id, "tool")
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)

    edit = ("write_to_file", {"path": "c.py", "content": "def f(\n"})
    return [turn(protocol, 1, edit), finish(protocol, 2), finish(protocol, 3)], play


def background(protocol: str) -> tuple[list[Turn], Play]:
    """A command that ends in the background."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Run it.")
        await client.answer(task_id, "command")
        await client.answer(task_id, "command")
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)

    slow = ("execute_command", {"command": "sleep 0.5; exit 3", "timeout": 0.1})
    other = ("execute_command", {"command": "sleep 2"})
    return [turn(protocol, 1, slow), turn(protocol, 2, other), finish(protocol, 3)], play


def dropped(protocol: str) -> tuple[list[Turn], Play]:
    """Calls of which nothing comes: one is wrong, one is skipped after a rejection."""

    async def play(client: Client, task_id: str) -> None:
        await start(client, task_id, "Write it.")
        await client.answer(task_id, "tool", NO)
        await client.answer(task_id, "completion_result")
        await client.wait_for_event("taskFinished", task_id)

    edit = ("write_to_file", {"path": "c.txt", "content": "one\n"})
    wrong = ("write_to_file", {"content": "two\n"})
    return [turn(protocol, 1, wrong, edit, edit), finish(protocol, 2)], play


CASES: dict[str, Callable[[str], tuple[list[Turn], Play]]] = {
    "work": work,
    "rewind": rewind,
    "condense": condense,
    "subtask": subtask,
    "image": image,
    "trouble": failures,
    "limit": limit,
    "truncate": truncate,
    "withdrawn": withdrawn,
    "worktree": worktree,
    "refused": refused,
    "broken": broken,
    "background": background,
    "dropped": dropped,
}
ONLY_NATIVE = {*CASES} - {"work", "rewind", "condense", "subtask"}


async def start(client: Client, task_id: str, text: str, **arguments: Any) -> None:
    await client.ask("startNewTask", taskId=task_id, profile=task_id, text=text, **arguments)


async def resume_foreign(client: Client, task_id: str) -> None:
    """A task of Roo Code is continued, which gives it a journal."""
    await client.ask("sendMessage", task_id, message="Go on.")
    await client.answer(task_id, "completion_result")
    await client.wait_for_event("taskFinished", task_id)


async def write_corpus(root: Path) -> None:
    program = Program(root, **SETTINGS)
    (program.workspace / "long.txt").write_text("a long line of text\n" * 150, encoding="utf-8")
    played: dict[str, tuple[list[Turn], Play]] = {}
    for name, make in CASES.items():
        for protocol in ("native",) if name in ONLY_NATIVE else ("native", "xml"):
            played[f"{name}-{protocol}"] = make(protocol)
    foreign = sorted(directory.name for directory in FOREIGN.iterdir())
    adopted = foreign[0]
    async with AsyncExitStack() as stack:
        servers = {
            name: await stack.enter_async_context(ModelServer(turns))
            for name, (turns, _) in played.items()
        }
        servers[adopted] = await stack.enter_async_context(ModelServer([finish("native", 1)]))
        profiles = {name: profile(name, server.url) for name, server in servers.items()}
        document = {"active": adopted, "profiles": profiles}
        (program.home / "profiles.json").write_text(json.dumps(document), encoding="utf-8")
        (program.home / "profiles.json").chmod(0o600)
        imported = await program.run("tasks", "import", str(copy_foreign(program)))
        assert imported.code == 0, imported.err
        make_repository(program)
        async with serving(program) as client:
            for name, (_, play) in played.items():
                await play(client, name)
            await resume_foreign(client, adopted)
    tidy = {str(program.workspace): STAND_INS["workspace"], str(root): STAND_INS["home"]}
    addresses = [each["baseUrl"].removeprefix("http://") for each in profiles.values()]
    tidy |= dict.fromkeys(addresses, STAND_INS["server"])
    tidy["@127.0.0.1"] = f"@{STAND_INS['server']}"
    copy_tasks(program.home / "tasks", tidy)


def make_repository(program: Program) -> None:
    repository = program.workspace / REPOSITORY
    shutil.copytree(program.workspace, repository)
    name = ("-c", "user.name=Ann", "-c", "user.email=ann@shop.test")
    for arguments in (["init", "-q"], ["add", "-A"], [*name, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *arguments], cwd=repository, check=True)


def copy_foreign(program: Program) -> Path:
    """Tasks of Roo Code, in a workspace that exists."""
    copy = program.root / "roo-tasks"
    shutil.copytree(FOREIGN, copy)
    for path in copy.rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        own = text.replace(STAND_INS["workspace"], str(program.workspace))
        path.write_text(own, encoding="utf-8")
    return copy


def profile(name: str, url: str) -> dict[str, Any]:
    protocol = "xml" if name.endswith("-xml") else "native"
    window = {"contextWindow": 14_000, "maxTokens": 1_000} if name.startswith("truncate") else {}
    named = {} if name.startswith("refused") else {"protocol": protocol}
    made = {"provider": "anthropic", "baseUrl": url, "model": "scripted", **named}
    return made | {"apiKey": "key-for-tests"} | window


def copy_tasks(tasks: Path, tidy: dict[str, str]) -> None:
    if CORPUS.exists():
        shutil.rmtree(CORPUS)
    for path in sorted(tasks.rglob("*")):
        if path.name not in KEPT_FILES:
            continue
        text = path.read_bytes().decode()
        for own, stand_in in tidy.items():
            text = text.replace(own, stand_in)
        assert not re.search(r"/tmp/|127\.0\.0\.1", text), path
        target = CORPUS / "tasks" / path.relative_to(tasks)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())


def main() -> None:
    with TemporaryDirectory(prefix="joey-corpus-") as root:
        asyncio.run(write_corpus(Path(root)))


if __name__ == "__main__":
    main()
