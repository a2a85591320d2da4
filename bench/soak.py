"""Tasks that are killed and interrupted at random, and resumed until they are done.

After each death the journal must hold everything it held before, the API history that is replayed
from it must be valid, and the history files must be whole JSON. `python -m bench.soak [SECONDS]`.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.runs import build_environment, build_joey_command, start_model
from bench.scenarios import make_workspace
from joey.core.messages import Message, ToolResultBlock, ToolUseBlock
from joey.engine.recorder import Recorder
from joey.storage.task_directory import API_HISTORY_FILE, JOURNAL_FILE, UI_HISTORY_FILE
from joey.storage.task_store import JsonFileStore

DURATION_S = 180.0
WORKER_COUNT = 2
SCENARIOS = (("read", 40), ("shell", 20), ("write", 60_000), ("text", 2_000))


def main(seconds: float) -> None:
    until, counts = time.monotonic() + seconds, Counter[str]()
    failures: list[str] = []
    with start_model() as model:
        workers = [
            threading.Thread(target=run_worker, args=(model.url, until, counts, failures))
            for _ in range(WORKER_COUNT)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    if failures:
        sys.exit("\n".join(failures))


def run_worker(url: str, until: float, counts: Counter[str], failures: list[str]) -> None:
    while time.monotonic() < until and not failures:
        seed = random.randrange(2**32)
        try:
            run_and_kill_task(url, random.Random(seed), counts)
        except Exception as error:
            failures.append(f"seed {seed}: {type(error).__name__}: {error}")


def run_and_kill_task(url: str, chance: random.Random, counts: Counter[str]) -> None:
    """One task, from its start through a few deaths to its completion."""
    scenario, size = chance.choice(SCENARIOS)
    with TemporaryDirectory(prefix="joey-soak-") as name:
        directory = Path(name)
        workspace, home = directory / "workspace", directory / "home"
        workspace.mkdir()
        make_workspace(workspace)
        command, before = build_joey_command(url, scenario, size), b""
        joey, flags = command[0], command[3:]
        for _ in range(chance.randrange(4)):
            kill_signal = chance.choice((signal.SIGKILL, signal.SIGINT, signal.SIGTERM))
            if run_command(command, workspace, home, chance.uniform(0.05, 0.5), kill_signal) == 0:
                break
            counts[kill_signal.name] += 1
            before = check_task(home, before)
            if before:
                command = [joey, "-p", "go on", "-c", *flags]
            else:
                # Nothing was acknowledged, so there is nothing to go on with.
                shutil.rmtree(home, ignore_errors=True)
        else:
            code = run_command(command, workspace, home, None, signal.SIGKILL)
            assert code == 0, f"{scenario} {size}: the last run exited with {code}"
        check_task(home, before)
        counts["tasks done"] += 1


def run_command(
    command: list[str], cwd: Path, home: Path, seconds: float | None, kill_signal: signal.Signals
) -> int:
    env = build_environment() | {"HOME": str(home.parent), "JOEY_HOME": str(home)}
    with (home.parent / "output").open("ab") as output:
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(kill_signal)
            return process.wait(30) or 1


def check_task(home: Path, before: bytes) -> bytes:
    """The journal now, which begins with what it was before."""
    directories = list((home / "tasks").glob("task_*")) if (home / "tasks").exists() else []
    if not directories:
        return b""
    (directory,) = directories
    journal = directory / JOURNAL_FILE
    if not journal.exists():
        return b""
    now = journal.read_bytes()
    complete_lines = before[: before.rfind(b"\n") + 1]
    assert now.startswith(complete_lines), "the journal lost what it had"
    for file in (UI_HISTORY_FILE, API_HISTORY_FILE):
        if (directory / file).exists():
            json.loads((directory / file).read_bytes())
    if b"\n" not in now:
        return b""
    log, records = JsonFileStore(home).open(directory.name.removeprefix("task_"))
    try:
        check_tool_results(Recorder(log, records).api_history.list_stored_messages())
    finally:
        log.close()
    return journal.read_bytes()


def check_tool_results(messages: Sequence[Message]) -> None:
    """Each call is answered, once, in the next message; only the last reply may be open."""
    for number, message in enumerate(messages[:-1]):
        calls = [block.id for block in message.content if isinstance(block, ToolUseBlock)]
        answers = [
            block.tool_use_id
            for block in messages[number + 1].content
            if isinstance(block, ToolResultBlock)
        ]
        assert calls == answers, f"message {number}: calls {calls}, results {answers}"


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else DURATION_S)
