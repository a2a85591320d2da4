"""The services that joey has a provider for: their rules, their errors and the form of replies.

Rules come from the services' API references, from the validators that they publish
(`mistral-common`, chat templates) and from their answers to requests that they refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from joey.testing.script import Fail, Step, call, raw, say, stop, think
from joey.testing.server import Request
from tests.service_rules import converse
from tests.service_rules import rules as r
from tests.service_rules.cloud_logins import (
    PROJECT,
    REGION,
    AwsLogin,
    CloudLogin,
    EntraLogin,
    GoogleLogin,
    fail_aws,
)
from tests.service_rules.rules import Rule, Violation, Wire

Calls = list[tuple[str, dict[str, Any]]]


class Reply(Struct, frozen=True):
    steps: tuple[Step, ...]
    echo: Wire
    """The message that must come back."""


class Service(Struct, frozen=True, kw_only=True):
    name: str
    """Of the provider."""
    model: str
    rules: tuple[Rule, ...]
    fail: Callable[[Violation], Fail]
    reasoning: str = ""
    """The field of a reply that has the reasoning; `thinking` and `<think>` are in the content."""
    echoed_reasoning: str = ""
    """Where it must come back, if that is another field."""
    has_signatures: bool = False
    """Texts and calls carry Gemini's `extra_content`."""
    has_details: bool = False
    """Replies carry OpenRouter's `reasoning_details`."""
    id_format: str = "call_{1}_{0:08}"
    raw_paths: tuple[str, ...] = ()
    wires: dict[str, str] = {}
    """Ends of further paths, and the wire that is spoken there."""
    is_anthropic: bool = False
    """Messages have Anthropic's shape, at least as `view` shows them."""
    login: type[CloudLogin] | None = None
    check_request: Callable[[Request], Fail | None] = lambda request: None
    view: Callable[[Wire], Wire] = lambda body: body

    @property
    def base_path(self) -> str:
        return "" if self.is_anthropic or self.login else "/v1"

    @property
    def label(self) -> str:
        return f"{self.name}-{self.model}" if self.login else self.name

    def write_reply(self, number: int, calls: Calls) -> Reply:
        text, thought = f"Step {number}.", f"\nI have to do {number} things.\n\nSo be it. "
        ids = [self.id_format.format(number * 10 + index, self.name) for index in range(len(calls))]
        if self.is_anthropic:
            reply = _write_anthropic_reply(text, thought, f"sig-{number}==", calls, ids)
            if self.raw_paths:
                frames = converse.write_reply(text, thought, f"sig-{number}==", calls, ids)
                reply = Reply(tuple(frames), reply.echo)
            return reply
        return self._write_openai_reply(text, thought, calls, ids)

    def _write_openai_reply(self, text: str, thought: str, calls: Calls, ids: list[str]) -> Reply:
        deltas: list[Wire] = []
        echo: Wire = {"role": "assistant", "content": text}
        match self.reasoning:
            case "":
                pass
            case "<think>":
                deltas.append({"content": f"<think>{thought}\n</think>\n\n"})
                echo[self.echoed_reasoning] = thought.lstrip() + "\n"
                if self.echoed_reasoning == "content":
                    echo["content"] = f"<think>{thought}\n</think>\n\n{text}"
            case "thinking":
                pieces = [{"type": "text", "text": piece} for piece in (thought[:9], thought[9:])]
                deltas += [{"content": [{"type": "thinking", "thinking": [p]}]} for p in pieces]
                whole = {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}
                echo["content"] = [whole, {"type": "text", "text": text}]
            case name:
                deltas += [{name: thought[:9]}, {name: thought[9:]}]
                echo[name] = thought
        if self.has_details:
            opaque = {"type": "reasoning.encrypted", "data": f"enc-{ids[0]}", "index": 1}
            open_ = {"type": "reasoning.text", "text": thought, "signature": "s=", "index": 0}
            deltas.append({"reasoning_details": [open_, opaque]})
            echo["reasoning_details"] = [open_, opaque]
        deltas.append({"content": text})
        if self.has_signatures:
            echo["extra_content"] = {"google": {"thought_signature": f"text/{ids[0]}+=="}}
            deltas.append({"content": "", "extra_content": echo["extra_content"]})
        echo["tool_calls"] = []
        for index, ((name, arguments), call_id) in enumerate(zip(calls, ids, strict=True)):
            function = {"name": name, "arguments": json.dumps(arguments)}
            made: Wire = {"id": call_id, "type": "function", "function": function}
            if self.has_signatures and not index:
                made["extra_content"] = {"google": {"thought_signature": f"sig/{call_id}+=="}}
            deltas.append({"tool_calls": [{"index": index, **made}]})
            echo["tool_calls"].append(made)
        steps: list[Step] = [_write_delta(delta) for delta in deltas]
        steps.append(stop("tool_calls"))
        return Reply(tuple(steps), echo)


