"""`joey acp` at a terminal, where editors start it for a user to set joey up."""

from __future__ import annotations

from tests.harness.cli.binary import Joey
from tests.harness.cli.terminal import terminal


async def test_setup_begins_as_joey_does_at_a_terminal(joey: Joey) -> None:
    async with terminal(joey, "acp", "--setup") as screen:
        await screen.until("set an API key in the environment")


async def test_without_an_editor_it_says_who_starts_it(joey: Joey) -> None:
    async with terminal(joey, "acp") as screen:
        await screen.until("started by an editor")
    setup = await joey.run("acp", "--setup")
    assert setup.code == 2
    assert "needs a terminal" in setup.err
