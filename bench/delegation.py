"""Eight subtasks side by side, beside one: `python -m bench delegation`.

The model takes a second before it says anything. Each subtask writes a file and hands over its
result: two requests. The parent asks twice, before and after.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.runs import build_environment
from bench.tables import format_verdict, print_table
from joey import Completed, Unattended, make_options, open_engine
from joey.testing.script import Turn, call, pause
from joey.testing.server import ModelServer, Request, by_conversation

CHILD_COUNT = 8
MODEL_LATENCY_S = 1.0
GOAL_RATIO = 2.5


def main() -> None:
    rows = [["", "one, s", "eight, s", "ratio", "goal", ""]]
    for name, worktree in (("in the workspace", False), ("in worktrees", True)):
        one, eight = (asyncio.run(measure(count, worktree)) for count in (1, CHILD_COUNT))
        ratio = eight / one
        figures = [
            f"{one:.2f}",
            f"{eight:.2f}",
            f"{ratio:.2f}",
            f"{GOAL_RATIO}",
            format_verdict(ratio, GOAL_RATIO),
        ]
        rows.append([name, *figures])
    print_table(
        f"{CHILD_COUNT} subtasks at once, {MODEL_LATENCY_S:g} s before each answer of the model",
        rows,
    )


async def measure(children: int, worktree: bool) -> float:
    with TemporaryDirectory(prefix="joey-bench-") as directory:
        root = Path(directory)
        make_repository(root / "work")
        async with ModelServer(lambda request: choose_turn(request, children, worktree)) as server:
            options = make_options(
                workspace=root / "work",
                home=root / "home",
                env=build_environment(),
                provider="anthropic",
                model="test-model",
                base_url=server.url,
                yes=True,
                policy=Unattended(),
            )
            async with open_engine(home=root / "home", env=build_environment()) as engine:
                started = time.perf_counter()
                task = await engine.start("the whole", options=options)
                ending = await task.wait()
                seconds = time.perf_counter() - started
        if not isinstance(ending, Completed):
            raise RuntimeError(f"the task ended with {ending}")
        written = len(list((root / "work").glob("part*.txt")))
        if written != children:
            raise RuntimeError(f"{written} of {children} files came back")
        return seconds


def make_repository(work: Path) -> None:
    work.mkdir()
    for number in range(200):
        (work / f"file{number}.txt").write_text(f"file {number}\n" * 50, encoding="utf-8")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        subprocess.run(["git", *identity, *command], cwd=work, check=True)


def choose_turn(request: Request, children: int, worktree: bool) -> Turn:
    first = str(request.body["messages"][0]["content"])
    wait, done = pause(MODEL_LATENCY_S), call("attempt_completion", {"result": "done"})
    for number in range(children):
        if f"part {number}." in first:
            arguments = {"path": f"part{number}.txt", "content": "done\n"}
            return by_conversation(
                [Turn(wait, call("write_to_file", arguments)), Turn(wait, done)]
            )(request)
    delegations = [
        call("new_task", {"mode": "code", "message": f"part {n}.", "worktree": worktree or None})
        for n in range(children)
    ]
    return by_conversation([Turn(wait, *delegations), Turn(wait, done)])(request)


if __name__ == "__main__":
    main()
