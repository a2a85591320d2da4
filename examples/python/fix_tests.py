"""Let joey fix the failing tests of a directory: python fix_tests.py [DIRECTORY]"""

from __future__ import annotations

import sys

import joey
from joey.events import ToolStarted


def show(event: joey.Event) -> None:
    if isinstance(event, ToolStarted):
        print(f"… {event.tool}", file=sys.stderr)


def main() -> int:
    result = joey.run_sync(
        "Run `python -m pytest -q`, and fix what fails without changing the tests.",
        workspace=sys.argv[1] if len(sys.argv) > 1 else ".",
        allow_writes=True,
        allow=("python -m pytest",),
        limits=joey.Limits(max_turns=50, max_seconds=1800),
        on_event=show,
    )
    print(result.text or result.ending)
    print(f"{result.usage.total_tokens_in} tokens in, {result.usage.total_tokens_out} out")
    return 0 if result.succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
