"""The probe that finds out which sandbox level works on this machine.

A small hostile script is run at each level. It writes where it must not, reads a secret, and sends
to sockets of this machine; it also writes where it may. The level works if all of the former failed
and the last succeeded. This is judged from outside by the effects, not by the script's output.
"""

from __future__ import annotations

import logging
import os
import select
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from joey.core.settings import Settings
from joey.errors import ToolError
from joey.execution.sandbox.sandbox import (
    CANARY_TEMP_PREFIX,
    LocalSandbox,
    SandboxBackend,
    SandboxConfig,
    SandboxProbeResult,
)
from joey.execution.sandbox.seatbelt import Seatbelt
from joey.ports.execution import SandboxLevel, SandboxReport

if TYPE_CHECKING:
    from joey.execution.sandbox.supervisor_client import SupervisorTransport

log = logging.getLogger(__name__)

_ESCAPE_SCRIPT = """
mkdir -p "$OUTSIDE"; echo escaped > "$OUTSIDE/escaped"
cat "$HOME/.ssh/canary" > stolen
(exec 3<>"/dev/tcp/127.0.0.1/$PORT"); echo escaped > "/dev/udp/127.0.0.1/$PORT"
mkdir -p .vscode; echo escaped > .vscode/tasks.json
echo worked > inside
"""
_PROBE_TIMEOUT_S = 20.0
_CANARY_SECRET = "a secret of the canary"


class CanaryProbe:
    """Probes each sandbox backend once, the best first, and remembers the result."""

    def __init__(self, backends: Sequence[SandboxBackend | Seatbelt]) -> None:
        self._backends = backends
        self._lock = threading.Lock()
        self._probe_result: SandboxProbeResult | None = None

    def find_likely_level(self) -> SandboxLevel:
        if self._probe_result is not None:
            return self._probe_result.report.level
        usable = [each for each in self._backends if each.explain_unavailable() is None]
        is_sure = any(each.is_precheck_reliable for each in usable)
        return usable[0].level if is_sure else SandboxLevel.NONE

    def find_available(self) -> SandboxProbeResult:
        with self._lock:
            if self._probe_result is None:
                self._probe_result = self._probe_backends()
            return self._probe_result

    def _probe_backends(self) -> SandboxProbeResult:
        reasons: dict[str, str] = {}
        for each in self._backends:
            reason = each.explain_unavailable() or probe_backend(each)
            if reason is None:
                return SandboxProbeResult(
                    SandboxReport(each.level, reasons, _find_gaps(each)), each
                )
            log.info("no sandbox of level %s: %s", each.level, reason)
            reasons[each.level] = reason
        return SandboxProbeResult(SandboxReport(SandboxLevel.NONE, reasons), None)


def _find_gaps(backend: SandboxBackend | Seatbelt) -> tuple[str, ...]:
    if isinstance(backend, Seatbelt):
        return backend.gaps
    from joey.execution.sandbox.supervisor_client import can_limit_processes

    return backend.gaps if can_limit_processes() else (*backend.gaps, _NO_PROCESS_LIMIT_GAP_TEXT)


_NO_PROCESS_LIMIT_GAP_TEXT = (
    "The number of root's processes is not limited: no control group can be made."
)


def probe_backend(backend: SandboxBackend | Seatbelt) -> str | None:
    """Probe a backend; return why it does not work, or None."""
    try:
        return _run_canary(backend)
    except (OSError, ToolError, subprocess.SubprocessError) as error:
        return f"it could not be tried: {error}"


def _run_canary(backend: SandboxBackend | Seatbelt) -> str | None:
    with ExitStack() as stack:
        root = Path(
            os.path.realpath(tempfile.mkdtemp(prefix=f"{CANARY_TEMP_PREFIX}{os.getpid()}-"))
        )
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        for name in ("workspace", "outside", "home/.ssh"):
            (root / name).mkdir(parents=True)
        (root / "home/.ssh/canary").write_text(_CANARY_SECRET, encoding="utf-8")
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = tcp.getsockname()[1]
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", port))
        env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(root / "home"),
            "OUTSIDE": str(root / "outside"),
            "PORT": str(port),
        }
        config = SandboxConfig(root / "workspace", root / "home/.roo", env)
        sandbox = LocalSandbox(config, Settings(), _fail_if_called)
        stack.callback(sandbox.remove_resources)
        workspace = root / "workspace"
        if isinstance(backend, Seatbelt):
            reason = _run_with_seatbelt(sandbox, backend, workspace, env)
        else:
            reason = _run_with_supervisor(sandbox, backend, workspace, env)
        if reason is not None:
            return reason
        return _explain_canary_failure(root, tcp, udp)


def _fail_if_called(*_: object) -> NoReturn:
    raise AssertionError("the canary is told what to try")


_ESCAPE_COMMAND = ("/bin/bash", "--noprofile", "--norc", "-c", "--", _ESCAPE_SCRIPT)


def _run_with_seatbelt(
    sandbox: LocalSandbox, backend: Seatbelt, workspace: Path, env: dict[str, str]
) -> str | None:
    command = sandbox.prepare_seatbelt(backend, _ESCAPE_COMMAND, workspace, env)
    done = subprocess.run(
        command.argv,
        cwd=command.cwd,
        env=command.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=_PROBE_TIMEOUT_S,
        start_new_session=True,
    )
    if not done.returncode:
        return None
    first_line = done.stderr.decode(errors="replace").partition("\n")[0]
    return f"the trial ended with exit code {done.returncode} ({first_line})"


def _run_with_supervisor(
    sandbox: LocalSandbox, backend: SandboxBackend, workspace: Path, env: dict[str, str]
) -> str | None:
    from joey.execution.sandbox.forkserver_client import ForkServerClient

    plan = sandbox.prepare_command(backend, _ESCAPE_COMMAND, workspace, env, _fail_if_called).plan
    server = ForkServerClient()
    try:
        process = subprocess.Popen(
            server.argv,
            pass_fds=server.child_fds,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with process:
            try:
                supervisor = server.start_supervisor(plan["sandbox"], plan["command"])
                refused = _wait_for_failure_reason(supervisor)
            finally:
                server.close()
            process.wait(_PROBE_TIMEOUT_S)
        return refused
    finally:
        server.close()


def _wait_for_failure_reason(supervisor: SupervisorTransport) -> str | None:
    """Return why the command could not be sandboxed, once all processes have ended."""
    from joey.execution.sandbox.supervisor_client import parse_failure_reason

    try:
        answer = supervisor.read_reply_blocking(_PROBE_TIMEOUT_S)
    except OSError as error:
        return f"it did not start: {error}"
    finally:
        supervisor.disconnect()
    return None if answer.startswith(b"R") else parse_failure_reason(answer)


def _explain_canary_failure(root: Path, tcp: socket.socket, udp: socket.socket) -> str | None:
    stolen = root / "workspace/stolen"
    if not (root / "workspace/inside").is_file():
        return "a command could not write in its workspace"
    if (root / "outside/escaped").exists():
        return "a command could write outside of its workspace"
    if stolen.exists() and _CANARY_SECRET in stolen.read_text(encoding="utf-8", errors="replace"):
        return "a command could read a secret"
    if (root / "workspace/.vscode/tasks.json").exists():
        return "a command could make a protected file"
    poll = select.poll()
    for each in (tcp, udp):
        poll.register(each, select.POLLIN)
    if reached := poll.poll(0):
        kind = "TCP" if reached[0][0] == tcp.fileno() else "UDP"
        return f"a command could reach the network ({kind})"
    return None
