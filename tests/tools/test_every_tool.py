"""What holds for every tool there is, in both protocols: how it is offered, how its calls are read,
asked about and answered. `tool_examples.py` has the calls."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import jsonschema
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields
from pydantic import TypeAdapter

from joey.core.events import AskOpened, ToolFinished
from joey.core.history.ui import Row
from joey.core.mcp import McpTool
from joey.core.messages import (
    CallChunk,
    CallEndChunk,
    CallPart,
    Chunk,
    Message,
    StopChunk,
    TextBlock,
    TextChunk,
    ToolCall,
    ToolResultBlock,
)
from joey.core.models import ModelInfo, ModelRequest, ToolProtocol
from joey.core.parsing.assembler import ReplyAssembler
from joey.core.prompts.configured_sections import render_tool_catalogue
from joey.core.settings import Profile, Settings
from joey.core.task_types import Answer, AskKind, Response
from joey.engine.task import Task
from joey.errors import ArgumentError
from joey.ports.extensions import CustomToolInfo
from joey.providers.anthropic import AnthropicRequestBuilder
from joey.providers.openai_request import OpenAiRequestBuilder
from joey.testing.script import Call, Turn, say
from joey.tools.custom_tool import CustomTool
from joey.tools.mcp_tool import McpServerTool
from joey.tools.registry import AnyTool, Registry, build_default_tools
from tests.harness.contract import TOOL_PREFIX, list_shown_ids
from tests.harness.counts import shortened_examples
from tests.harness.engine.engine_harness import (
    EngineHarness,
    check_history,
    finish,
    list_durable_events,
    wait_for_ending,
)
from tests.harness.tools.tool_examples import (
    ALWAYS,
    ARTIFACT,
    EXAMPLES,
    FACETS,
    ROOT,
    Arguments,
    Example,
    Failure,
    as_xml,
)
from tests.harness.tools.tool_workspace import CHROMIUM, build_capabilities, write_sample_files
from tests.harness.tools.weather_server import DESCRIPTION, SCHEMA

OURS = {tool.name: tool for tool in build_default_tools()}
"""The tools that joey itself brings; the others are described by their authors."""
SHOUT = CustomToolInfo(
    "shout",
    "Says a word loudly.",
    {
        "type": "object",
        "properties": {"word": {"type": "string"}, "times": {"type": ["integer", "null"]}},
        "required": ["word", "times"],
        "additionalProperties": False,
    },
    ".roo/tools/shout.py",
)
TOOLS: dict[str, AnyTool] = {
    **OURS,
    "mcp": McpServerTool("weather", McpTool("forecast", DESCRIPTION, SCHEMA)),
    "custom": CustomTool(SHOUT),
}
REGISTRY = Registry(TOOLS.values())
XML_TOOLS = REGISTRY.build_tool_names()
SHELL_TERMS = {"cd"}


def shown(example: Example, *facets: str) -> pytest.MarkDecorator:
    return pytest.mark.contract(*(f"tool:{example.kind}:{facet}" for facet in facets))


def each(*facets: str) -> pytest.MarkDecorator:
    """One test for every tool, which shows these of its facets."""
    values = [
        pytest.param(example, id=example.kind, marks=shown(example, *facets))
        for example in EXAMPLES.values()
    ]
    return pytest.mark.parametrize("example", values)


def of_ours(*facets: str) -> pytest.MarkDecorator:
    values = [
        pytest.param(EXAMPLES[name], id=name, marks=shown(EXAMPLES[name], *facets)) for name in OURS
    ]
    return pytest.mark.parametrize("example", values)


in_both = pytest.mark.parametrize("protocol", list(ToolProtocol), ids=str)


def test_every_tool_has_an_example() -> None:
    assert set(EXAMPLES) == set(TOOLS)


def test_every_id_of_a_tool_is_made_of_tool_and_facet() -> None:
    names = "|".join(TOOLS)
    wanted = re.compile(f"{TOOL_PREFIX}({names}):({'|'.join(FACETS)})(:[a-z-]+)?")
    ids = {id for _, id in list_shown_ids() if id.startswith(TOOL_PREFIX)}
    assert sorted(id for id in ids if not wanted.fullmatch(id)) == []


# How it is offered ----------------------------------------------------------------------------


def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schema and all that it is made of, where they are objects."""
    if "properties" in schema:
        yield schema
        for inner in schema["properties"].values():
            yield from objects(inner)
    if "items" in schema:
        yield from objects(schema["items"])


