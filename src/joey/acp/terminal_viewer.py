"""The program in an editor's terminal that prints the output of a command run elsewhere.

A module of its own because it runs in a process of its own, without joey: it knows only the socket
and which command to ask for. Text never holds a byte 255, so that byte says that the next one is
the exit code of the command.
"""

from __future__ import annotations

import os
import socket
import sys

END_MARKER = b"\xff"
READ_CHUNK_BYTES = 64 * 1024
DISCONNECTED_EXIT_CODE = 1


def print_command_output(connection: socket.socket, number: str) -> int:
    """Print until the command has ended; its exit code."""
    connection.sendall(f"{number}\n".encode())
    while chunk := connection.recv(READ_CHUNK_BYTES):
        text, end, code = chunk.partition(END_MARKER)
        _write_stdout(text)
        if end:
            code = code or connection.recv(1)
            return code[0] if code else DISCONNECTED_EXIT_CODE
    return DISCONNECTED_EXIT_CODE


def _write_stdout(text: bytes) -> None:
    while text:
        text = text[os.write(1, text) :]


if __name__ == "__main__":
    try:
        joey_socket = socket.socket(socket.AF_UNIX)
        joey_socket.connect(sys.argv[1])
        # At once, and not before: joey lets go of the terminal when it hears no more of us, and
        # then the editor would end us in another way.
        os._exit(print_command_output(joey_socket, sys.argv[2]))
    except (OSError, KeyboardInterrupt) as error:
        sys.exit(f"joey shows nothing here any more: {error}")
