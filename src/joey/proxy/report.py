"""The report on a book: clients, requests, prompt, tools, formats, failures, cache and money.

Fields, prompt, tools and formats are those of real clients, if there are any: test programs send
whatever their authors are trying out.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, structs

from joey.core.messages import Usage
from joey.proxy.cache_misses import CacheInspector, CacheMiss, MissReason
from joey.proxy.call_formats import CallFormat, list_known_tools
from joey.proxy.clients import ClientEvidence
from joey.proxy.conversations import RequestKind
from joey.proxy.exchange import Exchange
from joey.proxy.failures import (
    Failure,
    FailureKind,
    find_answered_turn,
    find_complaint,
    list_reply_failures,
)
from joey.proxy.recordings import RecordedSession, RecordedTurn, Recordings
from joey.proxy.request_blocks import ModelRequestBody
from joey.proxy.request_format import (
    FieldCounter,
    FieldStatistics,
    PromptCollector,
    PromptSummary,
)


class ClientSummary(Struct, rename="camel"):
    name: str
    by: ClientEvidence
    sessions: int = 0
    requests: int = 0
    user_agents: list[str] = []


class LocatedMiss(CacheMiss, frozen=True, kw_only=True):
    session: int
    turn: int


class CacheSummary(Struct, frozen=True):
    misses: tuple[LocatedMiss, ...] = ()


class Report(Struct, frozen=True, rename="camel", kw_only=True):
    requests: int
    """All recorded requests, including those outside conversations, which `clients` omits."""
    sessions: int
    real_sessions: int
    test_sessions: int
    clients: tuple[ClientSummary, ...]
    fields: tuple[FieldStatistics, ...]
    system_prompt: PromptSummary
    tools: tuple[str, ...]
    formats: dict[str, int]
    failures: tuple[Failure, ...]
    cache: CacheSummary
    cost: float | None
    cost_without_misses: float | None


class TurnMeasurement(Struct, frozen=True):
    """Time, tokens and cost of one request, for tables and charts."""

    turn: RecordedTurn
    at: int
    first_byte_ms: float | None
    seconds: float
    usage: Usage
    cost: float | None
    lost_cost: float

    @property
    def tokens_per_second(self) -> float | None:
        """Output tokens per second after the first byte."""
        streaming = self.seconds - (self.first_byte_ms or 0) / 1000
        return self.usage.output / streaming if self.usage.output and streaming > 0 else None


class ReportDetails(Struct, frozen=True):
    """The report, and details that only documents show."""

    report: Report
    sessions: tuple[RecordedSession, ...]
    turns: tuple[TurnMeasurement, ...]
    expected_format: CallFormat | None
    """The format in which most requests ask for calls; None if they offer no tools."""
    prompt_client: str = ""
    """The request whose system prompt the report describes."""
    other_requests: int = 0
    """Requests outside conversations."""


def build_report(
    recordings: Recordings, sessions: list[RecordedSession], *, other_requests: int = 0
) -> ReportDetails:
    """Build the report; `other_requests` of the same time are not conversations and only
    counted."""
    builder = _ReportBuilder(recordings, sessions, other_requests)
    for session in sessions:
        builder.add_session(session)
    return builder.build()


class _ReportBuilder:
    def __init__(
        self, recordings: Recordings, sessions: list[RecordedSession], other_requests: int
    ) -> None:
        self._recordings = recordings
        self._sessions = sessions
        self._other_requests = other_requests
        self._has_real = any(session.real for session in sessions)
        self._inspector = CacheInspector(recordings)
        self._clients: dict[str, ClientSummary] = {}
        self._fields = FieldCounter()
        self._formats: Counter[str] = Counter()
        self._tools: dict[str, None] = {}
        self._expected_formats: Counter[CallFormat] = Counter()
        self._prompts = PromptCollector()
        self._failures: list[Failure] = []
        self._faulted: set[str] = set()
        """Turns whose replies the client complained about."""
        self._misses: list[LocatedMiss] = []
        self._turns: list[TurnMeasurement] = []

    def add_session(self, session: RecordedSession) -> None:
        client = self._clients.setdefault(
            session.client, ClientSummary(session.client, session.client_by)
        )
        client.sessions += 1
        turns = self._recordings.list_turns(session.id)
        for number, turn in enumerate(turns):
            exchange = self._recordings.exchange(turn)
            client.requests += 1
            if exchange.user_agent and exchange.user_agent not in client.user_agents:
                client.user_agents = [*client.user_agents, exchange.user_agent]
            self._measure(turn, exchange)
            request = self._recordings.request(turn)
            if request is None:
                continue
            self._add_failures(turn, turns[:number], exchange, request)
            if session.real or not self._has_real:
                self._describe(session.client, turn, request)

    def _measure(self, turn: RecordedTurn, exchange: Exchange) -> None:
        miss = self._inspector.inspect(turn).miss
        is_miss = miss.reason is not MissReason.NONE and miss.tokens > 0 and exchange.status < 400
        if is_miss:
            fields = structs.asdict(miss)
            self._misses.append(LocatedMiss(**fields, session=turn.session, turn=turn.turn))
        measurement = TurnMeasurement(
            turn,
            exchange.at,
            exchange.first_byte_ms,
            exchange.seconds,
            turn.usage or Usage(),
            turn.cost,
            miss.cost if is_miss else 0.0,
        )
        self._turns.append(measurement)

    def _add_failures(
        self,
        turn: RecordedTurn,
        earlier: list[RecordedTurn],
        exchange: Exchange,
        request: ModelRequestBody,
    ) -> None:
        complaint = find_complaint(request)
        answered = find_answered_turn(turn, earlier) if complaint else None
        if complaint and answered is not None and answered.name not in self._faulted:
            self._faulted.add(answered.name)
            failure = Failure(answered.session, answered.turn, FailureKind.COMPLAINT, complaint)
            self._failures.append(failure)
        reply = self._recordings.reply(turn, request)
        self._failures += list_reply_failures(turn, exchange, request, reply)

    def _describe(self, client: str, turn: RecordedTurn, request: ModelRequestBody) -> None:
        self._fields.add(request.body)
        if turn.call_format is not None:
            self._formats[turn.call_format] += 1
        tools = list_known_tools(request)
        self._tools |= dict.fromkeys(tool.name for tool in tools)
        if tools:
            self._expected_formats[CallFormat.NATIVE if request.tools else CallFormat.XML] += 1
        if turn.kind is not RequestKind.SIDE:
            self._prompts.add(client, request.system_texts)

    def build(self) -> ReportDetails:
        costs = [turn.cost for turn in self._turns if turn.cost is not None]
        cost = sum(costs) if costs else None
        lost = sum(miss.cost for miss in self._misses)
        real = sum(session.real for session in self._sessions)
        report = Report(
            requests=len(self._turns) + self._other_requests,
            sessions=len(self._sessions),
            real_sessions=real,
            test_sessions=len(self._sessions) - real,
            clients=tuple(self._clients.values()),
            fields=tuple(self._fields.list_fields()),
            system_prompt=self._prompts.summarize(),
            tools=tuple(self._tools),
            formats={each.value: self._formats[each] for each in CallFormat},
            failures=tuple(sorted(self._failures, key=lambda each: (each.session, each.turn))),
            cache=CacheSummary(tuple(self._misses)),
            cost=cost,
            cost_without_misses=None if cost is None else max(0.0, cost - lost),
        )
        expected = max(self._expected_formats, key=self._expected_formats.__getitem__, default=None)
        return ReportDetails(
            report,
            tuple(self._sessions),
            tuple(self._turns),
            expected,
            self._prompts.client,
            self._other_requests,
        )
