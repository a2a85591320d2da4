"""What `joey proxy` costs streams: a direct connection, the proxy and mitmdump in one interleaved
run.

The service and the proxies are processes of their own; the client is this one. *events*: streams of
120-byte events as fast as they come. *blocks*: the same with 16 KB pieces. *late*: how long after
it was sent each of 1,000 events a second arrives, ten streams at a time. `mitmdump` is measured
where it is installed; it records nothing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from msgspec import Struct

from bench.tables import print_table

ROUNDS = 5
FLAT_STREAMS = 4
EVENTS = 20_000
EVENT_BYTES = 120
BLOCKS = 1_000
BLOCK_BYTES = 16 * 1024
PACED_STREAMS = 10
PACED_EVENTS = 200
PACE_PER_S = 100
EVENT_RATIO_GOAL = 0.6
BLOCK_RATIO_GOAL = 0.3
LATE_GOAL_MS = 1.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_START_TIMEOUT_S = 30


class Way(Struct, frozen=True):
    """One way to the service."""

    name: str
    port: int
    pid: int | None = None
    """Of the proxy."""


class Figures(Struct):
    events_per_s: list[float]
    mb_per_s: list[float]
    late_ms: list[float]
    cpu_s: list[float]


def main() -> None:
    with ExitStack() as stack, TemporaryDirectory() as directory:
        ways = list(start_ways(stack, Path(directory)))
        figures = {way.name: Figures([], [], [], []) for way in ways}
        for number in range(ROUNDS + 1):
            for way in ways:
                asyncio.run(measure_round(way, figures[way.name] if number else None))
        print_figures(figures)


async def measure_round(way: Way, figures: Figures | None) -> None:
    """`figures` is None for the round that warms up."""
    cpu = read_cpu_s(way)
    events = await time_streams(way, f"/flat/{EVENT_BYTES}/{EVENTS}", FLAT_STREAMS)
    cpu = read_cpu_s(way) - cpu
    blocks = await time_streams(way, f"/flat/{BLOCK_BYTES}/{BLOCKS}", FLAT_STREAMS)
    late = await measure_lateness(way)
    if figures is not None:
        figures.events_per_s.append(FLAT_STREAMS * EVENTS / events)
        figures.mb_per_s.append(FLAT_STREAMS * BLOCKS * BLOCK_BYTES / 1e6 / blocks)
        figures.late_ms.append(median(late))
        figures.cpu_s.append(cpu)


def print_figures(figures: dict[str, Figures]) -> None:
    direct = figures["direct"]
    rows = [("way", "events/s", "of direct", "MB/s", "of direct", "p50 late", "added", "CPU ms")]
    for name, each in figures.items():
        rows.append(
            (
                name,
                f"{median(each.events_per_s):,.0f}",
                f"{find_ratio(each.events_per_s, direct.events_per_s):.2f}",
                f"{median(each.mb_per_s):,.0f}",
                f"{find_ratio(each.mb_per_s, direct.mb_per_s):.2f}",
                f"{median(each.late_ms):.2f} ms",
                f"{find_added(each.late_ms, direct.late_ms):+.2f} ms",
                f"{median(each.cpu_s) * 1000:.0f}" if name != "direct" else "",
            )
        )
    rows.append(("goal", "", f">={EVENT_RATIO_GOAL}", "", f">={BLOCK_RATIO_GOAL}", "", "<=1", ""))
    print_table(f"recording proxy, medians of {ROUNDS} interleaved rounds", rows)
    joey = figures["joey proxy"]
    checks = {
        "events": find_ratio(joey.events_per_s, direct.events_per_s) >= EVENT_RATIO_GOAL,
        "blocks": find_ratio(joey.mb_per_s, direct.mb_per_s) >= BLOCK_RATIO_GOAL,
        "late": find_added(joey.late_ms, direct.late_ms) <= LATE_GOAL_MS,
    }
    if "mitmdump" in figures:
        checks["CPU, half of mitmdump"] = (
            median(joey.cpu_s) <= median(figures["mitmdump"].cpu_s) / 2
        )
    print("  " + ", ".join(f"{name}: {'ok' if ok else 'miss'}" for name, ok in checks.items()))


def find_ratio(values: list[float], base: list[float]) -> float:
    return median(value / other for value, other in zip(values, base, strict=True))


def find_added(values: list[float], base: list[float]) -> float:
    return median(value - other for value, other in zip(values, base, strict=True))


# Processes --------------------------------------------------------------------------------------


def start_ways(stack: ExitStack, directory: Path) -> Iterator[Way]:
    _, service = stack.enter_context(start_program("bench.recording", "serve"))
    yield Way("direct", service)
    url = f"http://127.0.0.1:{service}"
    flags = ("--port", "0", "--anthropic", url, "--openai", url)
    book = ("--db", str(directory / "book.sqlite"))
    pid, port = stack.enter_context(start_program("joey", "proxy", *flags, *book))
    yield Way("joey proxy", port, pid)
    if program := shutil.which("mitmdump"):
        pid, port = stack.enter_context(start_mitmdump(program, url, directory))
        yield Way("mitmdump", port, pid)


@contextmanager
def start_program(module: str, *arguments: str) -> Iterator[tuple[int, int]]:
    """A program whose first line ends with its port; its number and that port."""
    program = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert program.stdout is not None
        yield program.pid, int(program.stdout.readline().rpartition(":")[2])
    finally:
        program.kill()
        program.communicate()


@contextmanager
def start_mitmdump(program: str, url: str, directory: Path) -> Iterator[tuple[int, int]]:
    port = asyncio.run(find_free_port())
    options = ("--set", "stream_large_bodies=1", "--set", f"confdir={directory / 'mitmproxy'}")
    listen = ("--listen-host", "127.0.0.1", "-p", str(port))
    started = subprocess.Popen(
        [program, "-q", "--mode", f"reverse:{url}", *listen, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asyncio.run(wait_for_port(port))
        yield started.pid, port
    finally:
        started.kill()
        started.wait()


async def find_free_port() -> int:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with server:
        return int(server.sockets[0].getsockname()[1])


async def wait_for_port(port: int) -> None:
    async with asyncio.timeout(_START_TIMEOUT_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


def read_cpu_s(way: Way) -> float:
    if way.pid is None:
        return 0.0
    fields = Path(f"/proc/{way.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


# Client -----------------------------------------------------------------------------------------


async def time_streams(way: Way, target: str, count: int) -> float:
    started = time.perf_counter()
    await asyncio.gather(*(read_stream(way.port, target) for _ in range(count)))
    return time.perf_counter() - started


async def measure_lateness(way: Way) -> list[float]:
    """In milliseconds, of each event."""
    streams = [
        read_stream(way.port, f"/paced/{PACE_PER_S}/{PACED_EVENTS}") for _ in range(PACED_STREAMS)
    ]
    return [late for found in await asyncio.gather(*streams) for late in found]


async def read_stream(port: int, target: str) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 2\r\n\r\n{{}}"
    writer.write(head.encode())
    late: list[float] = []
    rest = b""
    while not rest.endswith(b"0\r\n\r\n"):
        data = await reader.read(1 << 18)
        if not data:
            raise ConnectionError("the stream was cut")
        if target.startswith("/paced"):
            now = time.monotonic_ns()
            late += [
                (now - int(line[4:])) / 1e6 for line in data.splitlines() if line[:4] == b"at: "
            ]
        rest = (rest + data)[-5:]
    writer.close()
    return late


# Service ----------------------------------------------------------------------------------------


async def serve() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        request = await reader.readuntil(b"\r\n\r\n{}")
        _, kind, first, second = request.split(b" ", 2)[1].decode().split("/")
        writer.write(_HEAD)
        if kind == "flat":
            await send_flat_out(writer, int(first), int(second))
        else:
            await send_paced(writer, int(first), int(second))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        await reader.read()
    except (ConnectionError, asyncio.IncompleteReadError):
        print("a client left", file=sys.stderr)
    finally:
        writer.close()


async def send_flat_out(writer: asyncio.StreamWriter, size: int, count: int) -> None:
    event = b"data: " + b"x" * (size - 8) + b"\n\n"
    chunk = b"%x\r\n%b\r\n" % (size, event)
    for _ in range(count):
        writer.write(chunk)
        await writer.drain()


async def send_paced(writer: asyncio.StreamWriter, rate: int, count: int) -> None:
    started = time.monotonic()
    for number in range(count):
        await asyncio.sleep(started + number / rate - time.monotonic())
        event = b"at: %d\n\n" % time.monotonic_ns()
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))


if __name__ == "__main__":
    asyncio.run(serve())
