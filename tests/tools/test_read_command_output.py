from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from joey.core.tool_calls import summarize_call
from joey.errors import ToolError
from joey.execution.terminal import LocalTerminal
from joey.ports.tool_context import ToolContext
from joey.tools.base import Access, Outcome, PreparedToolCall
from joey.tools.execute_command import ExecuteCommand
from joey.tools.read_command_output import ReadCommandOutput
from joey.workspace.ripgrep import search_lines
from tests.harness.execution.processes import Listener, is_alive
from tests.harness.tools.tool_context import make_context

tool = ReadCommandOutput()
ID = "cmd-1706119234567.txt"


def keep(root: Path, content: bytes) -> None:
    directory = root / "task" / "command-output"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / ID).write_bytes(content)


def get_text(prepared: PreparedToolCall) -> str:
    assert prepared.outcome is not None
    return prepared.outcome.text


async def read(root: Path, **arguments: Any) -> PreparedToolCall:
    ctx = make_context(root)
    prepared = await tool.prepare(tool.parse({"artifact_id": ID, **arguments}), ctx)
    outcome = await tool.run_prepared(prepared, ctx, None)
    assert prepared.outcome is outcome
    assert not outcome.is_error
    return prepared


async def test_a_short_file_is_read_whole(tmp_path: Path) -> None:
    keep(tmp_path, b"one\ntwo\n")
    prepared = await read(tmp_path)
    assert get_text(prepared) == (
        f"[Command Output: {ID}]\nTotal size: 8 bytes | Showing bytes 0-8 | COMPLETE\n"
        "1 | one\n2 | two"
    )
    assert prepared.row == {
        "tool": "readCommandOutput",
        "readStart": 0,
        "readEnd": 8,
        "totalBytes": 8,
    }
    assert [claim.access for claim in prepared.claims] == [Access.NONE]


async def test_forty_kilobytes_are_read_by_default(tmp_path: Path) -> None:
    keep(tmp_path, b"x" * 50_000)
    prepared = await read(tmp_path)
    assert "Total size: 48.8KB | Showing bytes 0-40960 | TRUNCATED" in get_text(prepared)


async def test_line_numbers_go_on_where_the_offset_is(tmp_path: Path) -> None:
    keep(tmp_path, b"".join(b"line %d\n" % number for number in range(1, 201)))
    offset = sum(len(f"line {number}\n") for number in range(1, 99))
    prepared = await read(tmp_path, offset=offset, limit=24)
    assert get_text(prepared).endswith("TRUNCATED\n 99 | line 99\n100 | line 100\n101 | line 10")


async def test_the_last_line_without_newline_is_there(tmp_path: Path) -> None:
    keep(tmp_path, b"a\nlast")
    assert get_text(await read(tmp_path)).endswith("COMPLETE\n1 | a\n2 | last")


@pytest.mark.contract("loop:calls")
async def test_numbers_may_come_as_text(tmp_path: Path) -> None:
    keep(tmp_path, b"abcdef")
    assert "Showing bytes 2-4 | TRUNCATED" in get_text(await read(tmp_path, offset="2", limit="2"))


async def test_a_limit_beyond_reason_is_capped(tmp_path: Path) -> None:
    keep(tmp_path, b"x" * 600_000)
    assert "Showing bytes 0-524288 | TRUNCATED" in get_text(await read(tmp_path, limit=10**9))


@given(st.text(st.sampled_from("a\né€😀"), max_size=60), st.integers(1, 9))
@settings(max_examples=40)
def test_pages_follow_each_other_without_loss_or_broken_characters(
    tmp_path_factory: pytest.TempPathFactory, text: str, limit: int
) -> None:
    root = tmp_path_factory.mktemp("pages")
    data = text.encode()
    keep(root, data)

    async def all_pages() -> bytes:
        got, offset = b"", 0
        while offset < len(data):
            row = (await read(root, offset=offset, limit=limit)).row
            assert row["readStart"] == offset < row["readEnd"]
            got += data[offset : row["readEnd"]]
            offset = row["readEnd"]
        return got

    assert asyncio.run(all_pages()) == data


@pytest.mark.parametrize("offset", [-1, 6, 7, 10**12])
async def test_an_offset_outside_the_file_is_refused(tmp_path: Path, offset: int) -> None:
    keep(tmp_path, b"abcdef")
    with pytest.raises(ToolError, match=r"^Error: offset .* 6 bytes"):
        await read(tmp_path, offset=offset)


@pytest.mark.parametrize("limit", [0, -5])
async def test_a_limit_of_nothing_is_refused(tmp_path: Path, limit: int) -> None:
    keep(tmp_path, b"abcdef")
    with pytest.raises(ToolError, match=r"^Error: limit"):
        await read(tmp_path, limit=limit)


