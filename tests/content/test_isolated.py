from __future__ import annotations

import asyncio

import psutil
import pytest

from joey.content.isolated_workers import run_isolated
from joey.errors import ToolError

SLOW = b"<<A " * 100_000
"""Takes the grammar of bash minutes."""


@pytest.mark.contract("read:hostile")
async def test_what_takes_too_long_is_stopped() -> None:
    before = set(psutil.Process().children())
    with pytest.raises(ToolError, match=r"longer than 0\.5 s"):
        await run_isolated("joey.content.outline_worker", "bash", SLOW, timeout_s=0.5)
    assert set(psutil.Process().children()) <= before


@pytest.mark.contract("read:hostile")
async def test_a_cancelled_request_leaves_no_process() -> None:
    before = set(psutil.Process().children())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await run_isolated("joey.content.outline_worker", "bash", SLOW, timeout_s=60)
    assert set(psutil.Process().children()) <= before


@pytest.mark.contract("read:hostile")
async def test_what_fills_the_memory_is_stopped() -> None:
    data = b'{"cells": [' + b"[]," * 20_000_000 + b"0]}"
    with pytest.raises(ToolError, match="more than 1024 MB of memory"):
        await run_isolated("joey.content.document_worker", "notebook", data)


async def test_a_process_that_dies_before_it_has_read_everything_is_an_error() -> None:
    with pytest.raises(ToolError, match="could not be made sense of"):
        await run_isolated("joey.knowledge.no_such_module", "x", b"x" * 10_000_000)
