"""Planted breaks of the prompt cache, found at the planted character with their price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from joey.proxy.cache_misses import CacheInspector, CacheMiss, MissReason
from tests.harness.proxy.conversing import SYSTEM, TOOLS, build_request, build_response
from tests.harness.proxy.filing import ANTHROPIC_PATH, CHAT_PATH, RESPONSES_PATH, open_recordings

WIRES = (ANTHROPIC_PATH, CHAT_PATH, RESPONSES_PATH)
ASKED = [("user", "What is in the repository?")]
REPLIED = [*ASKED, ("assistant", "There are three files in it, all of them short.")]
GOING_ON = [*REPLIED, ("user", "Read the first one.")]
SENT, AGAIN = 6_000, 6_040
RATES = {ANTHROPIC_PATH: (3.0, 3.75, 0.3), CHAT_PATH: (1.25, 1.25, 0.125)}
"""Dollars per million tokens: input, cache writes, cache reads."""


def inspect(
    path: Path, wire: str, first: dict[str, Any], second: dict[str, Any], **usage: int
) -> CacheMiss:
    later = usage.pop("later_ms", 10_000)
    exchanges = [
        {"request": first, "response": build_response(wire, REPLIED[1][1], writes=SENT), "at": 0},
        {"request": second, "response": build_response(wire, "Ok.", **usage), "at": later},
    ]
    recordings = open_recordings(
        path / "book.sqlite", [{**each, "path": wire} for each in exchanges]
    )
    (session,) = recordings.list_sessions()
    miss = CacheInspector(recordings).inspect(recordings.list_turns(session.id)[1]).miss
    recordings.book.close()
    return miss


@pytest.mark.parametrize("wire", WIRES)
def test_clock_in_the_prompt_is_found_with_its_price(tmp_path: Path, wire: str) -> None:
    first = build_request(wire, ASKED, tools=TOOLS)
    second = build_request(wire, GOING_ON, tools=TOOLS, system=SYSTEM.replace(":20.", ":21."))
    miss = inspect(tmp_path, wire, first, second, writes=AGAIN)
    assert (miss.reason, miss.block, miss.kind) == (MissReason.CHANGED, 3, "system")
    assert miss.character == SYSTEM.index("0. ")
    assert "15:09:20" in miss.before and "15:09:21" in miss.after
    _, write, read = RATES.get(wire, RATES[CHAT_PATH])
    assert miss.cost == pytest.approx(AGAIN * (write - read) / 1e6, rel=0.1)


@pytest.mark.parametrize("wire", WIRES)
def test_other_order_of_tools_is_found_in_the_first_tool(tmp_path: Path, wire: str) -> None:
    first = build_request(wire, ASKED, tools=TOOLS)
    second = build_request(wire, GOING_ON, tools=(TOOLS[2], *TOOLS[:2]))
    miss = inspect(tmp_path, wire, first, second, fresh=AGAIN)
    assert (miss.reason, miss.block, miss.kind) == (MissReason.CHANGED, 0, "tools")
    old, new = (
        json.dumps(each["tools"][0], sort_keys=True, separators=(",", ":"))
        for each in (first, second)
    )
    assert miss.character == next(n for n in range(len(old)) if old[n] != new[n])
    plain, _, read = RATES.get(wire, RATES[CHAT_PATH])
    assert miss.cost == pytest.approx(AGAIN * (plain - read) / 1e6, rel=0.1)


@pytest.mark.parametrize("wire", WIRES)
def test_edited_past_is_found_in_its_message(tmp_path: Path, wire: str) -> None:
    edited = [("user", "What is in the Repository?"), *GOING_ON[1:]]
    first, second = build_request(wire, ASKED), build_request(wire, edited)
    miss = inspect(tmp_path, wire, first, second, reads=5_000, writes=AGAIN - 5_000)
    assert (miss.block, miss.kind, miss.character) == (1, "message", 15)
    assert miss.tokens == pytest.approx(AGAIN - 5_000, rel=0.1)


@pytest.mark.parametrize("wire", WIRES)
def test_request_that_only_goes_on_has_no_miss(tmp_path: Path, wire: str) -> None:
    first, second = build_request(wire, ASKED), build_request(wire, GOING_ON)
    assert inspect(tmp_path, wire, first, second, reads=SENT) == CacheMiss()


@pytest.mark.parametrize(
    ("reason", "changes", "usage"),
    [
        (MissReason.EXPIRED, {}, {"later_ms": 400_000}),
        (MissReason.UNKNOWN, {}, {}),
        (MissReason.OTHER_MODEL, {"model": "claude-opus-4-5"}, {}),
        (MissReason.NO_MARK, {}, {}),
    ],
)
def test_miss_without_a_change_has_a_reason(
    tmp_path: Path, reason: MissReason, changes: dict[str, Any], usage: dict[str, int]
) -> None:
    first = build_request(ANTHROPIC_PATH, ASKED)
    second = build_request(ANTHROPIC_PATH, GOING_ON, **changes)
    if reason is MissReason.NO_MARK:
        first["system"] = second["system"] = SYSTEM
    miss = inspect(tmp_path, ANTHROPIC_PATH, first, second, fresh=AGAIN, **usage)
    assert (miss.reason, miss.block) == (reason, None)
    assert miss.tokens == pytest.approx(AGAIN, rel=0.1)
    assert miss.cost > 0


def test_prompt_below_the_least_size_is_too_small(tmp_path: Path) -> None:
    first = build_request(CHAT_PATH, ASKED, system="Be brief.")
    second = build_request(CHAT_PATH, GOING_ON, system="Be brief.")
    exchanges: list[dict[str, Any]] = [
        {"request": first, "response": build_response(CHAT_PATH, REPLIED[1][1], fresh=80)},
        {"request": second, "response": build_response(CHAT_PATH, "Ok.", fresh=100), "at": 2_000},
    ]
    recordings = open_recordings(tmp_path / "book.sqlite", exchanges)
    miss = CacheInspector(recordings).inspect(recordings.find_turn("1.2")).miss
    assert (miss.reason, miss.tokens) == (MissReason.TOO_SMALL, 80)


def test_dropped_tail_is_compared_with_the_latest_request(tmp_path: Path) -> None:
    """The request that is continued is a prefix of both, so only the latest shows the loss."""
    longer = [*GOING_ON, ("assistant", "The first file has a list of names in it."), ("user", "Go")]
    rewound = [*REPLIED, ("user", "Read the second one.")]
    texts = [REPLIED[1][1], longer[3][1], "Done with it.", "Ok."]
    requests = [build_request(CHAT_PATH, each) for each in (ASKED, GOING_ON, longer, rewound)]
    exchanges = [
        {"request": request, "response": build_response(CHAT_PATH, text, fresh=5_000), "at": at}
        for at, (request, text) in enumerate(zip(requests, texts, strict=True))
    ]
    recordings = open_recordings(tmp_path / "book.sqlite", exchanges)
    found = CacheInspector(recordings).inspect(recordings.find_turn("1.4"))
    assert found.earlier is not None and found.earlier.name == "1.3"
    assert (found.miss.reason, found.miss.block) == (MissReason.CHANGED, 3)
    assert found.miss.character == len("Read the ")
