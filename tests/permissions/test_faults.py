"""Whatever goes wrong in the rules themselves, nothing is let through: a user is asked, and where
there is none it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.path_access import ResolvedPath
from joey.core.permissions.policy import Access, Ask, Claim, decide
from joey.core.permissions.shell import CommandChain
from joey.core.settings import Settings
from joey.engine.asks import Unattended
from joey.execution.bash_grammar import BashGrammar
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call
from joey.tools.execute_command import ExecuteCommand
from joey.workspace.files import LocalFiles
from tests.harness.engine.engine_harness import EngineHarness, finish, wait_for_ask, wait_for_ending
from tests.harness.tools.tool_context import make_context

SETTINGS = Settings(always_allow_execute=True, allowed_commands=("ls", "echo", "touch"))
LISTING = Turn(call("execute_command", {"command": "touch made.txt", "cwd": None}))
IMPATIENT = BashGrammar(parse_timeout_s=-1)
"""For whom every reading takes too long."""
FAULTS = st.sampled_from(
    [ValueError, KeyError, RecursionError, MemoryError, OSError, AssertionError, UnicodeError]
)


class Broken:
    """A grammar that fails."""

    def __init__(self, fault: type[Exception] = RuntimeError) -> None:
        self._fault = fault

    def parse_chain(self, line: str) -> CommandChain | None:
        raise self._fault("the grammar broke")


@pytest.mark.contract("permissions:unclear")
@given(fault=FAULTS, line=st.sampled_from(["ls", "echo a", "ls && echo b", "touch x | ls"]))
def test_no_exception_in_the_rules_allows_anything(fault: type[Exception], line: str) -> None:
    decision = decide([Claim(Access.EXECUTE, command=line)], SETTINGS, Broken(fault).parse_chain)

    assert isinstance(decision, Ask)


@pytest.mark.contract("permissions:unclear")
@given(line=st.sampled_from(["ls", "echo a", "ls && echo b"]))
def test_a_reading_that_took_too_long_allows_nothing(line: str) -> None:
    assert isinstance(
        decide([Claim(Access.EXECUTE, command=line)], SETTINGS, IMPATIENT.parse_chain), Ask
    )


@pytest.mark.contract("permissions:unclear")
@pytest.mark.parametrize("opening", ["(", "$(", "${", "{ (", "`", "<(", "[[ ", "! (", '"$(', "$(("])
@pytest.mark.parametrize("depth", [100, 2_000, 8_000, 100_000])
def test_deep_nesting_is_for_a_user(opening: str, depth: int) -> None:
    closing = {"(": ")", "{": "}", "[": "]"}.get(opening.strip()[-1], opening.strip())
    for line in (f"echo {opening * depth}", f"echo {opening * depth}x{closing * depth}"):
        claims = [Claim(Access.EXECUTE, command=line)]
        assert isinstance(decide(claims, SETTINGS, BashGrammar().parse_chain), Ask)


@pytest.mark.contract("permissions:unclear")
@given(
    pieces=st.lists(st.sampled_from(["ls ", "x", ";", "'", '"', " ", "a/b "]), min_size=1),
    size=st.integers(20_000, 1_000_000),
)
def test_a_line_that_is_too_long_is_for_a_user(pieces: list[str], size: int) -> None:
    once = "".join(pieces)
    line = "ls " + (once * (size // len(once) + 1))[:size]

    assert isinstance(
        decide([Claim(Access.EXECUTE, command=line)], SETTINGS, BashGrammar().parse_chain), Ask
    )


class FailingFiles(LocalFiles):
    """Files that break while a command's words are looked up."""

    def resolve(self, path: str) -> ResolvedPath:
        if path.endswith("made.txt"):
            raise RuntimeError("the disk is on fire")
        return super().resolve(path)


@pytest.mark.contract("permissions:unclear")
async def test_a_fault_in_looking_up_words_is_for_a_user(tmp_path: Path) -> None:
    tool = ExecuteCommand()
    ctx = make_context(tmp_path, settings=SETTINGS)
    for files, allowed in ((ctx.files, True), (FailingFiles(ctx.files.root), False)):
        context = make_context(tmp_path, settings=SETTINGS, files=files)
        prepared = await tool.prepare(tool.parse({"command": "touch made.txt"}), context)
        decision = decide(prepared.claims, SETTINGS, BashGrammar().parse_chain)
        assert isinstance(decision, Ask) is not allowed


@pytest.mark.contract("permissions:unclear", "permissions:unattended")
@pytest.mark.parametrize("shell", [Broken(), IMPATIENT, None])
async def test_where_nobody_can_be_asked_a_fault_is_a_refusal(
    engine_harness: EngineHarness, shell: BashGrammar | Broken | None
) -> None:
    engine_harness.capabilities = Capabilities(shell_grammar=shell)
    policy = Unattended()
    task = await engine_harness.start(LISTING, finish(), settings=SETTINGS, policy=policy)
    await wait_for_ending(task)

    assert len(policy.refused_asks) == 1
    assert not (engine_harness.root / "made.txt").exists()


@pytest.mark.contract("permissions:unclear")
async def test_a_fault_is_put_to_the_user_who_is_there(engine_harness: EngineHarness) -> None:
    engine_harness.capabilities = Capabilities(shell_grammar=Broken())
    task = await engine_harness.start(LISTING, finish(), settings=SETTINGS)
    question = await wait_for_ask(task)

    assert "the grammar broke" in (question.reason or "")
    assert not (engine_harness.root / "made.txt").exists()
    await task.cancel()
