"""What an edit broke: the errors of a file after it, without those that were there before."""

from __future__ import annotations

from collections.abc import Sequence

from joey.core.diagnostics import Problem, new_errors, problems_text
from joey.ports import Place, ToolContext


async def known_problems(ctx: ToolContext, place: Place) -> Sequence[Problem]:
    """What the checkers say about a file now; nothing where nobody wants to know."""
    problems = ctx.extras.problems
    if problems is None or not place.inside or not ctx.settings.include_diagnostic_messages:
        return ()
    return await problems.of([place])


async def told_problems(ctx: ToolContext, place: Place, before: Sequence[Problem]) -> str:
    """The new ones as the model reads them; empty when there are none."""
    found = new_errors(before, await known_problems(ctx, place))
    if not found:
        return ""
    most = ctx.settings.max_diagnostic_messages
    most = len(found) if most < 0 else most
    text = problems_text(found[:most])
    more = f"\n... {len(found) - most} more" if len(found) > most else ""
    return f"\n\nNew problems detected after saving the file:\n{text}{more}"
