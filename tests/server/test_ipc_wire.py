"""Roo's IPC protocol: frames, commands and tuples, without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.server.ipc_protocol import (
    CancelTask,
    CloseTask,
    DeleteQueuedMessage,
    FrameTooLargeError,
    GetCommands,
    GetModels,
    GetModes,
    IpcFrameParser,
    MessageData,
    NewTaskData,
    ResumeTask,
    SendMessage,
    StartNewTask,
    decode_command,
    encode_ack,
    encode_event,
    to_roo_events,
)

ZERO = {"totalTokensIn": 0, "totalTokensOut": 0, "totalCost": 0, "contextTokens": 0}


def said(data: Any, **changes: Any) -> bytes:
    """A client's frame."""
    message = {"type": "TaskCommand", "origin": "client", "clientId": "0123456789ab", "data": data}
    return json.dumps({"type": "message", "data": message | changes}).encode()


@pytest.mark.contract("ipc:frames")
@given(st.lists(st.text()), st.data())
def test_frames_are_the_same_however_the_bytes_are_cut(
    texts: list[str], data: st.DataObject
) -> None:
    frames = [json.dumps({"text": text}).encode() for text in texts]
    stream = b"".join(frame + b"\x0c" for frame in frames)
    cuts = data.draw(st.lists(st.integers(0, len(stream))).map(sorted))
    reader, read = IpcFrameParser(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        read += reader.feed(stream[start:end])
    assert read == frames


@pytest.mark.contract("ipc:frames")
def test_what_has_no_form_feed_is_not_read_yet() -> None:
    reader = IpcFrameParser()
    assert reader.feed(b'{"type":') == []
    assert reader.feed(b"1}\x0c{") == [b'{"type":1}']


def test_a_frame_has_a_largest_size() -> None:
    reader = IpcFrameParser(limit=10)
    assert reader.feed(b"0123456789\x0c01234") == [b"0123456789"]
    with pytest.raises(FrameTooLargeError):
        reader.feed(b"567890")


@pytest.mark.contract("ipc:commands")
@pytest.mark.parametrize(
    ("data", "command"),
    [
        (
            {
                "commandName": "StartNewTask",
                "data": {"configuration": {"mode": "ask"}, "text": "go", "images": ["a"]},
            },
            StartNewTask(NewTaskData(text="go", configuration={"mode": "ask"}, images=("a",))),
        ),
        (
            {
                "commandName": "StartNewTask",
                "data": {"configuration": {}, "text": "go", "newTab": True},
            },
            StartNewTask(NewTaskData(text="go", new_tab=True)),
        ),
        ({"commandName": "CancelTask", "data": "t1"}, CancelTask("t1")),
        ({"commandName": "CancelTask"}, CancelTask()),
        ({"commandName": "CloseTask", "data": "t1"}, CloseTask("t1")),
        ({"commandName": "CloseTask"}, CloseTask()),
        ({"commandName": "ResumeTask", "data": "t1"}, ResumeTask("t1")),
        ({"commandName": "SendMessage", "data": {"text": "hi"}}, SendMessage(MessageData("hi"))),
        ({"commandName": "SendMessage", "data": {}}, SendMessage(MessageData())),
        ({"commandName": "GetCommands"}, GetCommands()),
        ({"commandName": "GetModes"}, GetModes()),
        ({"commandName": "GetModels"}, GetModels()),
        ({"commandName": "DeleteQueuedMessage", "data": "q1"}, DeleteQueuedMessage("q1")),
    ],
)
def test_every_command_is_understood_as_january_and_april_say_it(
    data: dict[str, Any], command: object
) -> None:
    assert decode_command(said(data)) == command


@pytest.mark.contract("ipc:frames")
@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"no json",
        b"[]",
        b"\xff\xfe",
        b'{"type":"message"}',
        b'{"type":"message","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        said({"commandName": "Explode"}),
        said({"commandName": "ResumeTask"}),
        said({"commandName": "ResumeTask", "data": 7}),
        said({"commandName": "StartNewTask", "data": {"text": ["no"]}}),
        said({"commandName": "CancelTask"}, type="TaskEvent"),
        said({"commandName": "CancelTask"}, origin="server"),
        said({"commandName": "CancelTask"}, clientId=None),
    ],
)
def test_what_is_no_command_is_refused_with_a_reason(frame: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_command(frame)


def test_an_ack_names_the_client_and_the_process() -> None:
    assert encode_ack("0123456789ab", 7, 1) == (
        b'{"type":"message","data":{"type":"Ack","origin":"server",'
        b'"data":{"clientId":"0123456789ab","pid":7,"ppid":1}}}\x0c'
    )


def test_a_form_feed_in_the_text_does_not_end_the_frame() -> None:
    frame = encode_event("message", ({"text": "page\x0cbreak"},))
    assert frame.count(b"\x0c") == 1
    assert json.loads(frame[:-1])["data"]["data"]["payload"] == [{"text": "page\x0cbreak"}]


@pytest.mark.contract("ipc:frames")
@pytest.mark.parametrize(
    ("name", "payload", "expected"),
    [
        ("taskStarted", {}, [("taskStarted", ("t",))]),
        ("taskCreated", {"mode": "code"}, [("taskCreated", ("t",))]),
        ("taskAborted", {"reason": "user_cancelled"}, [("taskAborted", ("t",))]),
        ("taskFailed", {"code": "turns", "message": "no"}, [("taskAborted", ("t",))]),
        ("taskInteractive", {"askTs": 1, "ask": "tool"}, [("taskInteractive", ("t",))]),
        ("taskAskResponded", {"askTs": 1}, [("taskAskResponded", ("t",))]),
        ("taskSpawned", {"childTaskId": "u"}, [("taskSpawned", ("t", "u"))]),
        ("taskDelegated", {"childTaskId": "u"}, [("taskDelegated", ("t", "u"))]),
        (
            "taskDelegationCompleted",
            {"childTaskId": "u", "summary": "done"},
            [("taskDelegationCompleted", ("t", "u", "done"))],
        ),
        ("taskDelegationResumed", {"childTaskId": "u"}, [("taskDelegationResumed", ("t", "u"))]),
        ("taskModeSwitched", {"modeSlug": "ask"}, [("taskModeSwitched", ("t", "ask"))]),
        (
            "message",
            {"action": "created", "message": {"ts": 1}},
            [("message", ({"taskId": "t", "action": "created", "message": {"ts": 1}},))],
        ),
        (
            "taskTokenUsageUpdated",
            {"usage": {"totalTokensIn": 5}, "toolUsage": {}},
            [("taskTokenUsageUpdated", ("t", ZERO | {"totalTokensIn": 5}, {}))],
        ),
        (
            "taskCompleted",
            {"usage": {}, "toolUsage": {"read_file": {"attempts": 1, "failures": 0}}},
            [
                (
                    "taskCompleted",
                    (
                        "t",
                        ZERO,
                        {"read_file": {"attempts": 1, "failures": 0}},
                        {"isSubtask": False},
                    ),
                )
            ],
        ),
        (
            "queuedMessagesUpdated",
            {"queue": [{"id": "q", "text": "x", "timestamp": 1}]},
            [("queuedMessagesUpdated", ("t", [{"id": "q", "text": "x", "timestamp": 1}]))],
        ),
        ("countdown", {"seconds": 3}, []),
        ("taskFinished", {}, []),
        ("todosUpdated", {"todos": []}, []),
        ("taskUserMessage", {}, []),
    ],
)
def test_events_become_the_tuples_that_roo_declares(
    name: str, payload: dict[str, Any], expected: list[Any]
) -> None:
    assert to_roo_events(name, "t", payload) == expected


def test_tools_that_roo_does_not_know_are_counted_together() -> None:
    tally = {"attempts": 2, "failures": 1}
    [(_, (_, _, tools))] = to_roo_events(
        "taskTokenUsageUpdated", "t", {"usage": {}, "toolUsage": {"fly": tally, "swim": tally}}
    )
    assert tools == {"custom_tool": {"attempts": 4, "failures": 2}}
    failed = to_roo_events("taskToolFailed", "t", {"toolName": "fly", "error": "no wings"})
    assert failed == [("taskToolFailed", ("t", "custom_tool", "no wings"))]
