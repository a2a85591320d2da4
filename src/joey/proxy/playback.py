"""Playback of a fixture: which recorded response answers a request, and how the request differs.

Requests to a model are the same if their blocks (tools, system, messages), their model, and whether
they stream are equal: the rest differs between two runs of the same program. A repeated request
gets its recorded responses in turn, and then from the first one again.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from joey.proxy.cache_misses import count_shared_characters, find_difference
from joey.proxy.fixtures import Fixture, FixtureExchange
from joey.proxy.masking import make_body_masker, mask_target
from joey.proxy.request_blocks import ModelRequestBody, decode_request, find_model_api


class ReceivedRequest(Struct, frozen=True):
    method: str
    target: str
    content_type: str
    body: bytes


class Refusal(Struct, frozen=True):
    """Why no recorded response answers a request."""

    status: int
    text: str


class _Played(Struct, frozen=True):
    number: int
    exchange: FixtureExchange
    request: ModelRequestBody | None


class Playback:
    def __init__(
        self, fixture: Fixture, redact: Callable[[str], str], *, is_loose: bool = False
    ) -> None:
        """With `is_loose`, requests to a model are answered in recorded order, whatever they
        contain. `redact` is applied to requests if the fixture was redacted."""
        self._redact = redact if fixture.redacted else None
        self._is_loose = is_loose
        self._played = [
            _Played(number, each, decode_request(each.path, each.request.content))
            for number, each in enumerate(fixture.exchanges)
        ]
        self._counts: dict[tuple[int, ...], int] = {}
        """How often the exchanges for the same request have been played."""
        self._next = 0
        """The exchange following the one played last."""

    def find_answer(self, received: ReceivedRequest) -> FixtureExchange | Refusal:
        target = mask_target(received.target.encode("latin-1", "replace")).decode("latin-1")
        if received.method != "POST" or find_model_api(target) is None:
            return self._find_other_answer(received.method, target)
        body = make_body_masker(received.content_type).feed(received.body)
        if self._redact is not None:
            body = self._redact(body.decode("utf-8", "replace")).encode()
        request = decode_request(target, body)
        if request is None:
            return Refusal(400, "The body of this request is not a valid model request.")
        candidates = [
            each
            for each in self._played
            if each.request is not None and each.request.api is request.api
        ]
        if not candidates:
            return Refusal(404, f"No request to {target} was recorded.")
        if self._is_loose:
            return self._take(candidates)
        same = [each for each in candidates if _is_same(each.request, request)]
        if same:
            return self._take(same)
        difference = self._describe_difference(candidates, request)
        return Refusal(400, f"{difference} (--loose would accept it)")

    def _find_other_answer(self, method: str, target: str) -> FixtureExchange | Refusal:
        others = [e for e in self._played if e.request is None and e.exchange.method == method]
        path = target.partition("?")[0]
        for same in (
            [each for each in others if each.exchange.path == target],
            [each for each in others if each.exchange.path.partition("?")[0] == path],
        ):
            if same:
                return self._take(same)
        return Refusal(404, f"No {method} request to {target} was recorded.")

    def _take(self, same: list[_Played]) -> FixtureExchange:
        group = tuple(each.number for each in same)
        count = self._counts.get(group, 0)
        self._counts[group] = count + 1
        chosen = same[count % len(same)]
        self._next = chosen.number + 1
        return chosen.exchange

    def _describe_difference(self, candidates: list[_Played], request: ModelRequestBody) -> str:
        """Describe the difference from the recorded request with most in common; among equals, the
        one that would be next."""

        def rate(each: _Played) -> tuple[int, int, bool, int]:
            assert each.request is not None
            shared = count_shared_characters(each.request.blocks, request.blocks)
            more = abs(len(each.request.blocks) - len(request.blocks))
            return shared, -more, each.number == self._next, -each.number

        closest = max(candidates, key=rate)
        assert closest.request is not None
        said = f"This request differs from the recorded {closest.exchange.name}"
        recorded = closest.request
        found = find_difference(recorded.blocks, request.blocks, is_appended=False)
        if found is not None:
            return (
                f"{said} in block {found.block} ({found.kind}), character {found.character}:"
                f" recorded {found.before!r}, received {found.after!r}"
            )
        if recorded.model != request.model:
            return f"{said} in its model: recorded {recorded.model!r}, received {request.model!r}"
        return (
            f"{said} in `stream`: recorded {recorded.is_streamed}, received {request.is_streamed}"
        )


def _is_same(recorded: ModelRequestBody | None, request: ModelRequestBody) -> bool:
    return (
        recorded is not None
        and recorded.blocks == request.blocks
        and recorded.model == request.model
        and recorded.is_streamed == request.is_streamed
        and recorded.continued_reply == request.continued_reply
    )
