"""The former home of `joey.follow_task_tree`, for programs that still import it from here.

This module will be removed in the next release.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from joey.client.session import Session
from joey.client.task_tree_events import TaskTreeEvent, follow_task_tree
from joey.core.events import Event


def family(
    session: Session, events: AsyncIterator[Event], *, whole: bool = False
) -> AbstractAsyncContextManager[AsyncIterator[TaskTreeEvent]]:
    message = "joey.client.family.family is joey.follow_task_tree now"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return follow_task_tree(session, events, from_start=whole)
