"""The real program, with an appointed end: it is killed right after its n-th journal record.

    python mortal.py N [torn] ARGUMENTS…

With `torn` it dies in the middle of that record. Nothing of the product knows of this.
"""

from __future__ import annotations

import os
import signal
import sys

from joey.cli.main import main
from joey.core.events import Record
from joey.stores import journal
from joey.stores.private_files import write_fully


def appoint(last: int, torn: bool) -> None:
    left = last
    append = journal.Journal.append

    def write_half(descriptor: int, data: bytes) -> None:
        if left == 0 and torn:
            os.write(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write_fully(descriptor, data)

    def count(self: journal.Journal, record: Record) -> None:
        nonlocal left
        left -= 1
        append(self, record)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    journal.write_fully = write_half  # type: ignore[attr-defined]
    journal.Journal.append = count  # type: ignore[method-assign]


if __name__ == "__main__":
    number, *arguments = sys.argv[1:]
    is_torn = arguments[0] == "torn"
    appoint(int(number), is_torn)
    sys.exit(main(arguments[is_torn:]))
