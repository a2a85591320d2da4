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
        self._is_full_level = plan["level"] == "full"
        self._mount_options = (
            self._create_placeholders() + self._build_protected_mounts()
            if self._is_full_level
            else []
        )
        if not self._is_full_level:
            from joey.execution.sandbox.kernel import become_subreaper

            become_subreaper()

    def exec_command(self, status: int, complains: int, gate: int) -> None:
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
            if self._is_full_level:
                self._exec_in_bubblewrap(status, complains, gate)
            else:
                self._exec_with_landlock()
        except (OSError, ValueError) as error:
            os.write(complains, str(error).encode(errors="replace"))
        os._exit(127)

    def _create_placeholders(self) -> list[str]:
        plan, root = self._plan, self._plan["workspace"]
        mounts = []
        for name in plan["absent"]:
            if self._placeholders.acquire(name):
                place = f"{root}/{name}"
                mounts += [*plan["empty"], place, "--remount-ro", place]
        return mounts

    def _build_protected_mounts(self) -> list[str]:
        """Mount what is protected over itself. By descriptors, where the shell can close them: a
        name may lead elsewhere by the time it is looked up."""
        plan, root = self._plan, self._plan["workspace"]
        mounts = []
        for option, names in (("--bind", plan["kept"]), ("--ro-bind", plan["held"])):
            for name in names:
                place = f"{root}/{name}"
                if not plan["by_descriptor"]:
                    mounts += [option, place, place]
                elif (opened := _open_without_symlinks(root, name)) is not None:
                    self._protected_fds.append(opened)
                    mounts += [option, f"/proc/self/fd/{opened}", place]
        return [*mounts, *plan["again"]]

    def _exec_in_bubblewrap(self, status: int, complains: int, gate: int) -> None:
        plan = self._plan
        rules = _duplicate_descriptor_high(os.memfd_create("rules", os.MFD_CLOEXEC))
        os.write(rules, plan["seccomp"])
        os.lseek(rules, 0, os.SEEK_SET)
        status, gate = _duplicate_descriptor_high(status), _duplicate_descriptor_high(gate)
        os.dup2(complains, 2)
        os.dup2(status, STATUS_FD)
        if plan["port"]:
            os.dup2(gate, GATE_FD)
        for descriptor in (*self._protected_fds, rules):
            os.set_inheritable(descriptor, True)
        argv = [*plan["program"], *plan["views"], *self._mount_options, "--seccomp", str(rules)]
        numbers = " ".join(map(str, self._protected_fds))
        argv += [*plan["rest"], numbers, *plan["shell"]]
        os.execve(argv[0], argv, plan["env"])

    def _exec_with_landlock(self) -> None:
        from joey.execution.sandbox import kernel

        plan = self._plan
        os.setsid()
        os.chdir(plan["cwd"])
        kernel.apply_landlock_rules(plan["files"], plan["tcp"], plan["scopes"], plan["rules"])
        kernel.drop_capabilities(plan["capabilities"])
        kernel.install_seccomp_filter(plan["seccomp"])
        os.execve(plan["shell"][0], plan["shell"], plan["env"])


def _duplicate_descriptor_high(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)


def _open_without_symlinks(root: str, path: str) -> int | None:
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
    found = _duplicate_descriptor_high(directory)
    os.close(directory)
    return found


def limit_processes(most: int) -> None:
    """For this process and those that come of it."""
    user = os.getuid()
    if not most or not user:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    share = _count_user_threads(user) + most
    limit = share if hard == resource.RLIM_INFINITY else min(share, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def _count_user_threads(user: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found = os.stat(f"/proc/{name}/task")
            except OSError:
                continue  # It ended meanwhile.
            count += found.st_nlink - 2 if found.st_uid == user else 0
    return count
