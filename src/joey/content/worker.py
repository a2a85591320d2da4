"""Main function of the isolated worker processes: limits, one request, one answer.

Workers import it, so it imports nothing that starts slowly; `isolated` starts them.
"""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable
from contextlib import suppress

from joey.errors import ToolError

MEMORY = 1024**3
CPU_SECONDS = 20
REFUSED = 3
"""Exit code: what was printed is the reason why nothing can be made of the file."""

_LIMITS = {
    resource.RLIMIT_AS: MEMORY,
    resource.RLIMIT_CPU: CPU_SECONDS,
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NOFILE: 64,
}


def serve(work: Callable[[bytes], bytes]) -> None:
    """Answer one request: the file on stdin, the result of `work` on stdout."""
    for kind, most in _LIMITS.items():
        # macOS knows some of these limits by name only; the time-out is there all the same.
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))
    gc.disable()  # nothing lives long enough here to be worth looking for
    code, answer = _answer(work)
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    sys.exit(code)


def _answer(work: Callable[[bytes], bytes]) -> tuple[int, bytes]:
    try:
        return 0, work(sys.stdin.buffer.read())
    except ToolError as error:
        return REFUSED, str(error).encode(errors="replace")
    except MemoryError:
        return REFUSED, f"it takes more than {MEMORY // 2**20} MB of memory to unpack.".encode()
    except RecursionError:
        return REFUSED, b"it is too deeply nested."
