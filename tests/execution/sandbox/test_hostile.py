"""What hostile commands try, and what has become of it afterwards."""

from __future__ import annotations

import os
import socket

import pytest

from joey.core.settings import Settings
from tests.harness.execution.actor import CommandStep
from tests.harness.execution.sandbox import CANARY, SandboxHarness, there

SYSTEM_PLACES = ("/etc", "/usr", "/usr/local/bin", "/var/lib", "/opt", "/", "/dev", "/sys")


@pytest.mark.contract("sandbox:files")
async def test_nothing_outside_of_the_workspace_can_be_written(harness: SandboxHarness) -> None:
    (harness.outside / "kept").write_text("as it was", encoding="utf-8")
    name = f"joey-{harness.root.name}"
    outside = harness.outside
    system = "; ".join(f"echo x > {place}/{name}" for place in SYSTEM_PLACES)
    await harness.run(
        f"mkdir -p {outside}; echo x > {outside}/new; echo x >> {outside}/kept",
        f"ln -s {outside} link; echo x > link/new; cp /bin/true link/; ls link/",
        f"truncate -s 0 {outside}/kept; rm -rf {outside}; mv {outside} there",
        f"ln {outside}/kept hard; echo x >> hard",
        system,
    )
    assert [path.name for path in outside.iterdir()] == ["kept"]
    assert (outside / "kept").read_text(encoding="utf-8") == "as it was"
    assert there(*(f"{place}/{name}" for place in SYSTEM_PLACES)) == []


@pytest.mark.contract("sandbox:files")
async def test_secrets_of_the_home_and_of_joey_cannot_be_read(harness: SandboxHarness) -> None:
    places = (".ssh/id_rsa", ".aws/credentials", ".gnupg/key", ".config/gcloud/token", ".netrc")
    for place in (*places, ".roo/profiles.json", ".git-credentials", "notes.txt"):
        file = harness.home / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CANARY, encoding="utf-8")
    (harness.outside / "file").write_text(CANARY, encoding="utf-8")
    said = await harness.output(
        f"cd {harness.home}; cat {' '.join(places)} .roo/profiles.json .git-credentials notes.txt; "
        f"grep -rs canary . {harness.outside}; cat {harness.outside}/file; ln -s {harness.home} "
        "~/workspace/h; sed 's/^/shadow-/' /etc/shadow; env; cat /proc/*/environ | tr '\\0' '\\n'"
    )
    assert CANARY not in said
    assert "shadow-root" not in said


@pytest.mark.contract("sandbox:files")
async def test_secrets_stay_hidden_when_the_home_itself_is_the_workspace(
    harness: SandboxHarness,
) -> None:
    harness.workspace = harness.home
    (harness.home / "project").mkdir()
    for place in (".ssh/id_rsa", ".config/gcloud/token", ".roo/profiles.json", ".netrc"):
        (harness.home / place).parent.mkdir(parents=True, exist_ok=True)
        (harness.home / place).write_text(CANARY, encoding="utf-8")
    said = await harness.output(
        "cat .ssh/* .config/gcloud/* .roo/* .netrc; grep -rs canary .; ls; echo x > project/file"
    )
    assert CANARY not in said
    assert "project" in said
    assert (harness.home / "project/file").exists()


@pytest.mark.contract("sandbox:network")
async def test_neither_tcp_nor_udp_nor_local_sockets_lead_outside(harness: SandboxHarness) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
    ):
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        abstract.bind(f"\0joey-{port}")
        named.bind(str(harness.outside / "socket"))
        for listening in (abstract, named):
            listening.listen()
        program = f"""
import socket
def attempt(family, kind, address):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(2)
            s.connect(address)
            s.send(b"escaped")
    except OSError as error:
        print(error)
attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {port}))
attempt(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", {port}))
attempt(socket.AF_INET6, socket.SOCK_STREAM, ("::1", {port}))
attempt(socket.AF_UNIX, socket.SOCK_STREAM, chr(0) + "joey-{port}")
attempt(socket.AF_UNIX, socket.SOCK_STREAM, "{harness.outside}/socket")
try:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.connect("{harness.outside}/socket")
except OSError as error:
    print(error)
"""
        (harness.workspace / "reach.py").write_text(program, encoding="utf-8")
        (answer,) = await harness.run("/usr/bin/python3 reach.py; getent hosts example.org; :")
        for listening in (tcp, udp, abstract, named):
            listening.setblocking(False)
            with pytest.raises(BlockingIOError):
                listening.recv(1) if listening is udp else listening.accept()
    assert answer.exit_code == 0
    assert "Traceback" not in answer.output


CONNECT = """
import socket, sys
for place in sys.argv[1:]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            with socket.socket(socket.AF_UNIX, kind) as s:
                s.connect(place)
                s.send(b"escaped")
                print("reached", place)
        except OSError as error:
            print(error)
"""


