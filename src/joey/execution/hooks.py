"""Hook programs: the user's own, and those of a project that the user has trusted.

A project's hooks are checked before each run: a hook that was changed since it was trusted does not
run, and counts as failed.

Each hook runs in its own process group with bounded output. It ends with its shell; a child that
still holds the output is not waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.core.hooks import Hook, HookExit, HookInput, HookReport, build_hook_report, merge_reports
from joey.ports.extensions import Hooks, ProjectHooks
from joey.system.subprocess import ProgramTimeoutError, format_signal, run

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
        """`load_project_hooks` reads the project's hooks; it is called in a thread."""
        self._user_hooks = user_hooks
        self._load_project_hooks = load_project_hooks
        self._check_trust = check_trust
        self._environment = environment
        self._loaded_project_hooks = ProjectHooks()
        self._trusted_project_hooks: tuple[Hook, ...] = ()
        """Those that were trusted when the run began."""
        self.warnings: tuple[str, ...] = ()

    async def refresh(self) -> None:
        found, trusted = await asyncio.to_thread(self._load_and_check_trust)
        self._loaded_project_hooks = found
        self._trusted_project_hooks = found.hooks if trusted else ()
        untrusted = (_UNTRUSTED_WARNING,) if found.hooks and not trusted else ()
        self.warnings = (*found.warnings, *untrusted)

    async def run(self, hook_input: HookInput, tool_names: Sequence[str]) -> HookReport:
        event, trusted = hook_input.event, self._trusted_project_hooks
        own = [hook for hook in self._user_hooks if hook.matches(event, tool_names)]
        projects = [hook for hook in trusted if hook.matches(event, tool_names)]
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
        contents = {item.name: item.content for item in found.trust_items}
        return found, bool(found.hooks) and self._check_trust(contents)

    def _is_still_trusted(self) -> bool:
        found, trusted = self._load_and_check_trust()
        return trusted and found == self._loaded_project_hooks


_protocol_check: type[Hooks] = LocalHooks


_MAX_CAPTURED_BYTES = 64 * 1024
"""Of each output."""
_MAX_PRINTED_BYTES = 16 * 1024 * 1024
_OUTPUT_GRACE_S = 0.2
"""What it printed last may still be in the pipe, and others may hold the pipe open."""


class HookEnvironment(Struct, frozen=True):
    """The directory, variables and limits of hooks."""

    workspace: Path
    shell: tuple[str, ...]
    """The shell and its options; the command follows."""
    variables: Mapping[str, str]


async def run_hook(hook: Hook, stdin_data: bytes, environment: HookEnvironment) -> HookExit:
    """Run a hook. Raises only CancelledError, after killing the hook."""
    failure = ""
    try:
        done = await run(
            (*environment.shell, hook.command),
            input=stdin_data,
            cwd=environment.workspace,
            env=environment.variables,
            timeout_s=hook.timeout,
            max_output_bytes=_MAX_CAPTURED_BYTES,
            max_error_bytes=_MAX_CAPTURED_BYTES,
            max_printed_bytes=_MAX_PRINTED_BYTES,
            output_grace_s=_OUTPUT_GRACE_S,
            is_marked=True,
        )
    except ProgramTimeoutError as error:
        done = error.completed
        failure = f"it took longer than {hook.timeout:g} seconds and was stopped"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return HookExit(error=f"it could not be started ({reason})")
    if done.is_flood:
        failure = f"it printed more than {_MAX_PRINTED_BYTES // 1024**2} MB"
    elif done.returncode < 0 and not failure:
        failure = f"it was killed by {format_signal(-done.returncode)}"
    return HookExit(
        None if failure else done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
        failure,
    )
