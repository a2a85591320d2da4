"""The supervisor process of a sandboxed command: starts it, waits for it, kills what is left.

    joey ── fork server ── supervisor ── bubblewrap ── the first process inside ── the shell
                                     └── (landlock) the shell

joey sends it two plans over a socket: that of a sandbox, which it prepares at once, and that of the
command, which may come much later or never. It answers `R` and its process id when the command
runs, or `F` and a reason when the command was not run. With `R` comes a listening socket if the
command may reach some hosts, or its network if it has one of its own that later commands can join.
It answers `E` and the shell's exit code when the shell has ended, with a `!` when nothing is left
inside. It lives until everything that the shell started has ended. `T` asks all processes inside to
end, and the end of the socket, which also comes when joey dies, kills them at once.

It is a fork of the fork server, so nothing that is slow to import may be imported here.
"""

from __future__ import annotations

import _socket
import array
import marshal
import os
import select
import time

from joey.execution.sandbox.launcher import (
    BubblewrapChild,
    LandlockChild,
    list_children,
    list_descendants,
    receive_descriptors,
)
from joey.execution.sandbox.protected_scan import MountPlaceholders
from joey.execution.sandbox.restore import NewProtectedFileFinder, ProtectedFileRestorer

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
_LAST_REPORT_FLAG = b"!"


def supervise(control: _socket.socket) -> None:
    """Prepare a sandbox and run the command that arrives next, if any."""
    sandbox, network = _receive_plan(control)
    if sandbox is None:
        return
    backend = BubblewrapChild if sandbox["level"] == "full" else LandlockChild
    try:
        child = backend(sandbox, network)
        reason = child.wait_until_ready()
        if reason and network is not None:  # that network cannot be joined here
            os.waitpid(child.pid, 0)
            child = backend(sandbox)
            reason = child.wait_until_ready()
    except OSError as error:
        refuse(control, f"no process could be started: {error.strerror}".encode())
        return
    if reason:
        refuse(control, reason)
    elif is_spare := not _has_event(control, select.POLLIN):
        child.remember()
    command, _ = _receive_plan(control)
    if command is None or _has_event(control, select.POLLRDHUP):
        child.discard()
    elif is_spare and child.is_stale():
        refuse(control, b"what it was made for has changed")
        child.discard()
    else:
        Supervisor(child, command, control).run()