@pytest.mark.contract("sandbox:network")
async def test_sockets_of_other_programs_are_not_reached_though_their_directory_is_seen(
    harness: SandboxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    (harness.workspace / "connect.py").write_text(CONNECT, encoding="utf-8")
    (harness.workspace / "sub").mkdir()
    with (
        socket.socket(socket.AF_UNIX) as inside,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as near,
        socket.socket(socket.AF_UNIX) as seen,
    ):
        inside.bind(str(harness.workspace / "agent.sock"))
        monkeypatch.chdir(harness.workspace / "sub")
        near.bind("near.sock")
        seen.bind(str(harness.outside / "docker.sock"))
        inside.listen()
        seen.listen()
        places = f"agent.sock sub/near.sock {harness.outside}/docker.sock"
        said = await harness.output(
            f"/usr/bin/python3 connect.py {places}; mv agent.sock a; mv sub x;"
            " /usr/bin/python3 connect.py a x/near.sock",
            settings=Settings(sandbox_readable=(str(harness.outside),)),
        )
    assert "reached" not in said


async def test_a_socket_of_an_earlier_command_is_reached(harness: SandboxHarness) -> None:
    if not harness.is_full:
        pytest.skip("no local sockets at this level")
    serve = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen();"
        " print('up', flush=True); s.accept()[0].recv(9)"
    )
    (harness.workspace / "connect.py").write_text(CONNECT, encoding="utf-8")
    _, answer = await harness.run(
        CommandStep(f'/usr/bin/python3 -c "{serve}"', until="up", then="leave"),
        "/usr/bin/python3 connect.py own.sock",
    )
    assert "reached own.sock" in answer.output


EXCHANGE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for one, other in zip(sys.argv[1::2], sys.argv[2::2]):
    answer = libc.renameat2(-100, one.encode(), -100, other.encode(), 2)
    print(one, other, os.strerror(ctypes.get_errno()) if answer else "exchanged")
"""


@pytest.mark.contract("sandbox:protected")
async def test_protected_names_cannot_be_exchanged_for_others(harness: SandboxHarness) -> None:
    (harness.workspace / "exchange.py").write_text(EXCHANGE, encoding="utf-8")
    for name in (".vscode/settings.json", "sub/.husky/pre-push", "AGENTS.md"):
        (harness.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (harness.workspace / name).write_text("as it was", encoding="utf-8")
    await harness.run(
        "mkdir a b; echo evil > a/settings.json; echo evil > b/pre-push; echo evil > c;"
        " python3 exchange.py a .vscode b sub/.husky c AGENTS.md"
    )
    names = (".vscode/settings.json", "sub/.husky/pre-push", "AGENTS.md")
    assert {(harness.workspace / name).read_text(encoding="utf-8") for name in names} == {
        "as it was"
    }


@pytest.mark.contract("sandbox:contained")
async def test_memory_cannot_be_filled_with_files(harness: SandboxHarness) -> None:
    line = (
        "for place in /dev /dev/shm /home /run /mnt .git .vscode; do chmod 777 $place; "
        "head -c 3000000000 /dev/zero > $place/big; ls -s $place/big; rm -f $place/big; "
        "done 2>/dev/null; df -k --output=avail,target /dev/shm | tail -1"
    )
    said = await harness.output(line)
    sizes = [int(each.split()[0]) for each in said.splitlines() if each.endswith("/big")]
    assert all(size <= 1024**2 for size in sizes), said


async def test_the_network_can_be_opened(harness: SandboxHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        port = tcp.getsockname()[1]
        opened = Settings(sandbox_network="all")
        (answer,) = await harness.run(f"echo hello > /dev/tcp/127.0.0.1/{port}", settings=opened)
        assert answer.exit_code == 0, answer.output
        connection, _ = tcp.accept()
        with connection:
            assert connection.recv(16) == b"hello\n"


CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(*map(ctypes.c_long, arguments))
    print(name, "done" if answer >= 0 else os.strerror(ctypes.get_errno()))
call("ptrace", 101, 0, 0, 0, 0)
call("attach", 101, 16, os.getppid(), 0, 0)
call("mount", 165, 0, 0, 0, 0, 0)
call("unshare", 272, 0x10000000)
call("clone", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("setns", 308, 0, 0)
call("keyctl", 250, 0, -3, 1)
call("bpf", 321, 0, 0, 0)
call("perf", 298, 0, 0, 0, 0, 0)
call("userfaultfd", 323, 0)
call("io_uring", 425, 8, 0)
call("kexec", 246, 0, 0, 0, 0)
call("tiocsti", 16, 0, 0x5412, 0)
call("packet", 41, 17, 3, 0)
call("vsock", 41, 40, 1, 0)
call("alg", 41, 38, 5, 0)
call("raw", 41, 2, 3, 255)
call("icmp", 41, 2, 3, 1)
call("bluetooth", 41, 31, 3, 1)
"""


