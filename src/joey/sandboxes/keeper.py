"""The process that keeps a confined command: it starts it, waits for it, and ends what is left.

    joey ── front ── keeper ── bubblewrap ── the first process inside ── the shell
                           └── (landlock) the shell

*front* is what joey waits for: it ends as the shell does. *keeper* lives until everything that the
shell started has ended. It hears from joey by a socket: `G`, with a file that holds the plan, lets
it begin, `T` asks all inside to end, and the end of the socket, which also comes when joey dies,
ends them at once. It answers `R` when the command itself runs, together with the door to the
network if there is one, or `F` and a reason when it could not be confined.

One is started for each command, mostly ahead of time. When it is not, nothing that takes long to
import must stand in the way.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` takes longer to load than we run
import _socket
import marshal
import os
import resource
import select
import sys
import time

from joey.sandboxes.aftermath import Aftermath, Spared
from joey.sandboxes.entrance import Entrance
from joey.sandboxes.guard import Guard
from joey.sandboxes.placeholders import Placeholders
from joey.sandboxes.process_tree import children, descendants, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_POLL = 200
"""Milliseconds between two looks for orphans that have ended."""
_TERM, _KILL = 15, 9
_IGNORED = (1, 2, 3, _TERM)
"""Signals to the whole group are meant for the command, which gets its own."""
_LONGEST_REASON = 2000
_MOST_SENTENCES = 20
_LINGER = 0.1
"""Seconds in which what the shell has started may end as well, before it counts as left behind."""
_SOON = 15
"""Milliseconds; a plan that is not here by then is not for the person who waits now."""
_DESCRIPTOR = 4
_LAST = b"!"
"""Ends the last word of a keeper that is about to end itself."""


def main(control: int) -> None:
    os.set_inheritable(control, False)  # it came to us by being inherited; the command is no heir
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    plan = _await_plan(control)
    if plan is None:
        os._exit(0)
    ends, tells = os.pipe()
    if keeper := os.fork():
        os.close(tells)
        os.close(control)
        _silence()
        told = os.read(ends, 16)
        if told.endswith(_LAST) or not told:
            os.waitpid(keeper, 0)
        _end_like(told.rstrip(_LAST))
    os.close(ends)
    Keeper(plan, control, tells).run()
    os._exit(0)


def _await_plan(control: int) -> dict[str, Any] | None:
    """What is to be run; None when joey wants nothing any more."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    if not poll.poll(_SOON):
        _preload()
    joey = _socket.socket(fileno=control)
    try:
        order, attached, *_ = joey.recvmsg(1, _socket.CMSG_SPACE(_DESCRIPTOR))
    finally:
        joey.detach()
    if order != b"G" or not attached:
        return None
    with open(int.from_bytes(attached[0][2], sys.byteorder), "rb") as file:
        plan: dict[str, Any] = marshal.loads(file.read())
        return plan


def _preload() -> None:
    """There is time: load what may be needed later."""
    from joey.sandboxes import door, survey

    assert door
    survey.is_held("a name that has to be compared with all patterns")


def _end_like(told: bytes) -> None:
    """End as the shell has ended; a keeper that was killed has told nothing."""
    status = int(told or b"%d" % -_KILL)
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -status != _KILL:
            _signal.signal(-status, _signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status if status >= 0 else 128 - status)


def _silence() -> None:
    """Let go of the output: it is over when the command lets go of it."""
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)


