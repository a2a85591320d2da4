"""Kernel interfaces for which the standard library has no functions.

Landlock, seccomp, capabilities, file birth times, and listening in the network namespace of another
process. A socket belongs to the network namespace in which it was created, regardless of its
holder: so a child joins the command's namespace, listens there, and passes the socket out.

Used in the process that becomes the command: it imports little, and is imported late, because
ctypes is slow to load.
"""

from __future__ import annotations

import _socket
import array
import ctypes
import errno
import fcntl
import os
import stat

from joey.execution.sandbox.launcher import receive_descriptors

_SYS_LANDLOCK_CREATE_RULESET, _SYS_LANDLOCK_ADD_RULE, _SYS_LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_CREATE_RULESET_VERSION = 1
_LANDLOCK_RULE_PATH_BENEATH = 1
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_LINUX_CAPABILITY_VERSION_3 = 0x20080522
_MAX_CAPABILITY_NUMBER = 63
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _STATX_BTIME = -100, 0x100, 0x800
_NS_GET_USERNS, _CLONE_NEWUSER = 0xB701, 0x10000000
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_AT_EMPTY_PATH, _AT_RECURSIVE, _OPEN_TREE_CLONE, _MOVE_MOUNT_EMPTY_PATHS = 0x1000, 0x8000, 1, 0x44
_MS_RDONLY_NODEV, _MS_RDONLY_NOSUID_NODEV_NOEXEC = 0b101, 0b1111
_MS_REMOUNT, _MS_BIND, _MS_REC = 32, 4096, 16384
_ST_RELATIME, _MS_RELATIME = 4096, 1 << 21


class _LandlockPathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


class _SeccompProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


class _Statx(ctypes.Structure):
    _fields_ = (
        ("mask", ctypes.c_uint32),
        ("before", ctypes.c_byte * 76),
        ("birth_seconds", ctypes.c_int64),
        ("birth_nanoseconds", ctypes.c_uint32),
        ("after", ctypes.c_byte * 164),
    )


_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)


def get_landlock_version() -> int:
    """Return the Landlock version; 0 if the kernel has none."""
    found = _libc.syscall(
        _SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_CREATE_RULESET_VERSION
    )
    return max(int(found), 0)


def become_subreaper() -> None:
    """Become the parent of descendants whose own parents exit."""
    _raise_on_failure(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "adopt processes")


def read_birth_time_ns(path: str) -> int | None:
    """Read when a file was created, in nanoseconds; None if the file system does not record it."""
    found = _Statx()
    answer = _libc.statx(
        _AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, ctypes.byref(found)
    )
    _raise_on_failure(answer, f"look at {path}")
    if not found.mask & _STATX_BTIME:
        return None
    return int(found.birth_seconds) * 10**9 + int(found.birth_nanoseconds)


def join_namespace(pid: int, kind: str) -> None:
    """Enter a namespace of another process. The creator of its user namespace may do so."""
    enter_namespace(os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC))


def enter_namespace(namespace: int) -> None:
    """Enter an open namespace, and the user namespace that owns it."""
    owner = fcntl.ioctl(namespace, _NS_GET_USERNS)
    if not os.path.samestat(os.fstat(owner), os.stat("/proc/self/ns/user")):
        _raise_on_failure(_libc.setns(owner, _CLONE_NEWUSER), "join its users")
    _raise_on_failure(_libc.setns(namespace, 0), "join its namespace")