@pytest.mark.contract("sandbox:files")
async def test_calls_that_reach_further_are_refused(harness: SandboxHarness) -> None:
    (harness.workspace / "calls.py").write_text(CALLS, encoding="utf-8")
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers in this test are those of x86_64")
    said = await harness.output("/usr/bin/python3 calls.py")
    lines = said.splitlines()
    assert len(lines) == CALLS.count('call("')
    assert [line for line in lines if "done" in line] == []
    refusals = ("Operation not permitted", "Function not implemented", "Permission denied")
    assert [line for line in lines if not line.endswith(refusals)] == []


@pytest.mark.contract("sandbox:files")
async def test_no_privilege_is_left_or_can_be_gained(harness: SandboxHarness) -> None:
    said = await harness.output("grep -E 'NoNewPrivs|CapEff|CapBnd|Seccomp:' /proc/self/status")
    values = dict(line.split(":\t") for line in said.splitlines())
    assert values["NoNewPrivs"] == "1"
    assert values["Seccomp"] == "2"
    assert int(values["CapEff"], 16) == 0
    if harness.user == "root":
        assert int(values["CapBnd"], 16) == 0


KERNEL = """
import os
for top in ("/proc", "/sys"):
    for folder, inner, files in os.walk(top):
        inner[:] = [] if folder.count("/") > 6 else inner
        if top == "/proc" and folder == "/proc":
            inner[:] = [each for each in inner if not each.isdigit()]
        for name in files:
            place = f"{folder}/{name}"
            try:
                os.close(os.open(place, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
            except OSError:
                continue
            if not folder.startswith(("/proc/self", "/proc/thread-self")):
                print("open to be written:", place)
print("looked")
"""


@pytest.mark.contract("sandbox:files")
async def test_nothing_of_the_kernel_can_be_set(harness: SandboxHarness) -> None:
    (harness.workspace / "kernel.py").write_text(KERNEL, encoding="utf-8")
    assert await harness.output("/usr/bin/python3 kernel.py") == "looked\n"


@pytest.mark.contract("sandbox:files")
async def test_a_command_inherits_nothing_but_its_output(harness: SandboxHarness) -> None:
    (harness.workspace / "AGENTS.md").touch()
    (harness.workspace / "sub/.vscode").mkdir(parents=True)
    said = await harness.output("cd /proc/self/fd; for each in [0-9]*; do readlink $each; done")
    opened = {line.partition(":")[0] for line in said.splitlines()}
    assert opened <= {"/dev/null", "pipe"} | {each for each in opened if each.startswith("/proc/")}


@pytest.mark.contract("sandbox:files")
async def test_no_file_is_made_that_others_run_as_somebody_else(harness: SandboxHarness) -> None:
    making = "import os; os.open('opened', os.O_CREAT | os.O_WRONLY, 0o4755)"
    said = await harness.output(
        "cp /bin/true a; chmod 4755 a; chmod u+s a; install -m 4755 /bin/true b;"
        f' /usr/bin/python3 -c "{making}"; mkdir d; chmod g+s d; chmod 755 a; ls'
    )
    assert "a\n" in said
    assert [path.name for path in harness.workspace.iterdir() if path.stat().st_mode & 0o4000] == []


@pytest.mark.contract("sandbox:contained")
async def test_joey_cannot_be_killed_or_looked_into(harness: SandboxHarness) -> None:
    hostile = """
for pid in $(ls /proc | grep -E '^[0-9]+$'); do
    grep -qs tests.harness.execution.actor /proc/$pid/cmdline || continue
    kill -9 $pid; kill -STOP $pid; cat /proc/$pid/environ /proc/$pid/maps; ls -l /proc/$pid/fd
done
kill -9 $PPID; kill -STOP $PPID; kill -9 -1; echo survived
"""
    first, second = await harness.run(hostile, "echo and joey too")
    assert CANARY not in first.output
    assert second.output == "and joey too\n"


@pytest.mark.contract("sandbox:contained")
async def test_an_older_landlock_spares_joey_too(harness: SandboxHarness) -> None:
    if harness.is_full:
        pytest.skip("another level")
    harness.kind = "landlock-3"
    # Only those above itself: this level does not keep it from other processes of the same user.
    line = """pid=$$
for step in 1 2 3 4 5; do
    pid=$(awk '/^PPid/ {print $2}' /proc/$pid/status)
    grep -qs tests.harness.execution.actor /proc/$pid/cmdline && break
done
echo at $step; kill -9 $pid; kill -9 -1; echo $?
"""
    first, second = await harness.run(line, "echo here; echo x > /etc/joey; echo > /dev/tcp/::1/9")
    assert "at 5" not in first.output, "joey was found"
    assert first.output.endswith("1\n")
    assert second.output.startswith("here\n")
