"""Copies of a process that has imported all of joey, for tests that start the program.

`python -m joey` takes longer to import than most commands take to run. `start_process` is
`asyncio.create_subprocess_exec` for it: the same kind of object, with a process of its own that has
the streams, directory, environment and session that it was given, but forked from a server that did
the imports once. What cannot be set in a running interpreter (`PYTHON…` variables, another locale,
`preexec_fn`) gets a new interpreter.
"""

from __future__ import annotations

import array
import asyncio
import atexit
import fcntl
import gc
import os
import pickle
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback
from asyncio.base_subprocess import BaseSubprocessTransport
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process, SubprocessStreamProtocol
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from msgspec import Struct

from tests.harness.paths import ROOT

JOEY = "joey.cli.main"
LOCALE = "C.UTF-8"
READ_LIMIT = 64 * 1024 * 1024
_DESCRIPTORS = 5
"""Standard streams, the order, and where to report the process and its end."""
_NUMBER = struct.Struct("i")
_STREAMS = (
    ("stdin", "r", -1, "surrogateescape"),
    ("stdout", "w", -1, "surrogateescape"),
    ("stderr", "w", 1, "backslashreplace"),
)
_LATE_IMPORTS = ("rapidfuzz.distance", "tree_sitter_bash", "yaml")
"""Imported by functions of joey, besides its own modules."""


class Order(Struct):
    module: str
    arguments: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    umask: int = -1
    start_new_session: bool = False
    controls_terminal: bool = False
    """Its standard input becomes the terminal that it controls."""


# Starting processes


async def start_process(
    *arguments: str,
    env: Mapping[str, str],
    cwd: Path,
    stdin: Any = DEVNULL,
    stdout: Any = PIPE,
    stderr: Any = PIPE,
    **options: Any,
) -> Process:
    """`python -m joey` with these arguments; `options` as of `Popen`, or of an `Order`."""
    if not _can_be_forked(env, options):
        if options.pop("controls_terminal", False):
            options["preexec_fn"] = _control_terminal
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "joey", *arguments),
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            limit=READ_LIMIT,
            **options,
        )
    order = Order(JOEY, arguments, dict(env), str(cwd), **options)
    return await _start(_server(), order, stdin, stdout, stderr)


async def start_module(
    module: str,
    *arguments: str,
    env: Mapping[str, str],
    cwd: Path = Path("/"),
    python: tuple[str, ...] = (sys.executable,),
    visible_env: Mapping[str, str] | None = None,
    stdin: Any = DEVNULL,
    stdout: Any = DEVNULL,
    stderr: Any = None,
) -> Process:
    """`python -m module`. With `visible_env`, a server of its own has been started as `python`, and
    others see these variables, and the name of the module, as those of the process."""
    server = _server() if visible_env is None else _server(python, module, *visible_env.items())
    order = Order(module, arguments, dict(env), str(cwd))
    return await _start(server, order, stdin, stdout, stderr)


async def _start(server: socket.socket, order: Order, *streams: Any) -> Process:
    loop = asyncio.get_running_loop()
    protocol = SubprocessStreamProtocol(limit=READ_LIMIT, loop=loop)
    ready: asyncio.Future[None] = loop.create_future()
    given: Any = (server, order)
    stdin, stdout, stderr = streams
    transport = _Transport(loop, protocol, given, False, stdin, stdout, stderr, 0, waiter=ready)
    await ready
    transport.watch()
    return Process(transport, protocol, loop)


