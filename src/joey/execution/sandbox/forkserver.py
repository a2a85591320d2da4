"""The fork server of one task: starts each command's supervisor as a copy of itself.

Starting Python takes longer than setting up a sandbox; a forked process is ready at once. joey
sends requests over a socket: each message carries the supervisor's end of a socket to joey, and the
output of its command. When joey exits or closes the socket, the fork server waits for its
supervisors and exits.

It runs with `python -I -S`, without joey's package module and without site-packages: everything it
imports, at once or late, may only use the standard library.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` takes longer to load than we run
import _socket
import gc
import os
import select

from joey.execution.sandbox.launcher import receive_descriptors
from joey.execution.sandbox.supervisor import refuse, supervise

_IGNORED_SIGNALS = (1, 2, 3, 15)
"""Signals to the whole group are meant for the command, which gets its own."""
_PRELOAD_DELAY_MS = 15
"""An order that is not here by then is not for the user who waits now."""


def main(order_fd: int) -> None:
    os.set_inheritable(order_fd, False)  # inherited by this process, but not for commands
    for number in _IGNORED_SIGNALS:
        _signal.signal(number, _signal.SIG_IGN)
    gc.disable()  # it would touch, and thereby copy, memory shared with supervisors
    ForkServer(order_fd).run()
    os._exit(0)


class ForkServer:
    def __init__(self, order_fd: int) -> None:
        self._client_socket = _socket.socket(fileno=order_fd)
        self._poller = select.poll()
        self._poller.register(order_fd, select.POLLIN)
        self._supervisor_pids: dict[int, int] = {}
        """Their numbers, by what tells of their end."""
        self._is_preloaded = False

    def run(self) -> None:
        goes_on = True
        while goes_on or self._supervisor_pids:
            ready = self._poller.poll(None if self._is_preloaded else _PRELOAD_DELAY_MS)
            for descriptor, _ in ready:
                if pid := self._supervisor_pids.pop(descriptor, 0):
                    self._poller.unregister(descriptor)
                    os.close(descriptor)
                    os.waitpid(pid, 0)
                elif parts := receive_descriptors(self._client_socket, 2)[1]:
                    self._start_supervisor(*parts)
                else:  # joey has closed the socket
                    self._poller.unregister(descriptor)
                    goes_on = False
            if not self._is_preloaded and goes_on:
                self._is_preloaded = True
                # Idle: load what supervisors may need.
                from joey.execution.sandbox import kernel, protected_scan

                assert kernel
                protected_scan.is_protected_name("a name to be compared with all patterns")

    def _start_supervisor(self, control_fd: int, output: int) -> None:
        control = _socket.socket(fileno=control_fd)
        try:
            supervisor = os.fork()
        except OSError as error:
            refuse(control, f"no process could be started: {error.strerror}".encode())
        else:
            if not supervisor:
                self._become_supervisor(control, output)
            ended = os.pidfd_open(supervisor)
            self._supervisor_pids[ended] = supervisor
            self._poller.register(ended, select.POLLIN)
        control.close()
        os.close(output)

    def _become_supervisor(self, control: _socket.socket, output: int) -> None:
        try:
            self._client_socket.close()
            for each in self._supervisor_pids:
                os.close(each)
            os.setsid()
            for number in (1, 2):
                os.dup2(output, number)
            os.close(output)
            supervise(control)
        finally:
            os._exit(0)
