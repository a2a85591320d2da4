"""A model server that enforces the rules of one service and answers with that service's errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from joey.testing.script import Turn
from joey.testing.server import ModelServer, Request
from tests.service_rules.cloud_logins import CloudLogin
from tests.service_rules.rules import Body, Issued
from tests.service_rules.services import (
    Calls,
    Service,
)


class StrictServer(ModelServer):
    """Plays a plan, a list of calls for each turn, to requests that keep the rules."""

    def __init__(
        self, service: Service, plan: Sequence[Calls], login: CloudLogin | None = None
    ) -> None:
        super().__init__(self._answer, raw_paths=service.raw_paths)
        self._wires.update(service.wires)
        self.service = service
        self.login = login
        self.issued = Issued()
        self.violations: list[str] = []
        self._plan = list(plan)

    @property
    def flags(self) -> list[str]:
        url = self.url + self.service.base_path
        return ["--provider", self.service.name, "--base-url", url, "-m", self.service.model]

    @property
    def env(self) -> dict[str, str]:
        return {} if self.login is None else self.login.env

    def _answer(self, request: Request) -> Turn:
        refusal = None if self.login is None else self.login.check(request)
        if refusal := refusal or self.service.check_request(request):
            self.violations.append(str(refusal.body))
            return Turn(refusal)
        body = self.service.view(request.body)
        violations = find_violations(self.service, body, self.issued)
        if violations:
            self.violations += violations.values()
            name = next(iter(violations))
            rule = next(rule for rule in self.service.rules if rule.name == name)
            return Turn(self.service.fail(next(iter(rule.check(body, self.issued)))))
        number = len(self.issued.replies) + 1
        reply = self.service.write_reply(number, self._plan.pop(0))
        self.issued.replies[_first_id(reply.echo)] = reply.echo
        return Turn(*reply.steps)


def find_violations(service: Service, body: Body, issued: Issued) -> dict[str, str]:
    """The first violation of each rule that the body breaks, by the name of the rule."""
    return {
        rule.name: f"{rule.name}: {violation.message} {violation.place}"
        for rule in service.rules
        for violation in list(rule.check(body, issued))[:1]
    }


def _first_id(echo: Body) -> str:
    if calls := echo.get("tool_calls"):
        return str(calls[0]["id"])
    return next(str(block["id"]) for block in echo["content"] if block["type"] == "tool_use")


@asynccontextmanager
async def log_in(service: Service, directory: Path) -> AsyncIterator[CloudLogin | None]:
    if service.login is None:
        yield None
        return
    async with service.login.serve(directory) as login:
        yield login
