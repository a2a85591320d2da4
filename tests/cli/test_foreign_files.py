"""Files of another user, which root cannot change in the sandbox, in the real program."""

from __future__ import annotations

import os
import shutil

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.replies import last_message

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap"),
]
ANOTHER_USER = 12345
NOTE = "in which root can change only its own files. These belong to another user: "


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo x >> a.txt", "a.txt"),
        ("touch sub/new.txt", "sub"),
        ("cat a.txt > own.txt; echo 'own.txt: Permission denied'; false", None),
        (f"echo '{'x' * 300}/{'y' * 300} ../a.txt: Permission denied'; false", None),
    ],
)
async def test_the_result_of_a_command_says_whose_files_they_are(
    joey: Joey, on_disk: None, command: str, shown: str | None
) -> None:
    (joey.workspace / "a.txt").write_text("a\n")
    (joey.workspace / "sub").mkdir()
    for name in ("a.txt", "sub"):
        os.chown(joey.workspace / name, ANOTHER_USER, ANOTHER_USER)
    turns = [
        Turn(call("execute_command", {"command": command})),
        Turn(call("write_to_file", {"path": "a.txt", "content": "b\n"})),
        *[Turn(call("attempt_completion", {"result": "ok"}))] * 2,
    ]
    async with ModelServer(turns) as server:
        await joey.run("-p", "-y", *reach(server.url), "edit it")
        message = last_message(server.requests[1])
    if "Exit code: 0" in message:
        pytest.skip("no user namespaces here")
    assert message.count(NOTE) == message.count(f"{NOTE}{shown}. ") == int(shown is not None)
    assert (joey.workspace / "a.txt").read_text() == "b\n"
    assert (joey.workspace / "a.txt").stat().st_uid == ANOTHER_USER
