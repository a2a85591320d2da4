"""Commands that send something to a task: messages, answers, another mode."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from joey.core.events import MessageQueued, MessageUnqueued, ModeSwitched
from joey.core.messages import replace_lone_surrogates
from joey.core.modes import Mode
from joey.core.task_types import Answer, Response
from joey.core.wire import commands as wire
from joey.core.wire.events import ModePayload
from joey.engine.task import Task
from joey.server.commands.call import (
    CommandCall,
    make_argument_error,
    make_execution_error,
    make_not_found_error,
)
from joey.server.commands.tasks import is_known_task

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def send_message(hub: ServerHub, call: CommandCall) -> wire.Done:
    arguments: wire.SendMessage = call.arguments
    text, images = (arguments.message or "").strip(), arguments.images or ()
    if not text and not images:
        raise make_argument_error("arguments.message", "there is nothing to send.")
    await hub.resume_task(hub.resolve_task_id(call), text, images, queue=arguments.queue)
    return wire.Done()


async def press_primary_button(hub: ServerHub, call: CommandCall) -> wire.Done:
    return await _answer_pending_ask(hub, call, Response.YES)


async def press_secondary_button(hub: ServerHub, call: CommandCall) -> wire.Done:
    return await _answer_pending_ask(hub, call, Response.NO)


async def _answer_pending_ask(hub: ServerHub, call: CommandCall, response: Response) -> wire.Done:
    task = await _require_open_task(hub, call)
    pending = task.pending
    answer = Answer(response, text=call.arguments.text or "")
    if pending is None or not await task.answer(pending.ts, answer):
        raise make_execution_error(f"Task '{task.id}' is not waiting for an answer.")
    return wire.Done()


async def respond(hub: ServerHub, call: CommandCall) -> wire.Accepted:
    """The first answer to a question counts; a later one is not accepted."""
    arguments: wire.Respond = call.arguments
    task = hub.find_open_task(call)
    if task is None:
        await _check_task_exists(hub, call)
        return wire.Accepted(accepted=False)
    if arguments.always and not _can_add_rule(task, arguments):
        raise make_argument_error("arguments.always", "there is no rule to add with this answer.")
    answer = Answer(
        arguments.response,
        text=arguments.text or "",
        images=arguments.images or (),
        always=arguments.always,
    )
    return wire.Accepted(accepted=await task.answer(arguments.ask_ts, answer))


def _can_add_rule(task: Task, arguments: wire.Respond) -> bool:
    """Of a question that is not open any more nothing is said here."""
    pending = task.pending
    is_open = pending is not None and pending.ts == arguments.ask_ts
    return arguments.response is Response.YES and not (
        is_open and pending and not pending.always_rule
    )


async def edit_queue(hub: ServerHub, call: CommandCall) -> wire.Done:
    arguments: wire.EditQueue = call.arguments
    if arguments.remove == (arguments.text is not None):
        raise make_argument_error("arguments", "give either a new `text`, or `remove: true`.")
    task = await _require_open_task(hub, call)
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
    return wire.Done()


async def condense_task(hub: ServerHub, call: CommandCall) -> wire.Done:
    """Answered when it is begun; a row tells how it went."""
    arguments: wire.CondenseTask = call.arguments
    task = await hub.load_task(hub.resolve_task_id(call))
    task.start_condensing(arguments.instructions or "")
    return wire.Done()


async def switch_mode(hub: ServerHub, call: CommandCall) -> wire.Done:
    """Of a task; without one, the mode that new tasks start in."""
    arguments: wire.SwitchMode = call.arguments
    if call.task_id is None and hub.current_task is None:
        _check_mode_exists(arguments.mode, await asyncio.to_thread(hub.services.list_modes))
        hub.services.config_store.update_settings({"mode": arguments.mode})
        hub.announce("modeChanged", ModePayload(mode=arguments.mode))
        return wire.Done()
    task = await _require_open_task(hub, call)
    _check_mode_exists(arguments.mode, task.runtime.modes)
    if task.mode.slug != arguments.mode:
        task.publish(ModeSwitched(ts=task.next_ts(), mode=arguments.mode))
        await task.recorder.commit()
    return wire.Done()


def _check_mode_exists(slug: str, modes: tuple[Mode, ...]) -> None:
    if slug not in {mode.slug for mode in modes}:
        raise make_argument_error("arguments.mode", f"there is no mode '{slug}'.")


async def _require_open_task(hub: ServerHub, call: CommandCall) -> Task:
    task = hub.find_open_task(call)
    if task is None:
        await _check_task_exists(hub, call)
        raise make_execution_error(f"Task '{call.task_id}' is not open; resume it first.")
    return task


async def _check_task_exists(hub: ServerHub, call: CommandCall) -> None:
    task_id = hub.resolve_task_id(call)
    if not await is_known_task(hub, task_id):
        raise make_not_found_error(task_id)


HANDLERS = {
    "sendMessage": send_message,
    "pressPrimaryButton": press_primary_button,
    "pressSecondaryButton": press_secondary_button,
    "respond": respond,
    "editQueue": edit_queue,
    "condenseTask": condense_task,
    "switchMode": switch_mode,
}
