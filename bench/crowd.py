"""A hundred tasks at once in one process, twenty turns each."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.runs import environment, running_model
from bench.scenarios import make_workspace, prompt
from bench.tables import table
from joey import Completed, Engine, TaskOptions, Unattended, make_options, open_engine

TASK_COUNT = 100
TURN_COUNT = 20


def main() -> None:
    with running_model() as model, TemporaryDirectory(prefix="joey-bench-") as directory:
        asyncio.run(run(model.url, Path(directory)))


async def run(url: str, directory: Path) -> None:
    make_workspace(directory)
    env = environment()
    options = make_options(
        workspace=directory,
        home=directory / "home",
        env=env,
        provider="anthropic",
        model="test-model",
        base_url=url,
        yes=True,
        policy=Unattended(),
    )
    async with open_engine(home=directory / "home", env=env) as engine:
        pulse = LoopLagMonitor()
        started, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one(engine, options) for _ in range(TASK_COUNT)))
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        pulse.stop()
    turns = TASK_COUNT * (TURN_COUNT + 1)
    unit = 1024 if sys.platform == "linux" else 1024 * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    rows = [
        ["", "measured"],
        ["seconds for all", f"{seconds:.1f}"],
        ["turns a second", f"{turns / seconds:.0f}"],
        ["CPU ms a turn", f"{cpu / turns * 1000:.1f}"],
        ["longest silence of the event loop, ms", f"{pulse.longest * 1000:.0f}"],
        ["memory MB", f"{peak:.0f}"],
    ]
    table(f"{TASK_COUNT} tasks at once, {TURN_COUNT} turns each", rows)


async def one(engine: Engine, options: TaskOptions) -> None:
    task = await engine.start(prompt("read", TURN_COUNT), options=options)
    ending = await task.wait()
    if not isinstance(ending, Completed):
        raise RuntimeError(f"task {task.id} ended with {ending}")
    await engine.release(task)


class LoopLagMonitor:
    """Measures how late the event loop is: how long it was busy with one thing."""

    INTERVAL_S = 0.005

    def __init__(self) -> None:
        self.longest = 0.0
        self._loop = asyncio.get_running_loop()
        self._wait()

    def _wait(self) -> None:
        self._due = self._loop.time() + self.INTERVAL_S
        self._next = self._loop.call_at(self._due, self._beat)

    def _beat(self) -> None:
        self.longest = max(self.longest, self._loop.time() - self._due)
        self._wait()

    def stop(self) -> None:
        self._next.cancel()


if __name__ == "__main__":
    main()
