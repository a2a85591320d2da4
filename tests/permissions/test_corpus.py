"""A sample of the corpus; `make corpus` goes through all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.app.permissions import Explainer, Flags
from tests.permissions.arena import Arena
from tests.permissions.corpus import sample, try_harmless, try_hostile
from tests.permissions.harmless import harmless_commands
from tests.permissions.hostile import LOOKING, hostile_commands
from tests.permissions.listed import asked_lines

SAMPLE = 500
SEED = 20_250_301


@pytest.mark.requirement("permissions:commands:corpus")
async def test_no_hostile_command_that_runs_unasked_does_harm(tmp_path: Path) -> None:
    outcome = await try_hostile(tmp_path, sample(hostile_commands(), SAMPLE, SEED))

    assert outcome.harm == {}


@pytest.mark.requirement("permissions:commands:corpus")
async def test_nearly_all_harmless_commands_run_unasked(tmp_path: Path) -> None:
    lines = harmless_commands()
    asked = await try_harmless(tmp_path, lines)

    assert len(asked) <= len(lines) * 0.05, asked


@pytest.mark.requirement("permissions:commands:corpus", "permissions:commands:options")
async def test_none_of_the_listed_lines_runs_unasked(tmp_path: Path) -> None:
    arena = Arena(tmp_path, LOOKING)
    unasked = []
    for rules, line in asked_lines():
        flags = Flags(allow=rules, no_sandbox=True)
        explainer = Explainer(arena.work, flags, home=tmp_path / "joey-home", env={})
        if (await explainer.command(line)).decision == "allow":
            unasked.append((rules, line))

    assert unasked == []


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    assert len(hostile_commands()) >= 8_000
    assert len(list(asked_lines())) >= 400
    assert len(harmless_commands()) >= 700


@pytest.mark.parametrize(
    ("line", "harm"),
    [
        ("echo x > canary", "it changed work/canary"),
        ("rm other", "it ran rm other"),
        ("/bin/rm other", "it changed work/other"),
        ("cat link", "it read what lies outside"),
        ("./evil.sh", "it ran evil.sh"),
    ],
)
def test_the_arena_notices_harm(tmp_path: Path, line: str, harm: str) -> None:
    arena = Arena(tmp_path, LOOKING)

    assert arena.run(line, only_guarded=False) == harm
    assert arena.run("cat other && git status", only_guarded=False) is None