def complete(tool: AnyTool, arguments: Arguments) -> Arguments:
    """The arguments as a strict model sends them: null where there is nothing to say."""
    return dict.fromkeys(tool.spec.parameters["properties"]) | arguments


@each("schema")
def test_a_schema_is_valid_and_takes_the_example(example: Example) -> None:
    tool = TOOLS[example.kind]
    schema = tool.spec.parameters
    jsonschema.Draft202012Validator.check_schema(schema)
    given = complete(tool, example.arguments) if example.kind in OURS else example.arguments
    jsonschema.validate(given, schema)
    tool.parse(given)


@of_ours("schema")
def test_a_schema_is_strict_and_described_everywhere(example: Example) -> None:
    tool = TOOLS[example.kind]
    optional = {field.encode_name for field in fields(tool.params) if not field.required}
    for part in objects(tool.spec.parameters):
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])
        assert all(
            each.get("description")
            or tool.spec.xml_descriptions.get(name)
            or name in tool.spec.description
            for name, each in part["properties"].items()
        )
    for name, parameter in tool.spec.parameters["properties"].items():
        assert ("null" in parameter["type"]) == (name in optional)
    assert len(tool.spec.description) > 50


def test_the_official_clients_take_every_tool() -> None:
    specs = tuple(tool.spec for tool in TOOLS.values())
    request = ModelRequest(system_prompt="s", messages=[Message("user", "hello")], tools=specs)
    model = ModelInfo(id="m")
    sent = json.loads(
        b"".join(AnthropicRequestBuilder(Profile(), model, legacy=False).build_body(request))
    )
    TypeAdapter(list[anthropic.types.ToolParam]).validate_python(sent["tools"], strict=True)
    properties = [spec.parameters["properties"].keys() for spec in specs]
    assert [tool["input_schema"]["properties"].keys() for tool in sent["tools"]] == properties
    sent = json.loads(b"".join(OpenAiRequestBuilder(Profile(), model, "host").build_body(request)))
    kind = openai.types.chat.ChatCompletionFunctionToolParam
    TypeAdapter(list[kind]).validate_python(sent["tools"], strict=True)  # type: ignore[valid-type]
    for tool in sent["tools"]:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["function"]["name"])


@each("schema")
def test_the_xml_catalogue_explains_every_parameter(example: Example) -> None:
    tool = TOOLS[example.kind]
    text = render_tool_catalogue([(tool.spec, tool.xml_usage)])
    assert text.startswith(f"# Tools\n\n## {tool.name}\nDescription: ")
    usage = text.partition("\n\nUsage:\n")[2]
    names = tool.spec.parameters["properties"]
    has_own_form = not any(f"<{name}>" in usage for name in names)
    assert has_own_form == (tool.name == "read_file")
    for name in names:
        is_listed = re.search(rf"^- {name}: \((required|optional)\)", text, re.MULTILINE)
        assert bool(is_listed) != has_own_form
    assert usage.startswith(f"<{tool.name}>\n")
    assert set(re.findall(r"<([a-z_]+)[ >]", usage)) <= known_tags(tool)
    assert re.search(r"(?i)\bnull\b|here \(optional\)", text) is None


def known_tags(tool: AnyTool) -> set[str]:
    nested = {name for part in objects(tool.spec.parameters) for name in part["properties"]}
    return {tool.name, *tool.xml_tags, *nested, "suggest", "line_range"}


