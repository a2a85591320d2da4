"""What a model is told about its calls, and what it is not told."""

from __future__ import annotations

import json
import os
import socket

import pytest

from joey.content.browser import find_chromium
from joey.testing.script import Turn, call, say, stop
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.playing import (
    DONE,
    diff,
    list_results,
    play,
    reach_openai,
    read,
    reply,
    run,
    write_files,
)

FLAGS = ("-y", "--no-sandbox", "--model", "m")


async def test_only_the_last_call_of_a_reply_that_was_cut_off_is_not_run(joey: Joey) -> None:
    """OpenAI's stream does not say where a call ends."""
    whole = {"path": "a.txt", "content": "a\n"}
    cut = Turn(
        call("write_to_file", whole),
        call("write_to_file", '{"path": "b.txt", "content": "b'),
        stop("length"),
    )
    played = await play(joey, cut, DONE, flags=FLAGS, model=reach_openai)
    ran, not_run = played.results(1)
    assert "a.txt" in ran
    assert "cut off by the output limit" in not_run
    assert (joey.workspace / "a.txt").read_text() == "a\n"
    assert not (joey.workspace / "b.txt").exists()
    (assistant,) = (m for m in played.requests[1].body["messages"] if m["role"] == "assistant")
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == whole


async def test_an_edit_that_was_not_exact_says_how_it_differed(joey: Joey) -> None:
    write_files(joey, {"a.py": "def f():\n    a = 1\n\n    b = 2\n    return a\n"})
    played = await play(
        joey,
        reply(diff("a.py", ("  a = 1\n  b = 2", "  a = 1\n  b = 3"))),
        reply(diff("a.py", ("    a = 1\n    b = 3\n    return a", "    return 1"))),
        DONE,
    )
    assert played.results(1)[0].startswith(
        "Changed a.py: line 4. SEARCH differed from the file in blank lines, white space;"
        " REPLACE was indented like the file."
    )
    assert played.results(2)[0].startswith(
        "Changed a.py: line 2. SEARCH differed from the file in"
        " blank lines; 1 blank line that it lacks was removed."
    )
    assert (joey.workspace / "a.py").read_text() == "def f():\n    return 1\n"


async def test_changes_of_a_command_are_named_as_such_and_deletions_are_left_out(
    joey: Joey,
) -> None:
    write_files(joey, {"a.py": "a = 1\nb = 2\n", "scratch.py": "x\n"})
    played = await play(
        joey,
        reply(read("a.py", "scratch.py")),
        reply(run("sed -i s/1/3/ a.py && rm scratch.py"), diff("a.py", ("b = 2", "b = 4"))),
        DONE,
    )
    _, edited = played.results(2)
    assert "had been changed by the user or by a command since you last saw it" in edited
    assert "scratch.py" not in edited
    assert "somebody" not in edited


async def test_files_in_the_temporary_directory_of_commands_are_left_to_commands(
    sandboxed: Joey,
) -> None:
    """The run ends with 0: nothing was refused that a user could have allowed."""
    played = await play(
        sandboxed,
        reply(run('mkdir "$TMPDIR/www" && echo hello > "$TMPDIR/www/a.html" && ln -s / /tmp/root')),
        reply(
            read("/tmp/www/a.html"),
            call("search_files", {"path": "/tmp/www", "regex": "hello"}),
            diff("/tmp/www/a.html", ("hello", "bye")),
            read("/tmp/root/etc/passwd"),
        ),
        DONE,
        flags=("-y",),
    )
    for result in played.results(2):
        assert "is in the commands' own temporary directory, which only commands see" in result


async def test_other_files_in_the_temporary_directory_still_need_approval(sandboxed: Joey) -> None:
    above = str(sandboxed.workspace.parent)
    turns = (reply(run("true")), reply(read("/tmp/none.txt", f"{above}/none.txt")), DONE)
    async with ModelServer(turns) as server:
        done = await sandboxed.run("-p", "-y", *reach(server.url), "do it")
    assert done.code == 3
    (result,) = list_results(server.requests[2])
    assert "it needs approval" in result


@pytest.mark.skipif(find_chromium(os.environ) is None, reason="no Chromium was found here")
async def test_the_browser_says_that_it_does_not_reach_servers_of_sandboxed_commands(
    sandboxed: Joey,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = (
        f"python3 -m http.server {port} --bind 127.0.0.1 >/dev/null 2>&1 & "
        f"until curl -s http://127.0.0.1:{port}/ >/dev/null; do sleep 0.05; done"
    )
    launch = {"action": "launch", "url": f"http://127.0.0.1:{port}/"}
    played = await play(
        sandboxed,
        reply(run(serve)),
        reply(call("browser_action", launch), call("browser_action", {"action": "close"})),
        DONE,
        flags=("-y", "--model", "claude-sonnet-4-5"),
    )
    refused, closed = played.results(2)
    assert "ERR_CONNECTION_REFUSED" in refused
    assert "The browser does not share the network of sandboxed commands" in refused
    assert closed.startswith("The browser is closed.")


@pytest.mark.parametrize(
    ("text", "is_question"),
    [("Shall I use A or B?", True), ("Which one, **A or B?**\n", True), ("What? I see.", False)],
)
async def test_a_question_in_plain_text_is_answered_where_nobody_can(
    joey: Joey, text: str, is_question: bool
) -> None:
    played = await play(joey, Turn(say(text)), DONE)
    reminder = json.dumps(played.requests[1].body["messages"][-1])
    assert "You did not use a tool" in reminder
    assert ("Nobody is there; decide yourself." in reminder) is is_question


async def test_an_xml_result_is_headed_with_the_alias_that_the_model_used(joey: Joey) -> None:
    text = "<write_file>\n<path>a.txt</path>\n<content>\none\n</content>\n</write_file>"
    done = "<attempt_completion>\n<result>ok</result>\n</attempt_completion>"
    async with ModelServer([Turn(say(text)), Turn(say(done))]) as server:
        finished = await joey.run("-p", "-y", "--protocol", "xml", *reach(server.url), "go")
    assert finished.code == 0, finished.err
    answer = server.requests[1].body["messages"][-1]["content"]
    assert answer[0]["text"] == "[write_file for 'a.txt'] Result:"


async def test_an_argument_of_a_wrong_type_is_refused_with_the_expected_type(joey: Joey) -> None:
    turn = Turn(call("list_files", {"path": 5}))
    played = await play(joey, turn, DONE, flags=FLAGS, model=reach_openai)
    (refused,) = played.results(1)
    assert "The parameter 'path' of list_files has a value of the wrong kind" in refused
    assert "it must be a string, not 5" in refused
