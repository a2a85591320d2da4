"""One run of a program against the scripted model, measured from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from bench.scenarios import build_prompt, make_workspace

BASELINE_SCRIPT = Path(__file__).parent / "floor.py"
SAMPLE_INTERVAL_S = 0.01


class MeasuredRun(Struct, frozen=True):
    start_time: float
    end_time: float
    cpu_s: float
    """Seconds, of the process and those it waited for."""
    peak_memory_mb: float
    request_times: tuple[float, ...]
    answer_times: tuple[float, ...]

    @property
    def cold_start_s(self) -> float:
        return self.request_times[0] - self.start_time

    @property
    def exit_s(self) -> float:
        return self.end_time - self.answer_times[-1]

    @property
    def turn_durations_s(self) -> list[float]:
        """Seconds from the last byte of each answer to the next request."""
        return [
            after - before
            for before, after in zip(self.answer_times, self.request_times[1:], strict=False)
        ]


class ModelProcess:
    """The scripted model's process, as seen from the harness."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self._log = log
        self._lines_read = 0

    def take_times(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Times of arrivals and answers since the last call."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        fresh, self._lines_read = lines[self._lines_read :], len(lines)
        times: dict[str, list[float]] = {"arrived": [], "answered": []}
        for line in fresh:
            kind, value = line.split()
            times[kind].append(float(value))
        return tuple(times["arrived"]), tuple(times["answered"])


@contextmanager
def start_model() -> Iterator[ModelProcess]:
    with TemporaryDirectory(prefix="joey-bench-") as directory:
        log = Path(directory, "log")
        log.touch()
        command = [sys.executable, "-m", "bench.model", str(log)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=build_environment()
        )
        assert process.stdout is not None
        try:
            yield ModelProcess(process.stdout.readline().strip(), log)
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def build_joey_command(url: str, scenario: str, size: int) -> list[str]:
    joey = str(Path(sys.executable).with_name("joey"))
    flags = ["-y", "--provider", "anthropic", "--base-url", url, "-m", "test-model"]
    return [joey, "-p", build_prompt(scenario, size), *flags, "--output-format", "json"]


def build_baseline_command(url: str, scenario: str, size: int) -> list[str]:
    host, port = url.removeprefix("http://").split(":")
    return [sys.executable, str(BASELINE_SCRIPT), host, port, build_prompt(scenario, size)]


COMMAND_BUILDERS = {"floor": build_baseline_command, "joey": build_joey_command}


def measure(model: ModelProcess, program: str, scenario: str, size: int = 0) -> MeasuredRun:
    return measure_command(model, COMMAND_BUILDERS[program](model.url, scenario, size))


def measure_command(model: ModelProcess, command: Sequence[str], **variables: str) -> MeasuredRun:
    """Run a command in a workspace and a home of its own, with these environment variables.

    Raises:
        RuntimeError: the program failed; nothing else it did would mean anything.
    """
    with TemporaryDirectory(prefix="joey-bench-") as directory:
        workspace = Path(directory, "workspace")
        workspace.mkdir()
        make_workspace(workspace)
        env = (
            build_environment() | {"HOME": directory, "JOEY_HOME": f"{directory}/home"} | variables
        )
        model.take_times()
        return _run_measured(model, command, workspace, env)


def _run_measured(
    model: ModelProcess, command: Sequence[str], cwd: Path, env: dict[str, str]
) -> MeasuredRun:
    with (cwd.parent / "output").open("w+b") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        memory = _MemorySampler(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        ended = time.perf_counter()
        process.returncode = os.waitstatus_to_exitcode(status)
        memory.stop()
        if process.returncode != 0:
            output.seek(0)
            said = output.read().decode(errors="replace")[-2000:]
            raise RuntimeError(f"{' '.join(command)} exited with {process.returncode}:\n{said}")
    arrived, answered = model.take_times()
    return MeasuredRun(
        start_time=started,
        end_time=ended,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_memory_mb=memory.peak_mb,
        request_times=arrived,
        answer_times=answered,
    )


class _MemorySampler:
    """Watches how much memory a process has had at most."""

    def __init__(self, pid: int) -> None:
        self.peak_mb = 0.0
        self._status_file = Path(f"/proc/{pid}/status")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stopped.wait(SAMPLE_INTERVAL_S):
            try:
                status = self._status_file.read_text(encoding="utf-8")
            except OSError:
                return
            for line in status.splitlines():
                if line.startswith("VmHWM:"):
                    self.peak_mb = max(self.peak_mb, int(line.split()[1]) / 1024)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def build_environment() -> dict[str, str]:
    """The caller's, but with bytecode kept, as on a machine where joey is installed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("JOEY_")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["ANTHROPIC_API_KEY"] = "bench"
    return env
