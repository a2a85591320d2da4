"""The keeper that waits for the next command does not outlive its task."""

from __future__ import annotations

import asyncio

import psutil

from joey.sandboxes.spares import Spares


def keepers() -> list[int]:
    """Processes of ours in which a keeper runs."""
    found = psutil.Process().children()
    return [one.pid for one in found if any("sandboxes.keeper" in word for word in one.cmdline())]


async def test_the_next_keeper_waits_and_goes_with_its_task() -> None:
    before = keepers()
    spares = Spares(lambda: None)
    taken = await spares.take()
    async with asyncio.timeout(20):
        while len(keepers()) < len(before) + 2:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)
    await spares.close()
    await taken.dismiss()
    assert keepers() == before


async def test_none_waits_when_the_task_closes_while_a_command_starts() -> None:
    before = keepers()
    spares = Spares(lambda: None)
    taking = asyncio.ensure_future(spares.take())
    await asyncio.sleep(0)
    await spares.close()
    taken = await taking
    await asyncio.sleep(0.2)
    assert len(keepers()) == len(before) + 1
    await taken.dismiss()
    assert keepers() == before