class NamespaceMounts:
    """Mounts in the mount namespace of another process, at open files and directories."""

    def __init__(self, pid: int) -> None:
        """Enter the namespace permanently."""
        self._own_descriptors = os.open("/proc/self/fd", os.O_PATH | os.O_CLOEXEC)
        join_namespace(pid, "mnt")

    def mount_empty_directory(self, target: int) -> None:
        """Cover a directory with an empty one that is not writable."""
        self._mount(b"tmpfs", target, b"tmpfs", _MS_RDONLY_NOSUID_NODEV_NOEXEC, b"mode=0555")

    def bind(self, source: int, target: int, *, read_only: bool) -> None:
        """Mount `source`, with everything mounted in it, at `target`."""
        flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE | _AT_EMPTY_PATH
        tree = _libc.syscall(_SYS_OPEN_TREE, source, b"", flags)
        attributes = (ctypes.c_uint64 * 4)(_MS_RDONLY_NODEV if read_only else 0)
        where, size = _AT_RECURSIVE | _AT_EMPTY_PATH, ctypes.sizeof(attributes)
        if tree < 0 or _libc.syscall(_SYS_MOUNT_SETATTR, tree, b"", where, attributes, size) < 0:
            if ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
                _raise_on_failure(-1, "hold a protected name")
            self._bind_on_old_kernel(source, target, read_only)
            return
        moved = _libc.syscall(_SYS_MOVE_MOUNT, tree, b"", target, b"", _MOVE_MOUNT_EMPTY_PATHS)
        os.close(tree)
        _raise_on_failure(moved, "hold a protected name")

    def _bind_on_old_kernel(self, source: int, target: int, read_only: bool) -> None:
        """Before Linux 5.12, make the mounts below it read-only one by one."""
        self._mount(b"%d" % source, target, None, _MS_BIND | _MS_REC, None)
        place = os.fsencode(os.readlink(str(target), dir_fd=self._own_descriptors))
        table = os.open("../mountinfo", os.O_RDONLY, dir_fd=self._own_descriptors)
        with open(table, "rb") as file:
            points = [line.split(b" ", 5)[4] for line in file] if read_only else []
        for point in points:
            path = point.decode("unicode_escape").encode("latin-1")
            if path == place or path.startswith(place + b"/"):
                kept = os.statvfs(path).f_flag
                flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY_NODEV | kept & 0xC0E
                flags |= _MS_RELATIME if kept & _ST_RELATIME else 0
                done = _libc.mount(None, path, None, ctypes.c_ulong(flags), None)
                _raise_on_failure(done, "hold a protected name")

    def _mount(
        self, source: bytes, target: int, kind: bytes | None, flags: int, data: bytes | None
    ) -> None:
        # Through the machine's own /proc: what a descriptor there refers to cannot be exchanged.
        os.fchdir(self._own_descriptors)
        done = _libc.mount(source, b"%d" % target, kind, ctypes.c_ulong(flags), data)
        _raise_on_failure(done, "hold a protected name")


def apply_landlock_rules(files: int, tcp: int, scopes: int, rules: list[tuple[str, int]]) -> None:
    """Apply rules: allow their rights, and deny all other named rights."""
    attributes = (ctypes.c_uint64 * 3)(files, tcp, scopes)
    # Older kernels know fewer fields, and reject unknown ones unless they are 0.
    size = ctypes.sizeof(attributes) if tcp or scopes else 8
    size_and_flags = (ctypes.c_size_t(size), ctypes.c_uint32(0))
    ruleset = _libc.syscall(_SYS_LANDLOCK_CREATE_RULESET, attributes, *size_and_flags)
    _raise_on_failure(ruleset, "make rules")
    for path, rights in rules:
        try:
            directory = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):
            continue  # It was removed meanwhile, or is not visible here either.
        if stat.S_ISLNK(os.fstat(directory).st_mode):
            os.close(directory)
            continue  # It has become a link meanwhile.
        rule = _LandlockPathBeneathAttr(rights & files, directory)
        kind_and_rule = (_LANDLOCK_RULE_PATH_BENEATH, ctypes.byref(rule))
        done = _libc.syscall(_SYS_LANDLOCK_ADD_RULE, ruleset, *kind_and_rule, ctypes.c_uint32(0))
        os.close(directory)
        _raise_on_failure(done, f"allow {path}")
    _raise_on_failure(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "give up new privileges")
    _raise_on_failure(
        _libc.syscall(_SYS_LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)), "restrict itself"
    )
    os.close(ruleset)


def drop_capabilities(kept: int) -> None:
    """Drop all capabilities except those of the mask, permanently."""
    if os.geteuid() != 0:
        return
    for each in range(_MAX_CAPABILITY_NUMBER + 1):
        if not kept >> each & 1:
            _libc.prctl(_PR_CAPBSET_DROP, each, 0, 0, 0)  # fails after the last one
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_LINUX_CAPABILITY_VERSION_3, 0)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    _raise_on_failure(_libc.capset(header, data), "give up capabilities")


def install_seccomp_filter(program: bytes) -> None:
    steps = _SeccompProgram(len(program) // 8, program)
    place = ctypes.addressof(steps)
    _raise_on_failure(
        _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, place, 0, 0), "filter system calls"
    )


def _raise_on_failure(result: int, action: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the process cannot {action}: {os.strerror(number)}")


_LISTEN_BACKLOG = 64


def listen_in_network_namespace(pid: int, port: int) -> int:
    """Listen on the loopback interface of a process's network namespace. Raises OSError."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    child = os.fork()
    if not child:
        _send_listening_socket(theirs, pid, port)
    theirs.close()
    try:
        said, attached = receive_descriptors(ours, 1)
    finally:
        ours.close()
        os.waitpid(child, 0)
    if not attached:
        raise OSError(said.decode(errors="replace") or "it could not be joined")
    return attached[0]


def _send_listening_socket(receiver: _socket.socket, pid: int, port: int) -> None:
    try:
        join_namespace(pid, "net")
        listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", port))
        listener.listen(_LISTEN_BACKLOG)
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))
        receiver.sendmsg([b"D"], [rights])
    except OSError as error:
        receiver.send(str(error).encode()[:500])
    finally:
        os._exit(0)
