"""A hundred tasks at once in one process, twenty turns each."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.runs import build_environment, start_model
from bench.scenarios import build_prompt, make_workspace
from bench.tables import print_table
from joey import Completed, Engine, TaskOptions, Unattended, make_options, open_engine

TASK_COUNT = 100
TURN_COUNT = 20


def main() -> None:
    with start_model() as model, TemporaryDirectory(prefix="joey-bench-") as directory:
        asyncio.run(run_tasks(model.url, Path(directory)))


async def run_tasks(url: str, directory: Path) -> None:
    make_workspace(directory)
    env = build_environment()
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
        lag_monitor = LoopLagMonitor()
        started, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(run_task(engine, options) for _ in range(TASK_COUNT)))
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        lag_monitor.stop()
    turns = TASK_COUNT * (TURN_COUNT + 1)
    unit = 1024 if sys.platform == "linux" else 1024 * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    rows = [
        ["", "measured"],
        ["seconds for all", f"{seconds:.1f}"],
        ["turns a second", f"{turns / seconds:.0f}"],
        ["CPU ms a turn", f"{cpu / turns * 1000:.1f}"],
        ["longest silence of the event loop, ms", f"{lag_monitor.max_lag_s * 1000:.0f}"],
        ["memory MB", f"{peak:.0f}"],
    ]
    print_table(f"{TASK_COUNT} tasks at once, {TURN_COUNT} turns each", rows)


async def run_task(engine: Engine, options: TaskOptions) -> None:
    task = await engine.start(build_prompt("read", TURN_COUNT), options=options)
    ending = await task.wait()
    if not isinstance(ending, Completed):
        raise RuntimeError(f"task {task.id} ended with {ending}")
    await engine.release(task)


class LoopLagMonitor:
    """Measures how late the event loop is: how long it was busy with one thing."""

    INTERVAL_S = 0.005

    def __init__(self) -> None:
        self.max_lag_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._schedule()

    def _schedule(self) -> None:
        self._due_time = self._loop.time() + self.INTERVAL_S
        self._timer = self._loop.call_at(self._due_time, self._measure_lag)

    def _measure_lag(self) -> None:
        self.max_lag_s = max(self.max_lag_s, self._loop.time() - self._due_time)
        self._schedule()

    def stop(self) -> None:
        self._timer.cancel()


if __name__ == "__main__":
    main()
