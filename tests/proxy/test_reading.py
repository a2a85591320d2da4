"""`joey proxy list`, `show`, `diff` and `report`: their JSON, their errors, and pages from books
that hold anything."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from joey.proxy.exchange import ExchangeState
from joey.proxy.recordings import Recordings
from joey.proxy.report import build_report
from joey.proxy.report_document import build_document
from joey.proxy.report_formats import render_html, render_markdown
from tests.harness.proxy.conversing import SYSTEM, TOOLS, build_request, build_response
from tests.harness.proxy.filing import (
    ANTHROPIC_PATH,
    CHAT_PATH,
    RESPONSES_PATH,
    file_exchange,
    open_recordings,
)
from tests.harness.proxy.proxies import run_joey

ASKED = [("user", "What is in the repository?")]
SAID = "There are three files in it."
GOING_ON = [*ASKED, ("assistant", SAID), ("user", "Read the first one.")]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`|]]>&\u202e\x1b[31m\x00"


async def read_json(book: Path, *arguments: str) -> Any:
    ended = await run_joey("proxy", *arguments, "--db", str(book))
    assert ended.code == 0, ended.stderr
    return json.loads(ended.stdout)


def fill(book: Path) -> None:
    first = build_request(ANTHROPIC_PATH, ASKED, tools=TOOLS)
    clock = SYSTEM.replace(":20.", ":21.")
    second = build_request(ANTHROPIC_PATH, GOING_ON, tools=TOOLS, system=clock)
    claude = {"path": ANTHROPIC_PATH, "user_agent": "claude-cli/2.1.197 (external, cli)"}
    responses = [
        build_response(ANTHROPIC_PATH, SAID, writes=6_000),
        build_response(ANTHROPIC_PATH, "Ok.", writes=6_040, output=50),
    ]
    curl = {"user_agent": "curl/8.5", "request": build_request(CHAT_PATH, ASKED), "at": 30_000}
    open_recordings(
        book,
        [
            {**claude, "request": first, "response": responses[0], "at": 10_000},
            {**claude, "request": second, "response": responses[1], "at": 20_000},
            {**curl, "response": b'{"error": {"message": "no"}}', "status": 400},
            {"request": b"not json", "at": 40_000},
        ],
    ).book.close()


async def test_the_json_of_each_command_has_the_documented_keys(tmp_path: Path) -> None:
    book = tmp_path / "book.sqlite"
    fill(book)
    (session,) = await read_json(book, "list", "--json")
    assert session == {
        "id": 1,
        "client": "claude-code",
        "clientBy": "agent",
        "real": True,
        "model": "claude-sonnet-4-5",
        "first": 10_000,
        "last": 20_000,
        "turns": 2,
        "requests": 2,
        "tokensIn": 12_060,
        "tokensOut": 55,
        "cacheReads": 0,
        "cost": pytest.approx((20 * 3 + 12_040 * 3.75 + 55 * 15) / 1e6),
        "title": ASKED[0][1],
    }
    assert [each["real"] for each in await read_json(book, "list", "--json", "--all")] == [
        True,
        False,
    ]
    assert await read_json(book, "show", "1.2", "--json") == {
        "session": 1,
        "turn": 2,
        "wire": "anthropic",
        "method": "POST",
        "path": "/v1/messages",
        "status": 200,
        "state": "done",
        "client": "claude-code",
        "model": "claude-sonnet-4-5",
        "firstByteMs": 20.0,
        "seconds": 1.0,
        "usage": {"input": 10, "output": 50, "cacheReads": 0, "cacheWrites": 6_040},
        "format": "none",
        "error": None,
    }
    miss = await read_json(book, "diff", "1.2", "--json")
    assert miss == {
        "block": 3,
        "kind": "system",
        "character": SYSTEM.index("0. "),
        "before": miss["before"],
        "after": miss["after"],
        "tokens": 6_000,
        "cost": pytest.approx(6_000 * (3.75 - 0.3) / 1e6),
        "reason": "changed",
    }
    report = await read_json(book, "report", "--format", "json")
    assert list(report) == [
        *("requests", "sessions", "realSessions", "testSessions", "clients", "fields"),
        *("systemPrompt", "tools", "formats", "failures", "cache", "cost", "costWithoutMisses"),
    ]
    assert report["requests"] == 4
    assert report["clients"][0] == {
        "name": "claude-code",
        "by": "agent",
        "sessions": 1,
        "requests": 2,
        "userAgents": ["claude-cli/2.1.197 (external, cli)"],
    }
    assert report["systemPrompt"] == {
        "bytes": len(SYSTEM),
        "sections": [{"heading": "", "bytes": len(SYSTEM), "changed": True}],
    }
    assert report["failures"] == [{"session": 2, "turn": 1, "kind": "http", "text": "HTTP 400: no"}]
    assert report["cache"]["misses"] == [{**miss, "session": 1, "turn": 2}]
    assert report["costWithoutMisses"] == pytest.approx(report["cost"] - miss["cost"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "7"), "session 7 does not exist; joey proxy list --all lists all sessions"),
        (("show", "1.9"), "session 1 has no request 9; joey proxy show 1 lists them"),
        (("diff", "1"), "name one of its requests, such as 1.1"),
        (("diff", "x"), "'x' is not a session (such as 3) or a request (such as 3.2)"),
        (("export", "1.2"), "1.2 is one request; name its session: 1"),
        (("export", "1", "--as", "roo"), "name it with -o DIR"),
        (("serve", "no-such-file"), "no such file: no-such-file"),
    ],
)
async def test_a_wrong_name_is_answered_with_what_to_do(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    fill(tmp_path / "book.sqlite")
    ended = await run_joey("proxy", *arguments, "--db", str(tmp_path / "book.sqlite"))
    assert ended.code != 0
    assert said in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


async def test_missing_empty_and_damaged_books_have_their_own_errors(tmp_path: Path) -> None:
    book = tmp_path / "book.sqlite"
    missing = await run_joey("proxy", "list", "--db", str(book))
    assert missing.code != 0
    assert "there is no book" in missing.stderr
    assert not book.exists()
    empty = await run_joey("proxy", "report")
    assert (empty.code, empty.stdout) == (0, "")
    assert "nothing is recorded here yet" in empty.stderr
    assert (await run_joey("proxy", "list", "--json")).stdout.strip() == "[]"
    fill(book)
    data = bytearray(book.read_bytes())
    assert len(data) > 40_000
    data[4096:] = b"\xff" * (len(data) - 4096)
    book.write_bytes(data)
    for name in ("list", "report"):
        damaged = await run_joey("proxy", name, "--db", str(book))
        assert damaged.code != 0
        assert "Traceback" not in damaged.stderr
        assert "damaged" in damaged.stderr or "cannot be used" in damaged.stderr


async def test_list_names_requests_that_are_no_conversation(tmp_path: Path) -> None:
    book = tmp_path / "book.sqlite"
    open_recordings(book, [{"request": b"", "path": "/v1/models"}]).book.close()
    ended = await run_joey("proxy", "list", "--db", str(book))
    assert "no conversation is recorded; joey proxy show 0: 1 request" in ended.stderr


def test_hostile_content_is_only_text_in_pages(tmp_path: Path) -> None:
    tools = tuple({**tool, "name": f"{tool['name']}{HOSTILE}"} for tool in TOOLS)
    system = f"# {HOSTILE}\n{SYSTEM}"
    agent = {"user_agent": "x" + HOSTILE}
    asked = [("user", HOSTILE)]
    more = [*asked, ("assistant", HOSTILE), ("user", "[ERROR]" + HOSTILE)]
    first, again = (
        build_request(CHAT_PATH, messages, system=system, tools=tools, **{HOSTILE: HOSTILE})
        for messages in (asked, more)
    )
    response = build_response(CHAT_PATH, HOSTILE)
    recordings = open_recordings(
        tmp_path / "book.sqlite",
        [
            {**agent, "request": first, "response": response},
            {**agent, "request": again, "response": HOSTILE, "at": 2_000, "status": 500},
        ],
    )
    document = build_document(build_report(recordings, recordings.list_sessions()))
    page = render_html(document)
    assert not re.search(r"<(script|img|link|iframe)|\son\w+=(?![^<>]*&)", page.replace("&lt;", ""))
    assert "default-src 'none'" in page
    assert "\x1b" not in page and "\u202e" not in page and "\x00" not in page
    assert "http://" not in page and "https://" not in page
    text = render_markdown(document)
    outside = re.sub(r"(`+)(?:(?!\1).)*\1", "", text)
    assert "<" not in outside and "\x1b" not in text


FORMATS = {
    "xml": "I read.\n\n<read_file>\n<path>a</path>\n</read_file>",
    "tool_code": '```tool_code\n{"tool": "file_system", "action": "read_file"}\n```',
    "tool_call": 'Now.\n<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n'
    "</tool_call>\nI wait.",
    "json": '{"name": "read_file", "arguments": {"path": "a"}}',
    "function": "<function=read_file><parameter=path>a</parameter></function>",
    "none": "Use the `<tool_call>` tag {with care}. All is done.",
}
READ_FILE = {
    "name": "read_file",
    "description": "Read",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
}
PROMPT = (
    "You are Roo.\n\n====\n\nTOOL USE\n\n## read_file\nDescription: reads\nUsage:\n<read_file>\n"
    "<path>x</path>\n</read_file>\n\n## apply_diff\n<apply_diff>\n<diff>\n<<<<<<< SEARCH\na\n"
    "=======\nb\n>>>>>>> REPLACE\n</diff>\n</apply_diff>\n\n====\n\nRULES\n\nBe brief.\n"
)


@pytest.mark.parametrize("tools", [(READ_FILE,), ()])
@pytest.mark.parametrize("path", [ANTHROPIC_PATH, CHAT_PATH, RESPONSES_PATH])
def test_each_reply_counts_once_in_its_format(
    tmp_path: Path, path: str, tools: tuple[dict[str, Any], ...]
) -> None:
    exchanges = []
    for number, (name, text) in enumerate(FORMATS.items()):
        asked = [("user", f"Question {number} about {name}")]
        body = build_request(path, asked, system=PROMPT, tools=tools)
        response: str | bytes = build_response(path, text)
        exchanges.append({"request": body, "response": response, "at": number * 200_000})
    recordings = open_recordings(
        tmp_path / "book.sqlite", [{**each, "path": path} for each in exchanges]
    )
    report = build_report(recordings, recordings.list_sessions()).report
    assert report.formats == {"native": 0, **dict.fromkeys(FORMATS, 1)}
    assert [each.heading for each in report.system_prompt.sections] == ["", "TOOL USE", "RULES"]
    assert report.system_prompt.bytes == len(PROMPT)


def test_compressed_and_cut_replies_are_read_as_far_as_they_came(tmp_path: Path) -> None:
    whole = build_response(CHAT_PATH, "All of it is said.").encode()
    body = build_request(CHAT_PATH, ASKED)
    recordings = open_recordings(tmp_path / "book.sqlite", [])
    zipped = (("Content-Encoding", "gzip"),)
    for number, (response, state) in enumerate(
        [
            (gzip.compress(whole), ExchangeState.DONE),
            (gzip.compress(whole)[:-30], ExchangeState.CUT_UPSTREAM),
            (gzip.compress(whole[:60]), ExchangeState.CUT_CLIENT),
        ]
    ):
        file_exchange(
            recordings.book,
            request=body,
            response=response,
            state=state,
            response_headers=zipped,
            at=number * 100_000,
        )
    recordings = Recordings(recordings.book)
    turns = [recordings.list_turns(each.id) for each in recordings.list_sessions()]
    flat = [turn for each in turns for turn in each]
    assert [turn.error for turn in flat] == ["", "", ""]
    failures = build_report(recordings, recordings.list_sessions()).report.failures
    cut = [(each.session, each.turn) for each in failures if each.kind.value == "cut"]
    assert cut == [(turn.session, turn.turn) for turn in flat[1:]]
    assert flat[0].usage is not None and flat[0].usage.output == 5
