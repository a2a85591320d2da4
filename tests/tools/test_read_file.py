from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from joey.core.models import ModelInfo, ToolProtocol
from joey.core.settings import Settings
from joey.core.text import number_lines
from joey.errors import ArgumentError, IgnoredPathError
from joey.ports.tool_context import ToolContext
from joey.tools.base import Access, Claim, Outcome
from joey.tools.read_file import ReadFile
from tests.harness.tools.tool_context import make_context

tool = ReadFile()
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    return make_context(tmp_path)


@pytest.fixture
def work(ctx: ToolContext) -> Path:
    return ctx.files.root


async def outcome(arguments: dict[str, Any], ctx: ToolContext) -> Outcome:
    return await tool.run_prepared(await tool.prepare(tool.parse(arguments), ctx), ctx, None)


async def read(ctx: ToolContext, *paths: str, **fields: Any) -> str:
    return (await outcome({"files": [{"path": path, **fields} for path in paths]}, ctx)).text


def as_xml(ctx: ToolContext) -> ToolContext:
    return make_context(ctx.files.root.parent, protocol=ToolProtocol.XML)


# The shape of the result


@pytest.mark.contract("tool:read_file:success")
async def test_a_file_comes_back_with_its_lines_numbered(ctx: ToolContext, work: Path) -> None:
    (work / "a.py").write_text("x\ny\n")
    assert await read(ctx, "a.py") == "File: a.py\nLines 1-2:\n1 | x\n2 | y\n"
    assert await read(as_xml(ctx), "a.py") == (
        '<files>\n<file><path>a.py</path>\n<content lines="1-2">\n1 | x\n2 | y\n</content>\n'
        "</file>\n</files>"
    )


@pytest.mark.contract("tool:read_file:success")
async def test_several_files_come_back_in_order(ctx: ToolContext, work: Path) -> None:
    (work / "a.py").write_text("x\n")
    (work / "b.py").write_text("y")
    assert await read(ctx, "b.py", "a.py", "b.py") == (
        "File: b.py\nLines 1-1:\n1 | y\n\n\n---\n\n"
        "File: a.py\nLines 1-1:\n1 | x\n\n\n---\n\n"
        "File: b.py\nLines 1-1:\n1 | y\n"
    )
    text = await read(as_xml(ctx), "b.py", "a.py")
    assert text.index("<path>b.py</path>") < text.index("<path>a.py</path>")


@pytest.mark.contract("tool:read_file:success")
async def test_ranges_of_lines_keep_their_numbers(ctx: ToolContext, work: Path) -> None:
    (work / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 21)))
    ranges = [[9, 10], [2, 3], [19, 40]]
    assert await read(ctx, "a.txt", line_ranges=ranges) == (
        "File: a.txt\nLines 9-10:\n 9 | line 9\n10 | line 10\n\n"
        "Lines 2-3:\n2 | line 2\n3 | line 3\n"
        "\nLines 19-20:\n19 | line 19\n20 | line 20\n\nNote: The file has 20 lines."
    )
    assert '<content lines="2-3">\n2 | line 2\n3 | line 3\n</content>' in await read(
        as_xml(ctx), "a.txt", line_ranges=ranges
    )


async def test_a_range_may_be_asked_for_twice_and_overlap(ctx: ToolContext, work: Path) -> None:
    (work / "a.txt").write_text("a\nb\nc\n")
    text = await read(ctx, "a.txt", line_ranges=[[1, 3], [2, 2], [1, 3]])
    assert text.count("Lines 1-3:\n1 | a\n2 | b\n3 | c\n") == 2
    assert "Lines 2-2:\n2 | b\n" in text


