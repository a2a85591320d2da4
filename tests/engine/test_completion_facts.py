"""A result that a fact speaks against is sent back once, with the fact."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence

import pytest
from msgspec import structs

from joey.content.diagnostics import LocalDiagnostics
from joey.core.events import TaskCompleted, ToolFailed
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.core.task_types import AskKind
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.engine.task import Task
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call, pause, say
from joey.workspace.files import LocalFiles
from tests.harness.engine.engine_harness import (
    ALLOW_ALL,
    EngineHarness,
    check_history,
    find_rows,
    finish,
    list_durable_events,
    list_texts,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
)
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
    delegate,
)

pytestmark = pytest.mark.contract("completion:facts")

FAILED = "`{}` failed in its last run (exit code {}).\n"


def run(command: str) -> Turn:
    return Turn(call("execute_command", {"command": command}))


def write(content: str = "x\n", path: str = "a.txt") -> Turn:
    return Turn(call("write_to_file", {"path": path, "content": content}))


def fail(command: str = "exit 3") -> Turn:
    """An edit, and a command that fails after it."""
    edit = call("write_to_file", {"path": "a.txt", "content": command})
    return Turn(edit, call("execute_command", {"command": command}))


def list_sent_back(task: Task) -> list[str]:
    return [row.text or "" for row in find_rows(task, "error") if "sent back" in (row.text or "")]


async def play(harness: EngineHarness, *turns: Turn, settings: Settings = ALLOW_ALL) -> list[str]:
    """The rows that say why a result was sent back, in a run without a user."""
    task = await harness.start(
        *turns, finish("first"), finish("second"), settings=settings, policy=Unattended()
    )
    ending = await wait_for_ending(task)
    sent_back = list_sent_back(task)
    assert isinstance(ending, Completed)
    assert ending.result == ("second" if sent_back else "first")
    check_history(task.messages)
    return sent_back


async def test_a_failed_command_is_reported_once_and_the_next_result_is_presented(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        write(), run("exit 3"), finish("It works."), finish("It fails."), policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed("It fails.")
    (reply,) = list_tool_results(task.messages[6])
    assert reply.startswith(
        f"[ERROR] The result was not presented:\n- {FAILED.format('exit 3', 3)}Fix this"
    )
    completions = [e for e in list_durable_events(task) if isinstance(e, TaskCompleted)]
    assert [each.result for each in completions] == ["It fails."]
    assert "It works." in [row.text for row in find_rows(task, "completion_result")]
    assert len(list_sent_back(task)) == 1


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        (["exit 3"], 1),
        (["exit 3", "true"], 1),
        (["grep x missing.txt"], 0),
        (["test -f missing.txt"], 0),
        (["which no-such-program"], 0),
        (["no-such-program"], 0),
        (["timeout 0.1 sleep 5"], 0),
        (["kill -TERM $$"], 0),
        (["kill -SEGV $$; :"], 0),
        (["sh -c 'kill -SEGV $$'"], 1),
        (["sh a.sh", "printf 'exit 0' > a.sh", "sh  a.sh"], 0),
        (["sh -c 'exit 1'", "sh -c 'exit 0'"], 0),
        (["sh -c 'exit 0'", "sh -c 'exit 1'"], 1),
        (["exit 1 | cat"], 0),
    ],
)
async def test_lookups_and_settled_failures_raise_nothing(
    engine_harness: EngineHarness, commands: Sequence[str], expected: int
) -> None:
    sent_back = await play(engine_harness, write(), *map(run, commands))
    assert len(sent_back) == expected


async def test_an_edit_settles_a_command_that_is_no_known_check(
    engine_harness: EngineHarness,
) -> None:
    assert not await play(engine_harness, run("python3 -c 'import nothing'"), write())


MAKE = "all:\n\ttest -f ready.txt\n"


async def test_a_failed_check_counts_until_it_is_run_again(engine_harness: EngineHarness) -> None:
    (engine_harness.root / "Makefile").write_text(MAKE)
    (message,) = await play(engine_harness, run("make"), write("", "other.txt"))
    assert "`make` failed in its last run (exit code 2) and has not run since the last" in message


@pytest.mark.parametrize(
    "line",
    [
        *("make -s", "make -s && ls", "set -o pipefail; make -s 2>&1 | tail -3"),
        *("make 2>&1 | tail -3", "cd . && make | grep -v nothing | cat"),
    ],
)
async def test_a_check_that_passes_after_the_edit_settles_it(
    engine_harness: EngineHarness, line: str
) -> None:
    (engine_harness.root / "Makefile").write_text(MAKE)
    fix = write("yes\n", "ready.txt")
    assert not await play(engine_harness, run("make all && ls"), fix, run(line))


@pytest.mark.parametrize(
    "line", ["make 2>&1 | head -3", "make | grep -c nothing", "make; echo $?", "make || true"]
)
async def test_a_line_that_hides_the_status_of_a_check_settles_nothing(
    engine_harness: EngineHarness, line: str
) -> None:
    (engine_harness.root / "Makefile").write_text(MAKE)
    edit = write("", "other.txt")
    (message,) = await play(engine_harness, run("make"), edit, run(line))
    hidden = f"It ran again in `{line}`, whose exit code does not show whether it passed."
    assert f"`make` failed (exit code 2). {hidden}" in message
    (message,) = await play(engine_harness, edit, run(line), run("make"), edit)
    assert "`make` failed in its last run (exit code 2) and has not run since" in message


async def test_a_line_that_hides_the_status_of_a_check_is_no_failure(
    engine_harness: EngineHarness,
) -> None:
    (engine_harness.root / "Makefile").write_text(MAKE)
    assert not await play(engine_harness, write(), run("make 2>&1 | head -3"))


async def test_a_check_whose_failure_the_shell_reports_in_a_pipeline_failed(
    engine_harness: EngineHarness,
) -> None:
    (engine_harness.root / "Makefile").write_text(MAKE)
    (message,) = await play(engine_harness, write(), run("make 2>&1 | tail -3"))
    assert "`make 2>&1 | tail -3` failed in its last run (exit code 2 of make)." in message


async def test_a_long_command_is_not_cut_within_a_word(engine_harness: EngineHarness) -> None:
    long_command = f"exit 3 # {'word ' * 60}"
    (message,) = await play(engine_harness, fail(long_command))
    assert "word …` failed in its last run (exit code 3)." in message


def wait_until_ended(harness: EngineHarness, turn: Turn) -> Callable[[object], Turn]:
    """A turn that comes when the command in the background has ended."""

    def reply(_: object) -> Turn:
        (task,) = harness.engine.tasks
        (command,) = task.runtime.terminal.background_commands
        has_ended = asyncio.Event()
        waiting = asyncio.create_task(command.wait_for_processes(60))
        waiting.add_done_callback(lambda _: has_ended.set())
        return Turn(pause(has_ended), *turn.steps)

    return reply


def run_in_background(command: str) -> Turn:
    return Turn(call("execute_command", {"command": command, "timeout": 0.1}))


@pytest.mark.parametrize("is_reported_before", [True, False])
async def test_the_end_of_a_background_command_counts_however_it_is_reported(
    engine_harness: EngineHarness, is_reported_before: bool
) -> None:
    look = Turn(call("list_files", {"path": "."}))
    turns = [look, finish("works")] if is_reported_before else [finish("works")]
    first, *rest = turns
    slow = run_in_background("sleep 0.5; exit 3")
    engine_harness.use_script(
        write(), slow, wait_until_ended(engine_harness, first), *rest, finish("fails")
    )
    task = await engine_harness.start(policy=Unattended())
    assert await wait_for_ending(task) == Completed("fails")
    (row,) = list_sent_back(task)
    assert "`sleep 0.5; exit 3` failed in its last run (exit code 3)." in row


async def test_a_result_is_sent_back_while_a_check_runs(engine_harness: EngineHarness) -> None:
    (engine_harness.root / "Makefile").write_text("all:\n\tsleep 600\n")
    engine_harness.use_script(
        write(), run_in_background("make 2>&1 | tail -3"), finish("works"), finish("runs")
    )
    task = await engine_harness.start(policy=Unattended())
    ending = await wait_for_ending(task)
    assert isinstance(ending, Completed)
    assert ending.result.startswith("runs")
    (reply,) = list_tool_results(task.messages[6])
    assert "- `make 2>&1 | tail -3` is still running in the background.\n" in reply
    assert re.search(r'read_command_output {"artifact_id": "cmd-\d+.txt", "wait": \d+}', reply)
    assert len(list_sent_back(task)) == 1


async def test_the_end_of_a_background_command_counts_once_the_model_has_seen_it(
    engine_harness: EngineHarness,
) -> None:
    def wait(request: object) -> Turn:
        artifact = re.findall(r"cmd-\d+\.txt", str(request))[0]
        return Turn(call("read_command_output", {"artifact_id": artifact, "wait": 60}))

    slow = Turn(call("execute_command", {"command": "sleep 1; exit 3", "timeout": 0.1}))
    engine_harness.use_script(write(), slow, wait, finish("works"), finish("fails"))
    task = await engine_harness.start(policy=Unattended())
    assert await wait_for_ending(task) == Completed("fails")
    (row,) = list_sent_back(task)
    assert "`sleep 1; exit 3` failed in its last run (exit code 3)." in row


async def test_a_rejected_edit_settles_nothing(engine_harness: EngineHarness) -> None:
    (row,) = await play(engine_harness, fail(), write(path=".roo/a.txt"))
    assert not (engine_harness.root / ".roo").exists()
    assert "`exit 3` failed in its last run (exit code 3)." in row


async def test_without_a_fact_nothing_is_asked(engine_harness: EngineHarness) -> None:
    assert not await play(engine_harness, run("true"), write())


async def test_a_failure_may_be_the_result_of_a_task_without_edits(
    engine_harness: EngineHarness,
) -> None:
    assert not await play(engine_harness, run("exit 3"))


async def test_the_setting_turns_it_off(engine_harness: EngineHarness) -> None:
    off = structs.replace(ALLOW_ALL, confirm_completion="off")
    assert not await play(engine_harness, fail(), settings=off)


def check_syntax(harness: EngineHarness) -> None:
    files = LocalFiles(harness.root)
    harness.capabilities = Capabilities(diagnostics=LocalDiagnostics(files, Settings(), os.environ))


async def test_errors_that_an_edit_left_are_reported(engine_harness: EngineHarness) -> None:
    check_syntax(engine_harness)
    (message,) = await play(
        engine_harness, write("def f(:\n", "a.py"), write("import os\n\ndef f(:\n", "a.py")
    )
    assert "An edit left new errors:\na.py\n- [python Error] 3 | " in message


async def test_errors_that_were_fixed_are_not_reported(engine_harness: EngineHarness) -> None:
    check_syntax(engine_harness)
    broken, fixed = write("def f(:\n", "a.py"), run("echo 'x = 1' > a.py")
    assert not await play(engine_harness, broken, fixed)


async def test_errors_from_before_the_task_are_not_reported(engine_harness: EngineHarness) -> None:
    check_syntax(engine_harness)
    (engine_harness.root / "a.py").write_text("def f(:\n")
    assert not await play(engine_harness, write("import os\ndef f(:\n", "a.py"))


@pytest.mark.parametrize("protocol", list(ToolProtocol))
async def test_a_plain_answer_is_sent_back_too(
    engine_harness: EngineHarness, protocol: ToolProtocol
) -> None:
    command = fail()
    if protocol is ToolProtocol.XML:
        edit = "<write_to_file><path>a.txt</path><content>x</content></write_to_file>"
        command = Turn(say(f"{edit}<execute_command><command>exit 3</command></execute_command>"))
    text = [Turn(say("It works.")), Turn(say("It works.")), Turn(say("It fails."))]
    task = await engine_harness.start(command, *text, policy=Unattended(), protocol=protocol)
    ending = await wait_for_ending(task)
    assert isinstance(ending, Completed)
    assert ending.answered
    assert ending.result.endswith("It fails.")
    assert FAILED.format("exit 3", 3) in list_texts(task.messages[6])[0]
    assert len(list_sent_back(task)) == 1
    assert not [e for e in list_durable_events(task) if isinstance(e, ToolFailed)]


async def test_a_subtask_is_sent_back_by_its_own_facts(engine_harness: EngineHarness) -> None:
    engine_harness.provider = ScriptedSubtasks(
        {
            "the whole": [Turn(delegate("a part")), finish("whole")],
            "a part": [fail(), finish("works"), finish("fails")],
        }
    )
    task = await engine_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed("whole")
    assert list_tool_results(task.messages[2])[0].endswith("Result:\nfails")


async def test_with_a_user_the_result_is_asked_about_once(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(fail(), finish("works"), finish("fails"))
    await wait_for_ask(task)
    rows = find_rows(task, "completion_result")
    assert [row.text for row in rows] == ["works", "fails", ""]
    assert "was not presented" in (rows[0].result or "")
    assert not [row for row in task.rows if getattr(row, "partial", None)]


async def test_after_a_message_of_the_user_a_result_may_be_sent_back_again(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        *(fail(), finish("1"), finish("2")),
        *(finish("3"), fail("exit 4"), finish("4")),
        finish("5"),
    )
    await wait_for_ask(task)
    await task.send("and now?")
    await wait_for_ask(task)
    assert task.result == "3"  # what was presented is settled
    await task.send("try again")
    await wait_for_ask(task)
    assert task.result == "5"
    assert len(list_sent_back(task)) == 2


@pytest.mark.parametrize("sent_back_before", [False, True])
async def test_facts_and_what_was_sent_back_survive_the_process(
    engine_harness: EngineHarness, sent_back_before: bool
) -> None:
    before = [finish("1")] if sent_back_before else []
    task = await engine_harness.start(fail(), *before, Turn(pause(asyncio.Event())))
    with task.subscribe() as subscription:
        while task.recorder.projection.request_count < 2 + len(before):
            await anext(subscription)
    await task.cancel()
    await engine_harness.engine.release(task)
    engine_harness.engine = engine_harness.new_engine()
    engine_harness.use_script(finish("2"), finish("3"))
    again = await engine_harness.engine.resume(task.id)
    assert (await wait_for_ask(again)).ask is AskKind.RESUME_TASK
    await again.approve()
    assert (await wait_for_ask(again)).ask is AskKind.COMPLETION_RESULT
    assert again.result == ("2" if sent_back_before else "3")
    assert len(list_sent_back(again)) == 1