def _write_delta(delta: Wire) -> Step:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return raw(f"data: {json.dumps({'id': 'c-1', 'choices': [choice]})}\n\n")


def _write_anthropic_reply(
    text: str, thought: str, signature: str, calls: Calls, ids: list[str]
) -> Reply:
    made = [call(name, given, id=id_) for (name, given), id_ in zip(calls, ids, strict=True)]
    echo = [
        {"type": "thinking", "thinking": thought, "signature": signature},
        {"type": "text", "text": text},
        *({"type": "tool_use", "id": c.id, "name": c.name, "input": c.input} for c in made),
    ]
    steps: tuple[Step, ...] = (think(thought, signature=signature, chunk=7), say(text), *made)
    return Reply(steps, {"role": "assistant", "content": echo})


# Errors, as each service words them ----------------------------------------------------------


def _fail(status: int, body: Any) -> Fail:
    return Fail(status, body=json.dumps(body))


def _dotted(violation: Violation) -> str:
    return ".".join(map(str, violation.place))


def fail_openai(violation: Violation) -> Fail:
    message, code = violation.message, violation.code or None
    if violation.code == "unknown":
        place = [each for each in violation.place if each not in ("assistant", "tool", "user")]
        where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place)[1:]
        message, code = f"Unknown parameter: '{where}'.", "unknown_parameter"
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return _fail(400, {"error": error})


def _fail_anthropic(violation: Violation) -> Fail:
    message = violation.message
    if violation.code == "unknown":
        message = f"{_dotted(violation)}: {message}"
    error = {"type": "invalid_request_error", "message": message}
    return _fail(400, {"type": "error", "error": error})


def _fail_mistral(violation: Violation) -> Fail:
    if violation.code == "unknown":
        detail = {
            "type": "extra_forbidden",
            "loc": ["body", *violation.place],
            "msg": violation.message,
            "input": violation.value,
        }
        return _fail(422, {"detail": [detail]})
    kinds = {"3230": "invalid_request_message_order", "3280": "invalid_function_call"}
    body = {
        "object": "error",
        "message": violation.message,
        "type": kinds.get(violation.code, "invalid_request_error"),
        "param": None,
        "code": violation.code or None,
    }
    return _fail(400, body)


def _fail_groq(violation: Violation) -> Fail:
    message = violation.message
    if violation.code == "unknown":
        message = f"property '{violation.place[-1]}' is unsupported"
        if len(violation.place) > 1:
            where = f"messages.{violation.place[1]}"
            message = (
                f"'{where}' : for 'role:assistant' the following must be satisfied[('{where}' :"
                f" {message})]"
            )
    return _fail(400, {"error": {"message": message, "type": "invalid_request_error"}})


def _fail_cerebras(violation: Violation) -> Fail:
    message = violation.message
    if violation.code == "unknown":
        message = f"{_dotted(violation)}: property '{_dotted(violation)}' is unsupported"
    body = {
        "message": message,
        "type": "invalid_request_error",
        "param": "validation_error",
        "code": "wrong_api_format",
    }
    return _fail(400, body)


