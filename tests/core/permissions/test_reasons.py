from __future__ import annotations

import msgspec
import pytest

from joey.core.permissions.reasons import (
    Access,
    Reason,
    ReasonKind,
    format_cause,
    format_reason,
    format_reasons,
)

WORDED_ELSEWHERE = {ReasonKind.DISABLED_TOOL, ReasonKind.NOT_IN_MODE, ReasonKind.HOOK}
"""Refusals whose text the tool registry or a hook writes."""


@pytest.mark.parametrize("kind", [each for each in ReasonKind if each not in WORDED_ELSEWHERE])
def test_every_reason_has_a_text_and_can_be_stored(kind: ReasonKind) -> None:
    reason = Reason(
        kind,
        access=Access.EXECUTE,
        subject="make {x} all",
        setting="alwaysAllowExecute",
        rule="make",
        excerpt="make {x}",
        detail="it may do anything",
    )

    assert format_reason(reason)
    assert "{0." not in format_reason(reason)
    assert format_reason(reason).endswith(format_cause(reason))
    stored = msgspec.json.encode(reason)
    assert msgspec.json.decode(stored, type=Reason) == reason


def test_a_tool_that_changed_its_description_is_named_with_it() -> None:
    reason = Reason(
        ReasonKind.SETTING_OFF,
        access=Access.MCP,
        subject="weather/forecast",
        has_changed_description=True,
        setting="alwaysAllowMcp",
    )

    assert format_reasons([reason, reason]) == (
        "using weather/forecast (which its server describes otherwise than before):"
        " alwaysAllowMcp is off"
    )
    assert msgspec.to_builtins(reason) == {
        "kind": "setting_off",
        "access": "mcp",
        "subject": "weather/forecast",
        "changed": True,
        "setting": "alwaysAllowMcp",
    }
