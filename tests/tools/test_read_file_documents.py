"""What `read_file` shows beside plain text: text of documents, definitions of code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from joey.content.isolated_workers import IsolatedDocumentReader
from joey.content.outlines import OutlineExtractor
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.ports.tool_context import Capabilities, ToolContext
from joey.tools.base import Outcome
from joey.tools.read_file import ReadFile
from tests.harness.content.sample_documents import docx, locked_pdf, paragraph, pdf
from tests.harness.tools.tool_context import make_context

tool = ReadFile()
CODE = "".join(
    f"def function_{n}(x):\n    a()\n    b()\n    return x\n\n\n" for n in range(1, 4)
).rstrip("\n")


def context(root: Path, protocol: ToolProtocol = ToolProtocol.NATIVE, **settings: Any) -> Any:
    files = make_context(root).files
    extras = Capabilities(outlines=OutlineExtractor(), documents=IsolatedDocumentReader(files))
    return make_context(
        root, protocol=protocol, settings=Settings(**settings), files=files, capabilities=extras
    )


async def outcome(ctx: ToolContext, *paths: str, **fields: Any) -> Outcome:
    arguments = {"files": [{"path": path, **fields} for path in paths]}
    return await tool.run_prepared(await tool.prepare(tool.parse(arguments), ctx), ctx, None)


# Documents


@pytest.mark.contract("read:documents")
async def test_the_text_of_a_document_is_numbered_like_any_other(tmp_path: Path) -> None:
    ctx = context(tmp_path, max_read_file_line=2)
    (ctx.files.root / "A.PDF").write_bytes(pdf("one\ntwo", packed=True))
    (ctx.files.root / "b.docx").write_bytes(docx(paragraph("three") + paragraph("four")))
    result = await outcome(ctx, "A.PDF", "b.docx")
    assert not result.is_error
    assert result.text == (
        "File: A.PDF\nLines 1-3:\n1 | --- Page 1 ---\n2 | one\n3 | two\n\n\n---\n\n"
        "File: b.docx\nLines 1-2:\n1 | three\n2 | four\n"
    )
    part = await outcome(ctx, "A.PDF", line_ranges=[[2, 2]])
    assert part.text == "File: A.PDF\nLines 2-2:\n2 | one\n\nNote: The file has 3 lines."
    xml = await outcome(context(tmp_path, ToolProtocol.XML), "b.docx")
    assert '<content lines="1-2">\n1 | three\n2 | four\n</content>' in xml.text


@pytest.mark.contract("read:documents")
async def test_a_document_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    (ctx.files.root / "locked.pdf").write_bytes(locked_pdf("word"))
    (ctx.files.root / "fine.docx").write_bytes(docx(paragraph("fine")))
    (ctx.files.root / "empty.docx").write_bytes(docx(""))
    (ctx.files.root / "broken.pdf").write_bytes(b"%PDF-1.4\nno more")
    result = await outcome(ctx, "locked.pdf", "fine.docx", "empty.docx", "broken.pdf")
    assert result.is_error
    assert "File: broken.pdf\nError: Cannot read broken.pdf: it is damaged" in result.text
    assert "File: locked.pdf\nError: Cannot read locked.pdf: it is encrypted" in result.text
    assert "1 | fine\n" in result.text
    assert "File: empty.docx\nNote: The document has no text" in result.text


async def test_a_notebook_is_shown_by_its_cells_and_a_broken_one_as_it_stands(
    tmp_path: Path,
) -> None:
    ctx = context(tmp_path)
    cells = [{"cell_type": "code", "source": ["x = 1\n", "y = 2"], "outputs": []}]
    (ctx.files.root / "a.ipynb").write_text(json.dumps({"cells": cells}))
    (ctx.files.root / "b.ipynb").write_text('{"cells": [\n<<<<<<< HEAD\n')
    result = await outcome(ctx, "a.ipynb", "b.ipynb")
    assert not result.is_error
    assert "1 | --- Cell 1 (code) ---\n2 | x = 1\n3 | y = 2\n" in result.text
    assert "has another form" in result.text
    assert '1 | {"cells": [\n2 | <<<<<<< HEAD\n' in result.text
    assert "it is no notebook" in result.text


async def test_a_hidden_document_stays_hidden(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    (ctx.files.root / ".rooignore").write_text("*.docx\n")
    (ctx.files.root / "a.docx").write_bytes(docx(paragraph("secret")))
    (ctx.files.root / "b.txt").write_text("open\n")
    assert "secret" not in (await outcome(ctx, "a.docx", "b.txt")).text


# Definitions


@pytest.mark.contract("tool:read_file:success:line-limit")
@pytest.mark.parametrize("most", [-1, 16, 100])
async def test_a_file_within_the_limit_is_shown_without_definitions(
    tmp_path: Path, most: int
) -> None:
    ctx = context(tmp_path, max_read_file_line=most)
    (ctx.files.root / "a.py").write_text(CODE)
    text = (await outcome(ctx, "a.py")).text
    assert "16 |     return x\n" in text
    assert "Code Definitions" not in text
    assert "Note:" not in text


@pytest.mark.contract("tool:read_file:success:line-limit")
async def test_with_no_lines_allowed_only_definitions_are_shown(tmp_path: Path) -> None:
    ctx = context(tmp_path, max_read_file_line=0)
    (ctx.files.root / "a.py").write_text(CODE)
    (ctx.files.root / "a.txt").write_text(CODE)
    assert (await outcome(ctx, "a.py")).text == (
        "File: a.py\nCode Definitions:\n# a.py\n1--4 | def function_1(x):\n"
        "7--10 | def function_2(x):\n13--16 | def function_3(x):\n\n"
        "Note: Showing 0 of 16 total lines; name the lines you need in line_ranges."
    )
    assert "Showing 0 of 16 total lines" in (await outcome(ctx, "a.txt")).text
    assert "8 |     a()\n" in (await outcome(ctx, "a.py", line_ranges=[[8, 8]])).text


@pytest.mark.contract("tool:read_file:success:line-limit")
async def test_beyond_the_limit_the_definitions_of_what_is_shown_are_named(tmp_path: Path) -> None:
    ctx = context(tmp_path, max_read_file_line=8)
    (ctx.files.root / "a.py").write_text(CODE)
    text = (await outcome(ctx, "a.py")).text
    assert text.startswith("File: a.py\nLines 1-8:\n1 | def function_1(x):\n")
    assert text.endswith(
        "8 |     a()\n\nCode Definitions:\n# a.py\n1--4 | def function_1(x):\n"
        "7--10 | def function_2(x):\n\n"
        "Note: Showing lines 1-8 of 16 total lines (limit: 8 lines). Read on with"
        " line_ranges, from line 9."
    )
    xml = (await outcome(context(tmp_path, ToolProtocol.XML, max_read_file_line=8), "a.py")).text
    assert (
        "<list_code_definition_names>\n# a.py\n1--4 | def function_1(x):\n"
        "7--10 | def function_2(x):\n</list_code_definition_names>\n<notice>Showing lines 1-8"
    ) in xml


async def test_code_that_crashes_its_grammar_is_shown_without_definitions(tmp_path: Path) -> None:
    ctx = context(tmp_path, max_read_file_line=1)
    (ctx.files.root / "a.tsx").write_text("first\n" + "<a>(" * 100_000)
    result = await outcome(ctx, "a.tsx")
    assert not result.is_error
    assert "1 | first\n" in result.text
    assert "Code Definitions" not in result.text