@pytest.mark.parametrize(
    "artifact_id",
    [
        f"cmd-{'1' * 300}.txt",
        "../cmd-1.txt",
        "cmd-1.txt/../../secret",
        "/etc/passwd",
        "cmd-.txt",
        "cmd-12a.txt",
        "cmd-١.txt",
        "cmd-1.txt\n",
        "CMD-1.txt",
        "",
    ],
)
async def test_only_ids_of_the_right_form_are_looked_at(tmp_path: Path, artifact_id: str) -> None:
    with pytest.raises(ToolError, match=r"(?s)^Error: .*cmd-<digits>\.txt"):
        await read(tmp_path, artifact_id=artifact_id)


async def test_an_unknown_id_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^Error: there is no artifact cmd-5\.txt"):
        await read(tmp_path, artifact_id="cmd-5.txt")
    keep(tmp_path, b"output")
    with pytest.raises(ToolError, match=rf" The latest are: {ID}\.$"):
        await read(tmp_path, artifact_id="cmd-5.txt")


async def test_a_link_in_the_place_of_an_artifact_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    keep(tmp_path, b"")
    artifact = tmp_path / "task" / "command-output" / ID
    artifact.unlink()
    artifact.symlink_to(tmp_path / "secret")
    with pytest.raises(ToolError, match=r"^Error: there is no artifact"):
        await read(tmp_path)


async def test_a_search_shows_matching_lines_with_their_numbers(tmp_path: Path) -> None:
    keep(tmp_path, b"fine\nERROR one\nfine\nan error too\n")
    prepared = await read(tmp_path, search="error")
    assert get_text(prepared) == (
        f'[Command Output: {ID}] (search: "error")\nTotal matches: 2 | Showing first 2\n'
        "    2 | ERROR one\n    4 | an error too"
    )
    assert prepared.row["searchPattern"] == "error"
    assert prepared.row["matchCount"] == 2


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        (r"^a.c$", [1]),
        (r"x|\d+", [2, 3]),
        (r"a(c", [4]),
        ("[", []),
        ("nowhere", []),
    ],
)
async def test_an_expression_that_is_none_is_looked_for_as_it_is_written(
    tmp_path: Path, pattern: str, numbers: list[int]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc\r\nx\n42\nA(C)\n")
    found = await search_lines(path, pattern, 1000)
    assert [number for number, _ in found.lines] == numbers
    assert found.match_count == len(numbers)


async def test_a_search_without_a_match_says_so(tmp_path: Path) -> None:
    keep(tmp_path, b"x" * 2000)
    text = get_text(await read(tmp_path, search="y"))
    assert text == f'[Command Output: {ID}] (search: "y")\nTotal size: 2.0KB\nNo line matches.'


async def test_a_search_shows_what_fits_and_counts_the_rest(tmp_path: Path) -> None:
    keep(tmp_path, b"match\n" * 1000)
    text = get_text(await read(tmp_path, search="match", limit=60))
    assert "Total matches: 1000 | Showing first 10" in text
    assert text.count("| match") == 10


async def test_a_search_names_the_offset_of_the_first_match_that_did_not_fit(
    tmp_path: Path,
) -> None:
    keep(tmp_path, b"match\n" * 13 + b"none\n")
    first = get_text(await read(tmp_path, search="match", limit=60))
    assert first.endswith("\n[3 more; continue with offset 60.]")
    rest = get_text(await read(tmp_path, search="match", limit=60, offset=60))
    assert "Total matches: 13 | Showing 11 to 13\n" in rest
    assert rest.endswith("   13 | match")
    none = get_text(await read(tmp_path, search="match", offset=80))
    assert none.endswith("No line matches from byte 80 on.")


async def test_a_first_match_longer_than_the_limit_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc" * 1000 + b"\nabc\n")
    found = await search_lines(path, "abc", 10)
    assert found.lines == ((1, "abcabcabca"),)
    assert found.match_count == 2


async def test_a_search_over_a_file_without_newlines_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5_000_000 + b"needle")
    found = await search_lines(path, "needle", 100_000)
    assert [number for number, _ in found.lines] == [1]


async def test_of_a_long_line_the_piece_with_the_match_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"short\n" + b"x" * 200_000 + b"needle" + b"x" * 200_000 + b"\nlast needle")
    found = await search_lines(path, "needle", 200_000)
    assert [number for number, _ in found.lines] == [2, 3]
    assert "needle" in found.lines[0][1]
    assert len(found.lines[0][1]) == 64 * 1024


@pytest.mark.parametrize("pattern", [r"error(?!s)", r"(.)\1rror|(?<=an )error\b"])
async def test_look_around_and_back_references_work(tmp_path: Path, pattern: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"errors\nan error\n")
    assert (await search_lines(path, pattern, 1000)).lines == ((2, "an error"),)


