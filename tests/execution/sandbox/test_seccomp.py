"""The filter of system calls, run by an interpreter of its own."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.execution.sandbox.seccomp import (
    AUDIT_ARCH_BY_MACHINE,
    SYSCALL_NUMBERS,
    build_denied_calls,
    compile_filter,
    find_syscall_number,
)

ALLOWED = 0
MACHINES = tuple(AUDIT_ARCH_BY_MACHINE)
UNIX, INET, NETLINK, PACKET = 1, 2, 16, 17


def verdict(code: bytes, machine: str, call: int, *arguments: int, arch: int = 0) -> int:
    """What the kernel would answer: an error's number, or that the call is allowed."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=iIQ", call, arch or AUDIT_ARCH_BY_MACHINE[machine], 0)
    data += b"".join(struct.pack("=Q", value & 0xFFFFFFFFFFFFFFFF) for value in values)
    position, register = 0, 0
    while True:
        kind, on_true, on_false, value = struct.unpack_from("=HBBI", code, position * 8)
        position += 1
        match kind:
            case 0x20:
                (register,) = struct.unpack_from("=I", data, value)
            case 0x54:
                register &= value
            case 0x06:
                return ALLOWED if value == 0x7FFF0000 else int(value & 0xFFFF)
            case _:
                holds = {
                    0x15: register == value,
                    0x35: register >= value,
                    0x45: bool(register & value),
                }[kind]
                position += on_true if holds else on_false


def closed(machine: str, *spared: int) -> bytes:
    return compile_filter(
        build_denied_calls(
            internet=False, local_sockets=False, shared_memory=False, unsignalled_pids=spared
        ),
        machine,
    )


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.contract("sandbox:files")
def test_what_is_refused_and_what_is_not(machine: str) -> None:
    def judge(name: str, *arguments: int) -> int:
        call = find_syscall_number(name, machine)
        assert call is not None
        return verdict(code, machine, call, *arguments)

    code = closed(machine)
    assert judge("ptrace") == judge("mount") == judge("bpf") == errno.EPERM
    assert judge("clone3") == judge("io_uring_setup") == errno.ENOSYS
    assert judge("clone", 17) == judge("unshare", 0x400) == ALLOWED
    assert judge("clone", 0x10000000 | 17) == judge("unshare", 0x10000000) == errno.EPERM
    assert judge("ioctl", 0, 0x5412) == errno.EPERM
    assert judge("ioctl", 0, 0x5401) == ALLOWED
    for family in (UNIX, INET, PACKET):
        assert judge("socket", family, 1) == errno.EACCES
    assert judge("socket", NETLINK, 3, 0) == ALLOWED
    assert judge("socket", NETLINK, 3, 9) == errno.EACCES
    assert judge("socketpair", UNIX, 1 | 0o2000000) == ALLOWED
    assert judge("socketpair", UNIX, 2 | 0o2000000) == errno.EACCES
    assert judge("kill", 7) == ALLOWED
    assert judge("fchmodat", -100, 0, 0o755) == judge("openat", -100, 0, 0, 0o4755) == ALLOWED
    assert judge("fchmodat", -100, 0, 0o4755) == errno.EPERM
    assert judge("openat", -100, 0, 0o101, 0o4755) == errno.EPERM
    assert judge("setpriority", 0, 0) == judge("sched_setaffinity", 0) == ALLOWED
    assert judge("setpriority", 0, 77) == judge("sched_setaffinity", 77) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_processes_can_be_spared_signals(machine: str) -> None:
    code = closed(machine, 77)
    kill = find_syscall_number("kill", machine)
    assert kill is not None
    assert [verdict(code, machine, kill, pid) for pid in (77, -77, -1)] == [errno.EPERM] * 3
    assert [verdict(code, machine, kill, pid) for pid in (76, 0, 770)] == [ALLOWED] * 3


def test_the_network_can_be_let_through() -> None:
    code = compile_filter(
        build_denied_calls(internet=True, local_sockets=True, shared_memory=True), "x86_64"
    )
    for family in (UNIX, INET, 10):
        assert verdict(code, "x86_64", 41, family, 2) == ALLOWED
    assert verdict(code, "x86_64", 41, PACKET, 3) == errno.EACCES


@given(
    st.sampled_from(MACHINES),
    st.integers(0, 0x3FFFFFFF),
    st.lists(st.integers(0, 2**64 - 1), max_size=6),
)
def test_every_call_gets_an_answer_and_unlisted_ones_are_allowed(
    machine: str, call: int, arguments: list[int]
) -> None:
    answer = verdict(closed(machine), machine, call, *arguments)
    listed = {find_syscall_number(name, machine) for name in SYSCALL_NUMBERS}
    assert call in listed or answer == ALLOWED


@given(st.integers(0, 600))
def test_calls_of_another_architecture_are_refused(call: int) -> None:
    assert verdict(closed("x86_64"), "x86_64", call, arch=0x40000003) == errno.ENOSYS
    assert verdict(closed("x86_64"), "x86_64", call | 0x40000000) == errno.ENOSYS
