"""What a model sees of its calls and its environment, through the real program."""

from __future__ import annotations

import json

import pytest

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.playing import (
    DONE,
    commit_all,
    list_results,
    play,
    read,
    reply,
    run,
    write_files,
)

INTERRUPTED = "may have done all, some or none of its work"


# Calls


async def test_an_unknown_tool_is_answered_with_the_tools_that_are_offered(joey: Joey) -> None:
    unknown = call("open_window", {"path": "a"})
    switch = call("switch_mode", {"mode_slug": "code", "reason": None})
    played = await play(
        joey, reply(unknown), reply(switch), reply(unknown), DONE, flags=("-y", "--mode", "ask")
    )
    for number in (1, 3):
        offered = ", ".join(tool["name"] for tool in played.requests[number - 1].body["tools"])
        expected = f'[ERROR] Unknown tool "open_window". Available tools: {offered}.'
        assert played.results(number) == [expected]
    assert "execute_command" in played.results(3)[0]
    assert "Successfully switched" in played.results(2)[0]


LEAKED = {
    "tool_call": '<tool_call>{"name": "bash", "arguments": {"cmd": "echo five"}}</tool_call>',
    "function": "<function=Bash>\n<parameter=command>\necho five\n</parameter>\n</function>",
    "tag": "<bash>\n<command>echo five</command>\n</bash>",
}


@pytest.mark.parametrize("text", LEAKED.values(), ids=LEAKED)
async def test_a_call_in_the_text_is_seen_once_in_the_form_of_the_protocol(
    joey: Joey, text: str
) -> None:
    first = Turn(say(f"I look.\n{text}", chunk=5))
    played = await play(joey, first, reply(read("a.txt")), DONE)
    messages = [request.body["messages"] for request in played.requests]
    said, call_block = messages[1][1]["content"]
    assert said["text"] == "I look."
    assert call_block["name"] == "execute_command"
    assert call_block["input"] == {"command": "echo five"}
    assert "five" in played.results(1)[0]
    assert messages[2][1] == messages[1][1]


@pytest.mark.parametrize("text", LEAKED.values(), ids=LEAKED)
async def test_a_call_in_the_text_of_an_xml_reply_is_seen_once_as_it_was_written(
    joey: Joey, text: str
) -> None:
    done = Turn(say("<attempt_completion>\n<result>ok</result>\n</attempt_completion>"))
    look = Turn(say("<list_files>\n<path>.</path>\n</list_files>"))
    flags = ("-p", "-y", "--no-sandbox", "--protocol", "xml")
    async with ModelServer([Turn(say(f"I look.\n{text}", chunk=5)), look, done]) as server:
        await joey.run(*flags, *reach(server.url), "go")
        messages = [request.body["messages"] for request in server.requests]
    assert [block["text"] for block in messages[1][1]["content"]] == [f"I look.\n{text}"]
    assert "[execute_command for 'echo five'] Result:" in json.dumps(messages[1][2])
    assert messages[2][1] == messages[1][1]


async def test_a_structured_call_of_an_xml_task_is_seen_also_if_the_text_names_its_tool(
    joey: Joey,
) -> None:
    first = Turn(say("I use list_files."), call("list_files", {"path": "."}))
    done = Turn(say("<attempt_completion>\n<result>ok</result>\n</attempt_completion>"))
    async with ModelServer([first, done]) as server:
        await joey.run("-p", "--protocol", "xml", *reach(server.url), "go")
        said = server.requests[1].body["messages"][1]["content"]
    assert [block["text"] for block in said] == [
        "I use list_files.",
        "<list_files>\n<path>\n.\n</path>\n</list_files>",
    ]


async def test_values_of_the_wrong_kind_are_understood_or_named(joey: Joey) -> None:
    write_files(joey, {"index.js": "one\n", "b.js": "two\n"})
    played = await play(
        joey,
        reply(
            call("read_file", {"files": "index.js"}),
            call("read_file", {"files": ["index.js", "b.js"]}),
            call("read_file", {"files": {"names": 1}}),
            call("read_file", {}),
            call("list_files", {"path": ".", "recursive": "no"}),
        ),
        DONE,
    )
    text, paths, wrong, missing, listing = played.results(1)
    assert text == "File: index.js\nLines 1-1:\n1 | one\n"
    assert "1 | one\n" in paths
    assert "1 | two\n" in paths
    assert "'files' of read_file has a value of the wrong kind: it must be a list" in wrong
    assert "Missing value for required parameter 'files'" in missing
    assert listing.endswith("it must be true or false, not 'no'.")
    assert not [result for result in played.results(1) if '{"' in result or "\\n" in result]


async def test_reads_without_a_range_are_bounded(joey: Joey) -> None:
    table = "".join(f"{n},item {n},{n * 3}\n" for n in range(8_437))
    files = {f"{n}.txt": f"text {n}\n" for n in range(7)}
    write_files(joey, {"catalog.csv": table, "bundle.js": "x" * 300_000, **files})
    played = await play(joey, reply(read("catalog.csv"), read("bundle.js"), read(*files)), DONE)
    rows, line, texts = played.results(1)
    assert "2000 | 1999,item 1999,5997\n" in rows
    assert "2001 | " not in rows
    assert "8437" in rows
    assert len(line) < 3_000
    assert "cut at 2,000 characters" in line
    assert all(f"1 | text {n}\n" in texts for n in range(7))


