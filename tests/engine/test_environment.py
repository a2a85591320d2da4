"""Environment details in requests: everything at first, then only what changed."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from joey.core.messages import Message, ToolResultBlock
from joey.core.models import ModelInfo, Prices, ToolProtocol
from joey.core.settings import Profile
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.providers.openai_request import OpenAiRequestBuilder
from joey.testing.script import Turn, call, say, usage
from joey.testing.scripted_provider import ScriptedProvider
from tests.harness.engine.engine_harness import EngineHarness, finish, list_texts, wait_for_ending

LOOK = Turn(call("list_files", {"path": "."}))
XML_LOOK = Turn(say("<list_files><path>.</path></list_files>"))
XML_END = Turn(say("<attempt_completion><result>done</result></attempt_completion>"))
PRICED = ModelInfo(id="priced", prices=Prices(input=1.0, output=10.0))
UNCHANGED = "<environment_details>\n(unchanged)\n</environment_details>"


def get_last_messages(provider: ScriptedProvider) -> list[Message]:
    return [request.messages[-1] for request in provider.requests]


@pytest.mark.contract("prompt:environment")
async def test_native_requests_report_nothing_while_nothing_changes(
    engine_harness: EngineHarness,
) -> None:
    provider = engine_harness.use_script(*[LOOK] * 3, finish())
    await wait_for_ending(await engine_harness.start(policy=Unattended()))
    first, *others = get_last_messages(provider)
    assert "# Current Mode" in list_texts(first)[-1]
    for message in others:
        assert [type(block) for block in message.content] == [ToolResultBlock]


async def test_xml_messages_always_end_with_the_block(engine_harness: EngineHarness) -> None:
    provider = engine_harness.use_script(XML_LOOK, XML_LOOK, XML_END)
    await wait_for_ending(
        await engine_harness.start(policy=Unattended(), protocol=ToolProtocol.XML)
    )
    ends = [list_texts(message)[-1] for message in get_last_messages(provider)]
    assert "# Current Mode" in ends[0]
    assert ends[1:] == [UNCHANGED, UNCHANGED]


async def test_a_cost_that_moved_and_a_time_that_passed_are_reported(
    engine_harness: EngineHarness,
) -> None:
    def wait_long(*_: object) -> Turn:
        engine_harness.clock.time += 10 * 60_000
        return LOOK

    dear = Turn(call("list_files", {"path": "."}), usage(input=500_000))
    engine_harness.provider = provider = ScriptedProvider(
        (dear, wait_long, LOOK, finish()), model=PRICED
    )
    await wait_for_ending(await engine_harness.start(policy=Unattended()))
    _, moved, late, nothing = ["".join(list_texts(m)) for m in get_last_messages(provider)]
    assert moved == "<environment_details>\n# Current Cost\n$0.50\n</environment_details>"
    assert late.startswith("<environment_details>\n# Current Time\n")
    assert "Current Cost" not in late
    assert not nothing


async def test_a_resumed_task_reports_everything_again(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(finish(), policy=Unattended())
    await wait_for_ending(task)
    provider = engine_harness.use_script(LOOK, finish())
    await engine_harness.engine.close()
    async with engine_harness.new_engine() as engine:
        resumed = await engine.resume(task.id, "go on", options=TaskOptions(policy=Unattended()))
        await wait_for_ending(resumed)
    first, second = get_last_messages(provider)
    assert "# Current Mode" in list_texts(first)[-1]
    assert not list_texts(second)


async def test_on_the_wire_the_block_is_part_of_the_last_result(
    engine_harness: EngineHarness,
) -> None:
    dear = Turn(
        call("list_files", {"path": "."}),
        call("list_files", {"path": ".", "recursive": True}),
        usage(input=500_000),
    )
    engine_harness.provider = provider = ScriptedProvider((dear, LOOK, finish()), model=PRICED)
    await wait_for_ending(await engine_harness.start(policy=Unattended()))
    builder = OpenAiRequestBuilder(Profile(model="m"), ModelInfo(id="m"), "model.test")
    bodies = [
        msgspec.json.decode(b"".join(builder.build_body(request)))["messages"]
        for request in provider.requests
    ]
    roles = [message["role"] for message in bodies[-1]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "tool"]
    assert "environment_details" not in bodies[-1][3]["content"]
    assert bodies[-1][4]["content"].endswith("# Current Cost\n$0.50\n</environment_details>")
    for before, after in itertools.pairwise(bodies):
        assert after[: len(before)] == before


async def test_the_first_listing_marks_protected_files_and_joins_single_directories(
    engine_harness: EngineHarness,
) -> None:
    for path in (".github/ci.yml", "src/locale/ar/LC/a.po", "src/locale/de/LC/a.po", "src/b.py"):
        file = engine_harness.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    provider = engine_harness.use_script(finish())
    await wait_for_ending(await engine_harness.start(policy=Unattended()))
    details = list_texts(get_last_messages(provider)[0])[-1]
    listing = (
        "🛡️ .github/\nsrc/\nsrc/b.py\nsrc/locale/\nsrc/locale/ar/LC/a.po\nsrc/locale/de/LC/a.po\n"
    )
    assert listing in details
