from __future__ import annotations

import pytest

from joey.errors import ToolError
from joey.tools.regex_client import match_patterns


async def test_each_expression_is_looked_for_in_its_text() -> None:
    pairs = [("^a", "ab"), ("^b", "ab"), ("é$", "café"), ("^a", "ab")]
    assert await match_patterns(pairs) == {
        ("^a", "ab"): True,
        ("^b", "ab"): False,
        ("é$", "café"): True,
    }
    assert await match_patterns([]) == {}


@pytest.mark.requirement("front:json-schema:bounded")
async def test_an_expression_that_takes_for_ever_is_stopped() -> None:
    with pytest.raises(ToolError, match=r"longer than 0\.5 s"):
        await match_patterns([("^(a+)+$", "a" * 60 + "b")], seconds=0.5)
