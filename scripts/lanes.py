"""The steps of `make soak`, `bench`, `llamacpp`, `npmclients`, `ray`, `nightly`; their results.

`python -m scripts.lanes LANE…` runs every step of these lanes, also after one has failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

PYTEST = ("pytest", "-p", "tests.harness.memory_disk")
PARALLEL = ("-n", os.environ.get("WORKERS", "2"), "--dist", "worksteal")
LONG_TASKS = ("tests/engine/test_long_task.py", "tests/engine/test_long_task_files.py")
REAL_MODEL = ("tests/cli/test_llamacpp_server.py", "tests/cli/llamacpp_tasks.py")


class Step(NamedTuple):
    name: str
    module: tuple[str, ...]
    env: Mapping[str, str] = {}


class Result(NamedTuple):
    step: Step
    code: int
    seconds: float


LANES: dict[str, tuple[Step, ...]] = {
    "test": (Step("all tests", (*PYTEST, *PARALLEL)),),
    "corpus": (Step("hostile commands", ("tests.harness.permissions.corpus",)),),
    "soak": (
        Step(
            "other examples",
            (*PYTEST, *PARALLEL, "-m", "hypothesis", "--hypothesis-profile", "chance"),
        ),
        Step(
            "tests at their full counts",
            (*PYTEST, *PARALLEL, "--timeout", "600", "-m", "shortened"),
            {"JOEY_FULL": "1"},
        ),
        Step(
            "100,000 broken frames",
            (*PYTEST, "-s", "tests/server/test_fuzz.py"),
            {"JOEY_FUZZ": "100000"},
        ),
        Step("200 kills", (*PYTEST, "tests/e2e/test_kill.py"), {"JOEY_KILLS": "200"}),
        Step(
            "20 delays per stream",
            (*PYTEST, "tests/cli/test_stdin_stream.py"),
            {"JOEY_STREAM_RUNS": "20"},
        ),
        Step(
            "20,000 steps of tasks",
            (*PYTEST, "--timeout", "3600", *LONG_TASKS),
            {"JOEY_LONG_STEPS": "20000", "JOEY_LONG_SEED": str(int(time.time()))},
        ),
        Step(
            "1,000 random programs",
            (*PYTEST, *PARALLEL, "tests/system/test_programs.py"),
            {"JOEY_PROGRAMS": "1000"},
        ),
        Step(
            "20 moments to stop",
            (*PYTEST, "tests/cli/test_pipes_stopped.py"),
            {"JOEY_STOPS": "20"},
        ),
        Step(
            "200,000 swapped paths",
            (*PYTEST, "tests/workspace/test_path_races.py"),
            {"JOEY_SWAPS": "200000"},
        ),
        Step("hours of work in one process", ("bench.soak",)),
        Step("200,000 files", ("bench.trees", "200000")),
        Step("100,000 tasks", ("bench.task_list", "100000")),
        Step("100,000 tasks to adopt", ("bench.adoption", "100000")),
    ),
    "bench": (Step("goals", ("bench",)), Step("the page", ("bench.page",))),
    "llamacpp": (
        Step("installing llama.cpp", ("scripts.llamacpp",)),
        Step("tasks with a real model", (*PYTEST, "-s", *REAL_MODEL)),
    ),
    "npmclients": (
        Step("installing coding agents", ("scripts.npm_clients",)),
        Step("real clients of the proxy", (*PYTEST, "-s", "tests/harness/proxy/real_clients.py")),
    ),
    "ray": (Step("workers on Ray", (*PYTEST, "tests/harness/batch/ray_recipe.py")),),
}


def main(lanes: Sequence[str]) -> int:
    unknown = set(lanes) - LANES.keys()
    if unknown or not lanes:
        print(f"usage: python -m scripts.lanes {{{','.join(LANES)}}}…", file=sys.stderr)
        return 2
    steps = [step for lane in lanes for step in LANES[lane]]
    results: list[Result] = []
    try:
        for step in steps:
            print(f"== {step.name}: {' '.join(step.module)}", flush=True)
            results.append(_run(step))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    print(_render(results))
    return int(len(results) < len(steps) or any(result.code for result in results))


def _run(step: Step) -> Result:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", *step.module], env={**os.environ, **step.env}, check=False
    )
    return Result(step, done.returncode, time.monotonic() - started)


def _render(results: Sequence[Result]) -> str:
    width = max((len(result.step.name) for result in results), default=0)
    lines = [f"{'what':{width}}  result     time"]
    for step, code, seconds in results:
        outcome = "ok" if code == 0 else f"failed {code}"
        minutes, rest = divmod(round(seconds), 60)
        lines.append(f"{step.name:{width}}  {outcome:10}{minutes:3}:{rest:02}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
