"""joey's end of a keeper: what it hears of a command, as asyncio would tell of a process.

It is no child of ours (see `starter`), so it says itself how the command has ended. One that goes
without a word was killed.
"""

from __future__ import annotations

import asyncio
import os
import socket

_LONGEST = 4096
_CHUNK = 256 * 1024
_OUTPUT = 1
_KILLED = -9
_LAST = b"!"

Answer = tuple[bytes, socket.socket | None]
"""`R` and the number of the keeper when the command itself runs, together with the door to the
network if there is one; `F` and a reason when it could not be confined."""


class KeeperProcess(asyncio.SubprocessTransport):
    def __init__(self, control: socket.socket, output: int, plan: int) -> None:
        """`plan` is a descriptor of the plan that moves when somebody reads it."""
        super().__init__()
        control.setblocking(False)
        os.set_blocking(output, False)
        self._control = control
        self._output: int | None = output
        self._plan: int | None = plan
        self._answered: asyncio.Future[Answer] | None = None
        self._protocol: asyncio.SubprocessProtocol | None = None
        self._pid = 0
        self._returncode: int | None = None
        self._left = 2
        """The end of the command and that of its output are still to be told."""
        self.is_slack = False
        """Nothing is left inside."""
        self.is_untouched = False
        """Nobody has ever looked at the plan, and nobody will."""

    async def answer(self, patience: float) -> Answer:
        """What comes of the command."""
        await self._heard(patience)
        assert self._answered is not None
        return self._answered.result() if self._answered.done() else (b"Fit took too long", None)

    async def is_taken_up(self, patience: float) -> bool:
        """Whether somebody has begun with it; waits for the answer, if that comes soon."""
        await self._heard(patience)
        return not self.is_untouched and (self._plan is None or _is_read(self._plan))

    async def _heard(self, patience: float) -> None:
        loop = asyncio.get_running_loop()
        if self._answered is None:
            self._answered = loop.create_future()
            loop.add_reader(self._control, self._hear)
        try:
            await asyncio.wait((self._answered,), timeout=patience)
        except asyncio.CancelledError:
            self.let_go()
            raise

    def hear_out(self, patience: float) -> bytes:
        """The answer, once all has ended; without an event loop.

        Raises:
            OSError
        """
        self._control.settimeout(patience)
        answer = data = self._control.recv(_LONGEST)
        while data:
            data = self._control.recv(_LONGEST)
        return answer

    def hand_over(self, pid: int, protocol: asyncio.SubprocessProtocol) -> None:
        """From now on somebody hears of it."""
        assert self._output is not None
        self._pid = pid
        self._protocol = protocol
        protocol.connection_made(self)
        asyncio.get_running_loop().add_reader(self._output, self._read)
        if self._returncode is not None:
            asyncio.get_running_loop().call_soon(self._tell_end)

    def order(self, word: bytes) -> None:
        """Raises OSError: everything has ended."""
        self._control.send(word)

    def end(self) -> None:
        """Nobody wants to hear more: everything inside is ended.

        Raises:
            OSError: it has ended.
        """
        self._control.shutdown(socket.SHUT_WR)

    def let_go(self) -> None:
        """The same, and hear nothing more of it."""
        self._stop_hearing()
        if self._protocol is None:
            self.close()

    # What a transport is asked

    def get_pid(self) -> int:
        return self._pid

    def get_returncode(self) -> int | None:
        return self._returncode

    def close(self) -> None:
        """Read no more of the output."""
        if self._output is None:
            return
        if self._protocol is not None:
            asyncio.get_running_loop().remove_reader(self._output)
            asyncio.get_running_loop().call_soon(self._output_ended)
        os.close(self._output)
        self._output = None

    # What the keeper says

    def _hear(self) -> None:
        while not self.is_slack:
            try:
                data, attached, *_ = socket.recv_fds(self._control, _LONGEST, 1)
            except BlockingIOError:
                return
            except OSError:
                data, attached = b"", []  # It has gone without having listened.
            self._take(data, socket.socket(fileno=attached[0]) if attached else None)

    def _take(self, data: bytes, attached: socket.socket | None) -> None:
        if data.startswith(b"E"):
            if data.endswith(_LAST):
                self._stop_hearing()
            self._ended(int(data[1:].rstrip(_LAST)))
            return
        assert self._answered is not None
        if not self._answered.done():
            # Who held the other end is gone; who had the plan has read it first of all.
            self.is_untouched = not data and self._plan is not None and not _is_read(self._plan)
            self._forget_plan()
            self._answered.set_result((data, attached))
        elif attached is not None:
            attached.close()
        if not data:
            self._stop_hearing()
            self._ended(_KILLED)

    def _ended(self, code: int) -> None:
        if self._returncode is not None:
            return
        self._returncode = code
        if self._protocol is not None:
            self._tell_end()

    def _tell_end(self) -> None:
        assert self._protocol is not None
        self._protocol.process_exited()
        self._one_less()

    def _forget_plan(self) -> None:
        if self._plan is not None:
            os.close(self._plan)
            self._plan = None

    def _stop_hearing(self) -> None:
        self.is_slack = True
        self._forget_plan()
        if self._answered is not None and self._control.fileno() >= 0:
            self._answered.get_loop().remove_reader(self._control)
        self._control.close()

    # What the command says

    def _read(self) -> None:
        assert self._output is not None
        assert self._protocol is not None
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._protocol.pipe_data_received(_OUTPUT, data)
        else:
            self.close()

    def _output_ended(self) -> None:
        assert self._protocol is not None
        self._protocol.pipe_connection_lost(_OUTPUT, None)
        self._one_less()

    def _one_less(self) -> None:
        self._left -= 1
        if not self._left:
            assert self._protocol is not None
            self._protocol.connection_lost(None)


def _is_read(plan: int) -> bool:
    return os.lseek(plan, 0, os.SEEK_CUR) > 0
