from __future__ import annotations

import pytest

from joey.core.edits.text_replace import CountMismatch, NormalizedText, ReplaceResult, replace_text


@pytest.mark.parametrize(
    ("text", "old"), [("}\n}\n}\n", "}\n}"), ("aXaXa", "aXa"), ("}\r\n}\r\n}\r\n", "}\n}")]
)
def test_a_text_that_overlaps_itself_is_there_more_than_once(text: str, old: str) -> None:
    outcome = replace_text(NormalizedText(text), old, "new", tolerant=True)
    assert isinstance(outcome, CountMismatch)
    assert len(outcome.spans) == 2
    assert isinstance(replace_text(NormalizedText(text), old, "new", expected=None), ReplaceResult)


def test_a_text_that_is_there_too_often_is_not_looked_for_with_other_white_space() -> None:
    text = NormalizedText("a\u00a0b\na\u00a0b\na b\n")
    outcome = replace_text(text, "a\u00a0b", "X", tolerant=True)
    assert isinstance(outcome, CountMismatch)
    assert len(outcome.spans) == 2
