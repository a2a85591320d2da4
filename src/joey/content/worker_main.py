"""Main function of the isolated worker processes: limits, one request, one answer.

Workers import it, so it imports nothing slow; `isolated_workers` starts them.
"""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable
from contextlib import suppress

from joey.errors import ToolError

MAX_MEMORY_BYTES = 1024**3
MAX_CPU_S = 20
REFUSED_EXIT_CODE = 3
"""What was printed is the reason why nothing can be made of the file."""

_RESOURCE_LIMITS = {
    resource.RLIMIT_AS: MAX_MEMORY_BYTES,
    resource.RLIMIT_CPU: MAX_CPU_S,
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NOFILE: 64,
}


def serve_request(work: Callable[[bytes], bytes]) -> None:
    """Answer one request: the input on stdin, the result of `work` on stdout."""
    for kind, most in _RESOURCE_LIMITS.items():
        # macOS accepts some of these limits without enforcing them; the timeout still applies.
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))
    gc.disable()  # the process is too short-lived for garbage collection
    code, answer = handle_request(work, sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    sys.exit(code)


def handle_request(work: Callable[[bytes], bytes], data: bytes) -> tuple[int, bytes]:
    """Return the exit code and the answer."""
    try:
        return 0, work(data)
    except ToolError as error:
        reason = str(error)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0].replace("_", "-")
        reason = f"the Python package {package} is missing. Install it: pip install {package}"
    except MemoryError:
        reason = f"it takes more than {MAX_MEMORY_BYTES // 2**20} MB of memory to unpack."
    except RecursionError:
        reason = "it is too deeply nested."
    return REFUSED_EXIT_CODE, reason.encode(errors="replace")
