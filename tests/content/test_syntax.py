"""Texts that a parser chokes on cost nobody else anything."""

from __future__ import annotations

import asyncio
import warnings

import pytest

from joey.content.syntax_checker import find_syntax_errors


@pytest.mark.parametrize(
    ("suffix", "data", "message"),
    [
        (".py", b"x = [1, 2]\n" * 10_000 + b"(", "never closed"),
        (".py", b"a" + b".b" * 100_000, "recursion"),
        (".json", b"1" * 5000, "digits"),
        (".toml", b"a = " + b"1" * 5000, "digits"),
        (".toml", b"a = \n", "Invalid value"),
    ],
)
async def test_what_is_wrong_is_said_whatever_the_size(
    suffix: str, data: bytes, message: str
) -> None:
    (problem,) = await find_syntax_errors("a/file", suffix, data, 20)
    assert message in problem.message
    assert problem.path == "a/file"


async def test_what_takes_too_long_is_given_up() -> None:
    async with asyncio.timeout(20):
        assert (
            await find_syntax_errors("a.toml", ".toml", b"a" + b".a" * 400_000 + b" = 1", 0.5) == []
        )


async def test_files_that_are_parsed_at_once_leave_warnings_as_they_were(
    eager_threads: None,
) -> None:
    before = list(warnings.filters)
    texts = [b'"\\d"\n' * 50] * 200
    found = await asyncio.gather(*(find_syntax_errors("a.py", ".py", text, 20) for text in texts))
    assert found == [[]] * 200
    assert list(warnings.filters) == before
