"""Changes of a task's tool protocol (decision D8).

A protocol chosen by a user stays until the user chooses another. A protocol that the task chose
itself changes if the service rejects tools for the model, and once if the model writes several
unusable calls in a row. The history is rendered in the new protocol from its beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from joey.core.events import ProtocolChanged
from joey.core.models import ProtocolChangeReason, ToolProtocol
from joey.core.task_types import RowKind
from joey.ports.model import Provider

if TYPE_CHECKING:
    from joey.engine.runtime import TaskRuntime
    from joey.engine.task import Task

MAX_UNUSABLE_REPLIES = 2
"""Replies in a row that try to call a tool and make no call that can be used."""


def has_native_tools(runtime: TaskRuntime, provider: Provider) -> bool:
    """Whether the model can be offered tools, as far as known."""
    memory = runtime.capabilities.tool_support
    return provider.model.supports_native_tools and not (
        memory is not None and memory.is_refused(provider)
    )


async def prepare_model(task: Task) -> None:
    """Ask a local server what the model supports; without tools the task continues in XML."""
    provider = task.provider
    had_tools = provider.model.supports_native_tools
    await provider.prepare()
    if had_tools and not provider.model.supports_native_tools:
        change_after_refusal(task)


def forget_refusal_if_native(
    runtime: TaskRuntime, provider: Provider, protocol: ToolProtocol | None
) -> None:
    """Forget that tools were rejected if the user chooses the native protocol: that is another
    try."""
    memory = runtime.capabilities.tool_support
    if protocol is ToolProtocol.NATIVE and memory is not None:
        memory.forget_refusal(provider)


def apply_named_protocol(task: Task, protocol: ToolProtocol) -> None:
    """Apply the protocol that the user chose last."""
    forget_refusal_if_native(task.runtime, task.provider, protocol)
    if protocol is not task.protocol or not task.recorder.projection.is_protocol_named:
        _publish_change(task, protocol, ProtocolChangeReason.USER)


def change_after_refusal(task: Task, advice: str = "") -> bool:
    """After the service rejected tools, return whether the task can continue in XML."""
    if task.recorder.projection.is_protocol_named or task.protocol is ToolProtocol.XML:
        return False
    _remember_refusal(task)
    model = task.provider.model.id
    task.add_row(
        RowKind.ERROR,
        f"The service does not take tools for {model}; calling tools by XML tags from now on.",
    )
    if advice:
        task.add_row(RowKind.ERROR, advice)
    _publish_change(task, ToolProtocol.XML, ProtocolChangeReason.TOOLS_REFUSED)
    return True


def change_after_unusable_calls(task: Task) -> None:
    """After too many unusable calls in a row, try the other protocol, once per task."""
    projection, provider = task.recorder.projection, task.provider
    is_native = task.protocol is ToolProtocol.NATIVE
    if (
        projection.is_protocol_named
        or projection.ledger.protocol_change is not None
        or not (is_native or has_native_tools(task.runtime, provider))
    ):
        return
    if is_native and not provider.model.is_known and not projection.ledger.tool_tallies:
        _remember_refusal(task)  # support is unknown, and tools were rejected before
    protocol = ToolProtocol.XML if is_native else ToolProtocol.NATIVE
    form = "by XML tags" if is_native else "natively"
    task.add_row(
        RowKind.ERROR,
        f"{provider.model.id} wrote {MAX_UNUSABLE_REPLIES} replies with calls that cannot be used;"
        f" calling tools {form} from now on.",
    )
    _publish_change(task, protocol, ProtocolChangeReason.UNUSABLE_CALLS)


def _remember_refusal(task: Task) -> None:
    memory = task.runtime.capabilities.tool_support
    if memory is not None:
        memory.record_refusal(task.provider)


def _publish_change(task: Task, protocol: ToolProtocol, reason: ProtocolChangeReason) -> None:
    task.publish(ProtocolChanged(ts=task.next_ts(), tool_protocol=protocol, reason=reason))
