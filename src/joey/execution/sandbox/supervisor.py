"""The supervisor process of a confined command: starts it, waits for it, kills what is left.

    joey ── fork server ── supervisor ── bubblewrap ── the first process inside ── the shell
                                     └── (landlock) the shell

It lives until everything that the shell started has ended. joey talks to it over a socket: `T`
asks all processes inside to end, and the end of the socket, which also comes when joey dies, kills
them at once. It answers `R` and its process id when the command runs, together with a listening
socket if the command may reach some hosts, or `F` and a reason when the command could not be
confined; and then `E` and the shell's exit code, with a `!` when nothing is left inside.

It is a fork of the fork server, so nothing that is slow to import may be imported here.
"""

from __future__ import annotations

import _socket
import os
import select
import sys
import time

from joey.execution.sandbox.launcher import CommandLauncher
from joey.execution.sandbox.protected_scan import MountPlaceholders
from joey.execution.sandbox.restore import NewProtectedFileFinder, OwnWrites, ProtectedFileRestorer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_POLL_INTERVAL_MS = 200
"""Milliseconds between two looks for orphans that have ended."""
_SIGTERM, _SIGKILL = 15, 9
_MAX_REASON_BYTES = 2000
_MAX_RESTORE_MESSAGES = 20
_CHILDREN_EXIT_GRACE_S = 0.1
"""Seconds in which what the shell has started may end as well, before it counts as left behind."""
_DESCRIPTOR_BYTES = 4
_LAST_REPORT_FLAG = b"!"


class Supervisor:
    def __init__(self, plan: dict[str, Any], control: int) -> None:
        self._plan = plan
        self._control = control
        self._is_full = plan["level"] == "full"
        self._placeholders = MountPlaceholders(plan["workspace"])
        guarded, pinned = plan["guarded"], plan["pinned"]
        self._restorer = ProtectedFileRestorer(
            plan["workspace"], guarded, pinned, plan["aside"], OwnWrites(plan["written"])
        )
        self._aftermath = NewProtectedFileFinder(
            plan["workspace"],
            plan["folders"],
            {*guarded, *pinned, *plan["absent"]},
            set(plan["left_out"]),
        )
        self._child = 0
        self._code: int | None = None
        """How the shell has ended; negative: by this signal."""
        self._ended_at = 0.0
        self._has_reported_exit = False
        self._was_alone = False
        """The shell has left nothing behind."""
        self._asked: int = 0
        """The signal that was sent by us, if any."""
        self._status = -1
        """Where the first process inside says how the shell has ended."""
        self._status_data = b""

    def run(self) -> None:
        self._output = os.dup(1)
        try:
            runs = self._start()
            _silence()
            if runs:
                self._watch()
        finally:
            try:
                self._end_all()
                if self._is_full and not self._was_alone:
                    self._tidy()  # what was left behind may have made names since
            finally:
                self._placeholders.drop()
            self._report_exit(_LAST_REPORT_FLAG)

    # The beginning

    def _start(self) -> bool:
        """Whether the command could be confined."""
        if self._is_given_up():
            return False
        self._status, ends = os.pipe()
        errors, complains = os.pipe()
        gate, opens = os.pipe()
        entrance = CommandLauncher(self._plan, self._placeholders)
        try:
            self._child = os.fork()
        except OSError as error:
            answer(self._control, no_process(error))
            return False
        if not self._child:
            os.close(opens)
            entrance.enter(ends, complains, gate)
        for each in (ends, complains, gate):
            os.close(each)
        proxy_socket, reason = None, self._failure(errors)
        if not reason:
            proxy_socket, reason = self._open_proxy_socket()
        if reason:
            answer(self._control, b"F" + reason[:_MAX_REASON_BYTES])
            os.close(opens)
            return False
        answer(self._control, b"R%d" % os.getpid(), proxy_socket)
        os.write(opens, b"\n" if self._is_full and self._plan["port"] else b"")
        os.close(opens)
        return True

    def _is_given_up(self) -> bool:
        """Nobody waits for the command any more."""
        poll = select.poll()
        poll.register(self._control, select.POLLRDHUP)
        return bool(poll.poll(0))

    def _failure(self, errors: int) -> bytes:
        """Why the command does not run; empty when it does."""
        if self._is_full:
            if os.read(self._status, 6) == b"ready\n":
                return b""
        elif not (said := _read_all(errors)):
            return b""
        else:
            return said
        return _read_all(errors) or b"it ended without a word"

    def _open_proxy_socket(self) -> tuple[int | None, bytes]:
        """Where joey hears from inside who is to be reached, and why it cannot."""
        if not self._plan["port"]:
            return None, b""
        from joey.execution.sandbox.kernel import listen_in_network_namespace

        try:
            return listen_in_network_namespace(descendants(self._child)[0], self._plan["port"]), b""
        except (OSError, IndexError) as error:
            return None, f"no way to the network could be made: {error}".encode()

    # The middle

    def _watch(self) -> None:
        poll = select.poll()
        status = [self._status] if self._is_full else []
        sources = [self._control, os.pidfd_open(self._child), *status]
        for each in sources:
            poll.register(each, select.POLLIN)
        while self._child:
            for ready, _ in poll.poll(self._patience()):
                if ready == self._control:
                    self._obey(poll)
                elif ready == self._status:
                    self._handle_status(poll)
                else:
                    poll.unregister(ready)
            self._reap()
            if self._child and self._patience() == 0:
                self._report_exit(b"")

    def _patience(self) -> int | None:
        """Milliseconds until something is to be done."""
        if self._code is not None and not self._has_reported_exit:
            left = self._ended_at + _CHILDREN_EXIT_GRACE_S - time.monotonic()
            return max(0, int(left * 1000))
        return None if self._is_full else _POLL_INTERVAL_MS

    def _obey(self, poll: select.poll) -> None:
        order = os.read(self._control, 1)
        if order == b"T":
            self._asked = _SIGTERM
            send(self._inside(), _SIGTERM)
            return
        poll.unregister(self._control)
        self._end_all()

    def _handle_status(self, poll: select.poll) -> None:
        said = os.read(self._status, 16)
        if not said:
            poll.unregister(self._status)
        if (code := self._code_in(said)) is None:
            return
        first = children(self._child)
        self._was_alone = bool(first) and not children(first[0])
        self._shell_ended(code)
        if self._was_alone:
            # Whoever waits need not see how the kernel takes an empty sandbox down.
            self._placeholders.drop()
            self._report_exit(_LAST_REPORT_FLAG)

    def _code_in(self, said: bytes) -> int | None:
        """How the shell has ended, once all of that was said. A command can say it too, and only
        lies about its own end."""
        self._status_data += said
        if self._code is not None or not self._status_data.endswith(b"\n"):
            return None
        said, self._status_data = self._status_data.strip(), b""
        code = int(said) if said.isdigit() else 255
        # The first process inside only knows the shell's way of telling a signal.
        return -self._asked if self._asked and code == 128 + self._asked else code

    def _read_final_exit_code(self) -> int:
        """Everything inside has ended; the shell may have done so by itself, unheard so far."""
        os.set_blocking(self._status, False)
        try:
            code = self._code_in(os.read(self._status, 16))
        except BlockingIOError:
            code = None  # What is being killed still holds it.
        return -_SIGKILL if code is None else code

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._child = 0
                return
            if not pid:
                return
            if pid == self._child and self._code is None:
                ended = os.waitstatus_to_exitcode(status)
                self._was_alone = True
                self._shell_ended(self._read_final_exit_code() if self._is_full else ended)

    def _shell_ended(self, code: int) -> None:
        self._code = code
        self._ended_at = time.monotonic()
        for sentence in self._tidy():
            _say(self._output, f"[joey: {sentence}]\n")
        os.close(self._output)

    def _tidy(self) -> list[str]:
        """Undo what was done to protected names; sentences about it."""
        messages = self._restorer.put_back()
        messages += filter(None, map(self._restorer.remove, self._aftermath.appeared()))
        if len(messages) > _MAX_RESTORE_MESSAGES:
            messages[_MAX_RESTORE_MESSAGES:] = [
                f"{len(messages) - _MAX_RESTORE_MESSAGES} more of that kind."
            ]
        return messages

    def _report_exit(self, last: bytes) -> None:
        """How the shell has ended."""
        if self._code is not None and not self._has_reported_exit:
            self._has_reported_exit = True
            answer(self._control, b"E%d%s" % (self._code, last))

    # The end

    def _inside(self) -> list[int]:
        """What the command has started, without what we need to hold it."""
        if not self._is_full:
            return descendants(os.getpid())
        first = descendants(self._child)[:1]
        return descendants(first[0]) if first else []

    def _end_all(self) -> None:
        self._asked = _SIGKILL
        if self._is_full:
            if self._child:
                send([self._child], _SIGKILL)
            self._wait_for_all()
            return
        while self._child and (found := descendants(os.getpid())):
            send(found, _SIGKILL)
            self._wait_for_all()

    def _wait_for_all(self) -> None:
        """For all that are our own children by now."""
        while self._child:
            before = self._child
            self._reap()
            if self._child == before:
                select.select((), (), (), 0.005)
                send(descendants(os.getpid()), _SIGKILL)


