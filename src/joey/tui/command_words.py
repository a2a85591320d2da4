"""What the words behind a command mean, on the screen and line by line."""

from __future__ import annotations

from collections.abc import Sequence

from joey.client.session import Session
from joey.core.suggest import nearest
from joey.errors import UserError
from joey.presentation.text import one_line
from joey.tui.host import Entry, Host

ASK_AGAIN = "ask"
"""Behind /permissions: what was accepted for this task is over."""


def named_mode(modes: Sequence[Entry], words: str) -> Entry:
    """Raises UserError: there is no such mode."""
    named = next((mode for mode in modes if mode.key == words), None)
    if named is None:
        near = nearest(words, (mode.key for mode in modes))
        meant = f"did you mean {near}?" if near else "/mode lists them"
        raise UserError(f"there is no mode {one_line(words, 80)!r}; {meant}")
    return named


def withdraw_edits(host: Host, session: Session | None, words: str) -> str:
    """Ask about edits again; what to say about it.

    Raises:
        UserError: the words mean something else.
    """
    if words != ASK_AGAIN:
        raise UserError(f"/permissions takes nothing, or `{ASK_AGAIN}`: edits are asked again")
    withdrawn = session is not None and host.withdraw_edits(session)
    return "edits are asked about again" if withdrawn else "no edits were accepted in this task"