class Supervisor:
    def __init__(
        self,
        child: BubblewrapChild | LandlockChild,
        plan: dict[str, Any],
        control: _socket.socket,
    ) -> None:
        self._child = child
        self._plan = plan
        self._control = control
        root, guarded, pinned = child.plan["workspace"], plan["guarded"], plan["pinned"]
        self._placeholders = MountPlaceholders(root)
        self._restorer = ProtectedFileRestorer(
            root, guarded, pinned, plan["aside"], plan["written"]
        )
        known = {*guarded, *pinned, *plan["absent"]}
        self._new_file_finder = NewProtectedFileFinder(
            root, plan["folders"], known, set(plan["left_out"])
        )
        self._is_full_level = isinstance(child, BubblewrapChild)
        self._child_pid = child.pid
        self._exit_code: int | None = None
        """How the shell has ended; negative: by this signal."""
        self._shell_ended_at = 0.0
        self._has_reported_exit = False
        self._has_no_leftover_processes = False
        self._sent_signal = 0
        self._status_fd = child.status_fd
        """Where the first process inside says how the shell has ended."""
        self._status_data = b""

    def run(self) -> None:
        self._output_fd = os.dup(1)
        try:
            attached, reason = self._start_command()
            if reason:
                refuse(self._control, reason)
                return
            send_reply(self._control, b"R%d" % os.getpid(), attached)
            null = os.open("/dev/null", os.O_RDWR)
            for number in range(3):  # the output ends when the command closes it
                os.dup2(null, number)
            os.close(null)
            self._watch_command()
        finally:
            try:
                self._kill_all()
                if self._is_full_level and not self._has_no_leftover_processes:
                    # background processes may have created names since
                    self._restore_protected_files()
            finally:
                self._placeholders.release()
            self._report_exit(_LAST_REPORT_FLAG)

    # Start

    def _start_command(self) -> tuple[int | None, bytes]:
        """Start the command; return where joey receives its connections or the network for later
        commands, and why the command does not run."""
        child, plan, attached = self._child, self._plan, None
        try:
            if isinstance(child, BubblewrapChild):
                absent = filter(self._placeholders.acquire, plan["absent"])
                if reason := child.protect(plan, [*absent]):
                    return None, reason
                if port := plan.get("port"):
                    from joey.execution.sandbox.kernel import listen_in_network_namespace

                    attached = listen_in_network_namespace(child.first_pid, port)
                elif child.plan["shares_network"] and child.network is None:
                    namespace = f"/proc/{child.first_pid}/ns/net"
                    attached = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            return None, str(error).encode(errors="replace")
        return attached, child.start(plan)

    # Running

    def _watch_command(self) -> None:
        poll = select.poll()
        status = [self._status_fd] if self._is_full_level else []
        control = self._control.fileno()
        for each in (control, os.pidfd_open(self._child_pid), *status):
            poll.register(each, select.POLLIN)
        while self._child_pid:
            for ready, _ in poll.poll(self._compute_poll_timeout_ms()):
                if ready == control:
                    self._handle_control(poll)
                elif ready == self._status_fd:
                    self._handle_status(poll)
                else:
                    poll.unregister(ready)
            self._reap_children()
            if self._child_pid and self._compute_poll_timeout_ms() == 0:
                self._report_exit(b"")

    def _compute_poll_timeout_ms(self) -> int | None:
        """Return the milliseconds until something must be done."""
        if self._exit_code is not None and not self._has_reported_exit:
            left = self._shell_ended_at + _CHILDREN_EXIT_GRACE_S - time.monotonic()
            return max(0, int(left * 1000))
        return None if self._is_full_level else _POLL_INTERVAL_MS

    def _handle_control(self, poll: select.poll) -> None:
        if self._control.recv(1) != b"T":
            poll.unregister(self._control)
            self._kill_all()
            return
        self._sent_signal = _SIGTERM
        # Everything that the command has started, without the sandbox's own processes.
        full = self._is_full_level
        for first in list_descendants(self._child_pid)[:1] if full else [os.getpid()]:
            send_signal(list_descendants(first), _SIGTERM)

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
            # The caller need not wait while the kernel removes an empty sandbox.
            self._placeholders.release()
            self._report_exit(_LAST_REPORT_FLAG)

    def _parse_exit_code(self, said: bytes) -> int | None:
        """Parse how the shell has ended, once the report is complete. A command can forge it, but
        only about its own end."""
        self._status_data += said
        if self._exit_code is not None or not self._status_data.endswith(b"\n"):
            return None
        said, self._status_data = self._status_data.strip(), b""
        code = int(said) if said.isdigit() else 255
        # The first process inside only knows the shell's way of telling a signal.
        return -self._sent_signal if self._sent_signal and code == 128 + self._sent_signal else code

    def _read_final_exit_code(self) -> int:
        """Read the exit code after everything inside has ended, possibly before the shell's report
        was read."""
        os.set_blocking(self._status_fd, False)
        try:
            code = self._parse_exit_code(os.read(self._status_fd, 16))
        except BlockingIOError:
            code = None  # Processes being killed still hold it.
        return -_SIGKILL if code is None else code

    def _reap_children(self, options: int = os.WNOHANG) -> None:
        """Reap the children that have ended; without `options`, wait until one does."""
        while True:
            try:
                pid, status = os.waitpid(-1, options)
            except ChildProcessError:
                self._child_pid = 0
                return
            if not pid:
                return
            options = os.WNOHANG
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
            try:
                os.write(self._output_fd, f"[joey: {sentence}]\n".encode())
            except OSError:
                break  # joey no longer listens.
        os.close(self._output_fd)

    def _restore_protected_files(self) -> list[str]:
        """Undo changes to protected names; return sentences about them."""
        messages = self._restorer.restore_all()
        new = self._new_file_finder.find_new_paths()
        messages += filter(None, map(self._restorer.quarantine_new, new))
        if (more := len(messages) - _MAX_RESTORE_MESSAGES) > 0:
            messages[_MAX_RESTORE_MESSAGES:] = [f"{more} more of that kind."]
        return messages

    def _report_exit(self, last: bytes) -> None:
        """Report how the shell has ended."""
        if self._exit_code is not None and not self._has_reported_exit:
            self._has_reported_exit = True
            send_reply(self._control, b"E%d%s" % (self._exit_code, last))

    # End

    def _kill_all(self) -> None:
        self._sent_signal = _SIGKILL
        while self._child_pid:
            # bubblewrap takes everything inside with it; orphans of the others become our children
            full = self._is_full_level
            send_signal([self._child_pid] if full else list_descendants(os.getpid()), _SIGKILL)
            self._reap_children(0)


def refuse(control: _socket.socket, reason: bytes) -> None:
    """Tell joey why no command runs, and accept none any more."""
    try:
        control.shutdown(_socket.SHUT_RD)
        while control.recv(1):
            pass  # closing with unread data would hide the reason
    except OSError:
        return  # joey is gone.
    send_reply(control, b"F" + reason[:_MAX_REASON_BYTES])


def send_reply(control: _socket.socket, message: bytes, attached: int | None = None) -> None:
    """Send a reply to joey; `attached` is closed."""
    numbers = [] if attached is None else [attached]
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", numbers))
    try:
        control.sendmsg([message], [rights] if numbers else [])
    except OSError:
        pass  # joey is gone; the end of the socket says so again.
    for each in numbers:
        os.close(each)


def _receive_plan(control: _socket.socket) -> tuple[dict[str, Any] | None, int | None]:
    """Receive the next plan from joey as a file, and a network to join; None if joey has gone."""
    try:
        _, attached = receive_descriptors(control, 2)
    except OSError:
        return None, None
    if not attached:
        return None, None
    with open(attached[0], "rb") as file:
        plan: dict[str, Any] = marshal.loads(file.read())
    return plan, attached[1] if len(attached) > 1 else None


def _has_event(control: _socket.socket, event: int) -> bool:
    poll = select.poll()
    poll.register(control, event)
    return bool(poll.poll(0))


def send_signal(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue  # It ended meanwhile.
