"""The launcher: sandboxed processes that wait for their command, and become it.

Everything about a sandbox that does not depend on the command is done before the command is known:
namespaces and mounts, or Landlock's rules. A process that has waited is used only if all of that
still holds (`is_stale`): the same mounts at the same places from the same sources, the same inodes
in the rules, about as many processes of the user.

Resource limits are set here. The kernel counts all processes of a user, so the limit is the current
number plus the command's share; it does not apply to root (see `ControlGroup`).

Runs in the supervisor and its children: the standard library only, and little of it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` takes longer to load than we run
import _socket
import array
import fcntl
import marshal
import os
import resource
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from joey.execution.sandbox.kernel import NamespaceMounts


GATE_FD, STATUS_FD = 8, 9
"""Where the first process inside reads its command, and says how the shell ended."""
_FIRST_FREE_FD = 16
"""Numbers from here on are free for what only bubblewrap needs."""
_RESET_SIGNALS = (1, 2, 3, 13, 15, 25)
"""Signals that we ignore, or Python does: what is ignored would stay so in the command."""
_OPEN_PATH_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DESTINATION_OFFSETS = {"--bind": 2, "--ro-bind": 2, "--tmpfs": 1}
_MOUNT_TABLE_ESCAPES = {ord(each): f"\\{ord(each):03o}" for each in "\\ \t\n"}


class ConfinedChild:
    """A sandboxed child process that waits for its command."""

    def __init__(self, plan: dict[str, Any], network: int | None = None) -> None:
        """`network` is the network namespace to join. Raises OSError if no process could be
        started."""
        self.plan = plan
        self.network = network
        self._thread_count = _count_own_threads(plan["processes"])
        self.status_fd, status = os.pipe()
        self._errors_fd, errors = os.pipe()
        gate, self._gate_fd = os.pipe()
        self.pid = self._spawn(status, errors, gate)
        for each in (status, errors, gate):
            os.close(each)

    def wait_until_ready(self) -> bytes:
        """Return why it is not waiting for a command; "" if it is, or that is not known yet."""
        return b""

    def remember(self) -> None:
        """Note the state that the sandbox depends on, and do what can be done before the
        command."""

    def is_stale(self) -> bool:
        """Whether the machine has changed too much since for a command to run in it."""
        drift = abs(_count_own_threads(self.plan["processes"]) - self._thread_count)
        return bool(drift * 8 > self.plan["processes"])

    def start(self, command: dict[str, Any]) -> bytes:
        """Run a command in it; return why that failed, if it did."""
        data = memoryview(self._encode_command(command))
        try:
            while data:
                data = data[os.write(self._gate_fd, data) :]
        except BrokenPipeError:
            return read_to_end(self._errors_fd) or b"it ended without a word"
        finally:
            os.close(self._gate_fd)
        return b""

    def discard(self) -> None:
        """Kill it: there is no command for it."""
        os.kill(self.pid, _signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def _encode_command(self, command: dict[str, Any]) -> bytes:
        raise NotImplementedError

    def _spawn(self, status: int, errors: int, gate: int) -> int:
        raise NotImplementedError

    def _limit_processes(self) -> None:
        """Limit the number of the user's processes, for this one and its descendants."""
        if (most := self.plan["processes"]) and os.getuid():
            _limit(0, resource.RLIMIT_NPROC, self._thread_count + most)


class LandlockChild(ConfinedChild):
    def _spawn(self, status: int, errors: int, gate: int) -> int:
        from joey.execution.sandbox import kernel

        kernel.become_subreaper()
        self._identities = self._stat_rules()
        if pid := os.fork():
            return pid
        os.close(self._gate_fd)
        plan = self.plan
        try:
            for number in _RESET_SIGNALS:
                _signal.signal(number, _signal.SIG_DFL)
            self._limit_processes()
            for kind, most in plan["limits"]:
                _limit(0, kind, most)
            os.setsid()
            kernel.apply_landlock_rules(plan["files"], plan["tcp"], plan["scopes"], plan["rules"])
            kernel.drop_capabilities(plan["capabilities"])
            kernel.install_seccomp_filter(plan["seccomp"])
            if data := read_to_end(gate):  # otherwise there is no command
                cwd, shell, env = marshal.loads(data)
                os.chdir(cwd)
                os.execve(shell[0], shell, env)
        except (OSError, ValueError) as error:
            os.write(errors, str(error).encode(errors="replace"))
        finally:
            os._exit(127)

    def is_stale(self) -> bool:
        return super().is_stale() or self._identities != self._stat_rules()

    def _stat_rules(self) -> list[tuple[int, int] | None]:
        found: list[tuple[int, int] | None] = []
        for path, _ in self.plan["rules"]:
            try:
                seen = os.lstat(path)
                found.append((seen.st_dev, seen.st_ino))
            except OSError:
                found.append(None)  # It is gone, or not visible here either.
        return found

    def start(self, command: dict[str, Any]) -> bytes:
        return super().start(command) or read_to_end(self._errors_fd)

    def _encode_command(self, command: dict[str, Any]) -> bytes:
        env = self.plan["env"] | command["env"]
        return marshal.dumps((command["cwd"], command["shell"], env))


