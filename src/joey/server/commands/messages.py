"""Commands that send something to a task: messages, answers, another mode."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from joey.core.events import AskOpened, MessageQueued, MessageUnqueued, ModeSwitched
from joey.core.messages import replace_lone_surrogates
from joey.core.modes import Mode
from joey.core.permissions.hosts import CommandNetwork
from joey.core.task_types import Answer, Response
from joey.core.wire import commands as wire
from joey.core.wire.events import ModePayload
from joey.engine.task import Task
from joey.server.commands.call import (
    AnyCall,
    CommandCall,
    make_argument_error,
    make_execution_error,
)
from joey.server.commands.tasks import check_task_exists

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def send_message(hub: ServerHub, call: CommandCall[wire.SendMessage]) -> None:
    text, images = (call.arguments.message or "").strip(), call.arguments.images or ()
    if not text and not images:
        raise make_argument_error("arguments.message", "there is nothing to send.")
    await hub.resume_task(hub.resolve_task_id(call), text, images, queue=call.arguments.queue)


async def answer_pending_ask(
    response: Response, hub: ServerHub, call: CommandCall[wire.Press]
) -> None:
    task = await require_open_task(hub, call)
    pending = task.pending
    answer = Answer(response, text=call.arguments.text or "")
    if pending is not None and not pending.accepts(answer):
        raise make_execution_error(
            f"Task '{task.id}' asks a question: answer it with `sendMessage`."
        )
    if pending is None or not await task.answer(pending.ts, answer):
        raise make_execution_error(f"Task '{task.id}' is not waiting for an answer.")


async def respond(hub: ServerHub, call: CommandCall[wire.Respond]) -> wire.Accepted:
    """Answer a question; only the first answer counts."""
    arguments = call.arguments
    task = hub.find_open_task(call)
    if task is None:
        await check_task_exists(hub, hub.resolve_task_id(call))
        return wire.Accepted(accepted=False)
    ask = task.pending
    # Questions that are no longer open are not reported here.
    has_no_rule = ask is not None and ask.ts == arguments.ask_ts and not ask.always_rule
    if arguments.always and (arguments.response is not Response.YES or has_no_rule):
        raise make_argument_error("arguments.always", "there is no rule to add with this answer.")
    if arguments.stop and arguments.response is not Response.NO:
        raise make_argument_error("arguments.stop", "only a no can stop the task.")
    answer = Answer(
        arguments.response,
        text=arguments.text or "",
        images=arguments.images or (),
        always=arguments.always,
        scope=arguments.scope,
        network=arguments.network,
        hosts=arguments.hosts,
        stop=arguments.stop,
    )
    if ask is not None and ask.ts == arguments.ask_ts:
        _check_offered(ask, answer)
    if ask is not None and ask.ts == arguments.ask_ts and not ask.accepts(answer):
        raise make_argument_error("arguments.text", "missing: the question needs an answer.")
    return wire.Accepted(accepted=await task.answer(arguments.ask_ts, answer))


def _check_offered(ask: AskOpened, answer: Answer) -> None:
    network = ask.network or CommandNetwork()
    if answer.scope is not None and not (answer.always and answer.scope in ask.always_scopes):
        raise make_argument_error("arguments.scope", "this is not offered with the question.")
    if answer.network and not (answer.approves and network.can_open):
        raise make_argument_error("arguments.network", "this is not offered with the question.")
    if answer.hosts and not (answer.approves and network.offered_hosts):
        raise make_argument_error("arguments.hosts", "no hosts are offered with the question.")


async def edit_queue(hub: ServerHub, call: CommandCall[wire.EditQueue]) -> None:
    arguments = call.arguments
    if arguments.remove == (arguments.text is not None):
        raise make_argument_error("arguments", "give either a new `text`, or `remove: true`.")
    task = await require_open_task(hub, call)
    queued = task.recorder.projection.queued_messages.get(arguments.id)
    if queued is None:
        raise make_execution_error(f"No message '{arguments.id}' is waiting any more.")
    if arguments.text is None:
        task.publish(MessageUnqueued(ts=task.next_ts(), id=queued.id))
    else:
        text = replace_lone_surrogates(arguments.text)
        task.publish(
            MessageQueued(ts=task.next_ts(), id=queued.id, text=text, images=queued.images)
        )
    await task.recorder.commit()


async def condense_task(hub: ServerHub, call: CommandCall[wire.CondenseTask]) -> None:
    """Condense a task. The response is sent when it has begun; a row reports the outcome."""
    task = await hub.load_task(hub.resolve_task_id(call))
    task.start_condensing(call.arguments.instructions or "")


async def switch_mode(hub: ServerHub, call: CommandCall[wire.SwitchMode]) -> None:
    """Switch the mode of a task; without one, the mode of new tasks."""
    mode = call.arguments.mode
    if call.task_id is None and hub.current_task is None:
        _check_mode_exists(mode, await asyncio.to_thread(hub.services.list_modes))
        hub.services.config_store.update_settings({"mode": mode})
        hub.announce("modeChanged", ModePayload(mode=mode))
        return
    task = await require_open_task(hub, call)
    _check_mode_exists(mode, task.runtime.modes)
    if task.mode.slug != mode:
        task.publish(ModeSwitched(ts=task.next_ts(), mode=mode))
        await task.recorder.commit()


def _check_mode_exists(slug: str, modes: tuple[Mode, ...]) -> None:
    if slug not in {mode.slug for mode in modes}:
        raise make_argument_error("arguments.mode", f"there is no mode '{slug}'.")


async def require_open_task(hub: ServerHub, call: AnyCall) -> Task:
    task_id = hub.resolve_task_id(call)
    if (task := hub.engine.find_open_task(task_id)) is None:
        await check_task_exists(hub, task_id)
        raise make_execution_error(f"Task '{task_id}' is not open; resume it first.")
    return task
