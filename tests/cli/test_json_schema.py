"""`--json-schema`: results that programs can rely on."""

from __future__ import annotations

import json

import pytest

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.steering import steering

SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"enum": ["good", "bad"]}, "code": {"pattern": "^[A-Z]{2}$"}},
    "required": ["verdict"],
    "additionalProperties": False,
}
GIVEN = ("--json-schema", json.dumps(SCHEMA))


def completing(result: str) -> Turn:
    return Turn(call("attempt_completion", {"result": result}))


FIT = completing('{"verdict": "good", "code": "AB"}')
UNFIT = completing('{"verdict": "fine", "code": "x"}')


@pytest.mark.contract("cli:json-schema")
async def test_a_result_that_does_not_fit_goes_back_to_the_model_until_it_does(joey: Joey) -> None:
    (joey.workspace / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    flags = ("-p", "--output-format", "json", "--json-schema", "schema.json")
    async with ModelServer([completing("It is good."), UNFIT, FIT]) as server:
        done = await joey.run(*flags, *reach(server.url), "judge it")
        first, second, third = server.requests
    assert done.code == 0
    assert done.json["structured"] == {"verdict": "good", "code": "AB"}
    assert done.json["content"] == '{"verdict": "good", "code": "AB"}'
    assert '"enum":["good","bad"]' in json.dumps(first.body["system"]).replace("\\", "")
    assert first.body["system"] == third.body["system"]
    assert "It is not JSON" in json.dumps(second.body["messages"][-1])
    sent = json.dumps(third.body["messages"][-1])
    assert "$.verdict: 'fine' is not one of ['good', 'bad']." in sent
    assert "$.code: 'x' does not match" in sent
    assert done.err.count("result was not accepted") == 2


async def test_in_text_the_json_alone_is_printed(joey: Joey) -> None:
    async with ModelServer([completing('```json\n{"verdict": "bad"}\n```')]) as server:
        done = await joey.run("-p", *GIVEN, *reach(server.url), "judge it")
    assert (done.code, done.out) == (0, '{"verdict": "bad"}\n')


async def test_the_last_line_of_a_stream_has_the_value(joey: Joey) -> None:
    flags = ("-p", "--output-format", "stream-json", "--protocol", "xml", *GIVEN)
    text = '<attempt_completion>\n<result>\n{"verdict": "bad"}\n</result>\n</attempt_completion>'
    async with ModelServer([Turn(say(text))]) as server:
        done = await joey.run(*flags, *reach(server.url), "judge it")
    assert done.lines[-1]["structured"] == {"verdict": "bad"}


@pytest.mark.contract("cli:json-schema")
async def test_a_model_that_never_gives_it_is_given_up(joey: Joey) -> None:
    (joey.workspace / "a.txt").write_text("a", encoding="utf-8")
    look = Turn(call("read_file", {"path": "a.txt"}))
    async with ModelServer([UNFIT, look, UNFIT, look, UNFIT, FIT]) as server:
        done = await joey.run(
            "-p", "--output-format", "json", *GIVEN, *reach(server.url), "judge it"
        )
    assert done.code == done.json["exitCode"] == 3
    assert (done.json["code"], done.json["success"]) == ("schema", False)
    assert "in 3 attempts" in done.json["reason"]
    assert "$.verdict: 'fine' is not one of" in done.json["reason"]
    assert "structured" not in done.json
    assert "joey: stopped: the model gave no result of the form that was asked for" in done.err


@pytest.mark.contract("cli:json-schema")
@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ('{"iff": {}}', 2, "uses `iff` at #"),
        ("{nonsense", 2, "--json-schema is not JSON"),
        ("broken.json", 78, "broken.json is not JSON"),
        ("nowhere.json", 2, "nowhere.json cannot be read: No such file"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused_before_anything_is_spent(
    joey: Joey, given: str, code: int, message: str
) -> None:
    (joey.workspace / "broken.json").write_text("{nonsense", encoding="utf-8")
    async with ModelServer([]) as server:
        done = await joey.run(
            "-p", "--output-format", "json", "--json-schema", given, *reach(server.url), "judge it"
        )
        assert server.requests == []
    assert done.code == done.json["exitCode"] == code
    assert message in done.err


async def test_subtasks_answer_as_they_like(joey: Joey) -> None:
    delegate = Turn(call("new_task", {"mode": "code", "message": "look"}))
    async with ModelServer([delegate, completing("I looked."), FIT]) as server:
        done = await joey.run("-p", "-y", "--no-sandbox", *GIVEN, *reach(server.url), "judge it")
        assert "FORM OF THE RESULT" not in json.dumps(server.requests[1].body["system"])
    assert (done.code, json.loads(done.out)["verdict"]) == (0, "good")


async def test_every_result_of_a_steered_task_is_checked(joey: Joey) -> None:
    async with (
        ModelServer([FIT, UNFIT, completing('{"verdict": "bad"}')]) as server,
        steering(joey, server.url, *GIVEN) as steered,
    ):
        await steered.send("start", "s", prompt="judge it")
        assert (await steered.result("s"))["structured"]["code"] == "AB"
        await steered.send("message", "m", prompt="and this?")
        assert (await steered.result("m"))["structured"] == {"verdict": "bad"}
        await steered.shut_down()
