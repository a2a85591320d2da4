"""A request never outgrows the model's window: room is made before it is sent.

From the gentle to the harsh: what came along with the person's words is cut, the conversation is
summed up, its oldest turns are hidden, the long texts of what is left are cut. If even that is
not enough, the run ends and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from joey.core.context.condense import is_brought, words_in
from joey.core.context.window import LONGEST, SHORTEST, blocks_tokens, plan_truncation, threshold_of
from joey.core.events import ContextTruncated, MessageUnqueued, Said
from joey.core.history.visible import cut_text
from joey.core.messages import TextBlock, UserBlock
from joey.engine.condensing import condense
from joey.engine.endings import Stop
from joey.engine.room import Room
from joey.engine.surroundings import describe_surroundings
from joey.errors import CondenseError

if TYPE_CHECKING:
    from joey.engine.task import Task

MOST_RECOVERIES = 3
_WORTHWHILE = 4
"""A summary is written when at least this part of what may be filled is there to be summed up."""
_AGAIN = 20
"""After a failure, not before another such part of the window is filled."""


async def make_room(task: Task, content: tuple[UserBlock, ...]) -> tuple[UserBlock, ...]:
    """What the next request says, cut where it must be; the history before it fits.

    Raises:
        Stop: what is to be said alone is too much for the window.
    """
    room = Room(task)
    content = _within_half(room, content)
    if await task.wishes.grant(task):
        room = Room(task)
    if _is_due(task, room, content):
        try:
            await condense(task)
        except CondenseError:
            task.gauge.failed_at = room.use()
        room = Room(task)
    if _hide_oldest(task, room, content):
        room = Room(task)
    if room.use(content) > room.window.most:
        raise _too_much(task, room, content)
    room.gauge.sent(room.head)
    return content


async def recover(task: Task) -> tuple[UserBlock, ...]:
    """After the service refused a request as too long: what the next one says after a shorter
    history. What the estimates got wrong is remembered.

    Raises:
        Stop: it cannot be made shorter.
    """
    room = Room(task)
    before = room.estimate
    room.gauge.overflowed(before, room.window.size)
    content: tuple[UserBlock, ...] = ()
    last = room.visible[-1]
    words = () if last.is_summary else words_in(last)
    try:
        await condense(task, told_again=words)
        surroundings = await describe_surroundings(task, with_files=False)
        content = _within_half(Room(task), (*words, TextBlock(surroundings)))
    except CondenseError:
        pass  # a row says why; the oldest turns go instead
    _hide_oldest(task, Room(task), content)
    room = Room(task)
    if room.estimate + blocks_tokens(content) >= before or room.use(content) > room.window.most:
        raise _too_much(task, room, content)
    return content


def _is_due(task: Task, room: Room, content: Sequence[UserBlock]) -> bool:
    settings = task.bench.settings
    if not settings.auto_condense_context:
        return False
    threshold = threshold_of(
        settings.auto_condense_context_percent,
        settings.profile_thresholds,
        task.bench.route.profile,
    )
    if threshold.problem is not None and threshold.problem not in task.told:
        task.told.add(threshold.problem)
        task.publish(Said(ts=task.now(), say="error", text=threshold.problem))
    window, use = room.window, room.use(content)
    limit = min(window.allowed, window.size * threshold.percent // 100)
    if use < limit or room.said * _WORTHWHILE < limit:
        return False
    failed_at = room.gauge.failed_at
    return use > window.allowed or failed_at is None or use > failed_at + window.size // _AGAIN


def _hide_oldest(task: Task, room: Room, content: Sequence[UserBlock]) -> bool:
    """Hide turns until the request fits, or all that can be hidden is; whether that was needed."""
    gauge, allowed = room.gauge, room.window.allowed
    use, new = room.use(content), blocks_tokens(content)
    if use <= allowed:
        return False
    # The service may count more than the gauge dares to conclude from it.
    scale = max(gauge.scale, use / (room.estimate + new))
    plan = plan_truncation(
        room.visible,
        room.open_results,
        gauge.counts,
        lambda estimate: (room.head + estimate + new) * scale <= allowed,
    )
    if plan is None:
        return False
    ts = task.now()
    task.publish(
        ContextTruncated(
            ts=ts,
            truncation_id=f"truncation_{ts}",
            messages=plan.messages,
            tokens_before=room.use(),
            tokens_after=room.use_with(plan.estimate),
            longest=plan.longest,
        )
    )
    return True


def _within_half(room: Room, content: tuple[UserBlock, ...]) -> tuple[UserBlock, ...]:
    """What came along with the words takes half of the room at most."""
    most = (room.window.allowed - room.gauge.whole(room.head)) // 2
    longest = LONGEST
    shorter = content
    while room.gauge.whole(blocks_tokens(shorter)) > most and longest >= SHORTEST:
        shorter = tuple(_cut(block, longest) for block in content)
        longest //= 2
    return shorter


def _cut(block: UserBlock, longest: int) -> UserBlock:
    if isinstance(block, TextBlock) and is_brought(block):
        return TextBlock(cut_text(block.text, longest))
    return block


def _too_much(task: Task, room: Room, content: Sequence[UserBlock]) -> Stop:
    whole = room.gauge.whole
    _give_up_longest(task, whole(room.head + blocks_tokens(content)) - room.window.most, whole)
    return Stop(
        "context",
        f"This is too much for {task.provider.model.id}: of its window of {room.window.size}"
        f" tokens, about {room.window.most} may be filled, and the instructions and tools take"
        f" {whole(room.head)}, what was said before {whole(room.estimate - room.head)}, the new"
        f" message {whole(blocks_tokens(content))}. Say it in fewer words, let it read the rest"
        " from a file, or use a model with a larger window.",
    )


def _give_up_longest(task: Task, over: int, whole: Callable[[int], int]) -> None:
    """Waiting words that would be in the way of all others, if there is room without them."""
    queued = task.recorder.facts.queue.values()
    sizes = {said.id: whole(blocks_tokens((TextBlock(said.text),))) for said in queued}
    if over > sum(sizes.values()):
        return
    for message_id in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if over > 0:
            task.publish(MessageUnqueued(ts=task.now(), id=message_id))
            over -= sizes[message_id]