def _fail_gemini(violation: Violation) -> Fail:
    message = violation.message
    if violation.code == "unknown":
        at = f" at '{_dotted(violation)}'" if len(violation.place) > 1 else ""
        message = (
            f'Invalid JSON payload received. Unknown name "{violation.place[-1]}"{at}: Cannot find'
            " field."
        )
    error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
    return _fail(400, [{"error": error}])


def _fail_fireworks(violation: Violation) -> Fail:
    message = violation.message
    if violation.code == "unknown":
        message = f"{message}, field: '{_dotted(violation)}', value: {violation.value!r}"
    error = {"object": "error", "type": "invalid_request_error", "message": message}
    return _fail(400, {"error": error})


def _fail_xai(violation: Violation) -> Fail:
    message = violation.message
    if violation.code == "unknown":
        message = f"Argument not supported on this model: {violation.place[-1]}"
    return _fail(400, {"code": "Client specified an invalid argument", "error": message})


def _fail_qwen(violation: Violation) -> Fail:
    error = {
        "code": "invalid_parameter_error",
        "param": None,
        "message": f"<400> InternalError.Algo.InvalidParameter: {violation.message}",
        "type": "invalid_request_error",
    }
    return _fail(400, {"error": error, "request_id": "c9430ea7"})


def _fail_zai(violation: Violation) -> Fail:
    message = f"Invalid API parameter, please check the documentation. {violation.message}"
    return _fail(400, {"error": {"code": "1210", "message": message}})


def _fail_openrouter(violation: Violation) -> Fail:
    upstream = json.dumps({"error": {"message": violation.message}})
    metadata = {"raw": upstream, "provider_name": "Upstream"}
    error = {"message": "Provider returned error", "code": 400, "metadata": metadata}
    return _fail(400, {"error": error})


def _fail_vllm(violation: Violation) -> Fail:
    error = {
        "message": violation.message,
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    }
    return _fail(400, {"error": error})


def _fail_llamacpp(violation: Violation) -> Fail:
    error = {"code": 500, "message": violation.message, "type": "server_error"}
    return _fail(500, {"error": error})


# Services -------------------------------------------------------------------------------------

_OPENAI_WIRE = (r.ORDER, r.ECHO)