@of_ours("schema")
def test_a_description_speaks_of_nothing_that_does_not_exist(example: Example) -> None:
    """Every name in it is a parameter, one of its values, or a tool."""
    tool = TOOLS[example.kind]
    known = {*known_tags(tool), *REGISTRY.names, *values(tool.spec.parameters)}
    prose = re.sub(r"(?ms)^```.*?^```$", "", tool.description)
    quoted = re.findall(r"`([a-z][a-z_]*)`", prose)
    named = re.findall(r"(?<![\w:/])[a-z]+(?:_[a-z]+)+\b", prose)
    assert sorted({*quoted, *named} - known - SHELL_TERMS) == []


def values(schema: dict[str, Any]) -> Iterator[str]:
    for part in objects(schema):
        for parameter in part["properties"].values():
            yield from (value for value in parameter.get("enum", ()) if value is not None)


# How a call is read ---------------------------------------------------------------------------


def read(protocol: ToolProtocol, chunks: Iterable[Chunk]) -> list[ToolCall]:
    assembler = ReplyAssembler(
        protocol=protocol, tools=XML_TOOLS, taken_ids=lambda id: False, make_id=lambda: "made"
    )
    for chunk in chunks:
        assembler.feed(chunk)
    assembler.feed(StopChunk(reason="stop"))
    assembler.close(complete=True)
    return [part.call for part in assembler.reply.parts if isinstance(part, CallPart)]


def read_xml(*pieces: str) -> list[ToolCall]:
    return read(ToolProtocol.XML, map(TextChunk, pieces))


def read_native(name: str, *pieces: str) -> list[ToolCall]:
    parts = [CallChunk(0, arguments=piece) for piece in pieces]
    return read(ToolProtocol.NATIVE, [CallChunk(0, id="id", name=name), *parts, CallEndChunk(0)])


def halves(text: str) -> Iterator[tuple[str, str]]:
    return ((text[:cut], text[cut:]) for cut in range(len(text) + 1))


@each("native")
def test_a_native_call_is_read_at_every_split(example: Example) -> None:
    tool, text = TOOLS[example.kind], json.dumps(example.arguments)
    for pieces in [text, *halves(text)]:
        (call,) = read_native(tool.name, *pieces)
        assert call.input == example.arguments
    assert tool.parse(call.input) == tool.parse(example.arguments)


@each("xml")
def test_an_xml_call_means_what_the_native_one_means(example: Example) -> None:
    tool = TOOLS[example.kind]
    text = example.xml or as_xml(example.tool_name, example.arguments)
    for pieces in [text, *halves(text)]:
        (call,) = read_xml(*pieces)
        assert call.problem is None
    assert tool.parse(call.input) == tool.parse(example.arguments)


@of_ours("xml")
def test_the_usage_that_the_model_is_shown_is_read_at_every_split(example: Example) -> None:
    """A usage begins with the form of a call and may end with an example, which has to be right."""
    tool = TOOLS[example.kind]
    if tool.xml_usage is None:
        return
    whole = read_xml(tool.xml_usage)
    assert all(call.name == tool.name and call.problem is None for call in whole)
    assert all(set(call.input) <= tool.xml_tags for call in whole)
    tool.parse(whole[-1].input)
    for pieces in [tool.xml_usage, *halves(tool.xml_usage)]:
        assert read_xml(*pieces) == whole


@of_ours("native", "xml")
def test_a_required_parameter_that_is_left_out_is_named(example: Example) -> None:
    tool = TOOLS[example.kind]
    for field in fields(tool.params):
        name = field.encode_name
        rest = {key: value for key, value in example.arguments.items() if key != name}
        if not field.required:
            continue
        if name in example.optional_parameters:
            tool.parse(rest)
            continue
        with pytest.raises(ArgumentError) as caught:
            tool.parse(rest)
        assert caught.value.parameter == name
        (call,) = read_xml(as_xml(tool.name, rest))
        with pytest.raises(ArgumentError, match=name):
            tool.parse(call.input)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["path", "text", "suggest", "file", "start"]), inner)
    ),
    max_leaves=6,
)


