"""The launcher: turns a forked process into the confined command.

Resource limits are set here. The kernel counts all processes of a user, so the limit is the number
there is already plus the command's share; it does not hold for root (see `ControlGroup`).

Runs in the supervisor and its child: the standard library only, and little of it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` takes longer to load than we run
import fcntl
import os
import resource
import stat

from joey.execution.sandbox.protected_scan import MountPlaceholders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


GATE_FD, STATUS_FD = 8, 9
"""Where the first process inside waits until the network is ready, and says how the shell ended."""
_FIRST_FREE_FD = 16
"""Numbers from here on are free for what only bubblewrap needs."""
_RESET_SIGNALS = (1, 2, 3, 13, 15, 25)
"""Signals that we ignore, or Python does: what is ignored would stay so in the command."""
_OPEN_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_OPEN_PATH_FLAGS = os.O_PATH | os.O_NOFOLLOW


class CommandLauncher:
    def __init__(self, plan: dict[str, Any], placeholders: MountPlaceholders) -> None:
        """What has to be done before: names are occupied, what is protected is opened."""
        self._plan = plan
        self._placeholders = placeholders
        self._protected_fds: list[int] = []
        self._is_full = plan["level"] == "full"
        self._mounts = self._occupy() + self._hold() if self._is_full else []
        if not self._is_full:
            from joey.execution.sandbox.kernel import adopt_orphans

            adopt_orphans()

    def enter(self, status: int, complains: int, gate: int) -> None:
        """Turn this process into the command; it does not return."""
        plan = self._plan
        try:
            for number in _RESET_SIGNALS:
                _signal.signal(number, _signal.SIG_DFL)
            limit_processes(plan["processes"])
            for kind, most in plan["limits"]:
                _, hard = resource.getrlimit(kind)
                limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.setrlimit(kind, (limit, limit))
            if self._is_full:
                self._enter_namespaces(status, complains, gate)
            else:
                self._enter_rules()
        except (OSError, ValueError) as error:
            os.write(complains, str(error).encode(errors="replace"))
        os._exit(127)

    def _occupy(self) -> list[str]:
        plan, root = self._plan, self._plan["workspace"]
        mounts = []
        for name in plan["absent"]:
            if self._placeholders.take(name):
                place = f"{root}/{name}"
                mounts += [*plan["empty"], place, "--remount-ro", place]
        return mounts

    def _hold(self) -> list[str]:
        """Mount what is protected over itself. By descriptors, where the shell can close them: a
        name may lead elsewhere by the time it is looked up."""
        plan, root = self._plan, self._plan["workspace"]
        mounts = []
        for option, names in (("--bind", plan["kept"]), ("--ro-bind", plan["held"])):
            for name in names:
                place = f"{root}/{name}"
                if not plan["by_descriptor"]:
                    mounts += [option, place, place]
                elif (opened := _open_within(root, name)) is not None:
                    self._protected_fds.append(opened)
                    mounts += [option, f"/proc/self/fd/{opened}", place]
        return [*mounts, *plan["again"]]

    def _enter_namespaces(self, status: int, complains: int, gate: int) -> None:
        plan = self._plan
        rules = _far(os.memfd_create("rules", os.MFD_CLOEXEC))
        os.write(rules, plan["seccomp"])
        os.lseek(rules, 0, os.SEEK_SET)
        status, gate = _far(status), _far(gate)
        os.dup2(complains, 2)
        os.dup2(status, STATUS_FD)
        if plan["port"]:
            os.dup2(gate, GATE_FD)
        for descriptor in (*self._protected_fds, rules):
            os.set_inheritable(descriptor, True)
        argv = [*plan["program"], *plan["views"], *self._mounts, "--seccomp", str(rules)]
        numbers = " ".join(map(str, self._protected_fds))
        argv += [*plan["rest"], numbers, *plan["shell"]]
        os.execve(argv[0], argv, plan["env"])

    def _enter_rules(self) -> None:
        from joey.execution.sandbox import kernel

        plan = self._plan
        os.setsid()
        os.chdir(plan["cwd"])
        kernel.restrict_files(plan["files"], plan["tcp"], plan["scopes"], plan["rules"])
        kernel.drop_capabilities(plan["capabilities"])
        kernel.filter_calls(plan["seccomp"])
        os.execve(plan["shell"][0], plan["shell"], plan["env"])


def _far(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)


def _open_within(root: str, path: str) -> int | None:
    """Without following a link; None when it went away, or has become one."""
    directory = os.open(root, _OPEN_DIRECTORY_FLAGS)
    try:
        for name in path.split("/"):
            inner = os.open(name, _OPEN_PATH_FLAGS, dir_fd=directory)
            os.close(directory)
            directory = inner
    except OSError:
        os.close(directory)
        return None
    if stat.S_ISLNK(os.fstat(directory).st_mode):
        os.close(directory)
        return None
    found = _far(directory)
    os.close(directory)
    return found


def limit_processes(most: int) -> None:
    """For this process and those that come of it."""
    user = os.getuid()
    if not most or not user:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    share = _threads_of(user) + most
    limit = share if hard == resource.RLIM_INFINITY else min(share, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def _threads_of(user: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found = os.stat(f"/proc/{name}/task")
            except OSError:
                continue  # It ended meanwhile.
            count += found.st_nlink - 2 if found.st_uid == user else 0
    return count
