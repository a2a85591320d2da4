"""`joey.run` and `joey.run_sync`: a task in one call."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import joey
from joey.app.options import make_options
from joey.app.single_run import RunFlags, run, run_sync
from joey.events import TaskFinished, ToolFinished
from joey.testing.script import Turn, call, pause, usage
from joey.testing.server import ModelServer

WRITE = Turn(call("write_to_file", {"path": "note", "content": "hi\n"}))
DONE = Turn(call("attempt_completion", {"result": "Done."}), usage(input=7, output=3))


def reach(url: str, *, yes: bool = False) -> RunFlags:
    return {"provider": "anthropic", "base_url": url, "model": "scripted", "yes": yes}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to keep tasks in; what is done is done in `work` beside it."""
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("JOEY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


async def test_a_task_is_run_in_one_call(home: Path) -> None:
    seen: list[joey.Event] = []
    async with ModelServer([WRITE, DONE]) as server:
        result = await joey.run("write", on_event=seen.append, **reach(server.url, yes=True))
    assert (result.text, result.succeeded) == ("Done.", True)
    assert (home.parent / "work" / "note").read_text(encoding="utf-8") == "hi\n"
    assert (home / "tasks" / f"task_{result.task_id}").is_dir()
    assert result.usage.total_tokens_out >= 3
    assert [each.tool for each in seen if isinstance(each, ToolFinished)] == ["write_to_file"]
    assert isinstance(seen[-1], TaskFinished)


async def test_what_nobody_allowed_is_refused(home: Path) -> None:
    async with ModelServer([WRITE, DONE]) as server:
        result = await joey.run("write", **reach(server.url))
    assert not result.succeeded
    assert isinstance(result.ending, joey.Completed)
    assert len(result.ending.refused) == 1
    assert not (home.parent / "work" / "note").exists()


async def test_a_task_is_continued_by_its_id(home: Path) -> None:
    async with ModelServer([DONE, DONE]) as server:
        first = await joey.run("one", **reach(server.url))
        second = await joey.run("two", resume=first.task_id)
        assert second.task_id == first.task_id
        assert "one" in str(server.requests[1].body["messages"])
    with pytest.raises(joey.UserError, match="There is no task 'x'"):
        await joey.run("two", resume="x")


async def test_a_result_that_must_fit_a_schema_comes_as_data(home: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    turn = Turn(call("attempt_completion", {"result": '{"n": 4}'}))
    async with ModelServer([turn]) as server:
        result = await joey.run("count", json_schema=schema, **reach(server.url), ephemeral=True)
    assert result.data == {"n": 4}
    assert not (home / "tasks").exists()


async def test_a_cancelled_call_stops_the_task(home: Path) -> None:
    async with ModelServer([Turn(pause(60)), DONE]) as server:
        running = asyncio.create_task(joey.run("wait", **reach(server.url)), name="run")
        while not server.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (task,) = (home / "tasks").glob("task_*")
        result = await joey.run("again", resume=task.name.removeprefix("task_"))
    assert result.succeeded


async def test_a_program_without_asyncio_runs_a_task(home: Path) -> None:
    async with ModelServer([DONE]) as server:
        result = await asyncio.to_thread(joey.run_sync, "do it", **reach(server.url))
    assert result.text == "Done."


def test_the_options_are_those_of_make_options_and_both_calls_are_alike() -> None:
    own = {"workspace", "home", "env", "earlier", "secrets"}
    assert set(get_type_hints(RunFlags)) == set(inspect.signature(make_options).parameters) - own
    assert get_type_hints(RunFlags).items() <= get_type_hints(make_options).items()
    assert inspect.signature(run).parameters == inspect.signature(run_sync).parameters


@pytest.mark.parametrize("name", ["allow", "deny", "add_dirs", "images"])
async def test_a_text_in_place_of_several_is_refused(home: Path, name: str) -> None:
    """Its letters would be rules: `allow="git"` would allow every program that begins with one."""
    async with ModelServer([DONE]) as server:
        flags: dict[str, Any] = {**reach(server.url), name: "git"}
        with pytest.raises(joey.UserError, match=rf"{name}=\('git',\)"):
            await joey.run("go", **flags)
        assert not server.requests


async def test_an_image_that_is_no_data_uri_is_refused(home: Path) -> None:
    with pytest.raises(joey.UserError, match=r"photo\.png is not a data URI"):
        await joey.run("look", images=("photo.png",), **reach("http://127.0.0.1:9"))


async def test_a_task_needs_a_prompt(home: Path) -> None:
    with pytest.raises(joey.UserError, match="prompt is empty"):
        await joey.run(" ", **reach("http://127.0.0.1:9"))


async def test_in_an_event_loop_run_sync_names_what_to_use() -> None:
    with pytest.raises(RuntimeError, match=r"use `await joey.run\(…\)`"):
        joey.run_sync("go")


async def test_the_home_may_be_a_text(home: Path) -> None:
    async with ModelServer([DONE]) as server:
        result = await joey.run("go", home=str(home.parent / "other"), **reach(server.url))
    assert (home.parent / "other" / "tasks" / f"task_{result.task_id}").is_dir()
