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
"""For orphans that have ended."""
_SIGTERM, _SIGKILL = 15, 9
_MAX_REASON_BYTES = 2000
_MAX_RESTORE_MESSAGES = 20
_CHILDREN_EXIT_GRACE_S = 0.1
"""What the shell has started may end as well, before it counts as left behind."""
_DESCRIPTOR_BYTES = 4
_LAST_REPORT_FLAG = b"!"


class Supervisor:
    def __init__(self, plan: dict[str, Any], control_fd: int) -> None:
        self._plan = plan
        self._control_fd = control_fd
        self._is_full_level = plan["level"] == "full"
        self._placeholders = MountPlaceholders(plan["workspace"])
        guarded, pinned = plan["guarded"], plan["pinned"]
        self._restorer = ProtectedFileRestorer(
            plan["workspace"], guarded, pinned, plan["aside"], OwnWrites(plan["written"])
        )
        self._new_file_finder = NewProtectedFileFinder(
            plan["workspace"],
            plan["folders"],
            {*guarded, *pinned, *plan["absent"]},
            set(plan["left_out"]),
        )
        self._child_pid = 0
        self._exit_code: int | None = None
        """How the shell has ended; negative: by this signal."""
        self._shell_ended_at = 0.0
        self._has_reported_exit = False
        self._has_no_leftover_processes = False
        """The shell has left nothing behind."""
        self._sent_signal: int = 0
        """The signal that was sent by us, if any."""
        self._status_fd = -1
        """Where the first process inside says how the shell has ended."""
        self._status_data = b""

    def run(self) -> None:
        self._output_fd = os.dup(1)
        try:
            runs = self._start_command()
            _redirect_output_to_null()
            if runs:
                self._watch_command()
        finally:
            try:
                self._kill_all()
                if self._is_full_level and not self._has_no_leftover_processes:
                    # what was left behind may have made names since
                    self._restore_protected_files()
            finally:
                self._placeholders.release()
            self._report_exit(_LAST_REPORT_FLAG)

    # The beginning

    def _start_command(self) -> bool:
        """Whether the command could be confined."""
        if self._is_client_gone():
            return False
        self._status_fd, ends = os.pipe()
        errors, complains = os.pipe()
        gate, opens = os.pipe()
        launcher = CommandLauncher(self._plan, self._placeholders)
        try:
            self._child_pid = os.fork()
        except OSError as error:
            send_reply(self._control_fd, format_fork_failure(error))
            return False
        if not self._child_pid:
            os.close(opens)
            launcher.exec_command(ends, complains, gate)
        for each in (ends, complains, gate):
            os.close(each)
        proxy_socket, reason = None, self._read_start_error(errors)
        if not reason:
            proxy_socket, reason = self._open_proxy_socket()
        if reason:
            send_reply(self._control_fd, b"F" + reason[:_MAX_REASON_BYTES])
            os.close(opens)
            return False
        send_reply(self._control_fd, b"R%d" % os.getpid(), proxy_socket)
        os.write(opens, b"\n" if self._is_full_level and self._plan["port"] else b"")
        os.close(opens)
        return True

    def _is_client_gone(self) -> bool:
        """Nobody waits for the command any more."""
        poll = select.poll()
        poll.register(self._control_fd, select.POLLRDHUP)
        return bool(poll.poll(0))

    def _read_start_error(self, errors: int) -> bytes:
        """Why the command does not run; empty when it does."""
        if self._is_full_level:
            if os.read(self._status_fd, 6) == b"ready\n":
                return b""
        elif not (said := _read_to_end(errors)):
            return b""
        else:
            return said
        return _read_to_end(errors) or b"it ended without a word"

    def _open_proxy_socket(self) -> tuple[int | None, bytes]:
        """Where joey hears from inside who is to be reached, and why it cannot."""
        if not self._plan["port"]:
            return None, b""
        from joey.execution.sandbox.kernel import listen_in_network_namespace

        try:
            return listen_in_network_namespace(
                list_descendants(self._child_pid)[0], self._plan["port"]
            ), b""
        except (OSError, IndexError) as error:
            return None, f"no way to the network could be made: {error}".encode()

    # The middle

    def _watch_command(self) -> None:
        poll = select.poll()
        status = [self._status_fd] if self._is_full_level else []
        sources = [self._control_fd, os.pidfd_open(self._child_pid), *status]
        for each in sources:
            poll.register(each, select.POLLIN)
        while self._child_pid:
            for ready, _ in poll.poll(self._compute_poll_timeout_ms()):
                if ready == self._control_fd:
                    self._handle_control(poll)
                elif ready == self._status_fd:
                    self._handle_status(poll)
                else:
                    poll.unregister(ready)
            self._reap_children()
            if self._child_pid and self._compute_poll_timeout_ms() == 0:
                self._report_exit(b"")

    def _compute_poll_timeout_ms(self) -> int | None:
        """Milliseconds until something is to be done."""
        if self._exit_code is not None and not self._has_reported_exit:
            left = self._shell_ended_at + _CHILDREN_EXIT_GRACE_S - time.monotonic()
            return max(0, int(left * 1000))
        return None if self._is_full_level else _POLL_INTERVAL_MS

    def _handle_control(self, poll: select.poll) -> None:
        order = os.read(self._control_fd, 1)
        if order == b"T":
            self._sent_signal = _SIGTERM
            send_signal(self._list_command_processes(), _SIGTERM)
            return
        poll.unregister(self._control_fd)
        self._kill_all()

    def _handle_status(self, poll: select.poll) -> None:
        said = os.read(self._status_fd, 16)
        if not said:
            poll.unregister(self._status_fd)
        if (code := self._parse_exit_code(said)) is None:
            return
        first = list_children(self._child_pid)
        self._has_no_leftover_processes = bool(first) and not list_children(first[0])
        self._handle_shell_exit(code)
        if self._has_no_leftover_processes:
            # Whoever waits need not see how the kernel takes an empty sandbox down.
            self._placeholders.release()
            self._report_exit(_LAST_REPORT_FLAG)

    def _parse_exit_code(self, said: bytes) -> int | None:
        """How the shell has ended, once all of that was said. A command can say it too, and only
        lies about its own end."""
        self._status_data += said
        if self._exit_code is not None or not self._status_data.endswith(b"\n"):
            return None
        said, self._status_data = self._status_data.strip(), b""
        code = int(said) if said.isdigit() else 255
        # The first process inside only knows the shell's way of telling a signal.
        return -self._sent_signal if self._sent_signal and code == 128 + self._sent_signal else code

    def _read_final_exit_code(self) -> int:
        """Everything inside has ended; the shell may have done so by itself, unheard so far."""
        os.set_blocking(self._status_fd, False)
        try:
            code = self._parse_exit_code(os.read(self._status_fd, 16))
        except BlockingIOError:
            code = None  # What is being killed still holds it.
        return -_SIGKILL if code is None else code

    def _reap_children(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._child_pid = 0
                return
            if not pid:
                return
            if pid == self._child_pid and self._exit_code is None:
                ended = os.waitstatus_to_exitcode(status)
                self._has_no_leftover_processes = True
                self._handle_shell_exit(
                    self._read_final_exit_code() if self._is_full_level else ended
                )

    def _handle_shell_exit(self, code: int) -> None:
        self._exit_code = code
        self._shell_ended_at = time.monotonic()
        for sentence in self._restore_protected_files():
            _write_text(self._output_fd, f"[joey: {sentence}]\n")
        os.close(self._output_fd)

    def _restore_protected_files(self) -> list[str]:
        """Undo what was done to protected names; sentences about it."""
        messages = self._restorer.restore_all()
        messages += filter(
            None, map(self._restorer.quarantine_new, self._new_file_finder.find_new_paths())
        )
        if len(messages) > _MAX_RESTORE_MESSAGES:
            messages[_MAX_RESTORE_MESSAGES:] = [
                f"{len(messages) - _MAX_RESTORE_MESSAGES} more of that kind."
            ]
        return messages

    def _report_exit(self, last: bytes) -> None:
        """How the shell has ended."""
        if self._exit_code is not None and not self._has_reported_exit:
            self._has_reported_exit = True
            send_reply(self._control_fd, b"E%d%s" % (self._exit_code, last))

    # The end

    def _list_command_processes(self) -> list[int]:
        """What the command has started, without what we need to hold it."""
        if not self._is_full_level:
            return list_descendants(os.getpid())
        first = list_descendants(self._child_pid)[:1]
        return list_descendants(first[0]) if first else []

    def _kill_all(self) -> None:
        self._sent_signal = _SIGKILL
        if self._is_full_level:
            if self._child_pid:
                send_signal([self._child_pid], _SIGKILL)
            self._wait_for_children()
            return
        while self._child_pid and (found := list_descendants(os.getpid())):
            send_signal(found, _SIGKILL)
            self._wait_for_children()

    def _wait_for_children(self) -> None:
        """For all that are our own children by now."""
        while self._child_pid:
            before = self._child_pid
            self._reap_children()
            if self._child_pid == before:
                select.select((), (), (), 0.005)
                send_signal(list_descendants(os.getpid()), _SIGKILL)


def format_fork_failure(error: OSError) -> bytes:
    return f"Fno process could be started: {error.strerror}".encode()


def send_reply(control: int, message: bytes, attached: int | None = None) -> None:
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


def _redirect_output_to_null() -> None:
    """Let go of the output: it is over when the command lets go of it."""
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)


def _write_text(descriptor: int, text: str) -> None:
    try:
        os.write(descriptor, text.encode())
    except OSError:
        return  # Nobody listens any more.


def _read_to_end(descriptor: int) -> bytes:
    found = b""
    while data := os.read(descriptor, 4096):
        found += data
    os.close(descriptor)
    return found


def list_children(pid: int) -> list[int]:
    """Also those that have ended and were not asked about yet."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(each) for each in file.read().split()]
    except OSError:
        return list_descendants(pid)  # The kernel keeps no such list.


def list_descendants(pid: int) -> list[int]:
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


def send_signal(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue  # It ended meanwhile.
