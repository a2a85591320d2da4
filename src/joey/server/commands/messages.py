"""Commands that send something to a task: messages, answers, another mode."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from joey.core.events import MessageQueued, MessageUnqueued, ModeSwitched
from joey.core.messages import replace_lone_surrogates
from joey.core.modes import Mode
from joey.core.task import Answer, Response
from joey.core.wire.commands import (
    Accepted,
    CondenseTask,
    Done,
    EditQueue,
    Respond,
    SendMessage,
    SwitchMode,
)
from joey.core.wire.events import ModePayload
from joey.engine.task import Task
from joey.server.commands.call import CommandCall, failed, invalid, not_found
from joey.server.commands.tasks import is_known

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def send_message(hub: ServerHub, call: CommandCall) -> Done:
    said: SendMessage = call.arguments
    text, images = (said.message or "").strip(), said.images or ()
    if not text and not images:
        raise invalid("arguments.message", "there is nothing to send.")
    await hub.resume(hub.task_id(call), text, images, queue=said.queue)
    return Done()


async def press_primary(hub: ServerHub, call: CommandCall) -> Done:
    return await _press(hub, call, Response.YES)


async def press_secondary(hub: ServerHub, call: CommandCall) -> Done:
    return await _press(hub, call, Response.NO)


async def _press(hub: ServerHub, call: CommandCall, response: Response) -> Done:
    task = await _open(hub, call)
    pending = task.pending
    answer = Answer(response, text=call.arguments.text or "")
    if pending is None or not await task.answer(pending.ts, answer):
        raise failed(f"Task '{task.id}' is not waiting for an answer.")
    return Done()


async def respond(hub: ServerHub, call: CommandCall) -> Accepted:
    """The first answer to a question counts; a later one is not accepted."""
    asked: Respond = call.arguments
    task = hub.open_task(call)
    if task is None:
        await _check_known(hub, call)
        return Accepted(accepted=False)
    if asked.always and not _offers_rule(task, asked):
        raise invalid("arguments.always", "there is no rule to add with this answer.")
    answer = Answer(
        asked.response, text=asked.text or "", images=asked.images or (), always=asked.always
    )
    return Accepted(accepted=await task.answer(asked.ask_ts, answer))


def _offers_rule(task: Task, asked: Respond) -> bool:
    """Of a question that is not open any more nothing is said here."""
    pending = task.pending
    is_open = pending is not None and pending.ts == asked.ask_ts
    return asked.response is Response.YES and not (is_open and pending and not pending.always_rule)


async def edit_queue(hub: ServerHub, call: CommandCall) -> Done:
    asked: EditQueue = call.arguments
    if asked.remove == (asked.text is not None):
        raise invalid("arguments", "give either a new `text`, or `remove: true`.")
    task = await _open(hub, call)
    queued = task.recorder.projection.queue.get(asked.id)
    if queued is None:
        raise failed(f"No message '{asked.id}' is waiting any more.")
    if asked.text is None:
        task.publish(MessageUnqueued(ts=task.next_ts(), id=queued.id))
    else:
        text = replace_lone_surrogates(asked.text)
        task.publish(
            MessageQueued(ts=task.next_ts(), id=queued.id, text=text, images=queued.images)
        )
    await task.recorder.commit()
    return Done()


async def condense_task(hub: ServerHub, call: CommandCall) -> Done:
    """Answered when it is begun; a row tells how it went."""
    asked: CondenseTask = call.arguments
    task = await hub.open(hub.task_id(call))
    task.start_condensing(asked.instructions or "")
    return Done()


async def switch_mode(hub: ServerHub, call: CommandCall) -> Done:
    """Of a task; without one, the mode that new tasks start in."""
    asked: SwitchMode = call.arguments
    if call.task_id is None and hub.current is None:
        _check_mode(asked.mode, await asyncio.to_thread(hub.setup.list_modes))
        hub.setup.preferences.update_settings({"mode": asked.mode})
        hub.announce("modeChanged", ModePayload(mode=asked.mode))
        return Done()
    task = await _open(hub, call)
    _check_mode(asked.mode, task.runtime.modes)
    if task.mode.slug != asked.mode:
        task.publish(ModeSwitched(ts=task.next_ts(), mode=asked.mode))
        await task.recorder.commit()
    return Done()


def _check_mode(slug: str, modes: tuple[Mode, ...]) -> None:
    if slug not in {mode.slug for mode in modes}:
        raise invalid("arguments.mode", f"there is no mode '{slug}'.")


async def _open(hub: ServerHub, call: CommandCall) -> Task:
    task = hub.open_task(call)
    if task is None:
        await _check_known(hub, call)
        raise failed(f"Task '{call.task_id}' is not open; resume it first.")
    return task


async def _check_known(hub: ServerHub, call: CommandCall) -> None:
    task_id = hub.task_id(call)
    if not await is_known(hub, task_id):
        raise not_found(task_id)


HANDLERS = {
    "sendMessage": send_message,
    "pressPrimaryButton": press_primary,
    "pressSecondaryButton": press_secondary,
    "respond": respond,
    "editQueue": edit_queue,
    "condenseTask": condense_task,
    "switchMode": switch_mode,
}
