"""A pytest plugin that makes the machine stutter: `pytest -p tests.stutter`.

The event loop hesitates, threads begin late, and the disk takes its time, each now and then and by
chance. A test that fails only here waits for something that it might have missed, or has found two
things in joey that may happen in another order than anybody thought.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

_random = random.Random(os.environ.get("JOEY_STUTTER"))


def _sleep_randomly(probability: float, seconds: float) -> None:
    if _random.random() < probability:
        time.sleep(_random.random() * seconds)


def _delay_call(what: Callable[..., Any], probability: float, seconds: float) -> Callable[..., Any]:
    @wraps(what)
    def late(*args: Any, **options: Any) -> Any:
        _sleep_randomly(probability, seconds)
        return what(*args, **options)

    return late


def _delay_start(submit: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(submit)
    def begin_late(pool: ThreadPoolExecutor, what: Callable[..., Any], *args: Any) -> Any:
        return submit(pool, _delay_call(what, 0.2, 0.03), *args)

    return begin_late


for _module, _name, _probability, _seconds in (
    (asyncio.base_events.BaseEventLoop, "_run_once", 0.02, 0.03),
    (os, "fsync", 0.5, 0.12),
    (os, "fdatasync", 0.5, 0.12),
    (os, "replace", 0.2, 0.03),
    (os, "rename", 0.2, 0.03),
):
    setattr(_module, _name, _delay_call(getattr(_module, _name), _probability, _seconds))
ThreadPoolExecutor.submit = _delay_start(ThreadPoolExecutor.submit)  # type: ignore[method-assign]
