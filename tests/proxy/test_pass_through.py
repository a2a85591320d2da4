"""Through the proxy, client and server see what they would see without it, and all is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given

from joey.proxy.book import Book
from joey.proxy.exchange import Exchange, ExchangeState, Wire
from joey.proxy.filing import open_filed_book
from joey.proxy.recorder import ExchangeRecorder
from joey.proxy.routes import Routes, make_upstream
from joey.proxy.server import ListenOptions, run_proxy_server
from tests.harness.counts import shortened_examples
from tests.harness.proxy.wire_scenarios import (
    Cut,
    Scenario,
    ScriptedServer,
    WireExchange,
    normalise,
    play,
    scenarios,
)


class ProxyLoop:
    """A proxy and its server in an event loop that lives as long as the tests of this module."""

    def __init__(self, directory: Path) -> None:
        self.runner = asyncio.Runner()
        self.book = directory / "book.sqlite"
        self.failures: list[str] = []
        self.recorder = ExchangeRecorder(self.book, self.failures.append)
        self.server = ScriptedServer()
        upstream = make_upstream(f"http://127.0.0.1:{self.server.port}", "test")
        routes = Routes({Wire.ANTHROPIC: upstream, Wire.OPENAI: upstream})
        self._context = run_proxy_server(ListenOptions(0), routes, self.recorder)
        self.url = self.runner.run(self._context.__aenter__())
        self.port = int(self.url.rpartition(":")[2])

    def find_last_arrival(self) -> int:
        """When the last request arrived that is in the book."""
        with open_filed_book(self.book) as book:
            return int(
                book.connection.execute("SELECT coalesce(max(at), 0) FROM exchange").fetchone()[0]
            )

    def close(self) -> None:
        self.runner.run(self._context.__aexit__(None, None, None))
        self.recorder.close()
        self.server.socket.close()
        self.runner.close()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyLoop]:
    made = ProxyLoop(tmp_path_factory.mktemp("proxy"))
    yield made
    made.close()
    assert made.failures == []


@given(scenario=scenarios())
@shortened_examples(150, 10_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_bytes_are_those_without_the_proxy(proxy: ProxyLoop, scenario: Scenario) -> None:
    direct = proxy.runner.run(play(scenario, proxy.server, proxy.server.port))
    before = proxy.find_last_arrival()
    through = proxy.runner.run(play(scenario, proxy.server, proxy.port))
    sides = [normalise(direct.server_got), normalise(through.server_got)]
    assert through.client_got == direct.client_got
    if scenario.is_cut_by_server and scenario.is_early:
        # Where the server cuts while it is still being sent to, both depend on timing.
        assert sides[0].startswith(sides[1]) or sides[1].startswith(sides[0])
    else:
        assert sides[0] == sides[1]
        assert through.client_saw == direct.client_saw
    with open_filed_book(proxy.book) as book:
        recorded = list(book.exchanges(since=before + 1))
        assert len(recorded) <= len(scenario.exchanges)
        left = len(through.client_got)
        for found, sent in zip(recorded, scenario.exchanges, strict=False):
            check_recording(book, found, sent, scenario.cut, left)
            left -= len(sent.response_wire)
        assert left <= 0


def check_recording(
    book: Book, found: Exchange, sent: WireExchange, cut: Cut, received: int
) -> None:
    """Of the response, the client got `received` bytes."""
    assert (found.method, found.path) == (sent.method, sent.target)
    request, response = book.request_body(found.id), book.response_body(found.id)
    assert sent.request.content().startswith(request)
    whole = sent.response.content()
    if received >= len(sent.response_wire) and not (sent.ends_with_connection and cut):
        assert (response, found.state) == (whole, ExchangeState.DONE)
        assert sent.is_early or request == sent.request.content()
        return
    got = sent.response.content(received - len(sent.response_wire) + len(sent.response.body))
    match cut:
        case Cut.SERVER_CLOSES | Cut.SERVER_RESETS:
            is_clean = sent.ends_with_connection and cut is Cut.SERVER_CLOSES and found.status
            assert response == got
            ends = {ExchangeState.DONE if is_clean else ExchangeState.CUT_UPSTREAM}
            if sent.is_early:  # closed with bytes unread, a connection is reset
                ends.add(ExchangeState.CUT_UPSTREAM)
            assert found.state in ends
        case _:
            assert whole.startswith(response)
            assert response.startswith(got)
            assert found.state in (ExchangeState.CUT_CLIENT, ExchangeState.DONE)