@pytest.mark.parametrize(
    ("first", "last", "reason"),
    [(5, 2, "Invalid line range 5-2"), (0, 2, "0-2"), (4, 9, "has 3 lines"), (-3, -1, "-3--1")],
)
async def test_a_range_that_makes_no_sense_is_an_error_of_its_file(
    ctx: ToolContext, work: Path, first: int, last: int, reason: str
) -> None:
    (work / "a.txt").write_text("a\nb\nc")
    result = await outcome({"files": [{"path": "a.txt", "line_ranges": [[first, last]]}]}, ctx)
    assert result.is_error
    assert result.text.startswith("File: a.txt\nError: ")
    assert reason in result.text


async def test_line_ends_and_marks_of_windows_are_not_shown(ctx: ToolContext, work: Path) -> None:
    (work / "a.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    assert await read(ctx, "a.txt") == "File: a.txt\nLines 1-2:\n1 | a\n2 | b\n"


async def test_a_page_is_labelled_with_the_lines_that_are_there(
    ctx: ToolContext, work: Path
) -> None:
    (work / "a.txt").write_text("a\nb\nc\n")
    text = (await outcome({"path": "a.txt", "offset": 2}, ctx)).text
    assert text == "File: a.txt\nLines 2-3:\n2 | b\n3 | c\n\nNote: The file has 3 lines."


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
async def test_a_file_in_utf_16_with_nothing_but_its_mark_is_empty(
    ctx: ToolContext, work: Path, mark: bytes
) -> None:
    (work / "a.txt").write_bytes(mark)
    assert await read(ctx, "a.txt") == "File: a.txt\nNote: File is empty"


async def test_what_is_not_utf_8_is_shown_as_far_as_it_can_be(ctx: ToolContext, work: Path) -> None:
    (work / "latin.txt").write_bytes("café\n".encode("latin-1"))
    assert "1 | caf\ufffd\n" in await read(ctx, "latin.txt")


async def test_text_in_utf_16_is_text(ctx: ToolContext, work: Path) -> None:
    for encoding, mark in (("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")):
        (work / "a.txt").write_bytes(mark + "café\r\nb\n".encode(encoding))
        assert await read(ctx, "a.txt") == "File: a.txt\nLines 1-2:\n1 | café\n2 | b\n"
    (work / "a.txt").write_text("line\n" * 1_000_000, encoding="utf-16")
    assert "larger than 8 MB" in await read(ctx, "a.txt")
    (work / "a.mp3").write_bytes(b"\xff\xfe" + bytes(range(256)) * 4 + b"\0\0")
    assert "Binary file (mp3)" in await read(ctx, "a.mp3")


# Ways to ask


@pytest.mark.contract("loop:calls")
@pytest.mark.parametrize(
    "arguments",
    [
        {"files": [{"path": "a.txt", "line_ranges": [[2, 3]]}]},
        {"files": [{"path": "a.txt", "line_ranges": [{"start": 2, "end": 3}]}]},
        {"files": [{"path": "a.txt", "line_ranges": ["2-3"]}]},
        {"files": [{"path": "a.txt", "line_ranges": "2-3"}]},
        {"files": [{"path": "a.txt", "line_ranges": [2, 3]}]},
        {"files": [{"path": "a.txt", "line_ranges": [["2", 3.0]]}]},
        {"files": '[{"path": "a.txt", "line_ranges": [[2, 3]]}]'},
        {"files": {"path": "a.txt", "line_ranges": [[2, 3]]}},
        {"path": "a.txt", "start_line": "2", "end_line": 3},
        {"path": "a.txt", "line_ranges": [[2, 3]]},
        {"args": "<file><path>a.txt</path><line_range>2-3</line_range></file>"},
        {"args": "\n<file>\n <path> a.txt </path>\n <line_range>lines 2-3</line_range>\n</file>\n"},
        {"files": "<file><path>a.txt</path><line_range>2-3</line_range></file>"},
        {"args": {"file": [{"path": ["a.txt"], "line_range": ["2-3"]}]}},
    ],
)
async def test_all_ways_to_ask_for_lines_are_understood(
    ctx: ToolContext, work: Path, arguments: dict[str, Any]
) -> None:
    (work / "a.txt").write_text("a\nb\nc\nd\n")
    expected = "File: a.txt\nLines 2-3:\n2 | b\n3 | c\n\nNote: The file has 4 lines."
    assert (await outcome(arguments, ctx)).text == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a.txt"},
        {"path": "a.txt", "start_line": 2},
        {"files": [{"path": "a.txt", "line_ranges": None}]},
        {"files": [{"path": "a.txt", "line_ranges": []}]},
        {"files": [{"path": "a.txt", "line_ranges": ["all of it", 1e400]}]},
        {"files": ["a.txt"]},
        {"args": "<file><path>a.txt</path></file>"},
        {"args": "<path>a.txt</path>"},
        {"args": "<file><line_range>1-2</line_range></file><file><path>a.txt</path></file>"},
    ],
)
async def test_without_a_range_the_whole_file_is_read(
    ctx: ToolContext, work: Path, arguments: dict[str, Any]
) -> None:
    (work / "a.txt").write_text("a\nb\n")
    assert (await outcome(arguments, ctx)).text == "File: a.txt\nLines 1-2:\n1 | a\n2 | b\n"