def run_process(
    *arguments: str, env: Mapping[str, str], cwd: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """`python -m joey` from its start to its end, without an event loop."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin.encode())
        given.seek(0)
        env = {"PATH": os.environ["PATH"], "PYTHONWARNINGS": "error", **env}
        assert _can_be_forked(env, {}), env
        process = _ForkedProcess(_server(), Order(JOEY, arguments, env, str(cwd)), given, out, err)
        code = process.wait()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(
            arguments, code, out.read().decode(), err.read().decode()
        )


def _control_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _can_be_forked(env: Mapping[str, str], options: Mapping[str, Any]) -> bool:
    return (
        hasattr(os, "pidfd_open")
        and options.keys() <= set(Order.__struct_fields__)
        and env.get("LANG", LOCALE) == LOCALE
        and env.get("PYTHONWARNINGS") == "error"
        and not any(
            name.startswith(("LC_", "LD_", "PYTHON")) and name != "PYTHONWARNINGS" for name in env
        )
    )


class _Transport(BaseSubprocessTransport):
    _proc: Any
    _loop: asyncio.AbstractEventLoop

    def _start(
        self, args: Any, shell: bool, stdin: Any, stdout: Any, stderr: Any, bufsize: int, **_: Any
    ) -> None:
        self._proc = _ForkedProcess(*args, stdin, stdout, stderr)

    def watch(self) -> None:
        self._loop.add_reader(self._proc.report, self._on_report)

    def _on_report(self) -> None:
        self._loop.remove_reader(self._proc.report)
        self._process_exited(self._proc.wait())


class _ForkedProcess:
    """The part of `Popen` that asyncio uses."""

    def __init__(self, server: socket.socket, order: Order, *streams: Any) -> None:
        self.returncode: int | None = None
        ours: list[IO[bytes] | None] = []
        theirs: list[int] = []
        opened: list[int] = []
        for number, stream in enumerate(streams):
            mine: IO[bytes] | None = None
            if stream == PIPE:
                reading, writing = os.pipe()
                given, kept = (reading, writing) if number == 0 else (writing, reading)
                mine = os.fdopen(kept, "wb" if number == 0 else "rb", buffering=0)
                opened.append(given)
            elif stream == STDOUT:
                given = theirs[1]
            elif stream == DEVNULL:
                given = os.open(os.devnull, os.O_RDWR)
                opened.append(given)
            elif stream is None:
                given = number
            else:
                given = stream if isinstance(stream, int) else stream.fileno()
            ours.append(mine)
            theirs.append(given)
        self.stdin, self.stdout, self.stderr = ours
        self.report, reporting = os.pipe()
        with tempfile.TemporaryFile() as file:
            pickle.dump(order, file)
            file.flush()
            descriptors = array.array("i", [*theirs, file.fileno(), reporting])
            attached = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
            server.sendmsg([b"."], attached)
        for each in (*opened, reporting):
            os.close(each)
        self.pid = self._read_number()

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self.report], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(self._read_number())
            os.close(self.report)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_number(self) -> int:
        data = os.read(self.report, _NUMBER.size)
        assert data, "the fork server has died"
        number: int = _NUMBER.unpack(data)[0]
        return number


@cache
def _server(
    python: tuple[str, ...] = (sys.executable,), module: str = JOEY, *env: tuple[str, str]
) -> socket.socket:
    """A fork server of this process, which ends with it."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [*python, "-m", "tests.harness.fork_server", str(theirs.fileno()), module],
        env={
            "PATH": os.environ["PATH"],
            "LANG": LOCALE,
            **(dict(env) or {"PYTHONWARNINGS": "error"}),
        },
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
    theirs.close()

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


# The server


def main(descriptor: int, module: str) -> None:
    server = socket.socket(fileno=descriptor)
    server.set_inheritable(False)
    import_module(module)
    if module == JOEY:
        _import_everything()
    gc.collect()
    gc.freeze()
    poller = select.poll()
    poller.register(server, select.POLLIN)
    running: dict[int, tuple[int, int]] = {}
    """Process and where to report its end, by the descriptor that tells of it."""
    while True:
        for ready, _ in poller.poll():
            if ready in running:
                pid, reporting = running.pop(ready)
                poller.unregister(ready)
                _report(reporting, os.waitpid(pid, 0)[1])
                for each in (ready, reporting):
                    os.close(each)
                continue
            descriptors = _receive(server)
            if not descriptors:
                server.close()
                return
            if not (pid := os.fork()):
                for inherited, (_, reporting) in running.items():
                    os.close(inherited)
                    os.close(reporting)
                server.close()
                _become(descriptors)
            ended = os.pidfd_open(pid)
            running[ended] = (pid, descriptors[-1])
            poller.register(ended, select.POLLIN)
            _report(descriptors[-1], pid)
            for each in descriptors[:-1]:
                os.close(each)


def _receive(server: socket.socket) -> list[int]:
    numbers = array.array("i")
    room = socket.CMSG_SPACE(_DESCRIPTORS * numbers.itemsize)
    _, attached, *_ = server.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
    for *_, data in attached:
        numbers.frombytes(data)
    return numbers.tolist()


def _report(descriptor: int, number: int) -> None:
    with suppress(BrokenPipeError):  # the test has ended without it
        os.write(descriptor, _NUMBER.pack(number))


def _become(descriptors: list[int]) -> None:
    """Run what was ordered, in a new process, and exit."""
    *streams, ordered, reporting = descriptors
    os.close(reporting)
    with os.fdopen(ordered, "rb") as file:
        file.seek(0)
        order: Order = pickle.load(file)
    module = import_module(order.module)
    if order.start_new_session:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if order.controls_terminal:
        _control_terminal()
    if order.umask >= 0:
        os.umask(order.umask)
    os.chdir(order.cwd)
    os.environ.clear()
    os.environ.update(order.env)
    time.tzset()
    sys.argv = [str(ROOT / "src/joey/__main__.py"), *order.arguments]
    sys.path[0] = order.cwd
    for number, (name, mode, buffering, errors) in enumerate(_STREAMS):
        opened = os.fdopen(number, mode, buffering, encoding="utf-8", errors=errors)
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)
    os._exit(_run(module))


def _run(module: ModuleType) -> int:
    """All of an interpreter's end but the slow part: to take apart what was imported."""
    code = 1
    try:
        code = (module.run if hasattr(module, "run") else module.main)() or 0
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    except BaseException:
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    return code


def _import_everything() -> None:
    import joey

    def import_package(package: ModuleType) -> None:
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                imported = import_module(module.name)
                if module.ispkg:
                    import_package(imported)

    import_package(joey)
    for name in _LATE_IMPORTS:
        import_module(name)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
