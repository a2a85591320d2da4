"""How cost grows: each measure at two sizes. Twice the work may cost at most 2.3 times the CPU."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
from msgspec import structs
from rapidfuzz.distance import Levenshtein

from bench.runs import ModelProcess, build_environment, measure, start_model
from bench.scenarios import build_prompt, make_workspace
from bench.tables import format_verdict, print_table
from joey import Unattended, make_options, open_engine
from joey.core.edits.search_replace import AppliedBlocks, apply_blocks
from joey.core.events import RequestStarted

MAX_DOUBLED_RATIO = 2.3
MAX_LATE_RATIO = 1.5
BLOCK_COUNT = 20
UNLIMITED_WINDOW_TOKENS = 100_000_000
"""A window that is never full: `bench.long` is about those that are."""


def main() -> None:
    rows = [["CPU s", "small", "large", "ratio", "goal", ""]]
    with start_model() as model:
        empty = median(measure(model, "joey", "done").cpu_s for _ in range(3))
        for name, scenario, size in (
            ("streamed arguments, 200 and 400 KB", "write", 200_000),
            ("streamed text, 5,000 and 10,000 chunks", "text", 5_000),
        ):
            small, large = (measure_stream(model, scenario, n, empty) for n in (size, 2 * size))
            rows.append(format_row(name, small, large, MAX_DOUBLED_RATIO))
        costs, size = asyncio.run(measure_turn_costs(model.url, 1000))
    rows.append(
        format_row(
            "a task of 250 and 500 turns", sum(costs[:250]), sum(costs[:500]), MAX_DOUBLED_RATIO
        )
    )
    for name, change in (("exact", keep_line), ("loosely matched", respace_line)):
        small, large = (measure_edits(lines, change) for lines in (10_000, 20_000))
        rows.append(
            format_row(
                f"{BLOCK_COUNT} {name} edits, 10,000 and 20,000 lines",
                small,
                large,
                MAX_DOUBLED_RATIO,
            )
        )
    early, late = median(costs[8:28]), median(costs[-20:])
    rows.append(format_row("a turn at message 20 and 2,000, with sending", early, late, None))
    early, late = early - measure_bare_send(size // 100), late - measure_bare_send(size)
    rows.append(format_row("the same, a bare send of its bytes apart", early, late, MAX_LATE_RATIO))
    print_table("How cost grows", rows)


def format_row(name: str, small: float, large: float, goal: float | None) -> list[str]:
    ratio = large / small
    cells = [name, f"{small:.4f}", f"{large:.4f}", f"{ratio:.2f}x"]
    return [*cells, "", ""] if goal is None else [*cells, f"{goal}x", format_verdict(ratio, goal)]


def measure_stream(model: ModelProcess, scenario: str, size: int, empty: float) -> float:
    return median(measure(model, "joey", scenario, size).cpu_s for _ in range(3)) - empty


def measure_bare_send(size: int) -> float:
    """CPU seconds of handing so many bytes to a socket, as a plain program would."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
    reader = threading.Thread(target=drain_socket, args=(receiver,))
    reader.start()
    costs = []
    for _ in range(20):
        started = time.thread_time()
        sender.sendall(b"".join([b"x" * size]))
        costs.append(time.thread_time() - started)
    sender.close()
    reader.join()
    receiver.close()
    return median(costs)


def drain_socket(sock: socket.socket) -> None:
    while sock.recv(1 << 20):
        pass


async def measure_turn_costs(url: str, turns: int) -> tuple[list[float], int]:
    """CPU seconds of each turn of one long task, all included; and how long it got in bytes."""
    with TemporaryDirectory(prefix="joey-bench-") as name:
        directory, env = Path(name), build_environment()
        make_workspace(directory)
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
        wide = structs.replace(options.profile, context_window=UNLIMITED_WINDOW_TOKENS)
        options = structs.replace(options, profile=wide)
        stamps: list[float] = []
        async with open_engine(home=directory / "home", env=env) as engine:
            task = await engine.start(build_prompt("read", turns), options=options)
            async for event in task.events():
                if isinstance(event, RequestStarted):
                    stamps.append(time.process_time())
        size = sum(len(msgspec.json.encode(message)) for message in task.messages)
    return [after - before for before, after in pairwise(stamps)], size


def measure_edits(lines: int, change: Callable[[str], str]) -> float:
    """CPU seconds of edits without line hints, spread over a file."""
    text = [f"    value_{line} = compute(previous, {line * 7919 % 1000})" for line in range(lines)]
    blocks = []
    for number in range(BLOCK_COUNT):
        at = (number * 2 + 1) * lines // (2 * BLOCK_COUNT)
        search = "\n".join(map(change, text[at : at + 6]))
        blocks.append(f"<<<<<<< SEARCH\n{search}\n=======\nnew_{number} = 1\n>>>>>>> REPLACE\n")
    source, diff = "\n".join(text), "\n".join(blocks)
    started = time.process_time()
    result = apply_blocks(source, diff, similarity=Levenshtein.normalized_similarity)
    cost = time.process_time() - started
    assert isinstance(result, AppliedBlocks)
    assert result.applied_count == BLOCK_COUNT
    return cost


def keep_line(line: str) -> str:
    return line


def respace_line(line: str) -> str:
    return line.replace(" = ", "  =  ")


if __name__ == "__main__":
    main()
