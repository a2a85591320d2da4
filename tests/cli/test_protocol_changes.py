"""A model without native tools at a server that says so, with the real program."""

from __future__ import annotations

import json

import pytest

from joey.testing.script import Turn, fail, say
from joey.testing.server import ModelServer, Request
from tests.harness.cli.binary import Joey
from tests.harness.providers.refusals import TOOL_REFUSALS

XML_END = Turn(say("<attempt_completion>\n<result>All done.</result>\n</attempt_completion>"))


def reach(server: ModelServer) -> list[str]:
    return ["--provider", "vllm", "--base-url", f"{server.url}/v1", "-m", "my-model"]


def is_native(request: Request) -> bool:
    return "tools" in request.body


@pytest.mark.contract("protocol:change")
@pytest.mark.parametrize(("status", "text"), TOOL_REFUSALS)
async def test_the_task_goes_on_in_xml_and_the_next_one_starts_in_it(
    joey: Joey, status: int, text: str
) -> None:
    async with ModelServer([Turn(fail(status, text)), XML_END, XML_END]) as server:
        first = await joey.run("-p", *reach(server), "do it")
        second = await joey.run("-p", *reach(server), "do it again")
        assert [is_native(request) for request in server.requests] == [True, False, False]
    assert (first.code, first.out.strip()) == (0, "All done.")
    assert "does not take tools for my-model; calling tools by XML tags" in first.err
    assert (second.code, second.out.strip()) == (0, "All done.")
    assert "XML" not in second.err
    remembered = json.loads((joey.home / "tool-support.json").read_text())
    assert list(remembered["refused"].values()) == [["my-model"]]


@pytest.mark.contract("protocol:change")
async def test_a_task_with_a_named_protocol_fails_until_the_user_names_another(joey: Joey) -> None:
    refusal = Turn(fail(400, "my-model does not support tools"))
    async with ModelServer([refusal, XML_END, XML_END]) as server:
        failed = await joey.run("-p", *reach(server), "--protocol", "native", "do it")
        assert failed.code == 78
        assert "--protocol xml" in failed.err
        (task,) = joey.tasks
        again = await joey.run("-p", "-r", task.name, "--protocol", "xml", "go on")
        later = await joey.run("-p", "-r", task.name, "and on")
        assert [is_native(request) for request in server.requests] == [True, False, False]
    assert (again.code, later.code) == (0, 0), (again.err, later.err)
    shown = await joey.run("tasks", "show", task.name, "--json")
    assert "xml" in shown.out


async def test_the_protocol_of_a_profile_is_a_named_one(joey: Joey) -> None:
    refusal = Turn(fail(400, "my-model does not support tools"))
    async with ModelServer([refusal]) as server:
        joey.home.mkdir(exist_ok=True)
        profile = {
            "provider": "vllm",
            "model": "my-model",
            "baseUrl": f"{server.url}/v1",
            "protocol": "native",
        }
        profiles = {"active": "own", "profiles": {"own": profile}}
        (joey.home / "profiles.json").write_text(json.dumps(profiles))
        done = await joey.run("-p", "do it")
        assert len(server.requests) == 1
    assert done.code == 78