class Keeper:
    def __init__(self, plan: dict[str, Any], control: int, tells: int) -> None:
        self._plan = plan
        self._control = control
        self._tells = tells
        self._is_full = plan["level"] == "full"
        self._placeholders = Placeholders(plan["workspace"])
        guarded, pinned = plan["guarded"], plan["pinned"]
        self._guard = Guard(
            plan["workspace"], guarded, pinned, plan["aside"], Spared(plan["written"])
        )
        self._aftermath = Aftermath(
            plan["workspace"],
            plan["folders"],
            {*guarded, *pinned, *plan["absent"]},
            set(plan["left_out"]),
        )
        self._child = 0
        self._code: int | None = None
        """How the shell has ended; negative: by this signal."""
        self._ended_at = 0.0
        self._has_told = False
        self._was_alone = False
        """The shell has left nothing behind."""
        self._asked: int = 0
        """The signal that was sent by us, if any."""
        self._heard = b""

    def run(self) -> None:
        self._output = os.dup(1)
        try:
            status = self._start()
            _silence()
            if status is not None:
                self._watch(status)
        finally:
            try:
                self._end_all()
                if self._is_full and not self._was_alone:
                    self._tidy()  # what was left behind may have made names since
            finally:
                self._placeholders.drop()
            self._tell(_LAST)

    # The beginning

    def _start(self) -> int | None:
        """Where the command is heard of; None when it could not be confined."""
        status, ends = os.pipe()
        errors, complains = os.pipe()
        gate, opens = os.pipe()
        entrance = Entrance(self._plan, self._placeholders)
        self._child = os.fork()
        if not self._child:
            os.close(opens)
            entrance.enter(ends, complains, gate)
        for each in (ends, complains, gate):
            os.close(each)
        door, reason = None, self._failure(status, errors)
        if not reason:
            door, reason = self._door()
        if reason:
            self._answer(b"F" + reason[:_LONGEST_REASON], None)
            os.close(opens)
            return None
        self._answer(b"R", door)
        os.write(opens, b"\n" if self._is_full and self._plan["port"] else b"")
        os.close(opens)
        return status

    def _failure(self, status: int, errors: int) -> bytes:
        """Why the command does not run; empty when it does."""
        if self._is_full:
            if os.read(status, 6) == b"ready\n":
                return b""
        elif not (said := _read_all(errors)):
            return b""
        else:
            return said
        return _read_all(errors) or b"it ended without a word"

    def _door(self) -> tuple[int | None, bytes]:
        """Where joey hears from inside who is to be reached, and why it cannot."""
        if not self._plan["port"]:
            return None, b""
        from joey.sandboxes.door import open_door

        try:
            return open_door(descendants(self._child)[0], self._plan["port"]), b""
        except (OSError, IndexError) as error:
            return None, f"no way to the network could be made: {error}".encode()

    # The middle

    def _watch(self, status: int) -> None:
        poll = select.poll()
        sources = [self._control, os.pidfd_open(self._child), *([status] if self._is_full else [])]
        for each in sources:
            poll.register(each, select.POLLIN)
        while self._child:
            for ready, _ in poll.poll(self._patience()):
                if ready == self._control:
                    self._obey(poll)
                elif ready == status:
                    self._hear(status, poll)
                else:
                    poll.unregister(ready)
            self._reap()
            if self._child and self._patience() == 0:
                self._tell(b"")

    def _patience(self) -> int | None:
        """Milliseconds until something is to be done."""
        if self._code is not None and not self._has_told:
            left = self._ended_at + _LINGER - time.monotonic()
            return max(0, int(left * 1000))
        return None if self._is_full else _POLL

    def _obey(self, poll: select.poll) -> None:
        order = os.read(self._control, 1)
        if order == b"T":
            self._asked = _TERM
            send(self._inside(), _TERM)
            return
        poll.unregister(self._control)
        self._end_all()

    def _hear(self, status: int, poll: select.poll) -> None:
        said = os.read(status, 16)
        self._heard += said
        if not said:
            poll.unregister(status)
        if self._heard.endswith(b"\n") and self._code is None:
            # A command can write here too, and only lies about its own end.
            said, self._heard = self._heard.strip(), b""
            code = int(said) if said.isdigit() else 255
            # The first process inside only knows the shell's way of telling a signal.
            first = children(self._child)
            self._was_alone = bool(first) and not children(first[0])
            self._shell_ended(-self._asked if self._asked and code == 128 + self._asked else code)

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
                self._shell_ended(-_KILL if self._is_full else ended)

    def _shell_ended(self, code: int) -> None:
        self._code = code
        self._ended_at = time.monotonic()
        for sentence in self._tidy():
            _say(self._output, f"[joey: {sentence}]\n")
        os.close(self._output)

    def _tidy(self) -> list[str]:
        """Undo what was done to protected names; sentences about it."""
        told = self._guard.put_back()
        told += filter(None, map(self._guard.remove, self._aftermath.appeared()))
        if len(told) > _MOST_SENTENCES:
            told[_MOST_SENTENCES:] = [f"{len(told) - _MOST_SENTENCES} more of that kind."]
        return told

    def _tell(self, last: bytes) -> None:
        """Let the front end like the shell."""
        if self._code is not None and not self._has_told:
            self._has_told = True
            os.write(self._tells, b"%d%s" % (self._code, last))
            os.close(self._tells)

    # The end

    def _inside(self) -> list[int]:
        """What the command has started, without what we need to hold it."""
        if not self._is_full:
            return descendants(os.getpid())
        first = descendants(self._child)[:1]
        return descendants(first[0]) if first else []

    def _end_all(self) -> None:
        self._asked = _KILL
        if self._is_full:
            if self._child:
                send([self._child], _KILL)
            self._wait_for_all()
            return
        while self._child and (found := descendants(os.getpid())):
            send(found, _KILL)
            self._wait_for_all()

    def _wait_for_all(self) -> None:
        """For all that are our own children by now."""
        while self._child:
            before = self._child
            self._reap()
            if self._child == before:
                select.select((), (), (), 0.005)
                send(descendants(os.getpid()), _KILL)

    def _answer(self, words: bytes, attached: int | None) -> None:
        joey = _socket.socket(fileno=self._control)
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
        number = b"" if attached is None else attached.to_bytes(_DESCRIPTOR, sys.byteorder)
        try:
            joey.sendmsg([words], [(*rights, number)] if number else [])
        except OSError:
            pass  # joey is gone; the end of the socket says so again.
        finally:
            joey.detach()
            if attached is not None:
                os.close(attached)


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
