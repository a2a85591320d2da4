"""Launch of tasks from the command line: a new or an earlier one, with the options of its flags.

`launch_task` starts or resumes the task; `check_model_configured` looks for problems before a
screen opens, and asks the user about a model address that only the task's own directory names.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from joey.app import make_options, resolve_joey_home
from joey.app.options import (
    PermissionFlags,
    add_result_schema,
    apply_configuration,
    check_stored_workspace,
)
from joey.app.sandbox import check_unattended_sandbox
from joey.cli.exit_codes import UsageError
from joey.cli.notices import print_startup_warnings
from joey.cli.output import confirm
from joey.cli.task_lookup import find_task_by_prefix, resolve_workspace_argument
from joey.core.models import ToolProtocol
from joey.core.settings import Limits, TaskSecrets
from joey.core.task_types import TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import Engine, ResolvedTaskOptions
from joey.engine.task import Task
from joey.errors import ConfigError, NoModelError, UntrustedAddressError
from joey.ports.storage import TaskMetadata
from joey.presentation.text import to_one_line

Result = TypeVar("Result")


def run_with_model(arguments: Namespace, run: Callable[[], Result]) -> Result:
    """Run a task; if only the model is missing, run it again with the only model of the named
    server. Raises NoModelError, which lists the choices."""
    try:
        return run()
    except NoModelError as error:
        from joey.cli.local_model_offer import choose_served_model

        arguments.model = choose_served_model(arguments, error)
    return run()


async def launch_task(
    engine: Engine,
    arguments: Namespace,
    prompt: str,
    images: tuple[str, ...] = (),
    policy: Unattended | None = None,
    task_id: str | None = None,
    configuration: dict[str, Any] | None = None,
) -> Task:
    """Start or open the task that the flags ask for. A new one may be given an id and settings of
    its own. Raises UserError."""
    earlier = find_earlier_task(engine, arguments)
    options = build_task_options(arguments, earlier, policy)
    options = await apply_schema_flag(options, arguments)
    if configuration:
        options = apply_configuration(options, configuration)
    if arguments.yes:
        await check_unattended_sandbox(options.settings)
    if earlier is None:
        task_id = task_id or take_session_id(arguments)
        started = await engine.start(prompt, images=images, options=options, task_id=task_id)
        return print_startup_warnings(started)
    if not prompt.strip() and policy is not None and earlier.status == TaskState.COMPLETED:
        raise UsageError(f"task {earlier.id} is done; say what to do next")
    task_id = earlier.id
    if arguments.fork:
        task_id = (await engine.fork(earlier.id, options=options)).id
    return print_startup_warnings(
        await engine.resume(task_id, prompt or None, images=images, options=options)
    )


def take_task_choice(arguments: Namespace) -> bool:
    """Whether the user wants to choose a task (`-r` without an id)."""
    is_wanted = bool(arguments.resume == "")
    if is_wanted:
        arguments.resume = None
    return is_wanted


def take_session_id(arguments: Namespace) -> str | None:
    """Return the id of `--create-with-session-id`, for the first new task only."""
    task_id: str | None = arguments.create_with_session_id
    arguments.create_with_session_id = None
    return task_id


def find_earlier_task(engine: Engine, arguments: Namespace) -> TaskMetadata | None:
    """Find the task that --continue or --resume names; None without either."""
    if arguments.resume == "":
        raise UsageError(
            "-r needs the id of a task here (joey tasks list), or use -c for the latest"
        )
    if not arguments.resume and not arguments.continue_:
        return None
    tasks = engine.history()
    if arguments.resume:
        return find_task_by_prefix(tasks, arguments.resume)
    workspace = resolve_workspace_argument(arguments)
    known = {task.id for task in tasks}
    for task in tasks:
        # A subtask is continued through the task that waits for it.
        if task.workspace and Path(task.workspace) == workspace and task.parent_id not in known:
            return task
    raise UsageError(f"there is no earlier task in {workspace}; see joey tasks list --all")


def build_task_options(
    arguments: Namespace, earlier: TaskMetadata | None, policy: Unattended | None
) -> ResolvedTaskOptions:
    """Build the options from the flags. Raises UsageError if a flag names something that does not
    exist, ConfigError if files and variables give no usable model."""
    if arguments.profile is None:  # otherwise the profile says whether it is Ollama's
        _check_base_url(arguments.base_url, arguments.provider)
    try:
        options = _build_options(arguments, earlier, policy)
    except ConfigError as error:
        is_flag = error.field in ("mode", "provider", "profile")
        if error.value and is_flag and getattr(arguments, error.field) == error.value:
            raise UsageError(str(error)) from error
        raise
    _check_base_url(arguments.base_url, options.profile.provider)
    return options


async def apply_schema_flag(
    options: ResolvedTaskOptions, arguments: Namespace
) -> ResolvedTaskOptions:
    """Apply the schema of `--json-schema`, given as text or file. Raises UsageError or ConfigError
    if it cannot be read or used."""
    given = arguments.json_schema
    if given is None:
        return options
    try:
        return await add_result_schema(options, load_schema_flag(given))
    except ConfigError as error:
        if _is_written_out(given):
            raise UsageError(str(error)) from error
        raise


def load_schema_flag(given: str) -> object:
    """Load the schema of `--json-schema`. Raises UsageError, ConfigError."""
    is_written_out = _is_written_out(given)
    data = given.encode("utf-8", "replace") if is_written_out else _read_schema_file(given)
    return _decode_schema(data, "--json-schema" if is_written_out else given)


def _is_written_out(given: str) -> bool:
    return given.lstrip().startswith("{")


def _check_base_url(url: str | None, provider: str | None) -> None:
    """Check the address; Ollama's may be written without a scheme, as in Ollama itself."""
    is_complete = url is None or url.lower().startswith(("http://", "https://"))
    if not is_complete and provider != "ollama":
        raise UsageError(f"--base-url {url!r} is not an http:// or https:// address")


