"""The scripted model in a process of its own: `python -m bench.model LOG`.

Writes its address as the first line of its output, and to LOG, for each request, when its last
byte came and when the last byte of the answer was handed to the system.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

from bench.scenarios import choose_turn
from joey.testing.server import ModelServer, Request


async def serve(log: Path) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    with log.open("a", buffering=1, encoding="utf-8") as file:

        def arrived(request: Request) -> None:
            file.write(f"arrived {request.arrived}\n")

        def answered(_: Request) -> None:
            file.write(f"answered {time.perf_counter()}\n")

        async with ModelServer(choose_turn) as server:
            server.on_request = arrived
            server.on_answered = answered
            print(server.url, flush=True)
            await stopped.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