async def test_searches_count_matching_lines_and_mark_them(joey: Joey) -> None:
    write_files(joey, {"a.txt": "x\nx\n-\n-\n-\nx\n", "b.txt": f"{'y' * 2_000}\n"})
    write_files(joey, {"many.log": "z\n" * 2_000})
    played = await play(
        joey,
        reply(
            *(call("search_files", {"path": ".", "regex": regex}) for regex in "xyz"),
            call("search_files", {"path": ".", "regex": "x", "file_pattern": "*.ts"}),
            call("list_files", {"path": ".", "glob": "*.log"}),
        ),
        DONE,
    )
    few, long, many, none, found = played.results(1)
    assert few.startswith("Found 3 matching lines.\n\n# a.txt\n>  1 | x\n>  2 | x\n   3 | -\n")
    assert len(long) < 700
    assert many.startswith("Showing the first ")
    assert "1+" not in many
    assert len(many) < 40_000
    assert none == "No file in . matches the pattern *.ts."
    assert found == "many.log"


async def test_weak_matches_of_a_code_search_come_without_their_code(joey: Joey) -> None:
    strong = (
        "def length_validator(value):\n    '''Check the length of a value.'''\n    return value\n"
    )
    write_files(joey, {"validators.py": strong})
    write_files(joey, {f"m{n}.py": f"VERSION_{n} = 'size or length'\n" * 9 for n in range(12)})
    query = "length validator of a value"
    played = await play(joey, reply(call("codebase_search", {"query": query})), DONE)
    (found,) = played.results(1)
    assert "1 | def length_validator(value):" in found
    assert "VERSION_" not in found


@pytest.mark.contract("tool:ask_followup_question:failure:nobody")
async def test_a_question_that_nobody_can_answer_gets_no_invented_answer(joey: Joey) -> None:
    follow_up = [{"text": "5055, the default", "mode": None}, {"text": "80", "mode": None}]
    question = call("ask_followup_question", {"question": "Which port?", "follow_up": follow_up})
    played = await play(joey, reply(question), DONE)
    assert "ask_followup_question" not in played.tools
    assert played.results(1)[0].startswith("Nobody is there")
    assert "<user_message>" not in played.results(1)[0]


# Commands


async def test_a_sandbox_leaves_no_trace_in_listings_and_keeps_the_users_retries(
    sandboxed: Joey,
) -> None:
    joey = sandboxed
    write_files(joey, {"a.txt": "a\n"})
    env = {**joey.env, "PIP_RETRIES": "7"}
    listed = [call("list_files", {"path": ".", "recursive": each}) for each in (False, True)]
    played = await play(
        joey,
        reply(run("echo $npm_config_fetch_retries $PIP_RETRIES; sleep 600", timeout=0.5)),
        reply(*listed),
        DONE,
        flags=("-y",),
        env=env,
    )
    assert "Output so far:\n0 7\n" in played.results(1)[0]
    assert "their only network is 127.0.0.1" in json.dumps(played.requests[0].body["system"])
    assert played.results(2)[0] == "a.txt"
    assert played.results(2)[1].partition("\n\n")[0] == "a.txt"


# Resumed tasks


async def test_calls_that_were_refused_as_repeated_are_not_taken_for_interrupted(
    joey: Joey,
) -> None:
    same = run("echo ran >> count; echo same")
    flags = ("-p", "-y", "--no-sandbox")
    both = Turn(same, call("list_files", {"path": "."}))
    async with ModelServer([*[Turn(same)] * 7, both, DONE]) as server:
        stopped = await joey.run(*flags, *reach(server.url), "do it")
        assert stopped.code == 3
        resumed = await joey.run(*flags, "-c", *reach(server.url), "try another way")
        assert resumed.code == 0
        refused, skipped = list_results(server.requests[8])
    assert "same arguments" in refused
    assert "was not run" in skipped
    assert INTERRUPTED not in json.dumps(server.requests[8].body)


@pytest.mark.parametrize("command", ["sleep 600", "sleep 600 & echo begun"])
async def test_the_end_of_background_commands_is_reported_when_a_task_is_resumed(
    joey: Joey, command: str
) -> None:
    flags = ("-p", "-y", "--no-sandbox")
    turns = [Turn(run(command, timeout=0.2)), DONE, DONE, Turn(run("true")), DONE]
    async with ModelServer(turns) as server:
        await joey.run(*flags, *reach(server.url), "start it")
        resumed = await joey.run(*flags, "-c", *reach(server.url), "is it up?")
        assert resumed.code == 0
        first, again = (json.dumps(server.requests[n].body["messages"][-1]) for n in (1, 2))
    assert "have ended" not in first
    assert "Background commands of the previous run have ended." in again


# The workspace


async def test_the_branch_and_the_changed_files_are_reported_once(joey: Joey) -> None:
    write_files(joey, {"a.txt": "a\n", "b.txt": "b\n"})
    commit_all(joey.workspace)
    write_files(joey, {"b.txt": "changed\n", "c.txt": "new\n"})
    played = await play(joey, reply(run("git add -A")), DONE)
    first, second = (json.dumps(request.body["messages"][-1]) for request in played.requests)
    assert "# Git Status\\n## main\\n M b.txt\\n?? c.txt\\n" in first
    assert "# Git Status" not in second


@pytest.mark.parametrize("is_repository", [True, False])
async def test_without_a_repository_or_with_the_setting_0_no_git_status_is_reported(
    joey: Joey, is_repository: bool
) -> None:
    write_files(joey, {"a.txt": "a\n"})
    if is_repository:
        commit_all(joey.workspace)
        joey.settings(maxGitStatusFiles=0)
    played = await play(joey, DONE)
    assert "# Git Status" not in played.requests[0].raw.decode()
