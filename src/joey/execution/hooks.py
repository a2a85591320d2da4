"""Hook programs: the user's own, and those of a project that the user has trusted.

A project's hooks are checked again each time one is due: a hook that was changed since it was
trusted does not run, and counts as failed.

Each hook runs in a process group of its own with bounded output. It is over when its shell is; a
child that still holds the output is not waited for.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.core.hooks import Hook, HookExit, HookInput, HookReport, build_hook_report, merge_reports
from joey.ports.extensions import Hooks, ProjectHooks
from joey.system.subprocess import await_start_despite_cancel

HookTrustCheck = Callable[[Mapping[str, bytes]], bool]
"""Whether the user has agreed to these things of the project, byte for byte."""
_CHANGED_MESSAGE = "it was changed since you trusted it (`joey trust` shows and asks)"
_UNTRUSTED_WARNING = (
    "The hooks of .roo/hooks.json are not used, because you have not trusted them as they"
    " are now (`joey trust` shows and asks)."
)


class LocalHooks:
    def __init__(
        self,
        user_hooks: tuple[Hook, ...],
        load_project_hooks: Callable[[], ProjectHooks],
        check_trust: HookTrustCheck,
        environment: HookEnvironment,
    ) -> None:
        """`load_project_hooks` reads what the project has; it is called in a thread."""
        self._user_hooks = user_hooks
        self._load_project_hooks = load_project_hooks
        self._check_trust = check_trust
        self._environment = environment
        self._loaded_project_hooks = ProjectHooks()
        self._trusted_project_hooks: tuple[Hook, ...] = ()
        """Those that were trusted when the run began."""
        self._warnings: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._warnings

    async def refresh(self) -> None:
        found, trusted = await asyncio.to_thread(self._load_and_check_trust)
        self._loaded_project_hooks = found
        self._trusted_project_hooks = found.hooks if trusted else ()
        untrusted = (_UNTRUSTED_WARNING,) if found.hooks and not trusted else ()
        self._warnings = (*found.warnings, *untrusted)

    async def run(self, hook_input: HookInput, tool_names: Sequence[str]) -> HookReport:
        own = [hook for hook in self._user_hooks if hook.matches(hook_input.event, tool_names)]
        projects = [
            hook
            for hook in self._trusted_project_hooks
            if hook.matches(hook_input.event, tool_names)
        ]
        if not own and not projects:
            return HookReport()
        given = msgspec.json.encode(hook_input) + b"\n"
        reports: list[HookReport] = []
        for number, hook in enumerate((*own, *projects)):
            if number >= len(own) and not await asyncio.to_thread(self._is_still_trusted):
                end = HookExit(error=_CHANGED_MESSAGE)
            else:
                end = await run_hook(hook, given, self._environment)
            reports.append(build_hook_report(hook, end))
            if reports[-1].block_reason is not None:
                break
        return merge_reports(reports)

    def _load_and_check_trust(self) -> tuple[ProjectHooks, bool]:
        found = self._load_project_hooks()
        return found, bool(found.hooks) and self._check_trust(_collect_trust_contents(found))

    def _is_still_trusted(self) -> bool:
        found, trusted = self._load_and_check_trust()
        return trusted and found == self._loaded_project_hooks


def _collect_trust_contents(found: ProjectHooks) -> dict[str, bytes]:
    return {item.name: item.content for item in found.trust_items}


_protocol_check: type[Hooks] = LocalHooks


MARKER_VARIABLE = "JOEY_COMMAND"
"""The environment variable by which processes of commands are found again."""
_MAX_CAPTURED_BYTES = 64 * 1024
"""Of each output."""
_MAX_PRINTED_BYTES = 16 * 1024 * 1024
_DRAIN_TIMEOUT_S = 0.2
_KILL_TIMEOUT_S = 5.0


class HookEnvironment(Struct, frozen=True):
    """Where and with what hooks run."""

    workspace: Path
    shell: tuple[str, ...]
    """The shell and its options; the command follows."""
    variables: Mapping[str, str]
    kill_marked: Callable[[str], None]
    """Ends every process that bears a mark, wherever it has gone."""
    outer_markers: str = ""
    """Marks of commands that joey itself belongs to."""


async def run_hook(hook: Hook, stdin_data: bytes, environment: HookEnvironment) -> HookExit:
    """Raises nothing but CancelledError, and then the hook is dead."""
    marker = f"hook-{secrets.token_hex(8)}"
    env = {
        **environment.variables,
        MARKER_VARIABLE: f"{environment.outer_markers}:{marker}".lstrip(":"),
    }
    listener = _HookProcessProtocol()
    try:
        transport, _ = await await_start_despite_cancel(
            asyncio.get_running_loop().subprocess_exec(
                lambda: listener,
                *(*environment.shell, hook.command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=environment.workspace,
                env=env,
                start_new_session=True,
            )
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return HookExit(error=f"it could not be started ({reason})")
    failure = ""
    try:
        async with asyncio.timeout(hook.timeout):
            _write_stdin(transport, stdin_data)
            await listener.stop_waiting_event.wait()
            await listener.drain_output()
    except TimeoutError:
        failure = f"it took longer than {hook.timeout:g} seconds and was stopped"
    finally:
        _kill_process_group(transport.get_pid(), listener)
        seeing = asyncio.ensure_future(
            _kill_marked_and_wait(transport, listener, marker, environment)
        )
        await asyncio.shield(seeing)
    if listener.printed_bytes > _MAX_PRINTED_BYTES:
        failure = f"it printed more than {_MAX_PRINTED_BYTES // 1024**2} MB"
    return listener.build_result(failure, transport.get_returncode())


def _write_stdin(transport: asyncio.SubprocessTransport, stdin_data: bytes) -> None:
    """It need not read it, and may be gone already."""
    stdin = transport.get_pipe_transport(0)
    assert isinstance(stdin, asyncio.WriteTransport)
    stdin.write(stdin_data)
    stdin.close()


def _kill_process_group(pid: int, listener: _HookProcessProtocol) -> None:
    """While its leader is there the number is its own; afterwards its mark finds what is left."""
    if listener.exited_event.is_set():
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def _kill_marked_and_wait(
    transport: asyncio.SubprocessTransport,
    listener: _HookProcessProtocol,
    marker: str,
    environment: HookEnvironment,
) -> None:
    await asyncio.to_thread(environment.kill_marked, marker)
    with suppress(TimeoutError):  # not even SIGKILL ends a process that waits for a dead disk
        async with asyncio.timeout(_KILL_TIMEOUT_S):
            await listener.exited_event.wait()
    # Not before: it reaps a child that has just ended, and asyncio then misses it.
    transport.close()


class _HookProcessProtocol(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.exited_event = asyncio.Event()
        self.stop_waiting_event = asyncio.Event()
        """It has ended, or there is no point in waiting any longer."""
        self.printed_bytes = 0
        self._captured_output = {1: bytearray(), 2: bytearray()}
        self._pipe_closed_events = {1: asyncio.Event(), 2: asyncio.Event()}

    async def drain_output(self) -> None:
        """What it printed last may still be in the pipe, and others may hold the pipe open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_TIMEOUT_S):
                for closed in self._pipe_closed_events.values():
                    await closed.wait()

    def build_result(self, failure: str, exit_code: int | None) -> HookExit:
        stdout, stderr = (
            bytes(kept).decode("utf-8", "replace") for kept in self._captured_output.values()
        )
        if failure:
            return HookExit(stdout=stdout, stderr=stderr, error=failure)
        if exit_code is None or exit_code < 0:
            number = "SIGKILL" if exit_code is None else _format_signal_name(-exit_code)
            return HookExit(stdout=stdout, stderr=stderr, error=f"it was killed by {number}")
        return HookExit(exit_code, stdout, stderr)

    # What asyncio tells

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.printed_bytes += len(data)
        kept = self._captured_output[fd]
        kept += data[: max(_MAX_CAPTURED_BYTES - len(kept), 0)]
        if self.printed_bytes > _MAX_PRINTED_BYTES:
            self.stop_waiting_event.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd in self._pipe_closed_events:
            self._pipe_closed_events[fd].set()

    def process_exited(self) -> None:
        self.exited_event.set()
        self.stop_waiting_event.set()


def _format_signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