def no_process(error: OSError) -> bytes:
    return f"Fno process could be started: {error.strerror}".encode()


def answer(control: int, message: bytes, attached: int | None = None) -> None:
    """Say something to joey."""
    joey = _socket.socket(fileno=control)
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
    number = b"" if attached is None else attached.to_bytes(_DESCRIPTOR_BYTES, sys.byteorder)
    try:
        joey.sendmsg([message], [(*rights, number)] if number else [])
    except OSError:
        pass  # joey is gone; the end of the socket says so again.
    finally:
        joey.detach()
        if attached is not None:
            os.close(attached)


def _silence() -> None:
    """Let go of the output: it is over when the command lets go of it."""
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)


def _say(descriptor: int, text: str) -> None:
    try:
        os.write(descriptor, text.encode())
    except OSError:
        return  # Nobody listens any more.


def _read_all(descriptor: int) -> bytes:
    found = b""
    while data := os.read(descriptor, 4096):
        found += data
    os.close(descriptor)
    return found


def children(pid: int) -> list[int]:
    """Also those that have ended and were not asked about yet."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(each) for each in file.read().split()]
    except OSError:
        return descendants(pid)  # The kernel keeps no such list.


def descendants(pid: int) -> list[int]:
    """Nearest first; zombies are left out."""
    known: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # It ended meanwhile.
        if fields[0] not in (b"Z", b"X"):
            known.setdefault(int(fields[1]), []).append(int(name))
    found = list(known.get(pid, ()))
    for each in found:
        found += known.get(each, ())
    return found


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue  # It ended meanwhile.
