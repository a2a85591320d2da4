from __future__ import annotations

import pytest

from joey.core.structured_output import parse_structured_result


@pytest.mark.parametrize("text", ['{"a": 1}', ' \n{"a": 1}\n', '```json\n{"a": 1}\n```\n'])
def test_json_is_found_in_a_fence_too(text: str) -> None:
    read = parse_structured_result(text)
    assert (read.json_text, read.value) == ('{"a": 1}', {"a": 1})


@pytest.mark.parametrize("text", ["", "no", '{"a": 1} there', "NaN", "[" * 100_000])
def test_what_is_no_json_says_so(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_structured_result(text)
