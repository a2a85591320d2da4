"""The way to the network for a command that has none: a socket that listens where it is.

A socket belongs to the network in which it was made, wherever it is held. So a child joins the
command's network, listens there, and hands the socket out; joey answers at it.
"""

from __future__ import annotations

import _socket
import os
import sys

from joey.sandboxes.kernel import join_network

_BACKLOG = 64
_DESCRIPTOR = 4


def open_door(pid: int, port: int) -> int:
    """Listens on the loopback of the network that a process lives in.

    Raises:
        OSError
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    child = os.fork()
    if not child:
        _hand_out(theirs, pid, port)
    theirs.close()
    try:
        said, attached, *_ = ours.recvmsg(512, _socket.CMSG_SPACE(_DESCRIPTOR))
    finally:
        ours.close()
        os.waitpid(child, 0)
    if not attached:
        raise OSError(said.decode(errors="replace") or "it could not be joined")
    return int.from_bytes(attached[0][2], sys.byteorder)


def _hand_out(taker: _socket.socket, pid: int, port: int) -> None:
    try:
        join_network(pid)
        door = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        door.bind(("127.0.0.1", port))
        door.listen(_BACKLOG)
        number = door.fileno().to_bytes(_DESCRIPTOR, sys.byteorder)
        taker.sendmsg([b"D"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, number)])
    except OSError as error:
        taker.send(str(error).encode()[:500])
    finally:
        os._exit(0)