ANTHROPIC = Service(
    name="anthropic",
    is_anthropic=True,
    model="claude-sonnet-5-5",
    rules=(
        r.ANTHROPIC_ORDER,
        r.ANTHROPIC_IDS,
        r.BLOCKS,
        r.SIGNATURES,
        r.ECHO,
        r.parameter_rule("system", "max_tokens", "thinking", "output_config"),
        r.sampling_rule("`{}` is deprecated for this model."),
        r.PROPERTY_NAMES,
    ),
    fail=_fail_anthropic,
)
OPENAI = Service(
    name="openai",
    model="gpt-4o",
    rules=(
        *_OPENAI_WIRE,
        r.SHORT_IDS,
        r.field_rule(),
        r.parameter_rule("stream_options", "max_completion_tokens", "parallel_tool_calls"),
        r.sampling_rule(temperature=0),
        r.STRICT_SCHEMAS,
        r.ARRAY_ITEMS,
    ),
    fail=fail_openai,
)
"""At an address of its own, as a proxy would have it."""
OPENROUTER = Service(
    name="openrouter",
    model="anthropic/claude-sonnet-5.5",
    rules=(
        *_OPENAI_WIRE,
        r.field_rule("reasoning", "reasoning_details"),
        r.FOREIGN_DETAILS,
        r.parameter_rule("stream_options", "max_tokens", "parallel_tool_calls", "reasoning"),
        r.sampling_rule(),
    ),
    fail=_fail_openrouter,
    has_details=True,
)
OLLAMA = Service(
    name="ollama",
    model="qwen3-coder",
    rules=(*_OPENAI_WIRE, r.PLAIN_SCHEMAS, r.sampling_rule()),
    fail=fail_openai,
    reasoning="reasoning",
)
LMSTUDIO = Service(
    name="lmstudio",
    model="qwen3-thinking",
    rules=(*_OPENAI_WIRE, r.PLAIN_SCHEMAS, r.sampling_rule()),
    fail=fail_openai,
    reasoning="<think>",
    echoed_reasoning="reasoning_content",
)
LLAMACPP = Service(
    name="llamacpp",
    model="Devstral-Small-2-24B-Instruct-2512-Q4_K_M.gguf",
    rules=(*_OPENAI_WIRE, r.TEMPLATE_ALTERNATES, r.PLAIN_SCHEMAS, r.sampling_rule()),
    fail=_fail_llamacpp,
    id_format="{0:09}",
)
VLLM = Service(
    name="vllm",
    model="mistralai/Magistral-Small-2509",
    rules=(
        *_OPENAI_WIRE,
        r.NO_USER_AFTER_TOOL,
        r.TEMPLATE_ALTERNATES,
        r.MISTRAL_IDS,
        r.sampling_rule(),
    ),
    fail=_fail_vllm,
    reasoning="reasoning",
    id_format="v{0:08}",
)
DEEPSEEK = Service(
    name="deepseek",
    model="deepseek-v4-flash",
    rules=(
        *_OPENAI_WIRE,
        r.reasoning_rule(
            "The `reasoning_content` in the thinking mode must be passed back to the API."
        ),
        r.field_rule("reasoning_content"),
        r.parameter_rule("stream_options", "max_tokens", "thinking"),
        r.sampling_rule(),
    ),
    fail=fail_openai,
    reasoning="reasoning_content",
)
GEMINI = Service(
    name="gemini",
    model="gemini-3.8-flash",
    rules=(
        *_OPENAI_WIRE,
        r.GEMINI_SIGNATURES,
        r.field_rule("extra_content", call_fields=("extra_content",)),
        r.parameter_rule("stream_options", "max_tokens", "reasoning_effort"),
        r.PLAIN_SCHEMAS,
        r.TEXT_ENUMS,
        r.NO_ADDITIONAL_PROPERTIES,
        r.sampling_rule(),
    ),
    fail=_fail_gemini,
    has_signatures=True,
    id_format="function-call-{0:018}",
)
XAI = Service(
    name="xai",
    model="grok-4.7",
    rules=(
        *_OPENAI_WIRE,
        r.field_rule("reasoning_content"),
        r.parameter_rule("max_completion_tokens", "parallel_tool_calls", "reasoning_effort"),
        r.sampling_rule("Model grok-4.7 does not support parameter {}."),
    ),
    fail=_fail_xai,
    reasoning="reasoning_content",
)
GROQ = Service(
    name="groq",
    model="openai/gpt-oss-120b",
    rules=(
        *_OPENAI_WIRE,
        r.field_rule("reasoning"),
        r.parameter_rule("stream_options", "max_completion_tokens", "parallel_tool_calls"),
        r.sampling_rule(),
    ),
    fail=_fail_groq,
    reasoning="reasoning",
    id_format="fc_{0:08}-4a0b",
)
MISTRAL = Service(
    name="mistral",
    model="magistral-medium-latest",
    rules=(
        *_OPENAI_WIRE,
        r.NO_USER_AFTER_TOOL,
        r.MISTRAL_IDS,
        r.field_rule("prefix"),
        r.parameter_rule("max_tokens", "parallel_tool_calls", "random_seed", "prompt_mode"),
        r.sampling_rule(),
    ),
    fail=_fail_mistral,
    reasoning="thinking",
    id_format="m{0:08}",
)
TOGETHER = Service(
    name="together",
    model="zai-org/GLM-5",
    rules=(*_OPENAI_WIRE, r.field_rule("reasoning"), r.sampling_rule()),
    fail=fail_openai,
    reasoning="reasoning",
)
FIREWORKS = Service(
    name="fireworks",
    model="accounts/fireworks/models/kimi-k2p5",
    rules=(
        *_OPENAI_WIRE,
        r.TYPED_SCHEMAS,
        r.field_rule("reasoning_content"),
        r.parameter_rule("max_tokens", "parallel_tool_calls", "reasoning_effort"),
        r.sampling_rule(),
    ),
    fail=_fail_fireworks,
    reasoning="reasoning_content",
)
CEREBRAS = Service(
    name="cerebras",
    model="zai-glm-4.7",
    rules=(
        *_OPENAI_WIRE,
        r.field_rule("reasoning"),
        r.parameter_rule("stream_options", "max_completion_tokens", "parallel_tool_calls"),
        r.PLAIN_SCHEMAS,
        r.sampling_rule(),
    ),
    fail=_fail_cerebras,
    reasoning="reasoning",
)
MOONSHOT = Service(
    name="moonshot",
    model="kimi-k3",
    rules=(
        *_OPENAI_WIRE,
        r.reasoning_rule(
            "thinking is enabled but reasoning_content is missing in assistant tool call message"
            " at index {}",
            may_be_empty=False,
        ),
        r.TYPED_SCHEMAS,
        r.field_rule("reasoning_content", "partial"),
        r.parameter_rule("stream_options", "max_tokens", "max_completion_tokens", "thinking"),
        r.sampling_rule("invalid {}: only 1 is allowed for this model"),
    ),
    fail=fail_openai,
    reasoning="reasoning_content",
)
ZAI = Service(
    name="zai",
    model="glm-5.2",
    rules=(
        *_OPENAI_WIRE,
        r.field_rule("reasoning_content"),
        r.parameter_rule("max_tokens", "stream_options", "thinking", "tool_stream"),
        r.sampling_rule(),
    ),
    fail=_fail_zai,
    reasoning="reasoning_content",
)
QWEN = Service(
    name="qwen",
    model="qwen3-max",
    rules=(
        *_OPENAI_WIRE,
        r.field_rule("reasoning_content"),
        r.parameter_rule("stream_options", "max_tokens", "parallel_tool_calls"),
        r.sampling_rule(temperature=0),
    ),
    fail=_fail_qwen,
    reasoning="reasoning_content",
)