@shortened_examples(40, 200)
@given(spoiled=st.lists(st.tuples(st.integers(0, 99), VALUES | st.builds(json.dumps, VALUES))))
def test_values_of_the_wrong_kind_are_never_worse_than_refused(
    spoiled: list[tuple[int, Any]],
) -> None:
    for kind, tool in TOOLS.items():
        names = sorted(known_tags(tool))
        arguments = {names[number % len(names)]: value for number, value in spoiled}
        for given_arguments in (arguments, EXAMPLES[kind].arguments | arguments):
            assert isinstance(tool.describe_call(given_arguments), str)
            try:
                tool.parse(given_arguments)
            except ArgumentError as error:
                assert str(error)


# What becomes of a call -----------------------------------------------------------------------


class RecordingUser:
    """Looks at every question, and says yes to all but one."""

    name = "person"

    def __init__(self, rejects: str = "") -> None:
        self.rejects = rejects
        self.asks: list[AskOpened] = []

    def answer(self, ask: AskOpened) -> Answer:
        self.asks.append(ask)
        if ask.ask is AskKind.FOLLOWUP:
            return Answer(Response.MESSAGE, text="red")
        is_rejected = self.rejects in (ask.tool, ask.ask) and bool(self.rejects)
        return Answer(Response.NO if is_rejected else Response.YES)

    def asked_about(self, tool: str) -> list[AskOpened]:
        return [ask for ask in self.asks if ask.tool == tool]


class CallResult(NamedTuple):
    """The result of a call, as the model has it."""

    text: str
    header: str
    """XML: what stands above the result."""
    is_error: bool


