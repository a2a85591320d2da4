"""The seccomp filter of sandboxed commands, as a program for the kernel.

Everything is allowed except the listed calls: those that inspect or control other processes, change
mounts, use rarely used parts of the kernel, or open sockets that lead outside. Calls whose
arguments are in memory cannot be checked; if such a call could do harm, it is denied altogether,
with an error that makes programs fall back to its older form.
"""

from __future__ import annotations

import errno
import os
import struct

from msgspec import Struct

_BPF_LOAD, _BPF_AND, _BPF_RETURN = 0x20, 0x54, 0x06
_BPF_JUMP_IF_EQUAL, _BPF_JUMP_IF_AT_LEAST, _BPF_JUMP_IF_ANY_BIT = 0x15, 0x35, 0x45
_SECCOMP_RET_ALLOW, _SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000
_X32_SYSCALL_BIT = 0x40000000
_CLONE_NEW_NAMESPACE_FLAGS = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_DGRAM, _SOCK_TYPE_MASK = 2, 0xF
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

_DENIED_CALL_NAMES = """
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
    mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick
    mount_setattr setns keyctl add_key request_key bpf perf_event_open userfaultfd kexec_load
    kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct quotactl
    quotactl_fd nfsservctl settimeofday clock_settime clock_adjtime adjtimex sethostname
    setdomainname iopl ioperm modify_ldt lookup_dcookie open_by_handle_at fanotify_init vhangup
    syslog uselib sysfs _sysctl
""".split()  # noqa: SIM905 (a table is easier to read)
_CALLS_DENIED_AS_UNSUPPORTED = (
    "clone3",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "openat2",
)
"""Answered as by a kernel that has no such call."""
_PID_ARGUMENT_INDEXES = dict.fromkeys(
    """
    prlimit64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler migrate_pages
    move_pages
    """.split(),  # noqa: SIM905
    0,
) | {"setpriority": 1, "ioprio_set": 1}
"""Which argument is the number of a process that something is done to: where all can be seen, only
to oneself (0)."""
_MODE_ARGUMENT_INDEXES = dict.fromkeys(("chmod", "fchmod", "creat", "mknod"), 1)
_MODE_ARGUMENT_INDEXES |= dict.fromkeys(("fchmodat", "fchmodat2", "mknodat"), 2)
_OPEN_FLAGS_ARGUMENT_INDEXES = {"open": 1, "openat": 2}
"""Which argument is the mode, or the options, which the mode follows."""
_S_ISUID, _O_CREAT, _O_TMPFILE = 0o4000, 0o100, 0o20000000
_SHARED_MEMORY_CALLS = ("shmget", "shmat", "semget", "msgget", "mq_open")


class ArgumentCondition(Struct, frozen=True):
    """A condition on the lower half of an argument."""

    argument_index: int
    value: int
    comparison: int = _BPF_JUMP_IF_EQUAL
    is_expected_true: bool = True
    """False: refused when the test fails."""
    mask: int | None = None


class DeniedCall(Struct, frozen=True):
    call_name: str
    conditions: tuple[ArgumentCondition, ...] = ()
    """All must hold; none: always refused."""
    error_number: int = errno.EPERM


def is_supported_machine() -> bool:
    return os.uname().machine in AUDIT_ARCH_BY_MACHINE