MINIMAX = Service(
    name="minimax",
    model="MiniMax-M2.7",
    rules=(
        *_OPENAI_WIRE,
        r.field_rule("reasoning_content", "reasoning_details"),
        r.PLAIN_SCHEMAS,
        r.sampling_rule(),
    ),
    fail=fail_openai,
    reasoning="<think>",
    echoed_reasoning="content",
)
SAMBANOVA = Service(
    name="sambanova",
    model="DeepSeek-V3.1",
    rules=(*_OPENAI_WIRE, r.TEXT_CONTENT, r.PLAIN_SCHEMAS, r.sampling_rule()),
    fail=fail_openai,
    reasoning="reasoning",
)
_COMPATIBLE_NAMES = (
    *("baseten", "requesty", "unbound", "litellm", "vercel-ai-gateway"),
    *("poe", "roo", "chutes", "deepinfra", "doubao", "featherless", "huggingface"),
    "io-intelligence",
)
COMPATIBLE = tuple(
    Service(
        name=name,
        model="some-model",
        rules=(*_OPENAI_WIRE, r.PLAIN_SCHEMAS, r.sampling_rule()),
        fail=fail_openai,
        reasoning="reasoning_content",
    )
    for name in _COMPATIBLE_NAMES
)
"""Services that take what any server takes, and of which nothing else is known."""


def _fail_bedrock(violation: Violation) -> Fail:
    return fail_aws(400, "ValidationException", f"The model returned: {violation.message}")