class BubblewrapChild(ConfinedChild):
    def _spawn(self, status: int, errors: int, gate: int) -> int:
        self._mounts = b""
        self._mounter: MountHelper | None = None
        self._limit_processes()
        rules = os.memfd_create("rules")
        os.write(rules, self.plan["seccomp"])
        os.lseek(rules, 0, os.SEEK_SET)
        # above all numbers that are given away
        own = [
            fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
            for each in (rules, errors, status, gate)
        ]
        os.set_inheritable(own[0], True)
        network = self.plan["own_network"] if self.network is None else []
        program = [*self.plan["program"], *network, *self.plan["views"], "--seccomp", str(own[0])]
        program += self.plan["first"]
        numbers = [*zip(own[1:], (2, STATUS_FD, GATE_FD), strict=True)]
        try:
            if self.network is not None:
                return self._spawn_in_network(self.network, program, numbers)
            return os.posix_spawn(
                program[0],
                program,
                self.plan["env"],
                file_actions=[(os.POSIX_SPAWN_DUP2, *each) for each in numbers],
                setsigdef=_RESET_SIGNALS,
            )
        finally:
            for descriptor in (rules, *own):
                os.close(descriptor)

    def _spawn_in_network(
        self, network: int, program: list[str], numbers: list[tuple[int, int]]
    ) -> int:
        """Like `posix_spawn`, after joining a network namespace, for which bubblewrap has no
        option."""
        from joey.execution.sandbox.kernel import enter_namespace

        if pid := os.fork():
            return pid
        try:
            for descriptor, number in numbers:
                os.dup2(descriptor, number)
            for each in _RESET_SIGNALS:
                _signal.signal(each, _signal.SIG_DFL)
            enter_namespace(network)
            os.execve(program[0], program, self.plan["env"])
        except OSError as error:
            os.write(2, str(error).encode(errors="replace"))
        finally:
            os._exit(127)

    def wait_until_ready(self) -> bytes:
        if os.read(self.status_fd, 6) != b"ready\n":
            return read_to_end(self._errors_fd) or b"it ended without a word"
        self.first_pid = list_children(self.pid)[0]
        for kind, most in self.plan["limits"]:
            _limit(self.first_pid, kind, most)
        return b""

    def remember(self) -> None:
        self._mounts = self._read_mounts()
        self._mounter = MountHelper(self.first_pid)

    def is_stale(self) -> bool:
        points = {os.fsdecode(line.split(b" ", 5)[4]) for line in self._mounts.splitlines()}
        options = self.plan["views"]
        places = {
            options[number + offset].translate(_MOUNT_TABLE_ESCAPES)
            for number, option in enumerate(options)
            if (offset := _DESTINATION_OFFSETS.get(option))
        }
        return super().is_stale() or self._mounts != self._read_mounts() or not places <= points

    def protect(self, command: dict[str, Any], placeholders: list[str]) -> bytes:
        """Mount protection over protected names; return why that failed, if it did."""
        if self._mounter is None:
            self._mounter = MountHelper(self.first_pid)
        mounts = [(kind, name) for kind in ("keep", "hold", "mask") for name in command[kind]]
        mounts += (("cover", name) for name in placeholders)
        return self._mounter.mount_all(self.plan["workspace"], mounts)

    def _read_mounts(self) -> bytes:
        with open(f"/proc/{self.first_pid}/mountinfo", "rb") as file:
            return file.read()

    def _encode_command(self, command: dict[str, Any]) -> bytes:
        """Encode a script for the first process inside, which continues with its own arguments."""
        env = b" ".join(
            b"%s=%s" % (key.encode(), _quote(word)) for key, word in command["env"].items()
        )
        cwd, arguments = _quote(command["cwd"]), b" ".join(map(_quote, command["shell"]))
        # In braces, so that an incomplete script is not started.
        return b"""{
            export %s
            cd -P -- %s 2>&1 || { echo 1 >&%d; exit; }
            unset OLDPWD
            set -- %s
        }\n""" % (env, cwd, STATUS_FD, arguments)


