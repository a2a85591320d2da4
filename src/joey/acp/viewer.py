"""What an editor runs in its terminal: it prints what a command prints that runs elsewhere.

It is started by itself, without joey: all it knows is the socket, and which command to ask for.
Text never holds a byte 255, so that one says that the next byte is how the command has ended.
"""

from __future__ import annotations

import os
import socket
import sys

END = b"\xff"
PIECE = 64 * 1024
JOEY_IS_GONE = 1


def view(path: str, number: str) -> int:
    """Print until the command has ended; its exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(f"{number}\n".encode())
        while piece := connection.recv(PIECE):
            text, end, code = piece.partition(END)
            _print(text)
            if end:
                code = code or connection.recv(1)
                return code[0] if code else JOEY_IS_GONE
    return JOEY_IS_GONE


def _print(text: bytes) -> None:
    while text:
        text = text[os.write(1, text) :]


if __name__ == "__main__":
    try:
        sys.exit(view(sys.argv[1], sys.argv[2]))
    except (OSError, KeyboardInterrupt) as error:
        sys.exit(f"joey shows nothing here any more: {error}")