def build_denied_calls(
    *,
    internet: bool,
    local_sockets: bool,
    shared_memory: bool,
    unsignalled_pids: tuple[int, ...] = (),
) -> list[DeniedCall]:
    """Build the denied calls. `internet` and `local_sockets` say which sockets may be opened;
    `unsignalled_pids` are processes that must not be signalled, if the kernel has no other means
    for that."""
    found = [DeniedCall(call) for call in _DENIED_CALL_NAMES]
    found += [DeniedCall(call, error_number=errno.ENOSYS) for call in _CALLS_DENIED_AS_UNSUPPORTED]
    found += [
        DeniedCall(call, (ArgumentCondition(0, _CLONE_NEW_NAMESPACE_FLAGS, _BPF_JUMP_IF_ANY_BIT),))
        for call in ("unshare", "clone")
    ]
    found += _build_setuid_denials()
    found += [
        DeniedCall("ioctl", (ArgumentCondition(1, request),)) for request in (_TIOCSTI, _TIOCLINUX)
    ]
    families = [_AF_NETLINK]
    families += (_AF_INET, _AF_INET6) if internet else ()
    families += (_AF_UNIX,) if local_sockets else ()
    others = tuple(ArgumentCondition(0, family, is_expected_true=False) for family in families)
    found.append(DeniedCall("socket", others, errno.EACCES))
    routes_only = (
        ArgumentCondition(0, _AF_NETLINK),
        ArgumentCondition(2, 0, is_expected_true=False),
    )
    found.append(DeniedCall("socket", routes_only, errno.EACCES))
    if not local_sockets:
        # Either end of a pair of datagram sockets could be pointed at another address.
        datagram = ArgumentCondition(1, _SOCK_DGRAM, mask=_SOCK_TYPE_MASK)
        found.append(DeniedCall("socketpair", (datagram,), errno.EACCES))
    if not shared_memory:
        found += [DeniedCall(call) for call in _SHARED_MEMORY_CALLS]
        found += [
            DeniedCall(call, (ArgumentCondition(index, 0, is_expected_true=False),))
            for call, index in _PID_ARGUMENT_INDEXES.items()
        ]
    if unsignalled_pids:
        numbers = [*unsignalled_pids, *(-each for each in unsignalled_pids), -1]
        found += [
            DeniedCall(call, (ArgumentCondition(0, each & 0xFFFFFFFF),))
            for call in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
            for each in numbers
        ]
        found.append(DeniedCall("pidfd_send_signal"))
    return found


def _build_setuid_denials() -> list[DeniedCall]:
    """Deny setuid files: a file of root's that everyone may run as root would outlive the
    sandbox."""
    found = [
        DeniedCall(call, (ArgumentCondition(place, _S_ISUID, _BPF_JUMP_IF_ANY_BIT),))
        for call, place in _MODE_ARGUMENT_INDEXES.items()
    ]
    return found + [
        DeniedCall(
            call,
            (
                ArgumentCondition(place, making, _BPF_JUMP_IF_ANY_BIT),
                ArgumentCondition(place + 1, _S_ISUID, _BPF_JUMP_IF_ANY_BIT),
            ),
        )
        for call, place in _OPEN_FLAGS_ARGUMENT_INDEXES.items()
        for making in (_O_CREAT, _O_TMPFILE)
    ]


def compile_filter(found: list[DeniedCall], machine: str | None = None) -> bytes:
    """Compile the filter into instructions of the classic packet filter."""
    machine = machine or os.uname().machine
    unknown_call = _SECCOMP_RET_ERRNO | errno.ENOSYS
    steps = [
        _encode_instruction(_BPF_LOAD, 4),
        _encode_instruction(_BPF_JUMP_IF_EQUAL, AUDIT_ARCH_BY_MACHINE[machine], 1, 0),
        _encode_instruction(_BPF_RETURN, unknown_call),
    ]
    if machine == "x86_64":
        steps += [
            _encode_instruction(_BPF_LOAD, 0),
            _encode_instruction(_BPF_JUMP_IF_AT_LEAST, _X32_SYSCALL_BIT, 0, 1),
            _encode_instruction(_BPF_RETURN, unknown_call),
        ]
    steps.append(_encode_instruction(_BPF_LOAD, 0))
    for refusal in sorted(found, key=lambda each: bool(each.conditions)):
        if (call := find_syscall_number(refusal.call_name, machine)) is not None:
            steps += _compile_denied_call(call, refusal)
    return b"".join([*steps, _encode_instruction(_BPF_RETURN, _SECCOMP_RET_ALLOW)])


