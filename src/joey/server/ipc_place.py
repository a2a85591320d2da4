"""Where the IPC socket lies: a file that belongs to its owner alone, made and removed with care."""

from __future__ import annotations

import socket
import stat
from contextlib import suppress
from pathlib import Path

from joey.errors import ConfigError
from joey.system.files import make_folder


def bind(path: Path) -> tuple[socket.socket, int]:
    """A socket at `path` for its owner alone, and the number of its file. Nobody can connect
    before it listens.

    Raises:
        ConfigError: the socket cannot be made there.
    """
    try:
        make_folder(path.parent)
        _check_folder(path.parent)
        _clear(path)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    try:
        made.bind(str(path))
        path.chmod(0o600)
    except OSError as error:
        made.close()
        raise _unusable(path, error.strerror or str(error)) from error
    return made, path.lstat().st_ino


def _check_folder(folder: Path) -> None:
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise _unusable(folder, "everybody may write there, and could put another in its place")


def _clear(path: Path) -> None:
    """Remove what a server left that is no more; a live one keeps its place."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise _unusable(path, "there is a file of that name, which is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise _unusable(path, "another program listens there")


def remove(path: Path, made: int) -> None:
    """Remove our socket file, unless it is not ours any more."""
    with suppress(FileNotFoundError):  # newer versions of asyncio do it themselves
        if path.lstat().st_ino == made:
            path.unlink()


def _unusable(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"The IPC socket {path} cannot be used: {reason}.")