async def test_a_page_says_how_to_read_on(ctx: ToolContext, work: Path) -> None:
    (work / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 11)))
    first = await outcome({"path": "a.txt", "offset": "4", "limit": 3}, ctx)
    assert "Lines 4-6:\n4 | 4\n5 | 5\n6 | 6\n" in first.text
    assert "offset=7 and limit=3" in first.text
    last = await outcome({"path": "a.txt", "offset": 8}, ctx)
    assert last.text.endswith("10 | 10\n\nNote: The file has 10 lines.")
    beyond = await outcome({"path": "a.txt", "offset": 11, "limit": 2}, ctx)
    assert beyond.is_error
    assert "10 lines" in beyond.text


@pytest.mark.parametrize("offset", [0, -1])
def test_an_offset_counts_from_one(offset: int) -> None:
    with pytest.raises(ArgumentError, match="1-indexed"):
        tool.parse({"path": "a.txt", "offset": offset})


@pytest.mark.contract("loop:calls")
@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({}, "files"),
        ({"files": []}, "files"),
        ({"path": ""}, "files"),
        ({"args": "<file></file>"}, "args"),
        ({"files": 5}, None),
        ({"files": "[" * 50_000}, None),
        ({"files": [{"line_ranges": None}, 5]}, None),
    ],
)
def test_a_call_that_names_no_file_is_refused(
    arguments: dict[str, Any], parameter: str | None
) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(arguments)
    assert caught.value.parameter == parameter
    if parameter is None:
        assert "'files' of read_file has a value of the wrong kind: it must be a list" in str(
            caught.value
        )


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": ["a", "b"], "line_range": "1-5"},
        {"path": ["a", "b"], "start_line": "1", "end_line": "5"},
        {"args": "<path>a</path><path>b</path><line_range>1-5</line_range>"},
    ],
)
def test_lines_that_may_belong_to_any_of_several_paths_are_refused(
    arguments: dict[str, Any],
) -> None:
    with pytest.raises(ArgumentError, match="not clear to which"):
        tool.parse(arguments)


def test_a_result_names_its_files() -> None:
    def files(count: int) -> dict[str, Any]:
        return {"files": [{"path": f"{n}.py"} for n in range(count)]}

    assert tool.describe_call(files(1)) == "[read_file for '0.py']"
    assert tool.describe_call(files(2)) == "[read_file for '0.py', '1.py']"
    assert tool.describe_call(files(4)) == "[read_file for 4 files]"
    assert tool.describe_call({}) == "[read_file]"


# Trouble