def _check_bedrock(request: Request) -> Fail | None:
    if request.path != converse.build_path(BEDROCK.model):
        return fail_aws(404, "UnknownOperationException", request.path)
    if found := converse.find_model_violations(request.body, BEDROCK.model):
        return fail_aws(400, "ValidationException", "; ".join(found))
    if b'"toolUse":' in request.raw and "toolConfig" not in request.body:
        text = "The toolConfig field must be defined when using toolUse content blocks."
        return fail_aws(400, "ValidationException", text)
    return None


def _check_vertex(request: Request) -> Fail | None:
    path = f"/v1/projects/{PROJECT}/locations/{REGION}"
    is_right = request.path == f"{path}/endpoints/openapi/chat/completions"
    if is_right and request.body["model"] == "google/gemini-3.8-flash":
        return None
    return _fail_gemini(Violation(f"no such model at {request.path}"))


def _check_vertex_claude(request: Request) -> Fail | None:
    path = f"/v1/projects/{PROJECT}/locations/{REGION}/publishers/anthropic/models"
    if request.path != f"{path}/{VERTEX_CLAUDE.model}:streamRawPredict":
        return _fail_gemini(Violation(f"no such model at {request.path}"))
    if request.body.get("anthropic_version") != "vertex-2023-10-16":
        return _fail_anthropic(Violation("anthropic_version: Field required"))
    if "model" in request.body or "anthropic-beta" in request.headers:
        return _fail_anthropic(Violation("model: Extra inputs are not permitted"))
    return None


def _check_azure(request: Request) -> Fail | None:
    if request.path == "/openai/v1/chat/completions":
        return None
    error = {"code": "404", "message": "Resource not found"}
    return _fail(404, {"error": error})


_CLAUDE_RULES = (r.ANTHROPIC_ORDER, r.ANTHROPIC_IDS, r.BLOCKS, r.SIGNATURES, r.ECHO)
BEDROCK = Service(
    name="bedrock",
    is_anthropic=True,
    model="eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    rules=(
        *_CLAUDE_RULES,
        r.parameter_rule("max_tokens", "thinking"),
        r.sampling_rule("{} is not allowed", temperature=0),
    ),
    fail=_fail_bedrock,
    raw_paths=("/converse-stream",),
    login=AwsLogin,
    check_request=_check_bedrock,
    view=converse.to_anthropic,
)
VERTEX = structs.replace(GEMINI, name="vertex", login=GoogleLogin, check_request=_check_vertex)
VERTEX_CLAUDE = Service(
    name="vertex",
    is_anthropic=True,
    model="claude-sonnet-4-5@20250929",
    rules=(
        *_CLAUDE_RULES,
        r.parameter_rule("anthropic_version", "system", "max_tokens", "thinking"),
        r.sampling_rule(temperature=0),
    ),
    fail=_fail_anthropic,
    wires={":streamRawPredict": "anthropic"},
    login=GoogleLogin,
    check_request=_check_vertex_claude,
)
AZURE = Service(
    name="azure",
    model="gpt-4o",
    rules=(
        *_OPENAI_WIRE,
        r.SHORT_IDS,
        r.field_rule(),
        r.parameter_rule("stream_options", "max_completion_tokens", "parallel_tool_calls"),
        r.sampling_rule(temperature=0),
        r.DESCRIPTION_LENGTHS,
        r.PLAIN_SCHEMAS,
    ),
    fail=fail_openai,
    login=EntraLogin,
    check_request=_check_azure,
)

SERVICES = (
    ANTHROPIC,
    BEDROCK,
    GEMINI,
    MINIMAX,
    SAMBANOVA,
    OPENAI,
    OPENROUTER,
    MISTRAL,
    DEEPSEEK,
    GROQ,
    MOONSHOT,
    CEREBRAS,
    XAI,
    LLAMACPP,
    TOGETHER,
    VLLM,
    FIREWORKS,
    OLLAMA,
    ZAI,
    LMSTUDIO,
    QWEN,
    AZURE,
    VERTEX,
    VERTEX_CLAUDE,
    *COMPATIBLE,
)
"""In the order in which tasks are handed from one to the next: each gets a history that it must
not send on as it is."""