def _compile_denied_call(call: int, refusal: DeniedCall) -> list[bytes]:
    """Compile a call: deny it if all conditions hold, else continue after the block with the number
    loaded."""
    checks: list[list[bytes]] = []
    for condition in refusal.conditions:
        loading = [_encode_instruction(_BPF_LOAD, 16 + 8 * condition.argument_index)]
        if condition.mask is not None:
            loading.append(_encode_instruction(_BPF_AND, condition.mask))
        checks.append(loading)
    length = sum(len(loading) + 1 for loading in checks) + 1
    # Behind the block the number must be loaded again, if the block has loaded anything else.
    steps = [_encode_instruction(_BPF_JUMP_IF_EQUAL, call, 0, length + bool(checks))]
    left = length
    for loading, condition in zip(checks, refusal.conditions, strict=True):
        steps += loading
        left -= len(loading) + 1
        on_true, on_false = (0, left) if condition.is_expected_true else (left, 0)
        steps.append(_encode_instruction(condition.comparison, condition.value, on_true, on_false))
    steps.append(_encode_instruction(_BPF_RETURN, _SECCOMP_RET_ERRNO | refusal.error_number))
    if checks:
        steps.append(_encode_instruction(_BPF_LOAD, 0))
    return steps


def _encode_instruction(code: int, value: int, on_true: int = 0, on_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, on_true, on_false, value)


AUDIT_ARCH_BY_MACHINE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_SYSCALL_TABLE = """
    _sysctl:156:- acct:163:89 add_key:248:217 adjtimex:159:171 bpf:321:280 chmod:90:- chroot:161:51
    clock_adjtime:305:266 clock_settime:227:112 clone:56:220 clone3:435:435 creat:85:-
    delete_module:176:106 fanotify_init:300:262 fchmod:91:52 fchmodat:268:53 fchmodat2:452:452
    finit_module:313:273 fsconfig:431:431 fsmount:432:432 fsopen:430:430 fspick:433:433
    init_module:175:105 io_uring_enter:426:426 io_uring_register:427:427 io_uring_setup:425:425
    ioctl:16:29 ioperm:173:- iopl:172:- ioprio_set:251:30 kcmp:312:272 kexec_file_load:320:294
    kexec_load:246:104 keyctl:250:219 kill:62:129 lookup_dcookie:212:18 migrate_pages:256:238
    mknod:133:- mknodat:259:33 modify_ldt:154:- mount:165:40 mount_setattr:442:442
    move_mount:429:429 move_pages:279:239 mq_open:240:180 msgget:68:186 nfsservctl:180:42 open:2:-
    open_by_handle_at:304:265 open_tree:428:428 openat:257:56 openat2:437:437
    perf_event_open:298:241 pidfd_getfd:438:438 pidfd_send_signal:424:424 pivot_root:155:41
    prlimit64:302:261 process_madvise:440:440 process_vm_readv:310:270 process_vm_writev:311:271
    ptrace:101:117 quotactl:179:60 quotactl_fd:443:443 reboot:169:142 request_key:249:218
    rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240 sched_setaffinity:203:122
    sched_setattr:314:274 sched_setparam:142:118 sched_setscheduler:144:119 semget:64:190
    setdomainname:171:162 sethostname:170:161 setns:308:268 setpriority:141:140
    settimeofday:164:170 shmat:30:196 shmget:29:194 socket:41:198 socketpair:53:199 swapoff:168:225
    swapon:167:224 sysfs:139:- syslog:103:116 tgkill:234:131 tkill:200:130 umount2:166:39
    unshare:272:97 uselib:134:- userfaultfd:323:282 vhangup:153:58
"""
"""Each call with its number on x86_64 and on aarch64; `-` where there is no such call."""
SYSCALL_NUMBERS = {
    name: {"x86_64": on_x86, "aarch64": on_arm}
    for name, on_x86, on_arm in (row.split(":") for row in _SYSCALL_TABLE.split())
}


def find_syscall_number(name: str, machine: str) -> int | None:
    number = SYSCALL_NUMBERS[name][machine]
    return int(number) if number != "-" else None
