"""The rule that is offered with a question, and what becomes of it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from joey.config.rule_store import UserRuleStore
from joey.core.permissions.policy import (
    Access,
    Allow,
    Claim,
    PersistentRule,
    apply_rules,
    decide,
    propose_persistent_rule,
)
from joey.core.settings import Settings
from joey.core.task_types import Answer, AskKind, Response, RuleScope
from joey.errors import ConfigError
from joey.execution.bash_grammar import BashGrammar
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call
from tests.harness.engine.engine_harness import EngineHarness, find_rows, finish, wait_for_ask

READ = BashGrammar().parse_chain


def offered(*claims: Claim, **settings: Any) -> str | None:
    rule = propose_persistent_rule(claims, Settings(**settings), READ)
    return None if rule is None else rule.text


def runs(command: str) -> Claim:
    return Claim(Access.EXECUTE, command=command)


@pytest.mark.contract("permissions:always")
def test_a_command_is_offered_its_own_words() -> None:
    assert offered(runs("npm test -- --silent")) == "npm test -- --silent"
    assert offered(runs("npm test"), always_allow_execute=True) == "npm test"


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize(
    "command",
    [
        "a && b",
        "echo $(id)",
        "sudo ls",
        "bash -c ls",
        "ls > x",
        "",
        "xargs rm",
        "env a=b c",
    ],
)
def test_what_no_rule_can_say_is_not_offered_one(command: str) -> None:
    assert offered(runs(command)) is None


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("python3 -m pytest -q 2>&1 | tail -3", "python3 -m pytest -q"),
        ("cat a.txt | npm run lint | sort | head -5", "npm run lint"),
        ("make all | npm test", "npm test"),
    ],
)
def test_a_pipeline_is_offered_the_rule_for_its_one_command_that_needs_one(
    command: str, rule: str
) -> None:
    claim = Claim(Access.EXECUTE, command=command, sandbox="full")
    assert offered(claim, always_allow_execute=True, allowed_commands=("make",)) == rule


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize(
    "command",
    [
        *("npm test | tee log", "npm test | make", "npm test | sh", "npm test | xargs rm"),
        *("npm test | sort -o x", "cat a | python3 -", "npm test | python3 x.py", "cat a | sudo b"),
        *("npm test && tail -3 log", "cd src && npm test", "npm test; ls | tail", "tail -3 | rm"),
        *("npm test | git diff", "npm test | tail -3 > x", "npm test | tail $(id)"),
        *("npm test | cat ../x", "npm test | cat /etc/passwd", "ls | npm test | rm x"),
    ],
)
def test_no_rule_is_offered_for_a_line_of_which_more_is_not_allowed(command: str) -> None:
    claim = Claim(Access.EXECUTE, command=command, sandbox="full")
    assert offered(claim, denied_commands=("rm",)) is None


@pytest.mark.contract("permissions:always")
def test_readers_of_a_pipeline_count_only_where_reading_is_allowed() -> None:
    line = "npm test | tail -3"
    assert offered(Claim(Access.EXECUTE, command=line, sandbox="full")) == "npm test"
    assert offered(Claim(Access.EXECUTE, command=line, sandbox="off")) is None
    hidden = Claim(Access.EXECUTE, command=line, sandbox="full", has_hidden_files=True)
    assert offered(hidden) is None
    confined = Claim(Access.EXECUTE, command=line, sandbox="full")
    assert offered(confined, always_allow_read_only=False) is None
    assert offered(confined, denied_commands=("tail",)) is None


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize("command", ["git push origin main", "xargs git push", "make rm"])
def test_no_rule_is_offered_where_a_denied_command_may_be(command: str) -> None:
    denied = ("git push", "rm")
    assert offered(runs(command), denied_commands=denied) is None
    assert offered(runs("git status"), denied_commands=denied) == "git status"


def test_rules_that_are_added_at_once_are_all_written(tmp_path: Path, eager_threads: None) -> None:
    rules, together = [PersistentRule("allowedCommands", f"make {n}") for n in range(8)], Barrier(8)

    def add(rule: PersistentRule) -> None:
        together.wait()
        UserRuleStore(tmp_path, tmp_path).add(rule)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, rules))
    written = json.loads((tmp_path / "settings.json").read_text())["allowedCommands"]
    assert {f"make {n}" for n in range(8)} <= set(written)


@pytest.mark.contract("permissions:always")
def test_an_added_rule_wakes_up_no_others() -> None:
    sleeping: dict[str, Any] = {"allowed_commands": ("make",), "always_allow_execute": False}
    assert offered(runs("npm test"), **sleeping) == "npm test"
    added = apply_rules(Settings(**sleeping), (PersistentRule("allowedCommands", "npm test"),))
    assert added.allowed_commands == ("npm test",), "the others sleep on"
    assert offered(runs("npm test"), auto_approval_enabled=False) is None
    tool = Claim(Access.MCP, subject="weather/forecast")
    assert offered(tool) == "weather/forecast"
    added = apply_rules(
        Settings(allowed_mcp_tools=("other/*",)), (PersistentRule("allowedMcpTools", "a/b"),)
    )
    assert added.allowed_mcp_tools == ("a/b",)


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize(
    "claims",
    [
        (Claim(Access.WRITE),),
        (Claim(Access.READ),),
        (Claim(Access.BROWSER, subject="x"),),
        (Claim(Access.MCP, subject="weather/*"),),
        (Claim(Access.MCP, subject="*"),),
        (Claim(Access.MCP, subject="a/b", has_changed_description=True),),
        (Claim(Access.MCP, subject="a/b", is_always_allowed=True),),
        (Claim(Access.MCP, subject="a/b"), Claim(Access.WRITE)),
        (runs("npm test"), runs("npm start")),
        (runs("npm test"), Claim(Access.WRITE)),
        (Claim(Access.EXECUTE, command="npm test", sandbox="none"),),
        (),
    ],
)
def test_other_calls_are_offered_none(claims: tuple[Claim, ...]) -> None:
    assert offered(*claims) is None


@given(
    st.lists(st.text("abc-./=* $'\"\\\n;|&", min_size=1, max_size=8), min_size=1, max_size=4),
    st.lists(st.sampled_from(["a", "b", "rm", "a b"]), max_size=2),
)
@examples(max_examples=200)
@pytest.mark.contract("permissions:always")
def test_a_rule_that_is_offered_allows_just_this_command(
    words: list[str], denied: list[str]
) -> None:
    settings = Settings(denied_commands=tuple(denied))
    claim = runs(" ".join(words))
    rule = propose_persistent_rule((claim,), settings, READ)
    if rule is None:
        return
    after = apply_rules(settings, (rule,))
    assert isinstance(decide((claim,), after, READ), Allow)
    for other in (f"{rule.text}x", "curl x | sh", f"{rule.text}; id", *denied):
        assert not isinstance(decide((runs(other),), after, READ), Allow)


@pytest.mark.contract("permissions:always")
def test_a_rule_is_added_to_the_settings_and_nothing_else_is_touched(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    kept = {"somethingNew": {"b": [1]}, "alwaysAllowExecute": True, "allowedCommands": ["git log"]}
    file.write_text(json.dumps(kept))
    book = UserRuleStore(tmp_path, tmp_path)
    rule = PersistentRule("allowedCommands", "npm test")
    book.add(rule)
    book.add(rule)
    assert json.loads(file.read_text()) == {**kept, "allowedCommands": ["git log", "npm test"]}
    UserRuleStore(tmp_path / "new", tmp_path).add(PersistentRule("allowedMcpTools", "a/b"))
    made = json.loads((tmp_path / "new/settings.json").read_text())
    assert made == {"alwaysAllowMcp": True, "allowedMcpTools": ["a/b"]}


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize(
    "text", ["{", '{"autoApprovalEnabled": false}', '{"allowedCommands": ["make"]}']
)
def test_settings_that_would_allow_more_with_the_rule_are_left_alone(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "settings.json").write_text(text)
    book = UserRuleStore(tmp_path, tmp_path)
    rule = PersistentRule("allowedCommands", "npm test")
    assert not book.would_enable_only(rule)
    with pytest.raises(ConfigError):
        book.add(rule)
    assert (tmp_path / "settings.json").read_text() == text


def run_command(line: str) -> Turn:
    return Turn(call("execute_command", {"command": line, "cwd": None}))


class UserSettingsFile:
    """The user's settings."""

    def __init__(self, engine_harness: EngineHarness) -> None:
        engine_harness.home.mkdir()
        engine_harness.capabilities = Capabilities(
            shell_grammar=BashGrammar(),
            rule_store=UserRuleStore(engine_harness.home, engine_harness.root),
        )
        self._file = engine_harness.home / "settings.json"

    @property
    def text(self) -> str:
        return self._file.read_text() if self._file.exists() else ""

    def corrupt(self) -> None:
        self._file.write_text("{")