@pytest.mark.contract("tool:read_file:success:odd-files")
async def test_one_bad_file_does_not_spoil_the_others(ctx: ToolContext, work: Path) -> None:
    (work / "good.txt").write_text("fine\n")
    (work / "folder").mkdir()
    arguments = {"files": [{"path": path} for path in ("missing.txt", "folder", "good.txt")]}
    for context in (ctx, as_xml(ctx)):
        result = await outcome(arguments, context)
        assert result.is_error
        assert "File not found: " in result.text
        assert "folder is a directory" in result.text
        assert "list_files" in result.text
        assert "1 | fine\n" in result.text
    assert "<file><path>missing.txt</path><error>File not found: " in result.text


@pytest.mark.contract("tool:read_file:success:odd-files")
async def test_an_empty_file_says_so(ctx: ToolContext, work: Path) -> None:
    (work / "empty").touch()
    assert await read(ctx, "empty") == "File: empty\nNote: File is empty"
    assert "<content/><notice>File is empty</notice>" in await read(as_xml(ctx), "empty")


@pytest.mark.contract("tool:read_file:success:odd-files")
@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.tar.gz", b"\x1f\x8b\x08\x00\x00", "gz"),
        ("program", b"\x7fELF\x00\x01", "bin"),
        ("a.pdf", b"%PDF-1.7\n\x00", "pdf"),
        ("noise", bytes(range(1, 9)) * 20 + b"\xff", "bin"),
    ],
)
async def test_a_binary_file_is_only_named(
    ctx: ToolContext, work: Path, name: str, data: bytes, kind: str
) -> None:
    (work / name).write_bytes(data)
    expected = f"Binary file ({kind}) - content not displayed"
    assert await read(ctx, name) == f"File: {name}\n{expected}"
    assert f"<notice>{expected}</notice>" in await read(as_xml(ctx), name)


async def test_a_character_cut_by_the_sample_does_not_make_a_file_binary(
    ctx: ToolContext, work: Path
) -> None:
    (work / "a.txt").write_text("x\n" * 4095 + "xé\n", encoding="utf-8")
    assert "xé\n" in await read(ctx, "a.txt", line_ranges=[[4096, 4096]])


async def test_a_hidden_file_is_refused_and_reported(ctx: ToolContext, work: Path) -> None:
    (work / ".rooignore").write_text("secret\n")
    (work / "secret").write_text("password\n")
    (work / "open").write_text("fine\n")
    result = await outcome({"files": [{"path": "secret"}, {"path": "open"}]}, ctx)
    assert "password" not in result.text
    assert "File: secret\nError: secret is hidden by .rooignore" in result.text
    assert "1 | fine" in result.text
    assert result.is_error
    assert result.rows == (("rooignore_error", "secret"),)
    with pytest.raises(IgnoredPathError) as caught:
        await outcome({"path": "secret"}, ctx)
    assert caught.value.path == "secret"


async def test_a_call_reads_as_many_files_as_fit(ctx: ToolContext, work: Path) -> None:
    for number in range(30):
        (work / f"{number}").write_text(f"file {number}\n")
    assert (await read(ctx, *map(str, range(30)))).count("1 | file ") == 30
    for number in range(5):
        (work / f"{number}").write_text("a line of some length\n" * 4_000)
    result = await outcome({"files": [{"path": str(number)} for number in range(5)]}, ctx)
    assert len(result.text) < 170_000
    assert not result.is_error
    assert "File: 4\nNote: Not read: there is no room left for this file" in result.text


@pytest.mark.parametrize("limit", [1, 5, 10])
async def test_a_setting_limits_the_files_of_a_call(tmp_path: Path, limit: int) -> None:
    ctx = make_context(tmp_path, settings=Settings(max_concurrent_file_reads=limit))
    for number in range(limit + 1):
        (ctx.files.root / f"{number}").write_text("x\n")
    assert "Not read" not in await read(ctx, *map(str, range(limit)))
    text = await read(ctx, *map(str, range(limit + 1)))
    assert text.count("1 | x") == limit
    assert f"File: {limit}\nNote: Not read: at most {limit} files are read in one call." in text


# Long files