class ToolCallRunner:
    """Plays a call in a task of its own."""

    def __init__(self, harness: EngineHarness, example: Example, protocol: ToolProtocol) -> None:
        self.harness, self.example, self.protocol = harness, example, protocol
        self.user = RecordingUser()
        self.request: ModelRequest | None = None
        """The first one."""
        self._message_index = 0
        """Which message the call is in."""

    async def run_call(self, sample: Example | Failure, settings: Settings) -> Task:
        self._message_index = 2 * len(sample.earlier_calls) + 1
        failure = sample if isinstance(sample, Failure) else None
        write_sample_files(self.harness.root)
        if failure is None or not failure.without_capabilities:
            self.harness.capabilities = build_capabilities(self.example.kind, self.harness)
        xml = self.example.xml if failure is None else None
        meanwhile = failure.change_workspace if failure is not None else None
        provider = self.harness.use_script(
            *(Turn(self._make_step(first.name, first.input)) for first in sample.earlier_calls),
            self._make_turn(sample.arguments, xml, meanwhile),
            *(Turn(self._make_step(then.name, then.input)) for then in sample.later_calls),
            *(finish() for _ in range(3)),
        )
        task = await self.harness.start(settings=settings, policy=self.user, protocol=self.protocol)
        await wait_for_ending(task)
        if self.user.asks and self.example.ask is AskKind.COMPLETION_RESULT and failure is None:
            await task.send("go on")
            await wait_for_ending(task)
        self.request = provider.requests[0]
        return task

    def _make_turn(
        self, arguments: Arguments, xml: str | None, meanwhile: Callable[[Path], object] | None
    ) -> Callable[[ModelRequest], Turn]:
        def turn(request: ModelRequest) -> Turn:
            if meanwhile is not None:
                meanwhile(self.harness.root)
            kept = re.findall(r"cmd-\d+\.txt", str(request.messages))
            text = json.dumps(arguments).replace(ROOT, str(self.harness.root))
            text = text.replace(ARTIFACT, kept[-1] if kept else "")
            if xml is not None and self.protocol is ToolProtocol.XML:
                return Turn(say(xml))
            return Turn(self._make_step(self.example.tool_name, json.loads(text)))

        return turn

    def _make_step(self, name: str, arguments: Any) -> Any:
        if self.protocol is ToolProtocol.XML:
            return say(as_xml(name, arguments))
        return Call(name, arguments)

    def read_result(self, task: Task) -> CallResult:
        """The result that the model has got, which is the only one of its message."""
        message = task.messages[self._message_index + 1]
        outcomes = [event for event in list_durable_events(task) if isinstance(event, ToolFinished)]
        outcome = outcomes[self._message_index // 2]
        assert message.role == "user"
        assert not isinstance(message.content, str)
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        texts = [block.text for block in message.content if isinstance(block, TextBlock)]
        if self.protocol is ToolProtocol.NATIVE:
            assert [(block.content, block.is_error) for block in results] == [
                (outcome.content, outcome.is_error)
            ]
            return CallResult(outcome.content, "", outcome.is_error)
        header = outcome.result_header or f"[{self.example.tool_name}] Result:"
        assert results == []
        assert re.fullmatch(r"\[.+\] Result:", header, re.DOTALL)
        assert texts.count(header) == 1
        assert texts[texts.index(header) + 1] == outcome.content
        return CallResult(outcome.content, header, outcome.is_error)

    def check_histories(self, task: Task) -> None:
        """Both are whole, in memory and on disk, and every call has its answer."""
        check_history(task.messages)
        directory = task.recorder.task_log.directory
        saved = json.loads((directory / "api_conversation_history.json").read_bytes())
        assert [message["role"] for message in saved] == [m.role for m in task.messages]
        rows = json.loads((directory / "ui_messages.json").read_bytes())
        assert len(rows) == len(task.rows)
        assert not [row for row in rows if row.get("approvalState") == "pending"]


@pytest.fixture
async def engine_harness(tmp_path: Path) -> AsyncIterator[EngineHarness]:
    made = EngineHarness(tmp_path)
    yield made
    await made.engine.close()


def all_allowed(example: Example, **changes: Any) -> Settings:
    """Nothing is asked but what always is; the tool is offered."""
    switches = {
        field.name: True for field in fields(Settings) if field.name.startswith("always_allow")
    }
    return Settings(
        **switches
        | {"always_allow_followup_questions": False, "consecutive_mistake_limit": 0}
        | {"allowed_commands": ("*",), "allowed_mcp_tools": ("*",)}
        | example.settings
        | changes
    )


def without_its_switch(example: Example) -> Settings:
    if example.required_setting in (None, ALWAYS):
        return all_allowed(example)
    (name,) = [
        field.name for field in fields(Settings) if field.encode_name == example.required_setting
    ]
    return all_allowed(example, **{name: False})


def row_of(task: Task, name: str) -> Row:
    (row,) = [row for row in task.rows if isinstance(row, Row) and row.tool == name]
    return row


def check_row(row: Row, example: Example) -> None:
    assert row.text is not None
    if isinstance(example.row, str):
        assert example.row in row.text
    else:
        assert json.loads(row.text).items() >= example.row.items()


def skip_without_chromium(example: Example) -> None:
    if example.kind == "browser_action" and CHROMIUM is None:
        pytest.skip("no Chromium was found here")


@in_both
@each("approval", "success", "schema")
async def test_a_call_is_shown_allowed_carried_out_and_answered(
    example: Example, protocol: ToolProtocol, engine_harness: EngineHarness
) -> None:
    skip_without_chromium(example)
    runner = ToolCallRunner(engine_harness, example, protocol)
    task = await runner.run_call(example, without_its_switch(example))
    result = runner.read_result(task)
    assert expected_result(example, protocol) in result.text
    assert not result.is_error
    runner.check_histories(task)
    assert (engine_harness.root / "secret.txt").read_bytes() == b"hidden\n"
    for name, data in example.expected_files.items():
        assert (engine_harness.root / name).read_bytes() == data
    check_offer(runner)
    check_question(runner, task)


def expected_result(example: Example, protocol: ToolProtocol) -> str:
    return example.xml_result or example.result if protocol == "xml" else example.result


def check_offer(runner: ToolCallRunner) -> None:
    """The model was told of the tool, in the way of its protocol."""
    request, example = runner.request, runner.example
    assert request is not None
    native = example.tool_name in [tool.name for tool in request.tools or ()]
    in_prompt = f"\n## {example.tool_name}\nDescription: " in request.system_prompt
    is_offered = runner.protocol in example.offered_protocols
    assert native == (is_offered and runner.protocol is ToolProtocol.NATIVE)
    assert in_prompt == (is_offered and runner.protocol is ToolProtocol.XML)


def check_question(runner: ToolCallRunner, task: Task) -> None:
    """The user was asked exactly when they had to be, and saw what it is about."""
    example = runner.example
    if example.ask is AskKind.COMPLETION_RESULT:
        assert [ask.ask for ask in runner.user.asks] == [AskKind.COMPLETION_RESULT] * 2
        return
    row, asks = row_of(task, example.tool_name), runner.user.asked_about(example.tool_name)
    check_row(row, example)
    assert (row.result or "") in runner.read_result(task).text
    if example.required_setting is None:
        assert asks == []
        assert (row.type, row.say, row.approval_state) == ("say", "tool", "approved")
        return
    assert [ask.ask for ask in asks] == [example.ask]
    assert (row.type, row.ask, row.is_answered) == ("ask", example.ask, True)
    assert row.approval_state == (None if example.ask is AskKind.FOLLOWUP else "approved")
    reason = (
        "a question to you"
        if example.required_setting == ALWAYS
        else f"{example.required_setting} is off"
    )
    assert reason in (asks[0].reason or "")


@each("approval", "success")
async def test_a_call_that_the_rules_allow_is_not_asked_about(
    example: Example, engine_harness: EngineHarness
) -> None:
    skip_without_chromium(example)
    if example.required_setting in (None, ALWAYS):
        return
    runner = ToolCallRunner(engine_harness, example, ToolProtocol.NATIVE)
    task = await runner.run_call(example, all_allowed(example))
    assert example.result in runner.read_result(task).text
    assert runner.user.asked_about(example.tool_name) == []
    row = row_of(task, example.tool_name)
    check_row(row, example)
    assert (row.type, row.say, row.approval_state) == ("say", "tool", "approved")
    runner.check_histories(task)


@in_both
@each("approval")
async def test_a_rejected_call_is_not_carried_out(
    example: Example, protocol: ToolProtocol, engine_harness: EngineHarness
) -> None:
    if example.required_setting in (None, ALWAYS):
        return
    runner = ToolCallRunner(engine_harness, example, protocol)
    runner.user.rejects = example.tool_name
    task = await runner.run_call(example, without_its_switch(example))
    result = runner.read_result(task)
    assert "did not allow this call" in result.text
    assert expected_result(example, protocol) not in result.text
    assert row_of(task, example.tool_name).approval_state == "rejected"
    for name in example.expected_files:
        before = (
            (engine_harness.root / name).read_bytes()
            if (engine_harness.root / name).exists()
            else None
        )
        assert before != example.expected_files[name]
    runner.check_histories(task)


FAILURES = [
    pytest.param(
        example,
        failure,
        id=f"{example.kind}-{failure.name}",
        marks=shown(example, f"failure:{failure.name}"),
    )
    for example in EXAMPLES.values()
    for failure in example.failures
]


@in_both
@pytest.mark.parametrize(("example", "failure"), FAILURES)
async def test_a_call_that_fails_says_why_and_changes_nothing(
    example: Example, failure: Failure, protocol: ToolProtocol, engine_harness: EngineHarness
) -> None:
    runner = ToolCallRunner(engine_harness, example, protocol)
    task = await runner.run_call(failure, all_allowed(example, **failure.settings))
    result = runner.read_result(task)
    assert failure.expected_text in result.text.replace('\\"', '"')
    assert result.is_error
    if protocol is ToolProtocol.XML:
        assert result.header.startswith(f"[{example.tool_name}")
    changed = {name for name in example.expected_files if (engine_harness.root / name).exists()}
    for name in changed - ({"shop.py"} if failure.change_workspace else set()):
        assert (engine_harness.root / name).read_bytes() != example.expected_files[name]
    runner.check_histories(task)
