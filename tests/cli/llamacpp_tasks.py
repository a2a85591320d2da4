"""Tasks with a real llama.cpp server: what it processes again, and what fits into its window.

`make nightly` runs them; they take some minutes.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from joey.core.models import ToolProtocol
from tests.harness.cli.binary import Finished, Joey
from tests.harness.cli.llamacpp import (
    MODEL_WINDOW,
    TOOL_TEMPLATE,
    Call,
    ScriptedReplies,
    Turn,
    find_model,
    is_summary_request,
    llamacpp_server,
    scripted_proxy,
)
from tests.harness.cli.local_server import LocalModelServer
from tests.harness.cli.served_models import reach
from tests.harness.paths import ROOT

pytestmark = [pytest.mark.timeout(1800), pytest.mark.parametrize("protocol", ToolProtocol)]
TEMPLATES = {ToolProtocol.NATIVE: TOOL_TEMPLATE, ToolProtocol.XML: ""}
FULL_PROMPT_WINDOW = 24_576
"""Large enough for the prompt that most models get."""
ALLOWED_TOKENS = 32
"""Of a prompt, processed again in each turn: where one message ends and the next one begins."""
DONE = Call("attempt_completion", {"result": "All done."})


@pytest.mark.parametrize("window", [MODEL_WINDOW, FULL_PROMPT_WINDOW])
async def test_ten_turns_process_only_what_is_new(
    joey: Joey, tmp_path: Path, protocol: ToolProtocol, window: int
) -> None:
    calls = [call for number in range(3) for call in work_on_part(joey, number)]
    search = Call("search_files", {"path": ".", "regex": "value_"})
    model = find_model() if window <= MODEL_WINDOW else widen_model(tmp_path, window)
    async with llamacpp_server(window, template=TEMPLATES[protocol], model=model) as url:
        replies = ScriptedReplies(url, [*calls, search, DONE, *work_on_part(joey, 3), DONE])
        async with scripted_proxy(replies, url) as server:
            first = await run(joey, server, "edit all parts")
            second = await run(joey, server, "-c", "and the last part")
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert len(replies.turns) == 15
    print_turns(replies.turns)
    assert is_native(replies.turns) is (protocol is ToolProtocol.NATIVE)
    assert_only_new_is_processed(replies.turns)


async def test_a_window_of_8k_completes_a_task_of_normal_size(
    joey: Joey, protocol: ToolProtocol
) -> None:
    names = ("suggest", "rewind", "mentions", "terminal_text")
    calls: list[Call] = []
    for name in names:
        source = (ROOT / "src" / "joey" / "core" / f"{name}.py").read_text(encoding="utf-8")
        (joey.workspace / f"{name}.py").write_text(f"VERSION = 1\n{source[:6000]}")
        calls += [Call("read_file", {"path": f"{name}.py"}), edit(f"{name}.py", "VERSION")]
    command = Call("execute_command", {"command": "grep -n VERSION *.py"})
    async with llamacpp_server(MODEL_WINDOW, template=TEMPLATES[protocol]) as url:
        summary = "The files that were read have been edited; the others have not."
        replies = ScriptedReplies(url, [*calls, command, DONE], summary=summary)
        async with scripted_proxy(replies, url) as server:
            done = await run(joey, server, "raise the version in all files")
    print_turns(replies.turns)
    assert (done.code, done.out.strip()) == (0, "All done."), done.err
    assert replies.calls == []
    for name in names:
        assert (joey.workspace / f"{name}.py").read_text().startswith("VERSION = 2\n")
    # The summary continues the conversation that the server has in its cache.
    kinds = [is_summary_request(turn.request) for turn in replies.turns]
    assert True in kinds
    assert_only_new_is_processed(replies.turns[: kinds.index(True) + 1])


def work_on_part(joey: Joey, number: int) -> list[Call]:
    path = f"part{number}.py"
    lines = [f"value_{number} = 1", *(f"name_{line} = {line} * {number}" for line in range(8))]
    (joey.workspace / path).write_text("\n".join(lines))
    run_it = Call("execute_command", {"command": f"python3 {path}"})
    return [Call("read_file", {"path": path}), edit(path, f"value_{number}"), run_it]


def edit(path: str, name: str) -> Call:
    changed = {"old_string": f"{name} = 1", "new_string": f"{name} = 2"}
    return Call("edit", {"file_path": path, **changed})


async def run(joey: Joey, server: LocalModelServer, *arguments: str) -> Finished:
    return await joey.run(*reach("llamacpp", server), "-y", "--no-sandbox", *arguments, limit=1800)


def widen_model(directory: Path, window: int) -> Path:
    """A copy of the model that claims to be trained for a larger window: a server allows no more
    than that. What it then says does not matter here."""
    key = b"llama.context_length" + struct.pack("<I", 4)
    data = find_model().read_bytes()
    before, after = key + struct.pack("<I", MODEL_WINDOW), key + struct.pack("<I", window)
    assert data.count(before) == 1
    widened = directory / "widened.gguf"
    widened.write_bytes(data.replace(before, after))
    return widened


def is_native(turns: Sequence[Turn]) -> bool:
    return all("tools" in turn.request for turn in turns)


def assert_only_new_is_processed(turns: Sequence[Turn]) -> None:
    for before, after in pairwise(turns):
        assert after.processed <= after.prompt - before.prompt + ALLOWED_TOKENS


def print_turns(turns: Sequence[Turn]) -> None:
    lines = [f"{'prompt':>7}{'cached':>8}{'processed':>11}{'new':>7}"]
    previous = 0
    for turn in turns:
        new = turn.prompt - previous
        lines.append(f"{turn.prompt:7}{turn.cached:8}{turn.processed:11}{new:7}")
        previous = turn.prompt
    sys.stdout.write("\n".join(["", *lines, ""]))