@pytest.mark.parametrize(
    ("most", "shown", "note"),
    [
        (-1, 10, None),
        (10, 10, None),
        (100, 10, None),
        (4, 4, "lines 1-4 of 10 total lines (limit: 4 lines). Read on with line_ranges, from"),
        (0, 0, "Showing 0 of 10 total lines"),
    ],
)
async def test_a_setting_limits_the_lines_of_a_whole_file(
    tmp_path: Path, most: int, shown: int, note: str | None
) -> None:
    ctx = make_context(tmp_path, settings=Settings(max_read_file_line=most))
    (ctx.files.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    text = await read(ctx, "a.txt")
    assert text.count(" | line ") == shown
    assert (note or "") in text
    assert ("Note: " in text) is (note is not None)
    assert "9 | line 9" in await read(ctx, "a.txt", line_ranges=[[9, 9]])


async def test_a_file_without_a_range_is_cut_and_says_how_to_go_on(
    ctx: ToolContext, work: Path
) -> None:
    (work / "many.csv").write_text("".join(f"row {n}\n" for n in range(1, 8_438)))
    text = await read(ctx, "many.csv")
    assert "\n2000 | row 2000\n" in text
    assert "2001 |" not in text
    assert (
        "lines 1-2000 of 8437 total lines (limit: 2,000 lines). Read on with line_ranges, from line"
        " 2001."
    ) in text
    (work / "wide.csv").write_text(f"{'x' * 999}\n" * 1_000)
    text = await read(ctx, "wide.csv")
    assert 70_000 < len(text) < 82_000
    assert (
        "of 1000 total lines (limit: about 80,000 characters per file). Read on with line_ranges,"
        " from line 80."
    ) in text
    assert len(await read(ctx, "wide.csv", line_ranges=[[1, 200]])) > 200_000


async def test_notes_name_the_parameter_of_the_protocol(ctx: ToolContext, work: Path) -> None:
    (work / "wide.csv").write_text(f"{'x' * 2_001}\n" * 1_000)
    (work / "deep.py").write_text("if x:\n" + "    y\n" * 5_000)
    for paths in (["wide.csv"], ["wide.csv"] * 4):
        text = await read(as_xml(ctx), *paths)
        assert "Read on with line_range, from line " in text
        assert "; line_range shows whole lines." in text
        assert ("name the lines you need in line_range." in text) is (len(paths) > 2)
        assert "line_ranges" not in text
    text = await read(as_xml(ctx), "deep.py", anchor_line=9)
    assert "read on with line_range, from line " in text


@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀"])
async def test_long_lines_are_cut_unless_they_are_asked_for(
    ctx: ToolContext, work: Path, letter: str
) -> None:
    (work / "a.js").write_text(
        f"first\n{letter * 2_000}\n{letter * 2_001}\r\n{letter * 700_000}\nlast", encoding="utf-8"
    )
    text = await read(ctx, "a.js")
    assert f"2 | {letter * 2_000}\n" in text
    assert f"3 | {letter * 2_000} [truncated...]\n" in text
    assert f"4 | {letter * 2_000} [truncated...]\n5 | last\n" in text
    assert "Lines 3, 4 are cut at 2,000 characters" in text
    assert letter * 2_001 in await read(ctx, "a.js", line_ranges=[[3, 3]])


async def test_a_file_too_long_for_the_model_is_cut_with_a_note(tmp_path: Path) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id="small", context_window=10_000))
    (ctx.files.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 10_001)))
    text = await read(ctx, "a.txt")
    assert len(text) < 30_000
    assert "characters left in this call). Read on with line_ranges, from line " in text
    following = int(text.rsplit(" ", 1)[1].rstrip("."))
    assert f"{following - 1} | line {following - 1}\n" in text
    second = await read(ctx, "a.txt", line_ranges=[[following, following + 1]])
    assert f"{following} | line {following}\n" in second


