"""Work on files that nobody vouches for, in a process of its own.

A parser may loop, crash or fill the memory over a hostile file: a PDF that unfolds for ever, code
that makes a grammar overflow its stack. There that costs a process with limits, and never the
engine with all its tasks.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE

from joey.errors import ToolError
from joey.knowledge.confinement import CPU_SECONDS, REFUSED
from joey.system.subprocess import begun, end

_SECONDS = CPU_SECONDS + 10


async def run_apart(module: str, argument: str, data: bytes, seconds: float = _SECONDS) -> bytes:
    """What `python -m module argument` prints when it is given `data`.

    Raises:
        ToolError: it refused, died or took too long; the text is the reason, without a subject.
    """
    starting = asyncio.create_subprocess_exec(
        # Isolated: neither the current folder nor the environment decides what is imported.
        *(sys.executable, "-I", "-m", module, argument),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )
    process = await begun(starting)
    try:
        async with asyncio.timeout(seconds):
            answer, _ = await process.communicate(data)
    except TimeoutError as error:
        raise ToolError(f"it took longer than {seconds:g} s to make sense of it.") from error
    finally:
        await end(process)
    match process.returncode:
        case 0:
            return answer
        case code if code == REFUSED:
            raise ToolError(answer.decode(errors="replace"))
        case code if code == -signal.SIGXCPU:
            raise ToolError(f"it took longer than {CPU_SECONDS} s to make sense of it.")
    raise ToolError("it could not be made sense of: it is damaged, or too deeply nested.")
