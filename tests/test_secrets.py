"""Keys and tokens are found nowhere but where their owner put them: canaries are planted, real
programs run and fail, and everything that they leave behind is looked through."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.cli.logs import RedactingFormatter
from joey.core.redaction import (
    REDACTION_TEXT,
    KnownSecrets,
    redact_log_line,
    redact_secrets,
    remove_secrets,
)
from joey.server.serve import JsonLogFormatter
from joey.testing.script import Fail, Turn, call, fail, say
from joey.testing.server import ModelServer
from tests.harness.canary import KEY, OTHER_KEY, files_under, spellings, traces
from tests.harness.cli.binary import Finished, Joey
from tests.harness.providers.sockets import Reader, Writer, run_server
from tests.harness.server.binary import Served
from tests.harness.server.server_fixture import TOKEN, CommandFailedError

FAST = {"requestDelaySeconds": 0.01, "maxRetries": 1}
ECHOES = {
    "message": fail(401, f"invalid key: {KEY}"),
    "code": fail(400, "no", code=KEY),
    "plain": fail(403, body=f"who is {KEY}?", headers={"content-type": "text/plain"}),
    "redirect": fail(307, headers={"location": f"http://h.test/?key={quote(KEY, safe='')}"}),
    "header": fail(400, f"x-team said {OTHER_KEY}"),
    "escaped": fail(400, body=json.dumps({"error": {"message": [f'"{KEY}"']}})),
}


@pytest.fixture
def joey(tmp_path: Path) -> Joey:
    place = Joey(home=tmp_path / "joey-home", workspace=tmp_path / "work")
    place.workspace.mkdir()
    place.settings(**FAST)
    return place


def profiles(joey: Joey, url: str) -> Path:
    """A profile with a key, and a header that is one too."""
    path = joey.home / "profiles.json"
    entry = {"provider": "anthropic", "model": "scripted", "baseUrl": url, "apiKey": KEY}
    own = entry | {"headers": {"x-team": f"Bearer {OTHER_KEY}"}}
    path.write_text(json.dumps({"active": "canary", "profiles": {"canary": own}}))
    return path


def collect_output(joey: Joey, *runs: Finished) -> dict[str, bytes]:
    said = {f"stdout {n}": run.out.encode() for n, run in enumerate(runs)}
    said |= {f"stderr {n}": run.err.encode() for n, run in enumerate(runs)}
    kept = {joey.home / "profiles.json"}
    return said | files_under(joey.home, joey.workspace, except_for=kept)


@pytest.mark.contract("secrets:nowhere")
@pytest.mark.parametrize("way", ECHOES)
async def test_a_service_that_repeats_the_key_is_not_repeated(joey: Joey, way: str) -> None:
    step: Fail = ECHOES[way]
    async with ModelServer([Turn(step)] * 4) as server:
        profiles(joey, server.url)
        form = ("--output-format", "stream-json")
        streamed = await joey.run("-p", "hi", "--debug", *form)
        plain = await joey.run("-p", "hi")
    assert streamed.code and plain.code
    assert traces((KEY, OTHER_KEY), collect_output(joey, streamed, plain)) == []


@pytest.mark.contract("secrets:nowhere")
async def test_a_service_that_fails_in_the_middle_is_not_repeated(joey: Joey) -> None:
    async with ModelServer([Turn(say("well"), fail(500, f"{KEY} broke"))] * 4) as server:
        profiles(joey, server.url)
        finished = await joey.run("-p", "hi", "--debug", "--output-format", "json")
    assert finished.code
    assert traces((KEY, OTHER_KEY), collect_output(joey, finished)) == []


@pytest.mark.contract("secrets:nowhere")
@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n"])
async def test_a_server_that_sends_the_request_back_is_not_repeated(
    joey: Joey, head: bytes
) -> None:
    async def echo(reader: Reader, writer: Writer) -> None:
        with suppress(ConnectionError):
            line = (await reader.readuntil(KEY.encode())).splitlines()[-1]
            writer.write(head + line.replace(b":", b"") + b"\r\n\r\n")
            await writer.drain()
            await reader.read(1)

    async with run_server(echo) as port:
        profiles(joey, f"http://127.0.0.1:{port}")
        finished = await joey.run("-p", "hi", "--debug")
    assert finished.code
    assert traces((KEY, OTHER_KEY), collect_output(joey, finished)) == []


@pytest.mark.contract("secrets:nowhere", "export:roo")
async def test_a_key_that_a_command_printed_is_not_exported(joey: Joey, tmp_path: Path) -> None:
    said = f"printf '%s\\n' {KEY} ghp_{'a1' * 18}"
    turns = [Turn(call("execute_command", {"command": said})), done()]
    async with ModelServer(turns) as server:
        profiles(joey, server.url)
        ran = await joey.run("-p", "-y", "--no-sandbox", f"print {KEY}")
    assert ran.code == 0, ran.err
    (task,) = joey.tasks
    assert KEY in (task / "ui_messages.json").read_text()  # what was said is the task's content
    name = task.name.removeprefix("task_")
    out = tmp_path / "out"
    out.mkdir()
    for form in ("markdown", "json", "roo"):
        goal = out if form == "roo" else out / form
        exported = await joey.run("tasks", "export", name, "--format", form, "-o", str(goal))
        assert exported.code == 0, exported.err
    exports = files_under(out)
    assert len(exports) == 6
    assert traces((KEY, f"ghp_{'a1' * 18}"), exports) == []
    assert [path for path in exports if os.stat(path).st_mode & 0o077] == []  # noqa: PTH116


@pytest.mark.contract("secrets:nowhere")
async def test_a_server_tells_and_logs_no_key_and_no_token(tmp_path: Path) -> None:
    async with ModelServer([Turn(step) for step in ECHOES.values()] * 3) as model:
        served = Served(tmp_path, model.url, **FAST)
        served.env["ANTHROPIC_API_KEY"] = KEY
        frames: list[str] = []
        async with served.running() as program:
            async with program.peer() as peer:
                for number, configuration in enumerate(({}, {"apiKey": OTHER_KEY})):
                    asked = {"text": "hi", "configuration": configuration}
                    task = await peer.ask("startNewTask", **asked)
                    await peer.asked("api_req_failed", since=0 if not number else len(peer.events))
                    for name in ("getMessages", "getEvents", "getTask"):
                        frames.append(json.dumps(await peer.ask(name, task["taskId"])))
                profile = {"apiKey": OTHER_KEY, "openAiHeaders": {"x": OTHER_KEY}}
                await peer.ask("createProfile", name="mine", profile=profile)
                for name, more in (("getProfileEntry", {"name": "mine"}), ("getConfiguration", {})):
                    frames.append(json.dumps(await peer.ask(name, **more)))
                for values in ({"apiKey": 5}, {"headers": [OTHER_KEY]}, {"mode": OTHER_KEY}):
                    with pytest.raises(CommandFailedError):
                        await peer.ask("setConfiguration", values=values)
                frames += map(json.dumps, peer.events)
            code, log = await program.stop()
        assert code == 143
    kept = {served.home / "profiles.json", *(served.home / "task-secrets").iterdir()}
    said = {"frames": "\n".join(frames).encode(), "log": log.encode()}
    said |= files_under(served.home, served.workspace, except_for=kept)
    assert traces((KEY, OTHER_KEY, TOKEN), said) == []


def done() -> Turn:
    return Turn(call("attempt_completion", {"result": "done"}))


# The parts -------------------------------------------------------------------------------------

SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=40)


@given(secret=SECRETS, before=st.text(max_size=30), after=st.text(max_size=30))
def test_no_spelling_of_a_known_value_is_left(secret: str, before: str, after: str) -> None:
    known = KnownSecrets()
    known.add(f"Bearer {secret}")
    for form in spellings(secret):
        text = known.redact(f"{before} {form.decode()} {after}")
        assert (
            form.decode() not in text.replace(REDACTION_TEXT, "\0")
            or form.decode() in before + after
        )


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-abcdefgh0123456789",
        f"ghp_{'x7' * 18}",
        f"github_pat_{'x7' * 20}",
        "glpat-abcdefgh01234567",
        "xoxb-123456789012-abcdef",
        "AKIAABCDEFGHIJKLMNOP",
        f"AIza{'b4' * 17}c",
        f"eyJ{'a' * 20}.eyJ{'b' * 20}.{'c' * 20}",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIabc and so on",
    ],
)
def test_what_looks_like_a_secret_is_blotted_out(secret: str) -> None:
    assert redact_secrets(f"before {secret}") == f"before {REDACTION_TEXT}"


@pytest.mark.parametrize(
    "text",
    [
        "pip install sk-learn-contrib-extras",
        "token = next(tokens)",
        "an eyJ alone",
        "password: str",
    ],
)
def test_ordinary_text_stays_in_what_was_said(text: str) -> None:
    assert redact_secrets(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "authorization: Bearer abcdefghij",
        'headers {"x-api-key": "abcdefghij"}',
        "GET /?api_key=abcdefghij&x=1",
        "https://me:abcdefghij@host/",
    ],
)
def test_a_log_hides_what_is_only_called_a_secret(text: str) -> None:
    assert "abcdefghij" not in redact_log_line(text, redact_secrets)


@pytest.mark.contract("secrets:nowhere")
@pytest.mark.parametrize("lines", [RedactingFormatter(), JsonLogFormatter()])
def test_both_logs_blot_messages_arguments_and_traces(
    lines: logging.Formatter, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-ant-api03-abcdefgh0123456789"
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(lines)
    logger = logging.Logger("joey.test")
    logger.addHandler(handler)
    try:
        raise ValueError(f"the key {secret} is bad")
    except ValueError:
        logger.exception("it failed: %s", secret, extra={"reason": secret})
    assert "ValueError" in stream.getvalue()
    assert REDACTION_TEXT in stream.getvalue()
    assert secret not in stream.getvalue()


@pytest.mark.contract("secrets:nowhere")
async def test_what_nobody_set_a_log_up_for_is_blotted_too(joey: Joey) -> None:
    script = (
        "import logging, sys; from joey.cli import main; main.parse_command_line(['-p', 'x']);"
        "from joey.cli.logs import configure_logging; configure_logging(debug=False);"
        "logging.getLogger('joey.x').warning('it was %s', sys.argv[1])"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, KEY),
        env=joey.env | {"SOME_API_KEY": KEY},
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    assert REDACTION_TEXT.encode() in err
    assert traces((KEY,), {"stderr": err}) == []


def test_a_configuration_keeps_its_text_and_an_export_does_not() -> None:
    document = {"apiKey": "x", "rules": "use ghp_" + "x7" * 18, "headers": {"X-Key": "y"}}
    assert remove_secrets(document) == {"rules": document["rules"], "headers": ["X-Key"]}
    assert remove_secrets(document, redact_secrets) == {
        "rules": f"use {REDACTION_TEXT}",
        "headers": ["X-Key"],
    }
