"""`--record` and `recordRequests`: joey's own requests in the book of `joey proxy`."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path

import pytest

from joey.proxy.book import Book
from joey.proxy.exchange import Exchange, ExchangeState
from joey.proxy.filing import open_filed_book
from joey.testing.script import Disconnect, Turn, call, fail, pause, say, usage
from joey.testing.server import ModelServer
from tests.harness.cli.binary import LIMIT, Joey, reach

KEY = "planted-key-0123456789"
DONE = Turn(
    say("Nearly."), call("attempt_completion", {"result": "Done."}), usage(input=9000, output=7)
)
ASKING = Turn(say("I look."), call("read_file", {"path": "a.txt"}), usage(input=8000, output=5))
WIRES = ("anthropic", "openai")


def find_book(joey: Joey) -> Path:
    return joey.home / "proxy" / "book.sqlite"


def read_exchanges(joey: Joey) -> tuple[Book, list[Exchange]]:
    book = open_filed_book(find_book(joey))
    return book, list(book.exchanges())


def with_key(joey: Joey) -> dict[str, str]:
    return {**joey.env, "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}


@pytest.mark.parametrize("wire", WIRES)
async def test_a_run_with_record_is_in_the_book_byte_for_byte(joey: Joey, wire: str) -> None:
    (joey.workspace / "a.txt").write_text(f"the key is {KEY}!", encoding="utf-8")
    async with ModelServer([ASKING, DONE]) as server:
        flags = ("--provider", wire, "--base-url", server.url, "--model", "scripted", "--record")
        done = await joey.run("-p", *flags, "look at a.txt", env=with_key(joey))
        assert (done.code, done.out) == (0, "Done.\n")
        listed = await joey.run("proxy", "list", "--json")
        shown = await joey.run("proxy", "show", "1", "--json")
        book, exchanges = read_exchanges(joey)
        with book:
            for sent, exchange in zip(server.requests, exchanges, strict=True):
                masked = sent.raw.replace(KEY.encode(), b"*" * len(KEY))
                assert book.request_body(exchange.id) == masked
                assert b"data: " in book.response_body(exchange.id)
                assert exchange.path == sent.path
                assert exchange.upstream == server.url
                assert exchange.state is ExchangeState.DONE
                assert joey.tasks[0].name == f"task_{exchange.task_id}"
    (session,) = listed.json
    assert (session["client"], session["requests"], session["real"]) == ("joey", 2, True)
    assert (session["tokensIn"], session["title"]) == (17_000, "look at a.txt")
    assert [turn["usage"]["output"] for turn in shown.json] == [5, 7]
    assert not list((joey.home / "proxy").glob("book.sqlite-spool/*"))
    stored = b"".join(
        path.read_bytes() for path in (joey.home / "proxy").glob("book.sqlite*") if path.is_file()
    )
    assert KEY.encode() not in stored


async def test_nothing_is_recorded_unless_it_is_asked_for(joey: Joey) -> None:
    async with ModelServer([DONE, DONE, DONE]) as server:
        await joey.run("-p", *reach(server.url), "do it")
        assert not (joey.home / "proxy").exists()
        ephemeral = await joey.run("-p", *reach(server.url), "--record", "--ephemeral", "do it")
        assert (ephemeral.code, "--record cannot be used" in ephemeral.err) == (2, True)
        joey.settings(recordRequests=True)
        await joey.run("-p", *reach(server.url), "--ephemeral", "do it")
        assert not (joey.home / "proxy").exists()
        await joey.run("-p", *reach(server.url), "do it")
    book, exchanges = read_exchanges(joey)
    book.close()
    assert len(exchanges) == 1


async def test_a_header_of_a_profile_is_masked_whatever_its_name(joey: Joey) -> None:
    joey.settings(recordRequests=True)
    profile = {
        "apiProvider": "anthropic",
        "apiModelId": "scripted",
        "headers": {"x-pass": "planted-header-77", "user-agent": "curl/8"},
    }
    document = {"currentApiConfigName": "mine", "apiConfigs": {"mine": profile}}
    (joey.home / "profiles.json").write_text(json.dumps(document), encoding="utf-8")
    async with ModelServer([DONE]) as server:
        env = {**with_key(joey), "ANTHROPIC_BASE_URL": server.url}
        done = await joey.run("-p", "do it", env=env)
        assert done.code == 0, done.err
        assert server.requests[0].headers["x-pass"] == "planted-header-77"
    listed = await joey.run("proxy", "list", "--json")
    assert listed.json[0]["client"] == "joey"
    book, (exchange,) = read_exchanges(joey)
    book.close()
    assert ("x-pass", "*" * 17) in exchange.request_headers


async def test_a_killed_run_leaves_every_byte_that_it_received(joey: Joey) -> None:
    gate = asyncio.Event()
    async with ModelServer(
        [Turn(say("The first part of it. "), pause(gate), *DONE.steps)]
    ) as server:
        process = await joey.start(
            "-p",
            "--output-format",
            "stream-json",
            *reach(server.url),
            "--record",
            "do it",
            stdout=PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT):
            while b"The first part" not in await process.stdout.readline():
                pass
            process.kill()
            await process.communicate()
        gate.set()
        shown = await joey.run("proxy", "show", "1.1", "--json")
        reply = await joey.run("proxy", "show", "1.1", "--raw", "response")
    assert shown.json["state"] == "cut killed"
    assert "The first part of it." in reply.out
    assert not list((joey.home / "proxy").glob("book.sqlite-spool/*"))


@pytest.mark.parametrize(
    ("turn", "state"),
    [
        (Turn(say("Half"), Disconnect()), "cut upstream"),
        (Turn(fail(529, "overloaded")), "done"),
    ],
)
async def test_failures_are_recorded_as_they_were(joey: Joey, turn: Turn, state: str) -> None:
    joey.settings(recordRequests=True, requestDelaySeconds=0)
    async with ModelServer([turn, DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "do it")
        assert done.code == 0, done.err
    book, exchanges = read_exchanges(joey)
    book.close()
    assert [each.state for each in exchanges] == [state, "done"]
    assert exchanges[0].status == (529 if state == "done" else 200)


async def test_a_server_that_is_not_there_is_recorded(joey: Joey) -> None:
    joey.settings(recordRequests=True, maxRetries=0)
    async with ModelServer([]) as server:
        url = server.url
    done = await joey.run("-p", *reach(url), "do it")
    assert done.code == 75
    book, (exchange, *_) = read_exchanges(joey)
    book.close()
    assert (exchange.state, exchange.status) == (ExchangeState.UNREACHABLE, 0)


async def test_a_book_that_cannot_be_opened_costs_one_line(joey: Joey) -> None:
    joey.home.mkdir()
    (joey.home / "proxy").write_text("a file")
    (joey.workspace / "a.txt").write_text("hello", encoding="utf-8")
    async with ModelServer([ASKING, DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "--record", "look at a.txt")
    assert (done.code, done.out) == (0, "Done.\n")
    assert done.err.lower().count("recording has stopped") == 1


@pytest.fixture
def full_disk(joey: Joey) -> Iterator[Path]:
    """A disk of its own for the recordings."""
    directory = joey.home / "proxy"
    directory.mkdir(parents=True)
    mount = ("mount", "-t", "tmpfs", "-o", "size=2m", "none", str(directory))
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    yield directory
    subprocess.run(("umount", "-l", str(directory)), check=True)


async def test_a_disk_that_fills_up_in_a_reply_does_not_disturb_it(
    joey: Joey, full_disk: Path
) -> None:
    first = Turn(say(" ".join(map(str, range(20_000))), chunk=8), *ASKING.steps)
    (joey.workspace / "a.txt").write_text("hello", encoding="utf-8")
    async with ModelServer([first, DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "--record", "look at a.txt")
    assert (done.code, done.out) == (0, "Done.\n")
    assert done.err.lower().count("recording has stopped") == 1
    assert "No space left on device" in done.err
