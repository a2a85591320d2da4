"""The process that keeps a confined command: it starts it, waits for it, and ends what is left.

    joey ── front ── keeper ── bubblewrap ── the first process inside ── the shell
                           └── (landlock) the shell

*front* is what joey waits for: it ends as the shell does. *keeper* lives until everything that the
shell started has ended. It hears from joey by a socket: `G` lets it begin, `T` asks all inside to
end, and the end of the socket, which also comes when joey dies, ends them at once. It answers `R`
when the command itself runs, or `F` and a reason when it could not be confined.

It is started for each command, so nothing is imported here that takes long.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` takes longer to load than we run
import marshal
import os
import resource
import select
import stat
import time

from joey.sandboxes.guard import Guard
from joey.sandboxes.placeholders import Placeholders
from joey.sandboxes.quota import limit_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STATUS = 9
"""Where the first process inside says how the shell ended."""
_POLL = 200
"""Milliseconds between two looks for orphans that have ended."""
_TERM, _KILL = 15, 9
_IGNORED = (1, 2, 3, _TERM)
"""Signals to the whole group are meant for the command, which gets its own."""
_LONGEST_REASON = 2000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_PLACE = os.O_PATH | os.O_NOFOLLOW
_LINGER = 0.1
"""Seconds in which what the shell has started may end as well, before it counts as left behind."""
_LAST = b"!"
"""Ends the last word of a keeper that is about to end itself."""


def main(plan_fd: int, control: int) -> None:
    with open(plan_fd, "rb") as file:
        plan: dict[str, Any] = marshal.load(file)
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    if os.read(control, 1) != b"G":
        os._exit(1)
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
        self._control: int | None = control
        self._tells = tells
        self._is_full = plan["level"] == "full"
        self._guard = Guard(plan["workspace"], plan["guarded"], plan["pinned"], plan["aside"])
        self._placeholders = Placeholders(plan["workspace"])
        self._held: list[int] = []
        self._child = 0
        self._code: int | None = None
        """How the shell has ended; negative: by this signal."""
        self._ended_at = 0.0
        self._has_told = False
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
                if self._is_full:
                    self._guard.put_back()  # what was left behind may have made names since
            finally:
                self._placeholders.drop()
            self._tell(_LAST)

    # The beginning

    def _start(self) -> int | None:
        """Where the command is heard of; None when it could not be confined."""
        status, ends = os.pipe()
        errors, complains = os.pipe()
        mounts = self._occupy() + self._hold() if self._is_full else []
        if not self._is_full:
            from joey.sandboxes.kernel import adopt_orphans

            adopt_orphans()
        self._child = os.fork()
        if not self._child:
            self._become(mounts, ends, complains)
        os.close(ends)
        os.close(complains)
        if reason := self._failure(status, errors):
            self._answer(b"F" + reason[:_LONGEST_REASON])
            return None
        self._answer(b"R")
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

    def _occupy(self) -> list[str]:
        plan, root = self._plan, self._plan["workspace"]
        mounts = []
        for name in plan["absent"]:
            if self._placeholders.take(name):
                mounts += [*plan["empty"], f"{root}/{name}"]
        return mounts

    def _hold(self) -> list[str]:
        """Mount what is protected over itself. By descriptors, where bubblewrap can: a name may
        lead elsewhere by the time it is looked up."""
        plan, root = self._plan, self._plan["workspace"]
        mounts = []
        for option, names in (("--bind", plan["kept"]), ("--ro-bind", plan["held"])):
            for name in names:
                place = f"{root}/{name}"
                if not plan["by_descriptor"]:
                    mounts += [option, place, place]
                elif (opened := _open_within(root, name)) is not None:
                    self._held.append(opened)
                    mounts += [f"{option}-fd", str(opened), place]
        return [*mounts, *plan["again"]]

    def _become(self, mounts: list[str], status: int, complains: int) -> None:
        """Turn this process into the command."""
        plan = self._plan
        try:
            for number in _IGNORED:
                _signal.signal(number, _signal.SIG_DFL)
            limit_processes(plan["processes"])
            for kind, most in plan["limits"]:
                _, hard = resource.getrlimit(kind)
                limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.setrlimit(kind, (limit, limit))
            if self._is_full:
                self._enter_namespaces(mounts, status, complains)
            else:
                self._enter_rules()
        except (OSError, ValueError) as error:
            os.write(complains, str(error).encode(errors="replace"))
        os._exit(127)

    def _enter_namespaces(self, mounts: list[str], status: int, complains: int) -> None:
        plan = self._plan
        for descriptor in self._held:
            os.set_inheritable(descriptor, True)
        rules = os.memfd_create("rules", 0)
        os.write(rules, plan["seccomp"])
        os.lseek(rules, 0, os.SEEK_SET)
        os.dup2(complains, 2)
        filtered = ["--seccomp", str(rules)]
        if status != _STATUS:
            os.dup2(status, _STATUS)
        else:
            os.set_inheritable(status, True)
        argv = [*plan["program"], *plan["views"], *mounts, *filtered, *plan["rest"], *plan["shell"]]
        os.execv(argv[0], argv)

    def _enter_rules(self) -> None:
        from joey.sandboxes import kernel

        plan = self._plan
        os.setsid()
        os.chdir(plan["cwd"])
        kernel.restrict_files(plan["files"], plan["tcp"], plan["scopes"], plan["rules"])
        kernel.drop_capabilities(plan["capabilities"])
        kernel.filter_calls(plan["seccomp"])
        os.execv(plan["shell"][0], plan["shell"])

    # The middle

    def _watch(self, status: int) -> None:
        poll = select.poll()
        sources = [self._control, os.pidfd_open(self._child), *([status] if self._is_full else [])]
        for each in sources:
            if each is not None:
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
        assert self._control is not None
        order = os.read(self._control, 1)
        if order == b"T":
            self._asked = _TERM
            _send(self._inside(), _TERM)
            return
        poll.unregister(self._control)
        self._end_all()

    def _hear(self, status: int, poll: select.poll) -> None:
        said = os.read(status, 16)
        self._heard += said
        if not said:
            poll.unregister(status)
        if self._heard.endswith(b"\n") and self._code is None:
            code = int(self._heard)
            # The first process inside only knows the shell's way of telling a signal.
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
                self._shell_ended(-_KILL if self._is_full else ended)

    def _shell_ended(self, code: int) -> None:
        self._code = code
        self._ended_at = time.monotonic()
        for sentence in self._guard.put_back():
            _say(self._output, f"[joey: {sentence}]\n")
        os.close(self._output)

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
            return _descendants(os.getpid())
        first = _descendants(self._child)[:1]
        return _descendants(first[0]) if first else []

    def _end_all(self) -> None:
        self._asked = _KILL
        if self._is_full:
            if self._child:
                _send([self._child], _KILL)
            self._wait_for_all()
            return
        while self._child and (found := _descendants(os.getpid())):
            _send(found, _KILL)
            self._wait_for_all()

    def _wait_for_all(self) -> None:
        """For all that are our own children by now."""
        while self._child:
            before = self._child
            self._reap()
            if self._child == before:
                select.select((), (), (), 0.005)
                _send(_descendants(os.getpid()), _KILL)

    def _answer(self, words: bytes) -> None:
        assert self._control is not None
        try:
            os.write(self._control, words)
        except BrokenPipeError:
            pass  # joey is gone; the end of the socket says so again.


def _open_within(root: str, path: str) -> int | None:
    """Without following a link; None when it went away, or has become one."""
    folder = os.open(root, _FOLDER)
    try:
        for name in path.split("/"):
            inner = os.open(name, _PLACE, dir_fd=folder)
            os.close(folder)
            folder = inner
    except OSError:
        os.close(folder)
        return None
    if stat.S_ISLNK(os.fstat(folder).st_mode):
        os.close(folder)
        return None
    return folder


def _descendants(pid: int) -> list[int]:
    """Nearest first; zombies are left out."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # It ended meanwhile.
        if fields[0] not in (b"Z", b"X"):
            children.setdefault(int(fields[1]), []).append(int(name))
    found = list(children.get(pid, ()))
    for each in found:
        found += children.get(each, ())
    return found


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue  # It ended meanwhile.


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
