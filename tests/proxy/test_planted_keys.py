"""Keys in any listed place are found nowhere afterwards: in no file, compressed or not, in no
output and in no log. What is passed on has them all."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from joey.testing.script import Turn, say, usage
from joey.testing.server import ModelServer
from tests.harness.proxy.proxies import OK, Ended, ProxyProcess, close, run_joey, serve, start_proxy

NAMES = (
    *("authorization", "x-api-key", "cookie", "api_key", "apiKey", "key", "token", "secret"),
    *("password", "Authorization", "X-API-KEY", "Api-Key", "API_KEY"),
)
HEADER_NAMES = tuple({name.lower(): name for name in NAMES}.values())
COMMANDS = (
    ("list", "--all", "--json"),
    *(("show", "1.1", flag) for flag in ("--json", "--request", "--blocks", "--raw=request")),
    ("diff", "1.2"),
    *(("report", "--format", name) for name in ("html", "json")),
)
ZLIB_HEADER_RE = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
OPENING = "\u00e9 conversation about keys"


class Planted:
    """Distinct values that have to disappear, and one that has to stay."""

    kept = "kept-because-its-name-is-no-keys"

    def __init__(self) -> None:
        self.values: list[str] = []

    def make(self, place: str) -> str:
        self.values.append(f"sk-planted-{place}-{len(self.values):04}-0123456789abcdef")
        return self.values[-1]

    def build_body(self, messages: int) -> bytes:
        fields = {name: self.make("field") for name in NAMES}
        nested = {"provider": [{"options": {"deep": {name: self.make("deep") for name in NAMES}}}]}
        call = {"type": "tool_use", "id": "t", "name": "f", "input": {"token": self.make("call")}}
        said = {"role": "assistant", "content": [call]}
        result = {"type": "tool_result", "tool_use_id": "t", "content": self.kept}
        body = {
            "model": "claude-sonnet-4-5",
            "stream": True,
            **fields,
            "metadata": {**nested, "escaped": {"key": self.make("quoted") + '"\\\u00e9\n'}},
            "messages": [{"role": "user", "content": OPENING}]
            + [said, {"role": "user", "content": [result]}] * messages,
        }
        return json.dumps(body).encode()

    def build_request(self, port: int, messages: int, *, is_chunked: bool) -> bytes:
        path = "/v1/responses" if is_chunked else "/v1/messages"
        parameters = "&".join(f"{quote(name)}={self.make('parameter')}" for name in NAMES)
        body = self.build_body(messages)
        lines = [
            f"POST {path}?beta=true&{parameters}&%6Bey={self.make('escaped')} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "User-Agent: claude-cli/2.1.0 (external, cli)",
            *(f"{name}: {self.make('header')}" for name in HEADER_NAMES),
            f"Proxy-Authorization: {self.make('header')}",
            f"X-Kept: {self.kept}",
        ]
        if is_chunked:
            lines.append("Transfer-Encoding: chunked")
            body = b"".join(
                b"%x\r\n%b\r\n" % (len(body[at : at + 7]), body[at : at + 7])
                for at in range(0, len(body), 7)
            )
            body += b"0\r\n\r\n"
        else:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode() + body


async def send_in_pieces(proxy: ProxyProcess, request: bytes, answer_end: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    for at in range(0, len(request), 97):
        writer.write(request[at : at + 97])
        await writer.drain()
    await reader.readuntil(answer_end)
    await close(writer)


async def answer_and_wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n0\r\n")
    writer.write(OK)
    await reader.read()


def iter_stored(directory: Path) -> Iterator[tuple[str, bytes]]:
    """The content of every file, and everything in it that can be inflated."""
    for path in sorted(each for each in directory.rglob("*") if each.is_file()):
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # a spool file that the running proxy has filed meanwhile
            continue
        yield path.name, data
        for found in ZLIB_HEADER_RE.finditer(data):
            with suppress(zlib.error):  # just two letters
                inflated = zlib.decompressobj().decompress(memoryview(data)[found.start() :])
                yield f"{path.name} at {found.start()}", inflated


def find_planted(planted: Planted, texts: Iterator[tuple[str, bytes]]) -> list[tuple[str, str]]:
    return [
        (where, value)
        for where, data in texts
        for value in planted.values
        if value.encode() in data
    ]


async def test_planted_keys_are_passed_on_and_kept_nowhere(tmp_path: Path) -> None:
    planted = Planted()
    home = tmp_path / "home"
    book = home / "proxy" / "book.sqlite"
    env = {"JOEY_HOME": str(home)}
    passed = b""
    turns = [Turn(say("Done."), usage(input=5000, cache_reads=0)) for _ in range(2)]
    async with (
        ModelServer(turns) as server,
        serve(answer_and_wait) as other,
        start_proxy(book, server.url, "--debug", "--openai", other, env=env) as proxy,
    ):
        first = planted.build_request(proxy.port, 1, is_chunked=False)
        await send_in_pieces(proxy, first, b"\r\n0\r\n\r\n")
        await send_in_pieces(
            proxy, planted.build_request(proxy.port, 3, is_chunked=False), b"\r\n0\r\n\r\n"
        )
        for got in server.requests:
            passed += got.path.encode() + json.dumps(got.headers).encode() + got.raw
        assert [value for value in planted.values if value.encode() not in passed] == []
        unfinished = planted.build_request(proxy.port, 5, is_chunked=True)
        await send_in_pieces(proxy, unfinished.removesuffix(b"\r\n"), OK)
        assert find_planted(planted, iter_stored(tmp_path)) == []
        proxy.process.kill()
        _, logged = await proxy.process.communicate()
    outputs: list[Ended] = [
        await run_joey("proxy", *command, "--db", str(book), "--debug", env=env)
        for command in COMMANDS
    ]
    assert [each.stderr for each in outputs if each.code] == []
    texts = [("log", logged)] + [
        (" ".join(command), each.stdout.encode() + each.stderr.encode())
        for command, each in zip(COMMANDS, outputs, strict=True)
    ]
    assert find_planted(planted, iter(texts)) == []
    stored = list(iter_stored(tmp_path))
    assert find_planted(planted, iter(stored)) == []
    assert any(Planted.kept.encode() in data for _, data in stored)
    assert sum(b'"authorization": "*****' in data for _, data in stored) >= 1
