"""Three planted breaks of the prompt cache, recorded through the proxy from a scripted service."""

from __future__ import annotations

import asyncio
import json
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from joey.proxy.cache_misses import CacheInspector, MissReason
from joey.proxy.filing import open_filed_book
from joey.proxy.recordings import Recordings
from joey.proxy.report import build_report
from joey.testing.script import Turn, say, usage
from joey.testing.server import ModelServer
from tests.harness.proxy.conversing import SYSTEM, TOOLS, build_request
from tests.harness.proxy.filing import ANTHROPIC_PATH, CHAT_PATH
from tests.harness.proxy.proxies import WAIT_S, open_proxy

REPLIES = [f"The answer to question {number} is here." for number in range(5)]
MESSAGES = [
    message
    for number, reply in enumerate(REPLIES)
    for message in (("user", f"What about number {number}?"), ("assistant", reply))
]
LATER = SYSTEM.replace(":20.", ":21.")
EDITED = [("user", "What about Number 0?"), *MESSAGES[1:]]
TURNED = (TOOLS[1], TOOLS[0], TOOLS[2])
SENT = 6_000
PRICES = {ANTHROPIC_PATH: (3.75, 0.3), CHAT_PATH: (1.25, 0.125)}
"""Dollars per million tokens: what was paid for tokens that were not read, and a read."""
READS = (0, SENT, 0, 0, 3_000)
"""Turns 3 to 5 break the cache: the clock, the order of tools, an edited message."""


def build_requests(path: str) -> list[dict[str, Any]]:
    return [
        build_request(path, MESSAGES[:1], tools=TOOLS),
        build_request(path, MESSAGES[:3], tools=TOOLS),
        build_request(path, MESSAGES[:5], tools=TOOLS, system=LATER),
        build_request(path, MESSAGES[:7], tools=TURNED, system=LATER),
        build_request(path, EDITED[:9], tools=TURNED, system=LATER),
    ]


def send_all(url: str, path: str) -> None:
    for body in build_requests(path):
        connection = HTTPConnection(url.removeprefix("http://"), timeout=WAIT_S)
        connection.request("POST", path, json.dumps(body), {"user-agent": "claude-cli/2.1"})
        connection.getresponse().read()
        connection.close()


@pytest.mark.parametrize("path", [ANTHROPIC_PATH, CHAT_PATH])
async def test_planted_breaks_are_found_where_they_are(tmp_path: Path, path: str) -> None:
    is_anthropic = path == ANTHROPIC_PATH
    turns = [
        Turn(say(reply), usage(cache_reads=reads, cache_writes=SENT - reads, output=9))
        if is_anthropic
        else Turn(say(reply), usage(input=SENT - reads, cache_reads=reads, output=9))
        for reply, reads in zip(REPLIES, READS, strict=True)
    ]
    async with ModelServer(turns) as server, open_proxy(tmp_path, server.url) as proxy:
        await asyncio.to_thread(send_all, proxy.url, path)
        await proxy.wait_for_recorded(len(READS))
    with open_filed_book(proxy.book) as book:
        recordings = Recordings(book)
        report = build_report(recordings, recordings.list_sessions()).report
        inspector = CacheInspector(recordings)
        none = inspector.inspect(recordings.find_turn("1.2")).miss
    assert none.reason is MissReason.NONE
    found = [(each.turn, each.block, each.kind, each.character) for each in report.cache.misses]
    specs = [
        json.dumps(each["tools"][0], sort_keys=True, separators=(",", ":"))
        for each in build_requests(path)[2:4]
    ]
    turned = next(n for n in range(len(specs[0])) if specs[0][n] != specs[1][n])
    assert found == [
        (3, 3, "system", SYSTEM.index("0. ")),
        (4, 0, "tools", turned),
        (5, 4, "message", len("What about ")),
    ]
    paid, read = PRICES[path]
    for miss, reads in zip(report.cache.misses, READS[2:], strict=True):
        assert miss.cost == pytest.approx((SENT - reads) * (paid - read) / 1e6, rel=0.1)