class MountHelper:
    """A child process in the mount namespace of another process."""

    def __init__(self, pid: int) -> None:
        self._socket, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._pid = os.fork()
        if not self._pid:
            self._socket.close()
            self._serve(theirs, pid)
        theirs.close()

    def mount_all(self, root: str, mounts: list[tuple[str, str]]) -> bytes:
        """Mount over names below `root`; return why that failed, if it did."""
        try:
            self._socket.sendall(marshal.dumps((root, mounts)))
            self._socket.shutdown(_socket.SHUT_WR)
            said = self._socket.recv(512)
        except OSError as error:
            said = str(error).encode()
        self._socket.close()
        os.waitpid(self._pid, 0)
        return b"" if said == b"done" else said or b"protected names could not be held"

    def _serve(self, client: _socket.socket, pid: int) -> None:
        from joey.execution.sandbox.kernel import NamespaceMounts

        try:
            namespace = NamespaceMounts(pid)
            if data := read_to_end(os.dup(client.fileno())):
                root, mounts = marshal.loads(data)
                for kind, name in mounts:
                    _mount(namespace, kind, root, name)
                client.send(b"done")
        except OSError as error:
            client.send(str(error).encode()[:500])
        finally:
            os._exit(0)


def _mount(namespace: NamespaceMounts, kind: str, root: str, name: str) -> None:
    target = _open_without_symlinks("/" if kind == "mask" else root, name.lstrip("/"))
    if target is None:
        return
    if kind == "cover":
        namespace.mount_empty_directory(target)
    elif kind == "mask":
        namespace.bind(os.open("/dev/null", _OPEN_PATH_FLAGS), target, read_only=True)
    else:
        namespace.bind(target, target, read_only=kind == "hold")
    os.close(target)


def _limit(pid: int, kind: int, wanted: int) -> None:
    _, hard = resource.prlimit(pid, kind)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.prlimit(pid, kind, (limit, limit))


def _quote(word: str | bytes) -> bytes:
    return b"'%s'" % os.fsencode(word).replace(b"'", b"'\\''")


def _open_without_symlinks(root: str, path: str) -> int | None:
    """Open a path without following links; None if it is gone or has become one."""
    directory = os.open(root, _OPEN_PATH_FLAGS)
    for name in path.split("/"):
        try:
            inner = os.open(name, _OPEN_PATH_FLAGS, dir_fd=directory)
        except (FileNotFoundError, NotADirectoryError):
            return None
        finally:
            os.close(directory)
        directory = inner
    if stat.S_ISLNK(os.fstat(directory).st_mode):
        os.close(directory)
        return None
    return directory


def _count_own_threads(most: int) -> int:
    """Count the user's threads if the kernel limits their number, which it does not for root."""
    user, count = os.getuid(), 0
    if not most or not user:
        return 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found = os.stat(f"/proc/{name}/task")
            except OSError:
                continue  # It ended meanwhile.
            count += found.st_nlink - 2 if found.st_uid == user else 0
    return count


def receive_descriptors(source: _socket.socket, most: int) -> tuple[bytes, list[int]]:
    """Receive a message with its descriptors."""
    numbers = array.array("i")
    space = _socket.CMSG_LEN(most * numbers.itemsize)
    data, attached, *_ = source.recvmsg(512, space, _socket.MSG_CMSG_CLOEXEC)
    for *_, each in attached:
        numbers.frombytes(each)
    return data, numbers.tolist()


def read_to_end(descriptor: int) -> bytes:
    found = b""
    while data := os.read(descriptor, 65536):
        found += data
    os.close(descriptor)
    return found


def list_children(pid: int) -> list[int]:
    """List the children, including exited ones that were not waited for."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(each) for each in file.read().split()]
    except OSError:
        return list_descendants(pid)  # The kernel keeps no such list.


def list_descendants(pid: int) -> list[int]:
    """List descendants, nearest first, without zombies."""
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
