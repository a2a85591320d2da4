"""Random tasks over a WebSocket that is cut: the events, folded by the document's rules alone, are
the rows."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.history.api import render_call_as_xml
from joey.core.messages import ToolCall
from joey.testing.script import Call, Step, Turn, call, disconnect, pause, say, think
from tests.harness.counts import shortened_examples
from tests.harness.scripted_conversations import by_first_message
from tests.harness.server.event_folding import ALLOW, continue_after, fold, identity, read_history
from tests.harness.server.server_fixture import Frame, Peer, ServerFixture, open_server

pytestmark = [pytest.mark.contract("websocket:rows")]

END_NAMES = ("taskFinished", "taskAborted", "taskFailed")
QUESTION_NAMES = ("taskInteractive", "taskIdle", "taskResumable")
PARTS: dict[str, Step] = {
    "text": say("Some words. ", chunk=5),
    "blank": say("\n\n"),
    "thought": think("Hm, let me see."),
    "list": call("list_files", {"path": "."}),
    "read": call("read_file", {"path": "a.txt"}),
    "read nothing": call("read_file", {"path": "none.txt"}, chunk=6),
    "write": call("write_to_file", {"path": "b.txt", "content": "one\ntwo\n"}, chunk=6),
    "edit nothing": call("apply_diff", {"path": "a.txt", "diff": "no diff"}),
    "command": call("execute_command", {"command": "echo out; exit 3"}),
    "missing": call("write_to_file", {"content": "one"}),
    "unknown": call("wirte_file", {"path": "c.txt"}),
    "broken": call("write_to_file", '{"path": "c.txt", "content": "on'),
    "question": call("ask_followup_question", {"question": "Which?", "follow_up": []}),
    "todos": call("update_todo_list", {"todos": "[x] one\n[ ] two"}),
    "subtask": call("new_task", {"mode": "code", "message": "a part"}),
    "result": call("attempt_completion", {"result": "It is done."}, chunk=4),
}
WAITING = "(the model waits)"
ENDINGS: dict[str, tuple[Step, ...]] = {
    "whole": (),
    "cut": (disconnect(),),
    "waiting": (say(WAITING), pause(60.0)),
}
TURN = st.tuples(st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=4), st.just("whole"))
LAST_TURN = st.tuples(
    st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=3),
    st.sampled_from(sorted(ENDINGS)),
)
ANSWERS = st.lists(
    st.sampled_from(["yesButtonClicked", "noButtonClicked", "messageResponse", "cancel"]),
    min_size=1,
    max_size=6,
)
DrawnTurn = tuple[list[str], str]


def build_turns(drawn: Sequence[DrawnTurn], protocol: str, *, can_delegate: bool) -> list[Turn]:
    """Turns of the model; where the script ends, the request fails."""
    to_step = to_xml if protocol == "xml" else lambda step: step
    return [
        Turn(
            *(to_step(PARTS[name]) for name in parts if can_delegate or name != "subtask"),
            *ENDINGS[ending],
        )
        for parts, ending in drawn
    ]


def to_xml(step: Step) -> Step:
    match step:
        case Call(name=name, input=dict(arguments)):
            written = render_call_as_xml(ToolCall(id="", name=name, input=arguments))
        case Call():
            written = "<write_to_file>\n<path>c.txt</path>\n<content>\non"
        case _:
            return step
    return say(f"\n{written}\n", chunk=7)


async def play(peer: Peer, task_id: str, answers: Sequence[str]) -> None:
    """Answer all questions until the task ends; cancel it where its model says nothing more."""
    given_answers, position, asked = itertools.cycle(answers), 0, 0
    while True:
        event = await peer.event(*END_NAMES, *QUESTION_NAMES, "message", since=position)
        position = peer.events.index(event, position) + 1
        if event["eventName"] == "message":
            text = str(event["payload"]["message"].get("text"))
            if WAITING in text or (answers[0] == "cancel" and "words" in text):
                await peer.ask("cancelTask", task_id)
        elif event["eventName"] in END_NAMES:
            if event["taskId"] == task_id:
                return
        else:
            asked += 1
            await answer(peer, event, task_id, "cancel" if asked > 30 else next(given_answers))


async def answer(peer: Peer, event: Frame, root_id: str, response: str) -> None:
    if event["payload"]["ask"] in ("api_req_failed", "mistake_limit_reached"):
        response = "noButtonClicked"
    if response == "cancel":
        await peer.ask("cancelTask", root_id)
        return
    needs_text = response == "messageResponse" or event["payload"]["ask"] == "followup"
    given_text = {"text": "Go on."} if needs_text else {}
    ask_ts = event["payload"]["askTs"]
    await peer.ask("respond", event["taskId"], askTs=ask_ts, response=response, **given_text)


async def check_task(here: ServerFixture, peer: Peer, task_id: str) -> None:
    await peer.event(*END_NAMES, where=lambda event: bool(event["taskId"] == task_id))
    rows = (await peer.ask("getMessages", task_id))["messages"]
    assert fold(peer.events, task_id) == rows
    assert [row for row in rows if row.get("partial")] == []
    if (task := here.hub.engine.find_open_task(task_id)) is not None:
        await task.save()
    assert read_history(here, task_id) == rows
    messages = read_history(here, task_id, "api_conversation_history.json")
    times = [message["ts"] for message in messages]
    assert times == sorted(set(times))


async def receive_with_cuts(
    here: ServerFixture, task_id: str, counts: Sequence[int], received: list[Frame]
) -> None:
    """Be gone without a word after so many frames, again and again, until the task has ended."""
    for count in itertools.cycle(counts):
        async with here.peer() as peer:
            await continue_after(peer, task_id, received)
            while len(peer.events) < count and not has_ended((*received, *peer.events), task_id):
                await peer.frame()
            received += (event for event in peer.events if event["taskId"] == task_id)
            peer.socket.transport.abort()
        if has_ended(received, task_id):
            return


def has_ended(events: Sequence[Frame], task_id: str) -> bool:
    return any(
        event["eventName"] in END_NAMES and event["taskId"] == task_id for event in events[-20:]
    )


async def check_received(here: ServerFixture, task_id: str, received: list[Frame]) -> None:
    """All events once, in order, and the rows that they add up to."""
    async with here.peer() as peer:
        await continue_after(peer, task_id, received)
        rows = (await peer.ask("getMessages", task_id))["messages"]
        received += (event for event in peer.events if event["taskId"] == task_id)
    identities = [identity(event) for event in received]
    assert identities == sorted(set(identities)), "an event came twice, or out of order"
    assert fold_over_connections(received, task_id) == rows == read_history(here, task_id)


def fold_over_connections(events: Sequence[Frame], task_id: str) -> list[Frame]:
    """As `fold`, but on a new connection a row that changes is `created` again, and earlier rows
    come in the order in which they were done: their places are those of their `ts`."""
    rows: dict[int, Frame] = {}
    for event in events:
        if event["eventName"] == "message" and event["taskId"] == task_id:
            row = event["payload"]["message"]
            assert event["payload"]["action"] == "created" or row["ts"] in rows, row
            rows[row["ts"]] = row
    return [rows[ts] for ts in sorted(rows)]


async def check_random_task(
    root: Path,
    parts: Mapping[str, Sequence[Turn]],
    answers: Sequence[str],
    protocol: str,
    counts: Sequence[int],
    **settings: Any,
) -> None:
    turns = [by_first_message(parts)] * 8
    async with open_server(root, *turns, maxRetryWaitSeconds=0, **settings) as here:
        (here.workspace / "a.txt").write_text("one\n")
        async with here.peer() as peer:
            configuration = {"toolProtocol": protocol}
            started = await peer.ask("startNewTask", text="the whole", configuration=configuration)
            task_id = started["taskId"]
            received: list[Frame] = []
            async with asyncio.TaskGroup() as group:
                group.create_task(receive_with_cuts(here, task_id, counts, received))
                await play(peer, task_id, answers)
            for each in dict.fromkeys(event["taskId"] for event in peer.events):
                await check_task(here, peer, each)
            await check_received(here, task_id, received)


@pytest.mark.timeout(600)
@shortened_examples(12, 100, deadline=None)
@given(
    turns=st.lists(TURN, max_size=3),
    last=LAST_TURN,
    part=LAST_TURN,
    answers=ANSWERS,
    protocol=st.sampled_from(["native", "xml"]),
    allows=st.booleans(),
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(any),
)
async def test_the_events_of_any_task_are_its_rows_wherever_the_connection_is_cut(
    turns: list[DrawnTurn],
    last: DrawnTurn,
    part: DrawnTurn,
    answers: list[str],
    protocol: str,
    allows: bool,
    counts: list[int],
) -> None:
    allowed = {**ALLOW, "alwaysAllowSubtasks": True} if allows else {}
    parts = {
        "the whole": build_turns([*turns, last], protocol, can_delegate=True),
        "a part": build_turns([part], protocol, can_delegate=False),
    }
    with TemporaryDirectory() as root:
        await check_random_task(Path(root), parts, answers, protocol, counts, **allowed)
