"""A preview of the system prompt and the tools that a new task would be sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from joey.app.model_choice import ModelFlags
from joey.app.options import make_options, resolve_options
from joey.app.task_runtime_factory import CapabilityFactory, build_runtime
from joey.config.home import resolve_home_and_env
from joey.core.models import ToolProtocol, ToolSpec, choose_tool_protocol
from joey.core.modes import Mode, choose_fallback_mode
from joey.core.prompts.conditions import WorkingConditions
from joey.engine.engine import ResolvedTaskOptions, StoredTaskState
from joey.engine.runtime import TaskRuntime
from joey.errors import NoModelError
from joey.tools.registry import Registry, build_default_tools


class PromptPreview(Struct, frozen=True):
    mode: str
    protocol: ToolProtocol
    model: str
    """Empty if no model was chosen yet."""
    context_window: int
    """0 if no model was chosen yet; a small one makes prompt and tools lean."""
    system: str
    tools: Sequence[ToolSpec]
    """In XML tasks none: the system prompt describes them."""


async def preview_prompt(
    workspace: Path,
    *,
    model: ModelFlags = ModelFlags(),  # noqa: B008 (frozen)
    mode: str | None = None,
    protocol: ToolProtocol | None = None,
) -> PromptPreview:
    """Preview the start of a conversation in this workspace, with MCP servers and custom tools; for
    an unknown model if none is chosen. Raises ConfigError, also if flags name a server but no
    model, and WorkspaceError."""
    home, env = resolve_home_and_env()
    has_model = True
    try:
        options = _make_options(workspace, home, env, mode, model)
    except NoModelError:
        if model != ModelFlags():
            raise
        has_model = False
        unknown = ModelFlags(provider="ollama", model="unknown")
        options = _make_options(workspace, home, env, mode, unknown)
    resolved = resolve_options(options, StoredTaskState(), home, env)
    capabilities = CapabilityFactory(home, env, persistent=True)
    runtime = build_runtime(resolved, Registry(build_default_tools()), capabilities, home, env)
    try:
        chosen = choose_fallback_mode(mode or runtime.settings.mode, runtime.modes)
        if has_model:
            await runtime.select_provider(chosen).prepare()
        await runtime.wait_for_mcp(chosen)
        if (custom_tools := runtime.capabilities.custom_tools) is not None:
            await custom_tools.refresh()
        return _build_preview(runtime, chosen, protocol or resolved.protocol, has_model=has_model)
    finally:
        await runtime.close()


def _make_options(
    workspace: Path, home: Path, env: Mapping[str, str], mode: str | None, model: ModelFlags
) -> ResolvedTaskOptions:
    flags = structs.asdict(model)
    return make_options(workspace=workspace, home=home, env=env, mode=mode, **flags)


def _build_preview(
    runtime: TaskRuntime, mode: Mode, protocol: ToolProtocol | None, *, has_model: bool
) -> PromptPreview:
    model = runtime.select_provider(mode).model
    protocol = choose_tool_protocol(
        locked=protocol, detected=None, model_has_native_tools=model.supports_native_tools
    )
    working = WorkingConditions(runtime.settings, sandbox=runtime.find_sandbox())
    return PromptPreview(
        mode=mode.slug,
        protocol=protocol,
        model=model.id if has_model else "",
        context_window=model.context_window if has_model else 0,
        system=runtime.build_system_prompt(mode, protocol, working),
        tools=runtime.build_tool_specs(mode, protocol, working)
        if protocol is ToolProtocol.NATIVE
        else (),
    )