@pytest.fixture
def settings_file(engine_harness: EngineHarness) -> UserSettingsFile:
    return UserSettingsFile(engine_harness)


@pytest.mark.contract("permissions:always")
async def test_the_task_itself_goes_by_the_rule_at_once(
    engine_harness: EngineHarness, settings_file: UserSettingsFile
) -> None:
    task = await engine_harness.start(
        run_command("touch a.txt"),
        run_command("touch a.txt"),
        run_command("touch b.txt"),
        finish(),
        settings=Settings(),
    )
    first = await wait_for_ask(task)
    assert first.always_rule == "touch a.txt"
    assert first.always_scopes == (RuleScope.DIRECTORY, RuleScope.TASK, RuleScope.EVERYWHERE)
    assert find_rows(task, "command")[0].always_rule == "touch a.txt"
    assert await task.answer(first.ts, Answer(Response.YES, always=True))
    second = await wait_for_ask(task)
    assert second.text == "touch b.txt", "the same command was not asked again, another was"
    assert (engine_harness.root / "a.txt").exists()
    assert not settings_file.text, "a rule is of the directory, if nothing else is said"
    stored = json.loads((engine_harness.home / "permissions.json").read_text())["directories"]
    (rule,) = stored[str(engine_harness.root)]
    given = {"setting": "allowedCommands", "text": "touch a.txt", "by": "person", "taskId": task.id}
    assert rule.pop("addedAt") and rule == given
    assert not (engine_harness.root / "permissions.json").exists()


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize("response", [Response.NO, Response.MESSAGE])
async def test_only_a_yes_makes_a_rule(
    engine_harness: EngineHarness, settings_file: UserSettingsFile, response: Response
) -> None:
    task = await engine_harness.start(run_command("touch a.txt"), finish(), settings=Settings())
    ask = await wait_for_ask(task)
    assert await task.answer(ask.ts, Answer(response, text="always", always=True))
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert not settings_file.text and not (engine_harness.root / "a.txt").exists()


@pytest.mark.contract("permissions:always")
async def test_an_always_where_no_rule_was_offered_is_a_yes(
    engine_harness: EngineHarness, settings_file: UserSettingsFile
) -> None:
    line = "touch a.txt && touch b.txt"
    task = await engine_harness.start(run_command(line), finish(), settings=Settings())
    ask = await wait_for_ask(task)
    assert ask.always_rule is None
    assert await task.answer(ask.ts, Answer(Response.YES, always=True))
    assert not await task.answer(ask.ts, Answer(Response.YES, always=True)), "asks are used once"
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert (engine_harness.root / "b.txt").exists() and not settings_file.text


async def test_a_rule_that_cannot_be_saved_counts_for_the_task_and_is_reported(
    engine_harness: EngineHarness, settings_file: UserSettingsFile
) -> None:
    again = run_command("touch a.txt")
    task = await engine_harness.start(again, again, finish(), settings=Settings())
    ask = await wait_for_ask(task)
    settings_file.corrupt()
    everywhere = Answer(Response.YES, always=True, scope=RuleScope.EVERYWHERE)
    assert await task.answer(ask.ts, everywhere)
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert "could not be kept" in str(find_rows(task, "error")[0].text)
    assert settings_file.text == "{"
