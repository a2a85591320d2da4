"""Tasks at strict servers of clouds: logins, errors and profiles, with the real program."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import Credentials
from msgspec import structs

from joey.testing.script import Fail, Turn, raw
from joey.testing.server import ModelServer, Request
from tests.harness.canary import KEY, OTHER_KEY, files_under, traces
from tests.harness.cli.binary import Finished, Joey
from tests.harness.server.binary import Served
from tests.service_rules import converse
from tests.service_rules.cloud_logins import (
    PROJECT,
    REGION,
    AwsLogin,
    CloudLogin,
    EntraLogin,
    GoogleLogin,
    check_signature,
    fail_aws,
)
from tests.service_rules.rules import Body
from tests.service_rules.services import AZURE, BEDROCK, VERTEX_CLAUDE, Calls
from tests.service_rules.strict_server import StrictServer

READ: Calls = [("read_file", {"files": [{"path": "a.txt"}]})]
COMPLETE: Calls = [("attempt_completion", {"result": "All done."})]
FAST = {"requestDelaySeconds": 0.01, "maxRetries": 2}
STATIC = Credentials("AKIDEXAMPLE1", "static/secret+1")


def done() -> Turn:
    frames = converse.write_reply("Done.", "Hm.", "sig", COMPLETE, ["call_1"])
    return Turn(*frames)


def static_env(joey: Joey, credentials: Credentials = STATIC) -> dict[str, str]:
    given = {"AWS_ACCESS_KEY_ID": credentials.access_key, "AWS_REGION": REGION}
    token = {"AWS_SESSION_TOKEN": credentials.token} if credentials.token else {}
    return {**joey.env, **given, "AWS_SECRET_ACCESS_KEY": credentials.secret_key, **token}


def flags(url: str) -> list[str]:
    return ["--provider", "bedrock", "--base-url", url, "-m", BEDROCK.model]


async def run_bedrock(
    joey: Joey, *turns: Turn | Callable[[Request], Turn]
) -> tuple[Finished, list[Request]]:
    joey.settings(**FAST)
    async with ModelServer(list(turns), raw_paths=BEDROCK.raw_paths) as server:
        finished = await joey.run("-p", *flags(server.url), "go", env=static_env(joey))
        return finished, server.requests


@pytest.fixture
async def signed(joey: Joey) -> Request:
    """A request that the service would take."""
    (joey.workspace / "a.txt").write_text("hello\n")
    read = Turn(*converse.write_reply("I look.", "Hm.", "sig", READ, ["call_0"]))
    finished, requests = await run_bedrock(joey, read, done())
    assert (finished.code, finished.out) == (0, "All done.\n"), finished.err
    request = requests[-1]
    assert check_signature(request, STATIC) is None
    assert converse.find_model_violations(request.body, BEDROCK.model) == []
    assert request.path == converse.build_path(BEDROCK.model)
    return request


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda r: structs.replace(r, raw=r.raw + b" "), "InvalidSignature"),
        (lambda r: structs.replace(r, path=r.path.replace("%3A", ":")), "InvalidSignature"),
        (lambda r: replace_header(r, "accept", "*/*"), "InvalidSignature"),
        (lambda r: replace_header(r, "host", "elsewhere.example"), "InvalidSignature"),
        (lambda r: replace_header(r, "x-amz-date", "20200101T000000Z"), "InvalidSignature"),
        (lambda r: replace_header(r, "x-amz-security-token", "old"), "ExpiredToken"),
        (lambda r: replace_header(r, "authorization", "Bearer x"), "MissingAuthentication"),
        (
            lambda r: replace_header(
                r, "authorization", r.headers["authorization"].replace(REGION, "us-east-1")
            ),
            "InvalidSignature",
        ),
        (
            lambda r: replace_header(
                r, "authorization", r.headers["authorization"].replace("AKIDEXAMPLE1", "AKID2")
            ),
            "UnrecognizedClient",
        ),
    ],
)
def test_a_request_that_is_not_signed_as_it_was_sent_is_refused(
    signed: Request, change: Callable[[Request], Request], code: str
) -> None:
    refusal = check_signature(change(signed), STATIC)
    assert refusal is not None
    assert refusal.headers["x-amzn-errortype"].startswith(code)


def replace_header(request: Request, name: str, value: str) -> Request:
    return structs.replace(request, headers={**request.headers, name: value})


def first_call(body: Body) -> dict[str, Any]:
    blocks = (block for message in body["messages"] for block in message["content"])
    return next(block["toolUse"] for block in blocks if "toolUse" in block)


@pytest.mark.parametrize(
    "plant",
    [
        lambda body: body.update(stream=True),
        lambda body: body.update(model="m"),
        lambda body: body.update(system="Be brief."),
        lambda body: body["inferenceConfig"].update(max_tokens=5),
        lambda body: body["inferenceConfig"].update(maxTokens="5"),
        lambda body: body["messages"][0].update(role="tool"),
        lambda body: body["messages"][0]["content"].append({"text": "a", "image": {}}),
        lambda body: body["messages"][0]["content"].append({"cachePoint": {"type": "ephemeral"}}),
        lambda body: first_call(body).pop("toolUseId"),
        lambda body: first_call(body).update(toolUseId="x" * 65),
        lambda body: first_call(body).update(toolUseId="call|1"),
        lambda body: first_call(body).update(extra_content={}),
        lambda body: body["toolConfig"]["tools"][0]["toolSpec"].update(strictly=True),
        lambda body: body["toolConfig"]["tools"][0]["toolSpec"].pop("inputSchema"),
    ],
)
def test_a_body_that_the_service_model_does_not_know_is_refused(
    signed: Request, plant: Callable[[Body], object]
) -> None:
    body = copy.deepcopy(signed.body)
    plant(body)
    assert converse.find_model_violations(body, BEDROCK.model) != []


@pytest.mark.contract("services:clouds")
@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (
            fail_aws(403, "ExpiredTokenException", "The security token included is expired"),
            78,
            "rejected the AWS credentials",
        ),
        (
            fail_aws(403, "AccessDeniedException", "You don't have access to the model."),
            78,
            "403 AccessDeniedException: You don't have access to the model.",
        ),
        (
            fail_aws(400, "ValidationException", "The provided model identifier is invalid."),
            1,
            "400 ValidationException: The provided model identifier is invalid.",
        ),
        (fail_aws(404, "ResourceNotFoundException", "This Model is marked by provider"), 78, "404"),
    ],
)
async def test_an_error_of_bedrock_ends_the_run_with_its_message(
    joey: Joey, answer: Fail, code: int, text: str
) -> None:
    finished, requests = await run_bedrock(joey, Turn(answer), done())
    assert len(requests) == 1, finished.err
    assert text in finished.err
    assert finished.code == code


@pytest.mark.contract("services:clouds")
@pytest.mark.parametrize(
    "first",
    [
        Turn(fail_aws(429, "ThrottlingException", "Too many tokens, please wait.")),
        Turn(fail_aws(429, "ModelNotReadyException", "Model is not ready.")),
        Turn(fail_aws(424, "ModelErrorException", "The model failed.")),
        Turn(fail_aws(503, "ServiceUnavailableException", "Try again.")),
        Turn(raw(converse.encode_exception("throttlingException", "Too many requests"))),
        Turn(raw(converse.encode_exception("modelStreamErrorException", "Bad stream"))),
        Turn(raw(converse.encode_event("messageStart", {"role": "assistant"}))),
        Turn(raw(b"\0\0\0\1" * 9)),
    ],
)
async def test_a_passing_failure_of_bedrock_is_tried_again(joey: Joey, first: Turn) -> None:
    finished, requests = await run_bedrock(joey, first, done())
    assert (finished.code, finished.out, len(requests)) == (0, "All done.\n", 2), finished.err


@pytest.mark.parametrize(
    ("refusal", "name"),
    [
        (
            fail_aws(400, "ValidationException", "output_config: Extra inputs are not permitted"),
            "outputConfig",
        ),
        (fail_aws(400, "ValidationException", "`top_p` is not supported by this model"), "topP"),
        (
            fail_aws(
                403,
                "AccessDeniedException",
                "You invoked an unsupported model or your request did not allow prompt caching.",
            ),
            "cachePoint",
        ),
    ],
)
async def test_what_a_model_of_bedrock_refuses_is_left_out(
    joey: Joey, refusal: Fail, name: str
) -> None:
    def answer(request: Request) -> Turn:
        return Turn(refusal) if f'"{name}":'.encode() in request.raw else done()

    async with ModelServer(answer, raw_paths=BEDROCK.raw_paths) as server:
        profile = {"provider": "bedrock", "model": BEDROCK.model, "baseUrl": server.url}
        write_profile(joey, profile | {"apiKey": "k", "topP": 0.9, "reasoningEffort": "low"})
        for _ in range(2):
            finished = await joey.run("-p", "go", env={**joey.env, "AWS_REGION": REGION})
            assert (finished.code, finished.out) == (0, "All done.\n"), finished.err
        assert len(server.requests) == 3


@pytest.mark.contract("services:clouds")
@pytest.mark.parametrize(
    ("provider", "library"),
    [("bedrock", "botocore"), ("vertex", "google.auth"), ("azure", "azure.identity")],
)
async def test_a_missing_library_is_named_with_the_command_that_installs_it(
    joey: Joey, tmp_path: Path, provider: str, library: str
) -> None:
    package = tmp_path / "without" / Path(*library.split("."))
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError")
    where = {"AWS_REGION": REGION, "GOOGLE_CLOUD_PROJECT": PROJECT}
    env = {**joey.env, **where, "PYTHONPATH": str(tmp_path / "without")}
    address = ("--base-url", "http://127.0.0.1:9")
    finished = await joey.run("-p", "--provider", provider, *address, "-m", "m", "go", env=env)
    assert finished.code == 78
    assert f"pip install 'joey[{provider}]'" in finished.err


@pytest.mark.parametrize(
    ("provider", "text"),
    [("bedrock", "AWS_REGION"), ("vertex", "GOOGLE_CLOUD_PROJECT"), ("azure", "AZURE_OPENAI_END")],
)
async def test_what_a_cloud_lacks_is_named(joey: Joey, provider: str, text: str) -> None:
    finished = await joey.run("-p", "--provider", provider, "-m", "m", "go")
    assert (finished.code, text in finished.err) == (78, True), finished.err


@pytest.mark.parametrize(
    ("field", "name"),
    [
        *(("region", name) for name in ("x@evil.example#", "a/b", "evil.example:443", ".", "-")),
        *(("project", name) for name in ("a/../b", "a?b", "a#b", "..", "-")),
    ],
)
async def test_a_region_cannot_become_another_address(joey: Joey, field: str, name: str) -> None:
    profile = {"provider": "vertex", "model": "claude-x", "project": "p", field: name}
    write_profile(joey, profile)
    finished = await joey.run("-p", "go")
    assert finished.code == 78
    assert f"is no {field} of a cloud" in finished.err


@pytest.mark.parametrize(
    ("provider", "text"),
    [("bedrock", "aws login"), ("vertex", "gcloud auth"), ("azure", "az login")],
)
async def test_without_a_login_the_error_says_how_to_get_one(
    joey: Joey, provider: str, text: str
) -> None:
    joey.settings(**FAST)
    nowhere = "http://127.0.0.1:9"
    env = {
        **joey.env,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "GOOGLE_CLOUD_PROJECT": PROJECT,
        "NO_GCE_CHECK": "true",
        "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
    }
    finished = await joey.run(
        "-p", "--provider", provider, "--base-url", nowhere, "-m", "m", "go", env=env
    )
    assert (finished.code, text in finished.err) == (78, True), finished.err


@pytest.mark.parametrize(
    ("provider", "variable", "text"),
    [
        ("bedrock", "AWS_WEB_IDENTITY_TOKEN_FILE", "No such file or directory"),
        ("bedrock", "AWS_CONFIG_FILE", "still expired"),
        ("vertex", "GOOGLE_APPLICATION_CREDENTIALS", "object has no attribute"),
        ("azure", "AZURE_CLIENT_CERTIFICATE_PATH", "No such file or directory"),
    ],
)
async def test_a_login_that_is_set_up_wrongly_is_no_defect(
    joey: Joey, tmp_path: Path, provider: str, variable: str, text: str
) -> None:
    joey.settings(**FAST)
    missing, expired, config = (tmp_path / name for name in ("missing", "expired", "config"))
    keys = {"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "c"}
    expired.write_text(json.dumps(keys | {"Expiration": "2020-01-01T00:00:00Z"}))
    config.write_text(f"[default]\ncredential_process = cat {expired}\n")
    array = tmp_path / "array"
    array.write_text("[]")
    paths = {"AWS_CONFIG_FILE": config, "GOOGLE_APPLICATION_CREDENTIALS": array}
    env = {
        **joey.env,
        "AWS_REGION": REGION,
        "AWS_ROLE_ARN": "arn:aws:iam::1:role/x",
        "GOOGLE_CLOUD_PROJECT": PROJECT,
        "AZURE_CLIENT_ID": "x",
        "AZURE_TENANT_ID": "t",
        variable: str(paths.get(variable, missing)),
    }
    flags = ("--provider", provider, "--base-url", "http://127.0.0.1:9", "-m", "m")
    finished = await joey.run("-p", *flags, "go", env=env)
    assert (finished.code, text in finished.err) == (78, True), finished.err
    assert "defect" not in finished.err


@pytest.mark.parametrize("provider", ["bedrock", "vertex", "azure"])
async def test_doctor_says_whether_a_cloud_can_be_reached_and_used(
    joey: Joey, provider: str
) -> None:
    async with ModelServer([]) as server:
        profile = {"provider": provider, "model": "m", "baseUrl": server.url}
        write_profile(joey, profile | {"region": REGION, "project": PROJECT})
        found = await joey.run("doctor", "--json")
        assert f"{provider} answers (200)" in found.out
        write_profile(joey, {"provider": provider, "model": "m", "region": "x/y"})
        advice = "AZURE_OPENAI_ENDPOINT" if provider == "azure" else "is no region of a cloud"
        assert advice in (await joey.run("doctor", "--json")).out
        listed = await joey.run("models", "--provider", provider)
        assert "Traceback" not in listed.err


# Profiles -------------------------------------------------------------------------------------


def write_profile(joey: Joey, profile: dict[str, Any]) -> Path:
    joey.home.mkdir(exist_ok=True)
    path = joey.home / "profiles.json"
    named = {"currentApiConfigName": "mine", "apiConfigs": {"mine": profile}}
    is_roo = "apiProvider" in profile
    own = {"active": "mine", "profiles": {"mine": profile}}
    path.write_text(json.dumps({"providerProfiles": named} if is_roo else own))
    return path


class StaticLogin(AwsLogin):
    """Keys that were given by hand, with or without a session."""

    @property
    def credentials(self) -> Credentials:
        return STATIC


@pytest.mark.contract("services:clouds")
@pytest.mark.parametrize("way", ["keys", "profile", "key"])
async def test_an_export_of_roo_for_bedrock_starts_a_task(joey: Joey, way: str) -> None:
    keys = {"awsAccessKey": STATIC.access_key, "awsSecretKey": STATIC.secret_key}
    aws = joey.home.parent / ".aws"
    aws.mkdir()
    (aws / "credentials").write_text(
        f"[work]\naws_access_key_id = {STATIC.access_key}\n"
        f"aws_secret_access_key = {STATIC.secret_key}\n"
    )
    profile = {
        "keys": {**keys, "awsApiKey": "unused", "awsProfile": "unused"},
        "profile": {"awsUseProfile": True, "awsProfile": "work", "awsAccessKey": "unused"},
        "key": {"awsUseApiKey": True, "awsApiKey": "the-key", **keys},
    }[way]
    login = None if way == "key" else StaticLogin(joey.home)
    async with StrictServer(BEDROCK, [READ, COMPLETE], login) as server:
        where = {"awsBedrockEndpoint": server.url, "awsBedrockEndpointEnabled": True}
        model = {"apiModelId": BEDROCK.model.removeprefix("eu."), "awsRegion": REGION}
        profile |= {"apiProvider": "bedrock", "awsUseCrossRegionInference": True, **model, **where}
        write_profile(joey, profile)
        finished = await joey.run("-p", "go")
        assert (finished.code, finished.out) == (0, "All done.\n"), finished.err
        assert server.violations == []
        if way == "key":
            sent = {request.headers["authorization"] for request in server.requests}
            assert sent == {"Bearer the-key"}


@pytest.mark.contract("services:clouds")
@pytest.mark.parametrize("way", ["json", "file"])
async def test_an_export_of_roo_for_vertex_starts_a_task(joey: Joey, way: str) -> None:
    async with (
        GoogleLogin.serve(joey.home.parent) as login,
        StrictServer(VERTEX_CLAUDE, [READ, COMPLETE], login) as server,
    ):
        path = login.env["GOOGLE_APPLICATION_CREDENTIALS"]
        key = {"vertexJsonCredentials": json.dumps(login.account)}
        profile = {
            "apiProvider": "vertex",
            "apiModelId": VERTEX_CLAUDE.model,
            "vertexRegion": REGION,
            **(key if way == "json" else {"vertexKeyFile": path}),
        }
        write_profile(joey, profile)
        finished = await joey.run("-p", "--profile", "mine", "--base-url", server.url, "go")
        assert (finished.code, finished.out) == (0, "All done.\n"), finished.err
        assert server.violations == []


@pytest.mark.contract("services:clouds")
@pytest.mark.parametrize(
    ("version", "path"),
    [
        (None, "/openai/v1/chat/completions"),
        ("2024-10-21", "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21"),
    ],
)
async def test_an_export_of_roo_for_azure_starts_a_task(
    joey: Joey, version: str | None, path: str
) -> None:
    def check(request: Request) -> Fail | None:
        key, sent = request.headers.get("api-key"), request.headers.get("authorization")
        is_right = (request.path, key, sent) == (path, "the-key", None)
        return None if is_right else Fail(401, f"{request.path} {key}")

    service = structs.replace(AZURE, check_request=check)
    async with StrictServer(service, [READ, COMPLETE]) as server:
        profile = {
            "apiProvider": "openai",
            "openAiUseAzure": True,
            "openAiBaseUrl": f"{server.url}/openai/deployments/gpt-4o",
            "openAiApiKey": "the-key",
            "openAiModelId": "gpt-4o",
        }
        write_profile(joey, profile | ({"azureApiVersion": version} if version else {}))
        finished = await joey.run("-p", "go")
        assert (finished.code, finished.out) == (0, "All done.\n"), finished.err
        assert server.violations == []


async def test_azure_serves_later_models_by_the_responses_api(joey: Joey) -> None:
    async with ModelServer([Turn(Fail(401, "no"))] * 2, raw_paths=("/responses",)) as server:
        env = {**joey.env, "AZURE_OPENAI_ENDPOINT": server.url, "AZURE_OPENAI_API_KEY": "k"}
        await joey.run("-p", "-m", "gpt-6.1-sol", "go", env=env)
        profile = {"provider": "azure", "model": "gpt-6.1-sol", "apiVersion": "2025-04-01-preview"}
        write_profile(joey, profile | {"baseUrl": server.url, "apiKey": "k"})
        await joey.run("-p", "go")
        assert [request.path for request in server.requests] == [
            "/openai/v1/responses",
            "/openai/responses?api-version=2025-04-01-preview",
        ]


# Secrets --------------------------------------------------------------------------------------


@pytest.mark.contract("secrets:nowhere")
async def test_aws_credentials_are_repeated_nowhere(joey: Joey) -> None:
    def echo(request: Request) -> Turn:
        token = request.headers["x-amz-security-token"]
        return Turn(fail_aws(400, "ValidationException", f"{KEY} and {token}"))

    joey.settings(**FAST)
    async with ModelServer(echo, raw_paths=BEDROCK.raw_paths) as server:
        keys = {"accessKey": "AKID1", "secretKey": KEY, "sessionToken": OTHER_KEY}
        profile = {"provider": "bedrock", "model": "m", "baseUrl": server.url, "region": REGION}
        path = write_profile(joey, profile | {"credentials": keys})
        runs = [
            await joey.run("-p", "go", "--debug", "--output-format", "stream-json"),
            await joey.run("profiles", "show", "mine"),
            await joey.run("profiles", "list", "--json"),
            await joey.run("doctor"),
            await joey.run("profiles", "set", "mine", "credentials", '{"accessKey": "x"}'),
        ]
        assert server.requests
    assert runs[-1].code == 78 or runs[-1].code == 2
    said = {f"run {n}": (run.out + run.err).encode() for n, run in enumerate(runs)}
    said |= files_under(joey.home, joey.workspace, except_for={path})
    assert traces((KEY, OTHER_KEY), said) == []


@pytest.mark.contract("secrets:nowhere")
@pytest.mark.parametrize("kind", [GoogleLogin, EntraLogin])
async def test_a_token_is_repeated_nowhere(joey: Joey, kind: type[CloudLogin]) -> None:
    joey.settings(**FAST)

    def echo(request: Request) -> Turn:
        return Turn(Fail(400, f"what is {request.headers['authorization']}?"))

    name = "vertex" if kind is GoogleLogin else "azure"
    async with kind.serve(joey.home.parent) as login, ModelServer(echo) as server:
        env = {**joey.env, **login.env}
        arguments = ("--provider", name, "--base-url", server.url, "-m", "m", "--debug")
        finished = await joey.run("-p", *arguments, "go", env=env)
        assert server.requests, finished.err
    tokens = [f"token-{kind.__name__}-{number}" for number in range(9)]
    said = {"run": (finished.out + finished.err).encode(), **files_under(joey.home)}
    assert traces(tokens, said) == []


@pytest.mark.contract("secrets:nowhere")
async def test_a_client_gets_no_credentials_and_may_give_some_with_a_task(tmp_path: Path) -> None:
    def answer(request: Request) -> Turn:
        refused = check_signature(request, Credentials("AKID7", KEY, OTHER_KEY))
        return Turn(refused) if refused else done()

    async with ModelServer(answer, raw_paths=BEDROCK.raw_paths) as model:
        served = Served(tmp_path, model.url, **FAST)
        async with served.running() as program:
            async with program.peer() as peer:
                configuration = {
                    "apiProvider": "bedrock",
                    "apiModelId": "m",
                    "awsAccessKey": "AKID7",
                    "awsSecretKey": KEY,
                    "awsSessionToken": OTHER_KEY,
                    "awsRegion": REGION,
                    "awsBedrockEndpoint": model.url,
                    "awsBedrockEndpointEnabled": True,
                }
                asked = {"text": "go", "configuration": configuration}
                await peer.ask("startNewTask", **asked)
                await peer.asked("completion_result")
                await peer.ask("createProfile", name="mine", profile=configuration)
                found = [
                    await peer.ask("getProfileEntry", name="mine"),
                    await peer.ask("getConfiguration"),
                ]
            _, log = await program.stop()
    kept = {served.home / "profiles.json", *(served.home / "task-secrets").iterdir()}
    said = {"frames": json.dumps([found, peer.events]).encode(), "log": log.encode()}
    said |= files_under(served.home, served.workspace, except_for=kept)
    assert traces((KEY, OTHER_KEY), said) == []
