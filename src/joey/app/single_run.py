"""One task without a user, from prompt to result: `joey.run` and `joey.run_sync`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

from msgspec import Struct, structs

from joey.app.engine_factory import open_engine
from joey.app.options import add_result_schema, make_options, refuse_text
from joey.app.sandbox import check_unattended_sandbox
from joey.core.events import Event, TokenUsage
from joey.core.models import ToolProtocol
from joey.core.permissions.hosts import NetworkChoice
from joey.core.settings import Limits
from joey.core.structured_output import parse_structured_result
from joey.engine.asks import AnswerPolicy, Unattended
from joey.engine.outcomes import Completed, Ending
from joey.errors import UserError


class RunFlags(TypedDict, total=False):
    """The options of `make_options`: one for each flag of the command line."""

    provider: str | None
    model: str | None
    base_url: str | None
    api_key: str | None
    profile: str | None
    mode: str | None
    protocol: ToolProtocol | None
    yes: bool
    require_approval: bool
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    allow_writes: bool
    add_dirs: tuple[str | Path, ...]
    network: NetworkChoice | None
    no_sandbox: bool
    limits: Limits
    policy: AnswerPolicy | None
    system_prompt: str | None
    record: bool


class TaskResult(Struct, frozen=True, kw_only=True):
    """How a run ended, and what it cost."""

    ending: Ending
    task_id: str
    usage: TokenUsage
    """Of the task and its subtasks."""
    data: Any = None
    """The value of a result that had to fit a JSON schema."""

    @property
    def succeeded(self) -> bool:
        """Whether a result was presented and nothing was refused."""
        return isinstance(self.ending, Completed) and not self.ending.refused

    @property
    def text(self) -> str:
        """The result; empty if there is none."""
        return self.ending.result if isinstance(self.ending, Completed) else ""


async def run(  # noqa: PLR0913 (all by name)
    prompt: str,
    *,
    workspace: str | Path = ".",
    images: tuple[str, ...] = (),
    json_schema: Mapping[str, Any] | None = None,
    resume: str | None = None,
    on_event: Callable[[Event], None] | None = None,
    ephemeral: bool = False,
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    **options: Unpack[RunFlags],
) -> TaskResult:
    """Run one task to its end, without a user unless `policy` says otherwise.

    `images` are data URIs; `resume` is the id of a task to continue. Cancelling the call stops the
    task. A failed task is a result too; raises UserError if it cannot start.
    """
    _check_prompt(prompt, images, resume)
    home = None if home is None else Path(home)
    async with open_engine(home=home, env=env, ephemeral=ephemeral) as engine:
        earlier = None
        if resume is not None:
            earlier = next((each for each in engine.history() if each.id == resume), None)
            if earlier is None:
                raise UserError(f"There is no task {resume!r}.")
        options.setdefault("policy", Unattended())
        resolved = make_options(
            workspace=Path(workspace), home=home, env=env, earlier=earlier, **options
        )
        if json_schema is not None:
            resolved = await add_result_schema(resolved, dict(json_schema))
        if options.get("yes"):
            await check_unattended_sandbox(resolved.settings)
        if earlier is None:
            task = await engine.start(prompt, images=images, options=resolved)
        else:
            task = await engine.resume(earlier.id, prompt, images=images, options=resolved)
        if on_event is not None:
            async for event in task.events():
                on_event(event)
        result = TaskResult(ending=await task.wait(), task_id=task.id, usage=task.total_usage)
    if json_schema is None or not isinstance(result.ending, Completed):
        return result
    return structs.replace(result, data=parse_structured_result(result.ending.result).value)


def run_sync(  # noqa: PLR0913 (all by name)
    prompt: str,
    *,
    workspace: str | Path = ".",
    images: tuple[str, ...] = (),
    json_schema: Mapping[str, Any] | None = None,
    resume: str | None = None,
    on_event: Callable[[Event], None] | None = None,
    ephemeral: bool = False,
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    **options: Unpack[RunFlags],
) -> TaskResult:
    """`run` for programs without asyncio."""
    if _is_loop_running():
        raise RuntimeError(
            "joey.run_sync cannot wait in an event loop, such as that of a notebook: use `await"
            " joey.run(…)`"
        )
    return asyncio.run(
        run(
            prompt,
            workspace=workspace,
            images=images,
            json_schema=json_schema,
            resume=resume,
            on_event=on_event,
            ephemeral=ephemeral,
            home=home,
            env=env,
            **options,
        )
    )


def _check_prompt(prompt: str, images: tuple[str, ...], resume: str | None) -> None:
    refuse_text(images=images)
    for image in images:
        if not image.startswith("data:"):
            raise UserError(f"{image[:80]} is not a data URI, such as data:image/png;base64,…")
    if not (prompt.strip() or images or resume):
        raise UserError("The prompt is empty: say what to do.")


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