async def test_the_files_of_a_call_share_the_room(tmp_path: Path) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id="small", context_window=10_000))
    for name in ("a", "b", "c"):
        (ctx.files.root / name).write_text("some words in a line\n" * 1000)
    assert len(await read(ctx, "a", "b", "c")) < 30_000


async def test_a_call_fits_into_the_window_whatever_characters_it_is_written_in(
    tmp_path: Path,
) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id="small", context_window=10_000))
    for name in "abcde":
        (ctx.files.root / name).write_text(("漢字" * 20 + "\n") * 200)
    assert len((await read(ctx, *"abcde")).encode()) < 30_000


@pytest.mark.parametrize("line", [b"\xe9" * 9_000 + b"\n", b"\xe9" * 9 + b"\n"])
async def test_what_is_shown_for_bytes_that_are_no_text_takes_room_too(
    tmp_path: Path, line: bytes
) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id="small", context_window=10_000))
    (ctx.files.root / "a.txt").write_bytes(line * (100_000 // len(line)))
    assert len((await read(ctx, "a.txt")).encode()) < 30_000


async def test_a_range_that_is_asked_for_again_takes_room_again(tmp_path: Path) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id="small", context_window=10_000))
    (ctx.files.root / "a.txt").write_text("some words in a line\n" * 200)
    text = await read(ctx, "a.txt", line_ranges=[[1, 200]] * 50)
    assert len(text) < 30_000
    assert "no room left" in text


async def test_one_endless_line_is_cut(tmp_path: Path) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id="small", context_window=10_000))
    (ctx.files.root / "a.js").write_text("x" * 5_000_000)
    for arguments in ({"path": "a.js"}, {"path": "a.js", "line_ranges": [[1, 1]]}):
        result = await outcome(arguments, ctx)
        assert len(result.text) < 30_000
        assert "Line 1 is cut" in result.text


async def test_a_huge_file_is_not_loaded(ctx: ToolContext, work: Path) -> None:
    with (work / "huge.log").open("wb") as file:
        for _ in range(3):
            file.write(b"a line of the log\n" * 100_000)
        file.truncate(10 * 2**30)
    text = await read(ctx, "huge.log")
    assert "of more than " in text
    late = await read(ctx, "huge.log", line_ranges=[[299_999, 300_000]])
    assert late.endswith("299999 | a line of the log\n300000 | a line of the log\n")