@pytest.mark.parametrize("data", [b"\xff\xfee\0r\0\nERR\xff\0or\n", b"\0\nerr\xff\0or"])
async def test_output_that_is_no_text_is_searched_too(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    ((number, line),) = (await search_lines(path, "err", 1000)).lines
    assert (number, line.lower()) == (2, "err\ufffd\0or")


async def test_an_expression_that_backtracks_without_end_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 5000 + b"!\n")
    assert (await search_lines(path, "(a+)+$", 1000)).match_count == 0


@pytest.mark.contract("tool:read_command_output:failure:endless-search")
@pytest.mark.parametrize("pattern", [r"^(?=a)(a+)+$", r"^(a+)+\1$", "\0", "\ud800", "x" * 300_000])
async def test_what_cannot_be_searched_for_is_an_error(tmp_path: Path, pattern: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 60 + b"!\n")
    with pytest.raises(ToolError, match=r"^Error: the search for .* (failed:|took longer than)"):
        await search_lines(path, pattern, 1000)


@pytest.fixture
async def background(tmp_path: Path) -> AsyncIterator[ToolContext]:
    terminal = LocalTerminal(kill_grace=0.3)
    os.mkfifo(tmp_path / "gate")
    yield make_context(tmp_path, terminal)
    await terminal.close()


async def start(ctx: ToolContext, command: str) -> None:
    execute = ExecuteCommand()
    prepared = await execute.prepare(execute.parse({"command": command, "timeout": 0.1}), ctx)
    await execute.run_prepared(prepared, ctx, None)


async def control(ctx: ToolContext, **arguments: Any) -> Outcome:
    prepared = await tool.prepare(tool.parse({"artifact_id": ID, **arguments}), ctx)
    async with asyncio.timeout(60):
        return await tool.run_prepared(prepared, ctx, None)


@pytest.mark.contract("tool:read_command_output:success:wait")
async def test_waiting_returns_when_the_command_ends(
    tmp_path: Path, background: ToolContext
) -> None:
    await start(background, f"read < {tmp_path}/gate; echo built; exit 3")
    still = await control(background, wait=0.1)
    assert re.match(r"The command is still running \(\d+ s so far\)\.\nNo new output\.", still.text)
    waiting = asyncio.create_task(control(background, wait=100_000))
    await asyncio.to_thread((tmp_path / "gate").write_text, "go\n")
    ended = await waiting
    assert ended.text.startswith("The command has ended.")
    assert "Exit code: 3" in ended.text
    assert ended.text.endswith("New output:\nbuilt\n")
    assert not background.terminal.background_commands, "its end has been told"
    again = await control(background, wait=60)
    assert again.text.startswith("The command is not running any more.\n[Command Output:")


async def test_processes_that_a_command_left_are_waited_for_too(
    tmp_path: Path, background: ToolContext
) -> None:
    await start(background, f"(read < {tmp_path}/gate; echo late) & echo early")
    waiting = asyncio.create_task(control(background, wait=60))
    await asyncio.to_thread((tmp_path / "gate").write_text, "go\n")
    assert "New output:\nlate\n" in (await waiting).text


async def test_stopping_what_a_command_left_tells_its_exit_code_as_an_earlier_one(
    background: ToolContext,
) -> None:
    await start(background, "sleep 600 & exit 7")
    (left,) = background.terminal.background_commands
    await left.wait(60)
    stopped = await control(background, stop=True)
    assert stopped.text.startswith(
        "The processes that the command left in the background were stopped. Before that:"
        " Exit code: 7\n"
    )


@pytest.mark.contract("tool:read_command_output:success:stop")
async def test_stopping_ends_the_whole_process_group(
    tmp_path: Path, background: ToolContext
) -> None:
    listener = Listener()
    background = structs.replace(background, on_output=listener)
    await start(background, "sleep 600 & echo pids: $!; wait")
    (pid,) = await listener.pids()
    outcome = await control(background, stop=True)
    stopped = "The command and all its processes were stopped (signal SIGTERM)."
    assert outcome.text.partition("\n")[0] == stopped
    assert not is_alive(pid)
    assert not background.terminal.background_commands


async def test_a_wait_that_is_cancelled_leaves_the_command_running(
    tmp_path: Path, background: ToolContext
) -> None:
    await start(background, "sleep 600")
    waiting = asyncio.create_task(control(background, wait=60))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    (running,) = background.terminal.background_commands
    assert running.is_running


async def test_a_command_that_has_printed_nothing_yet_can_be_looked_at(
    tmp_path: Path, background: ToolContext
) -> None:
    await start(background, "sleep 600")
    assert "still running" in (await control(background)).text


async def test_rows_say_what_is_done_to_a_command(background: ToolContext) -> None:
    await start(background, "sleep 600")
    titles = []
    for arguments in ({"wait": 1}, {"stop": True}):
        prepared = await tool.prepare(tool.parse({"artifact_id": ID, **arguments}), background)
        titles.append(summarize_call(tool.name, prepared.row).headline)
    assert titles == ["Wait for sleep 600", "Stop sleep 600"]
