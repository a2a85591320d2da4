"""A workspace as a user of Roo Code has it: what of it reaches the model, compared as a whole.

The expected texts are in tests/roo_workspace_expected. After a change of prompts or tools that is
meant, `JOEY_RENEW=1 python -m pytest tests/engine/test_roo_workspace.py` writes them anew;
look at the difference before you commit it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from joey.app import make_options, open_engine
from joey.app.trust import WorkspaceTrust
from joey.core.events import ModeSwitched, RowAdded
from joey.core.history.ui import Row
from joey.core.models import ToolProtocol
from joey.core.settings import Limits
from joey.engine.asks import Unattended
from joey.engine.engine import Engine, TaskOptions
from joey.engine.task import Task
from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer, Request
from tests.harness.engine.engine_harness import TIMEOUT_S, list_durable_events
from tests.harness.paths import ROOT

HERE = ROOT / "tests"
SAMPLE = HERE / "roo_workspace"
EXPECTED = HERE / "roo_workspace_expected"
RENEW = bool(os.environ.get("JOEY_RENEW"))

DONE = Turn(call("attempt_completion", {"result": "done"}))
VARYING = (
    (re.compile(r"^Operating System: .*$", re.MULTILINE), "Operating System: <os>"),
    (re.compile(r"^Default Shell: .*$", re.MULTILINE), "Default Shell: <shell>"),
    (re.compile(r"^Home Directory: .*$", re.MULTILINE), "Home Directory: <home>"),
    (re.compile(r"^ISO 8601, UTC: .*$", re.MULTILINE), "ISO 8601, UTC: <time>"),
    (re.compile(r"^User time zone: .*$", re.MULTILINE), "User time zone: <zone>"),
)


class RooWorkspace:
    """A copy of the sample, and a model that plays turns to whoever works in it."""

    def __init__(self, root: Path, server: ModelServer, engine: Engine) -> None:
        self.project = root / "shop"
        self.home = root / "person"
        self.server = server
        self.engine = engine

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": os.environ["PATH"]}

    def options(self, **flags: Any) -> TaskOptions:
        return make_options(
            workspace=self.project,
            env=self.env,
            policy=Unattended(),
            **{"base_url": self.server.url, "model": "scripted", "provider": "anthropic"} | flags,
        )

    async def run(self, text: str = "hello", **flags: Any) -> Task:
        task = await self.engine.start(text, options=self.options(**flags))
        async with asyncio.timeout(TIMEOUT_S):
            await task.wait()
        return task

    def settings(self, **values: Any) -> None:
        path = self.home / ".roo" / "settings.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values), encoding="utf-8")


@asynccontextmanager
async def roo_workspace(
    root: Path, *turns: Turn | Callable[[Request], Turn]
) -> AsyncIterator[RooWorkspace]:
    shutil.copytree(SAMPLE / "project", root / "shop")
    shutil.copytree(SAMPLE / "home", root / "person")
    env = {"HOME": str(root / "person"), "PATH": os.environ["PATH"]}
    async with ModelServer(list(turns)) as server, open_engine(env=env) as engine:
        yield RooWorkspace(root, server, engine)


def system_of(request: Request) -> str:
    match request.body:
        case {"system": str() as text}:
            return text
        case {"system": list() as blocks}:
            return "".join(block["text"] for block in blocks)
        case {"messages": [{"role": "system", "content": str() as text}, *_]}:
            return text
    raise AssertionError("the request has no system prompt")


def without_marks(value: Any) -> Any:
    """What the model reads: without the marks that say where a cache may end."""
    match value:
        case dict():
            return {k: without_marks(v) for k, v in value.items() if k != "cache_control"}
        case list():
            return [without_marks(inner) for inner in value]
    return value


def render_request(request: Request, here: RooWorkspace) -> str:
    """Everything that the model reads, as one text."""
    tools = [tool["name"] for tool in request.body.get("tools", ())]
    messages = without_marks(request.body["messages"])
    parts = ["=== system ===", system_of(request), "=== tools ===", "\n".join(tools)]
    for message in messages:
        parts.append(f"=== {message['role']} ===")
        parts += (block["text"] for block in message["content"])
    return normal("\n".join(parts), here) + "\n"


def normal(text: str, here: RooWorkspace) -> str:
    text = text.replace(str(here.project), "<workspace>").replace(str(here.home), "<home>")
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return text


def check_expected(name: str, text: str) -> None:
    path = EXPECTED / name
    if RENEW:
        EXPECTED.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.contract("prompt:sections", "rules:order", "skills:priority")
@pytest.mark.parametrize(
    ("mode", "protocol"),
    [
        ("code", ToolProtocol.NATIVE),
        ("translator", ToolProtocol.NATIVE),
        ("debug", ToolProtocol.NATIVE),
        ("translator", ToolProtocol.XML),
    ],
)
async def test_what_a_roo_workspace_tells_the_model(
    tmp_path: Path, mode: str, protocol: ToolProtocol
) -> None:
    turn = DONE if protocol is ToolProtocol.NATIVE else _said_in_xml
    async with roo_workspace(tmp_path, turn) as here:
        await here.run(mode=mode, protocol=protocol)
        (request,) = here.server.requests
        check_expected(f"{mode}_{protocol}.txt", render_request(request, here))
        if protocol is ToolProtocol.NATIVE:
            tools = without_marks(request.body["tools"])
            _check_definitions(tools, renew=mode == "code")


def _said_in_xml(request: Request) -> Turn:
    return Turn(say("<attempt_completion>\n<result>done</result>\n</attempt_completion>"))


def _check_definitions(tools: list[dict[str, Any]], *, renew: bool) -> None:
    """A tool is the same in every mode; code mode has them all."""
    path = EXPECTED / "tools.json"
    if RENEW and renew:
        path.write_text(json.dumps(tools, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    known = {tool["name"]: tool for tool in json.loads(path.read_text(encoding="utf-8"))}
    assert tools == [known[tool["name"]] for tool in tools]


async def test_nothing_that_is_hidden_or_skipped_is_sent(tmp_path: Path) -> None:
    async with roo_workspace(tmp_path, DONE) as here:
        (here.project / ".roo" / "rules" / "leak").symlink_to("../../secrets")
        await here.run()
        raw = here.server.requests[0].raw.decode()
    for text in (
        "an old copy",
        "A fallback that nobody reads",
        "not-a-real-password",
        "Never read",
    ):
        assert text not in raw


@pytest.mark.contract("context:stable-prefix")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_five_requests_in_a_row_begin_with_the_same_bytes(
    tmp_path: Path, provider: str
) -> None:
    rule = tmp_path / "shop" / ".roo" / "rules" / "02-style.md"

    def meanwhile(request: Request) -> Turn:
        rule.write_text("Tabs, and semicolons.", encoding="utf-8")
        return Turn(call("list_files", {"path": "src", "recursive": False}))

    turns = (
        Turn(call("list_files", {"path": ".", "recursive": False})),
        Turn(call("read_file", {"files": [{"path": "src/prices.ts"}]})),
        meanwhile,
        Turn(call("update_todo_list", {"todos": "- [ ] look\n- [ ] leap"})),
        Turn(call("switch_mode", {"mode_slug": "nowhere", "reason": "to fail"})),
        DONE,
    )
    async with roo_workspace(tmp_path, *turns) as here:
        await here.run(provider=provider)
        requests = here.server.requests
    assert len(requests) == 6
    bodies = [without_marks(request.body) for request in requests]
    for before, after in itertools.pairwise(bodies):
        said = before["messages"]
        assert json.dumps(after["messages"][: len(said)]) == json.dumps(said)
        for part in ("system", "tools"):
            assert json.dumps(after.get(part)) == json.dumps(before.get(part))
    assert "Two spaces, no semicolons." in system_of(requests[-1])


@pytest.mark.contract("context:stable-prefix")
async def test_a_changed_rule_counts_from_the_next_run_on(tmp_path: Path) -> None:
    async with roo_workspace(tmp_path, DONE, DONE, DONE) as here:
        task = await here.run()
        (here.project / ".roo" / "rules" / "02-style.md").write_text("Tabs.", encoding="utf-8")
        for _ in range(2):
            await task.send("and now?")
            async with asyncio.timeout(TIMEOUT_S):
                await task.wait()
        first, second, third = map(system_of, here.server.requests)
    assert "Tabs." in second
    assert first.replace("Two spaces, no semicolons.", "Tabs.") == second == third


@pytest.mark.contract("modes:fields")
async def test_a_task_whose_mode_is_gone_goes_on_in_the_usual_one_and_says_so(
    tmp_path: Path,
) -> None:
    async with roo_workspace(tmp_path, DONE, DONE) as here:
        task = await here.run(mode="translator")
        (here.project / ".roomodes").unlink()
        (here.home / ".roo" / "modes.yaml").unlink()
        await task.send("go on")
        async with asyncio.timeout(TIMEOUT_S):
            await task.wait()
        said = [event.text for event in list_durable_events(task) if isinstance(event, RowAdded)]
        switched = [
            event.mode for event in list_durable_events(task) if isinstance(event, ModeSwitched)
        ]
        assert "You are Roo, a highly skilled" in system_of(here.server.requests[1])
    assert (task.mode.slug, switched) == ("code", ["code"])
    assert any("There is no mode 'translator'" in text for text in said)


@pytest.mark.contract("modes:fields")
async def test_the_model_can_switch_to_a_mode_of_the_project(tmp_path: Path) -> None:
    switch = Turn(call("switch_mode", {"mode_slug": "translator", "reason": "texts"}))
    edit = Turn(call("write_to_file", {"path": "src/prices.ts", "content": "x"}))
    async with roo_workspace(tmp_path, switch, edit, DONE) as here:
        WorkspaceTrust(here.project, env=here.env).grant()
        task = await here.run(yes=True)
        second, third = here.server.requests[1:]
        assert system_of(second).startswith("You are Roo, a translator who knows shops.")
        assert "execute_command" not in {tool["name"] for tool in second.body["tools"]}
        assert r"may only change files that match ^locales/.*\.(json|ya?ml)$" in third.raw.decode(
            "unicode_escape"
        ).replace("\\\\", "\\")
    assert task.mode.name == "🌐 Translator"


@pytest.mark.contract("modes:profile")
async def test_a_mode_works_with_the_profile_that_the_settings_give_it(tmp_path: Path) -> None:
    switch = Turn(call("switch_mode", {"mode_slug": "reviewer", "reason": "look at it"}))
    async with roo_workspace(tmp_path, switch) as here, ModelServer([DONE]) as other:
        profiles = {
            "active": "own",
            "profiles": {
                "own": {"provider": "anthropic", "baseUrl": here.server.url, "model": "small"},
                "big": {"provider": "openai", "baseUrl": other.url, "model": "large"},
            },
        }
        (here.home / ".roo" / "profiles.json").write_text(json.dumps(profiles), encoding="utf-8")
        here.settings(modeApiConfigs={"reviewer": "big"}, alwaysAllowModeSwitch=True)
        task = await here.run(base_url=None, model=None, provider=None)
        assert [request.body["model"] for request in here.server.requests] == ["small"]
        assert [request.body["model"] for request in other.requests] == ["large"]
        assert "<model>large</model>" in other.requests[0].raw.decode()
        route = task.recorder.projection.route
        assert (route.profile, route.model) == ("own", "small"), "the task remembers its own"
        await here.engine.release(task)
        await other.wait_for_connections(0)


@pytest.mark.contract("modes:profile")
async def test_a_model_named_by_a_flag_stays_with_the_task_in_every_mode(tmp_path: Path) -> None:
    async with roo_workspace(tmp_path, DONE, DONE) as here:
        here.settings(modeApiConfigs={"code": "big", "reviewer": "big"})
        task = await here.run(mode="reviewer")
        await here.engine.release(task)
        again = await here.engine.resume(task.id, "go on", options=TaskOptions(policy=Unattended()))
        async with asyncio.timeout(TIMEOUT_S):
            await again.wait()
        assert [request.body["model"] for request in here.server.requests] == ["scripted"] * 2
        assert not _errors(task) and not _errors(again)


@pytest.mark.contract("modes:profile")
async def test_an_unknown_profile_is_reported_once_and_the_task_goes_on_with_its_own(
    tmp_path: Path,
) -> None:
    look = Turn(call("list_files", {"path": ".", "recursive": False}))
    async with roo_workspace(tmp_path, look, DONE) as here:
        entry = {"provider": "anthropic", "baseUrl": here.server.url, "model": "small"}
        (here.home / ".roo" / "profiles.json").write_text(
            json.dumps({"profiles": {"own": entry}}), encoding="utf-8"
        )
        here.settings(modeApiConfigs={"code": "big"})
        task = await here.run(base_url=None, model=None, provider=None)
        assert [request.body["model"] for request in here.server.requests] == ["small"] * 2
        (error,) = _errors(task)
    assert "There is no profile 'big'. Known ones: own." in error
    assert "modeApiConfigs" in error


def _errors(task: Task) -> list[str]:
    rows = [row for row in task.rows if isinstance(row, Row)]
    return [row.text or "" for row in rows if row.say == "error"]


async def test_a_budget_is_not_spent_on_a_mode_whose_price_is_not_known(tmp_path: Path) -> None:
    async with roo_workspace(tmp_path, DONE) as here:
        entry = {"provider": "anthropic", "baseUrl": here.server.url, "model": "claude-sonnet-4-5"}
        profiles = {"active": "own", "profiles": {"own": entry, "big": entry | {"model": "large"}}}
        (here.home / ".roo" / "profiles.json").write_text(json.dumps(profiles), encoding="utf-8")
        here.settings(modeApiConfigs={"code": "big"})
        limits = Limits(max_cost=5.0)
        task = await here.run(base_url=None, model=None, provider=None, limits=limits)
        assert here.server.requests[0].body["model"] == "claude-sonnet-4-5"
        (error,) = _errors(task)
    assert "The price of 'large' is not known" in error