def _build_options(
    arguments: Namespace, earlier: TaskMetadata | None, policy: Unattended | None
) -> ResolvedTaskOptions:
    workspace = resolve_workspace_argument(arguments)
    if earlier is not None and earlier.workspace and not arguments.workspace:
        workspace = check_stored_workspace(
            Path(earlier.workspace), resolve_joey_home(os.environ), os.environ
        )
    options = make_options(
        workspace=workspace,
        env=os.environ,
        provider=arguments.provider,
        model=arguments.model,
        base_url=arguments.base_url,
        profile=arguments.profile,
        mode=arguments.mode,
        protocol=ToolProtocol(arguments.protocol) if arguments.protocol else None,
        **structs.asdict(build_permission_flags(arguments)),
        earlier=earlier,
        limits=Limits(
            max_turns=arguments.max_turns,
            max_cost=arguments.max_budget_usd,
            max_seconds=arguments.max_wall_time,
            max_tokens=arguments.max_tokens,
            max_tool_calls=arguments.max_tool_calls,
        ),
        policy=policy,
        system_prompt=_read_system_prompt(arguments.system_prompt_file),
        record=arguments.record,
        api_key=arguments.api_key,
    )
    return _apply_single_values(options, arguments)


def _apply_single_values(options: ResolvedTaskOptions, arguments: Namespace) -> ResolvedTaskOptions:
    """Apply flags that set one setting, or one value of the profile."""
    settings, profile = options.settings, options.profile
    if arguments.exit_on_error:
        settings = structs.replace(settings, max_retries=0)
    if (limit := arguments.consecutive_mistake_limit) is not None:
        settings = structs.replace(settings, consecutive_mistake_limit=limit)
    if (effort := arguments.reasoning_effort) is not None:
        is_off = effort in ("unspecified", "disabled", "none")
        profile = structs.replace(profile, reasoning_effort=None if is_off else effort)
    return structs.replace(options, settings=settings, profile=profile)


def build_permission_flags(arguments: Namespace) -> PermissionFlags:
    return PermissionFlags(
        yes=arguments.yes,
        require_approval=arguments.require_approval,
        allow=tuple(arguments.allow),
        deny=tuple(arguments.deny),
        allow_writes=arguments.allow_writes,
        no_sandbox=arguments.no_sandbox,
        network=arguments.network,
        add_dirs=tuple(arguments.add_dir),
    )


def _read_system_prompt(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"the system prompt file {file} is not UTF-8 text") from error
    except OSError as error:
        raise UsageError(
            f"the system prompt file {file} cannot be read: {error.strerror}"
        ) from error


MAX_SCHEMA_BYTES = 1024 * 1024


def _decode_schema(text: bytes, where: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{where} is not JSON: {error}.") from error
    except RecursionError as error:
        raise ConfigError(f"{where} is nested too deeply to be a schema.") from error


def _read_schema_file(file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the JSON schema {file} cannot be read: {error.strerror}") from error
    if len(data) > MAX_SCHEMA_BYTES:
        raise ConfigError(f"{file} is larger than {MAX_SCHEMA_BYTES // 1024 // 1024} MB.")
    return data.removeprefix(b"\xef\xbb\xbf")


def check_model_configured(engine: Engine, arguments: Namespace) -> None:
    """Check that flags and files name a model before a screen or a conversation opens. Ask once
    about an address that only the task directory names. Raises UserError."""
    earlier = find_earlier_task(engine, arguments)
    try:
        build_task_options(arguments, earlier, None)
    except UntrustedAddressError as error:
        if earlier is None or not sys.stdin.isatty() or not _confirm_address(error):
            raise
        tie = TaskSecrets(provider=error.provider, base_url=error.address)
        engine.store.save_secrets(earlier.id, tie)


def _confirm_address(error: UntrustedAddressError) -> bool:
    return confirm(
        f"Send the conversation and your key for {error.provider}, if any, there?",
        "name the address with --base-url",
        (
            f"This task uses {to_one_line(error.address, 400)} as {error.provider}.",
            "The address comes from the task folder; none of your profiles has it.",
        ),
    )
