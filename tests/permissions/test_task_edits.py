"""Leave to edit the files of the workspace, given with an answer, for the rest of a task."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from joey.core.events import TaskPaused, ToolStarted
from joey.core.history.ui import get_ts
from joey.core.path_access import ResolvedPath
from joey.core.permissions.policy import (
    WORKSPACE_EDITS_TEXT,
    Access,
    Allow,
    Ask,
    Claim,
    Deny,
    decide,
    propose_task_rule,
)
from joey.core.permissions.reasons import format_reasons
from joey.core.settings import Settings
from joey.core.task_types import Answer, AskKind, Response
from joey.engine.engine import TaskOptions
from joey.execution.bash_grammar import BashGrammar
from joey.testing.script import Turn, call
from tests.harness.engine.engine_harness import (
    EngineHarness,
    finish,
    list_durable_events,
    wait_for_ask,
    wait_for_event,
)
from tests.harness.engine.scripted_subtasks import ScriptedSubtasks, delegate

HERE = ResolvedPath(path_as_given="a.py", path=Path("/w/a.py"), display_path="a.py", is_inside=True)
OUTSIDE = ResolvedPath(
    path_as_given="/etc/x", path=Path("/etc/x"), display_path="/etc/x", is_inside=False
)
PROTECTED = structs.replace(HERE, display_path=".roo/a.py", is_protected=True)
HIDDEN = structs.replace(HERE, is_ignored=True)
ALWAYS = Answer(Response.YES, always=True)
SWITCHES = [
    name
    for name in Settings.__struct_fields__
    if name.startswith(("always_allow_", "auto_approval"))
]
CLAIMS = [
    *(Claim(access, path=place) for access, place in product(
        (Access.READ, Access.WRITE), (HERE, OUTSIDE, PROTECTED, HIDDEN, None)
    )),
    Claim(Access.EXECUTE, command="make"),
    Claim(Access.MCP, subject="a/b"),
    Claim(Access.DELEGATE),
    Claim(Access.CUSTOM_TOOL, subject="x"),
]  # fmt: skip
READ = BashGrammar().parse_chain


def edits(*places: ResolvedPath | None) -> tuple[Claim, ...]:
    return tuple(Claim(Access.WRITE, path=place) for place in places)


@pytest.mark.contract("permissions:always")
def test_an_edit_in_the_workspace_is_offered_leave_for_the_task() -> None:
    rule = propose_task_rule(edits(HERE), Settings())
    assert rule is not None and rule.text == "edits in this workspace, for this task"
    assert (
        propose_task_rule((*edits(HERE, HERE), Claim(Access.READ, path=HERE)), Settings()) == rule
    )


@pytest.mark.parametrize(
    ("place", "why"),
    [(OUTSIDE, "alwaysAllowWriteOutsideWorkspace"), (PROTECTED, "alwaysAllowWriteProtected")],
)
def test_what_lies_beyond_the_leave_is_asked_about_for_that_reason(
    place: ResolvedPath, why: str
) -> None:
    asking = Settings(auto_approval_enabled=True)
    decided = decide(edits(place), asking, edits_granted=True)
    assert isinstance(decided, Ask) and f"{why} is off" in format_reasons(decided.reasons)
    outside = structs.replace(
        asking,
        always_allow_write_outside_workspace=True,
        always_allow_write_protected=True,
    )
    decided = decide(edits(place), outside, edits_granted=True)
    assert isinstance(decided, Ask) and "alwaysAllowWrite is off" in format_reasons(decided.reasons)


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize(
    "claims",
    [
        *(edits(place) for place in (OUTSIDE, PROTECTED, HIDDEN, None)),
        edits(HERE, OUTSIDE),
        (*edits(HERE), Claim(Access.READ, path=OUTSIDE)),
        (*edits(HERE), Claim(Access.EXECUTE, command="make")),
        (Claim(Access.READ, path=HERE),),
        (),
    ],
)
def test_other_calls_are_offered_no_leave(claims: tuple[Claim, ...]) -> None:
    assert propose_task_rule(claims, Settings()) is None


@pytest.mark.contract("permissions:always")
def test_no_leave_is_offered_where_everything_is_to_be_asked() -> None:
    settings = Settings(auto_approval_enabled=False)
    assert propose_task_rule(edits(HERE), settings) is None
    assert isinstance(decide(edits(HERE), settings, edits_granted=True), Ask)


@pytest.mark.contract("permissions:always")
@given(
    st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=3), st.sets(st.sampled_from(SWITCHES))
)
def test_leave_to_edit_changes_nothing_but_edits_in_the_workspace(
    claims: list[Claim], on: set[str]
) -> None:
    switches = {name: name in on for name in SWITCHES}
    settings = Settings(**switches, denied_commands=("make",))  # type: ignore[arg-type]
    before = decide(claims, settings, READ)
    after = decide(claims, settings, READ, edits_granted=True)
    if isinstance(before, Deny):
        assert after == before
    if isinstance(before, Ask) and isinstance(after, Allow):
        assert WORKSPACE_EDITS_TEXT in after.rule and settings.auto_approval_enabled
        rest = [claim for claim in claims if claim != edits(HERE)[0]]
        assert not rest or isinstance(decide(rest, settings, READ), Allow)


def write(path: str) -> Turn:
    return Turn(call("write_to_file", {"path": path, "content": f"{path}\n"}))


@pytest.mark.contract("permissions:always")
async def test_the_task_edits_on_and_asks_about_everything_else(
    engine_harness: EngineHarness, tmp_path: Path
) -> None:
    outside = str(tmp_path / "far.txt")
    turns = (write("a.txt"), write("b.txt"), write(".roo/rules.md"), write(outside))
    run = Turn(call("execute_command", {"command": "touch c.txt", "cwd": None}))
    task = await engine_harness.start(*turns, run, finish(), settings=Settings())
    first = await wait_for_ask(task)
    assert first.always_rule == WORKSPACE_EDITS_TEXT
    assert await task.answer(first.ts, ALWAYS)
    for path in (".roo/rules.md", outside):
        ask = await wait_for_ask(task)
        assert ask.path == path and ask.always_rule is None
        assert await task.answer(ask.ts, Answer(Response.NO))
    assert (await wait_for_ask(task)).ask is AskKind.COMMAND
    assert (engine_harness.root / "a.txt").exists() and (engine_harness.root / "b.txt").exists()
    announced = [event for event in list_durable_events(task) if isinstance(event, ToolStarted)]
    assert [event.rule for event in announced] == [WORKSPACE_EDITS_TEXT]
    assert not (engine_harness.home / "settings.json").exists(), "it is written down nowhere"


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize("answer", [Answer(Response.YES), Answer(Response.NO, always=True)])
async def test_only_a_yes_for_good_gives_leave(
    engine_harness: EngineHarness, answer: Answer
) -> None:
    task = await engine_harness.start(write("a.txt"), write("b.txt"), finish(), settings=Settings())
    assert await task.answer((await wait_for_ask(task)).ts, answer)
    assert (await wait_for_ask(task)).path == "b.txt"


@pytest.mark.contract("permissions:always")
async def test_what_rooignore_hides_stays_hidden(engine_harness: EngineHarness) -> None:
    (engine_harness.root / ".rooignore").write_text("secret.txt\n")
    turns = (write("a.txt"), write("secret.txt"), finish())
    task = await engine_harness.start(*turns, settings=Settings())
    assert await task.answer((await wait_for_ask(task)).ts, ALWAYS)
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert not (engine_harness.root / "secret.txt").exists()


@pytest.mark.contract("permissions:always")
async def test_leave_counts_for_subtasks_too(engine_harness: EngineHarness) -> None:
    parts = {
        "the whole": (write("a.txt"), Turn(delegate("a part")), finish()),
        "a part": (write("b.txt"), finish()),
    }
    engine_harness.provider = ScriptedSubtasks(parts)
    settings = Settings(always_allow_subtasks=True)
    task = await engine_harness.start(text="the whole", settings=settings)
    assert await task.answer((await wait_for_ask(task)).ts, ALWAYS)
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert (engine_harness.root / "b.txt").exists()


@pytest.mark.contract("permissions:always")
async def test_leave_is_gone_with_the_task_and_when_it_is_opened_again(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(write("a.txt"), finish(), settings=Settings())
    assert await task.answer((await wait_for_ask(task)).ts, ALWAYS)
    assert await task.answer((await wait_for_ask(task)).ts, Answer(Response.YES))
    await engine_harness.engine.release(task)
    other = await engine_harness.start(write("b.txt"), finish(), settings=Settings())
    assert (await wait_for_ask(other)).path == "b.txt"
    engine_harness.use_script(write("c.txt"), finish())
    again = await engine_harness.engine.resume(
        task.id, "go on", options=TaskOptions(settings=Settings())
    )
    assert (await wait_for_ask(again)).path == "c.txt"


@pytest.mark.contract("permissions:always")
async def test_leave_that_is_withdrawn_is_gone_at_once(engine_harness: EngineHarness) -> None:
    read = Turn(call("ask_followup_question", {"question": "On?", "follow_up": []}))
    turns = (write("a.txt"), read, write("b.txt"), finish())
    task = await engine_harness.start(*turns, settings=Settings())
    assert await task.answer((await wait_for_ask(task)).ts, ALWAYS)
    question = await wait_for_ask(task)
    assert task.grants.revoke_edits() and not task.grants.revoke_edits()
    assert await task.answer(question.ts, Answer(Response.MESSAGE, text="yes"))
    assert (await wait_for_ask(task)).path == "b.txt"


@pytest.mark.contract("permissions:always")
async def test_leave_goes_with_the_answer_that_gave_it_when_the_task_is_rewound(
    engine_harness: EngineHarness,
) -> None:
    question = Turn(call("ask_followup_question", {"question": "On?", "follow_up": []}))
    turns = (write("a.txt"), question, write("b.txt"), finish())
    task = await engine_harness.start(*turns, settings=Settings())
    first = (await wait_for_ask(task)).ts
    assert await task.answer(first, ALWAYS)
    second = (await wait_for_ask(task)).ts
    assert not (await task.rewind(second, keep=False)).revokes_edit_grant
    assert task.grants.has_edit_grant, "the answer is still there"
    assert (await task.preview_rewind(first, keep=False)).revokes_edit_grant
    assert task.grants.has_edit_grant, "it was only looked at"
    assert (await task.rewind(first, keep=False)).revokes_edit_grant
    assert not task.grants.has_edit_grant
    await task.undo_rewind()
    assert not task.grants.has_edit_grant, "it is asked for again"
    assert not (await task.preview_rewind(first, keep=False)).revokes_edit_grant


@pytest.mark.contract("permissions:always")
async def test_leave_given_to_a_subtask_goes_with_the_subtask(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": (Turn(delegate("a part")), finish()),
        "a part": (write("b.txt"), finish()),
    }
    engine_harness.provider = ScriptedSubtasks(parts)
    task = await engine_harness.start(
        text="the whole", settings=Settings(always_allow_subtasks=True)
    )
    (child_id,) = (await wait_for_event(task, TaskPaused)).child_ids
    child = await task.find_subtask(child_id)
    assert child is not None
    assert await child.answer((await wait_for_ask(child)).ts, ALWAYS)
    result = await wait_for_ask(task)
    assert task.grants.has_edit_grant
    assert not (await task.preview_rewind(result.ts, keep=False)).revokes_edit_grant
    assert (await task.rewind(get_ts(task.rows[0]))).revokes_edit_grant
    assert not task.grants.has_edit_grant


@pytest.mark.contract("permissions:always")
async def test_tasks_that_begin_with_the_same_options_have_their_own_leave(
    engine_harness: EngineHarness,
) -> None:
    options = TaskOptions(workspace=engine_harness.root, settings=Settings())
    engine_harness.use_script(write("a.txt"), finish())
    task = await engine_harness.engine.start("one", options=options)
    assert await task.answer((await wait_for_ask(task)).ts, ALWAYS)
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    engine_harness.use_script(write("b.txt"), finish())
    other = await engine_harness.engine.start("two", options=options)
    assert (await wait_for_ask(other)).path == "b.txt"