@pytest.mark.parametrize("size", [2**18 - 1, 2**18, 2**18 + 1, 2**19, 600_000])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
async def test_lines_are_whole_wherever_the_file_is_cut_into_pieces(
    tmp_path: Path, size: int, end: str
) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id="large", context_window=1_000_000))
    text = "".join(f"{n} {'é' * (n * 7 % 90)}\n" for n in range(1, 20_000))
    data = text.encode()[: size - len(end)] + end.encode()
    (ctx.files.root / "a.txt").write_bytes(data)
    lines = data.decode(errors="replace").replace("\r\n", "\n").removesuffix("\n").split("\n")
    count = len(lines)
    ranges = [[1, 3], [count // 2, count // 2 + 50], [count - 1, count], [count, count + 9]]
    expected = [
        f"Lines {first}-{min(last, count)}:\n"
        + number_lines(chr(10).join(lines[first - 1 : last]), first)
        for first, last in ranges
    ]
    expected.append(f"Note: The file has {count} lines.")
    assert await read(ctx, "a.txt", line_ranges=ranges) == "File: a.txt\n" + "\n".join(expected)
    beyond = await read(ctx, "a.txt", line_ranges=[[count + 1, count + 1]])
    assert f"which has {count} lines" in beyond
    whole = number_lines("\n".join(lines) + "\n")
    found = await read(ctx, "a.txt", line_ranges=[[1, count]])
    assert found == f"File: a.txt\nLines 1-{count}:\n{whole}\n{expected[-1]}"


# Images


@pytest.mark.contract("tool:read_file:success:images")
@pytest.mark.parametrize("name", ["a.png", "A.PNG", "my.photo.png"])
async def test_an_image_is_shown_to_a_model_that_can_see(
    ctx: ToolContext, work: Path, name: str
) -> None:
    (work / name).write_bytes(PNG)
    result = await outcome({"path": name}, ctx)
    assert result.text == f"File: {name}\nNote: Image file (0.1 KB)"
    assert result.images == ("data:image/png;base64," + base64.b64encode(PNG).decode(),)
    assert not result.is_error


async def test_the_kind_of_an_image_is_that_of_its_content(ctx: ToolContext, work: Path) -> None:
    (work / "a.jpg").write_bytes(PNG)
    (work / "b.png").write_bytes(b"\0not an image")
    (work / "c.tiff").write_bytes(b"II*\0" + b"\0" * 20)
    arguments = {"files": [{"path": name} for name in ("a.jpg", "b.png", "c.tiff")]}
    result = await outcome(arguments, ctx)
    assert [image.partition(";")[0] for image in result.images] == ["data:image/png"]
    assert result.text.count("cannot be shown") == 2


async def test_a_drawing_in_text_is_text(ctx: ToolContext, work: Path) -> None:
    (work / "a.svg").write_text("<svg/>\n")
    assert "1 | <svg/>\n" in await read(ctx, "a.svg")


async def test_a_model_that_cannot_see_gets_a_note(tmp_path: Path) -> None:
    ctx = make_context(tmp_path, model=ModelInfo(id="blind", supports_images=False))
    (ctx.files.root / "a.png").write_bytes(PNG)
    result = await outcome({"path": "a.png"}, ctx)
    assert result.images == ()
    assert "cannot look at images" in result.text


async def test_images_have_limits_each_and_together(tmp_path: Path) -> None:
    settings = Settings(max_image_file_size=1, max_total_image_size=2)
    ctx = make_context(tmp_path, settings=settings)
    for name, size in (("large.png", 2**20 + 1), ("a.png", 2**20), ("b.png", 2**20), ("c.png", 99)):
        (ctx.files.root / name).write_bytes(PNG + b"\0" * (size - len(PNG)))
    files = [{"path": name} for name in ("large.png", "a.png", "b.png", "c.png")]
    result = await outcome({"files": files}, ctx)
    assert len(result.images) == 2
    assert "too large (1.0 MB); the limit is 1.0 MB" in result.text
    assert "Image skipped" in result.text
    assert len((await outcome({"path": "c.png"}, ctx)).images) == 1


# Before it runs


async def test_the_row_of_one_file_names_it_and_the_lines(ctx: ToolContext, work: Path) -> None:
    prepared = await tool.prepare(tool.parse({"path": "a.txt", "line_ranges": "1-5"}), ctx)
    assert prepared.claims == (Claim(Access.READ, path=ctx.files.resolve("a.txt")),)
    assert prepared.path == "a.txt"
    assert prepared.row == {
        "tool": "readFile",
        "path": "a.txt",
        "isOutsideWorkspace": False,
        "content": str(work / "a.txt"),
        "reason": "lines 1-5",
    }


async def test_the_row_of_several_files_lists_them(ctx: ToolContext, work: Path) -> None:
    files = [{"path": "a", "line_ranges": [[1, 5], [8, 9]]}, {"path": "../b"}]
    prepared = await tool.prepare(tool.parse({"files": files}), ctx)
    assert [claim.path.is_inside for claim in prepared.claims if claim.path] == [True, False]
    outside = str(work.parent / "b")
    assert prepared.row == {
        "tool": "readFile",
        "batchFiles": [
            {
                "path": "a",
                "lineSnippet": "lines 1-5, 8-9",
                "isOutsideWorkspace": False,
                "key": "a (lines 1-5, 8-9)",
                "content": str(work / "a"),
            },
            {
                "path": outside,
                "lineSnippet": "",
                "isOutsideWorkspace": True,
                "key": outside,
                "content": outside,
            },
        ],
    }
