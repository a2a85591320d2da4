from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.content.document_worker import MAX_TEXT_CHARS, collect_text, extract_lines
from joey.content.isolated_workers import IsolatedDocumentReader
from joey.content.worker_main import handle_request
from joey.errors import ToolError
from joey.workspace.files import LocalFiles
from tests.harness.content.sample_documents import (
    LINKS,
    PACKAGE_LINKS,
    SHEET,
    bomb,
    docx,
    locked_pdf,
    ods,
    paragraph,
    pdf,
    stream,
    xls,
    xlsx,
    zipped,
)


async def text(root: Path, name: str, data: bytes) -> str:
    (root / name).write_bytes(data)
    files = LocalFiles(root)
    return await IsolatedDocumentReader(files).extract_text(files.resolve(name))


async def refusal(root: Path, name: str, data: bytes) -> str:
    with pytest.raises(ToolError) as caught:
        await text(root, name, data)
    message = str(caught.value)
    assert message.startswith(f"Cannot read {name}: ")
    return message


def test_documents_are_known_by_their_names(tmp_path: Path) -> None:
    documents = IsolatedDocumentReader(LocalFiles(tmp_path))
    known = ("a.pdf", "A.PDF", "b.docx", "c.x.xlsx", "d.ipynb", "e.XLS", "f.ods", "g.xlsb")
    assert all(documents.supports(name) for name in known)
    assert not any(documents.supports(name) for name in ("a.txt", "pdf", "a.doc", "a.pdf.py"))


# What is in them


@pytest.mark.contract("read:documents")
async def test_a_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    data = pdf("first page\nits second line", "", "last page", packed=True)
    assert await text(tmp_path, "a.pdf", data) == (
        "--- Page 1 ---\nfirst page\nits second line\n"
        "--- Page 2 ---\n[No text: the page may be a picture.]\n--- Page 3 ---\nlast page\n"
    )


async def test_a_pdf_that_anybody_may_open_is_read_though_it_is_encrypted(tmp_path: Path) -> None:
    assert "secret words" in await text(tmp_path, "a.pdf", locked_pdf(""))


@pytest.mark.contract("read:documents")
async def test_a_docx_is_a_line_for_each_paragraph_and_row(tmp_path: Path) -> None:
    cells = "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("name", "size & more", ""))
    nested = f"<w:tc><w:tbl><w:tr><w:tc>{paragraph('in')}</w:tc></w:tr></w:tbl></w:tc>"
    body = (
        paragraph("Ein Titel: „Grüße“")
        + "<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t>"
        "<w:br/></w:r><w:r><w:t>c</w:t></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
        f"</w:p><w:tbl><w:tr>{cells}</w:tr><w:tr>{nested}</w:tr></w:tbl>"
        f"<mc:AlternateContent><mc:Choice>{paragraph('once')}</mc:Choice>"
        f"<mc:Fallback>{paragraph('once')}</mc:Fallback></mc:AlternateContent>"
    )
    assert await text(tmp_path, "a.docx", docx(body)) == (
        "Ein Titel: „Grüße“\na\tb\nc\nname\tsize & more\t\nin\nonce\n"
    )


@pytest.mark.contract("read:documents")
async def test_an_xlsx_is_read_sheet_by_sheet(tmp_path: Path) -> None:
    rows = (
        '<sheetData><row r="1"><c r="A1" t="s"><v>1</v></c><c r="C1" t="inlineStr"><is><t>in</t>'
        '</is></c></row><row r="2"><c r="A2"/></row>'
        '<row r="3"><c r="A3"><v>1.5</v></c><c r="B3" t="b"><v>1</v></c><c r="C3" t="e">'
        '<v>#N/A</v></c><c r="D3"><f>A3*2</f><v>3</v></c><c r="E3"><f>A3/0</f></c>'
        '<c r="F3" t="str"><f>X</f><v>two\nlines</v></c></row>'
        '<row r="4"><c r="A4" s="1"><v>45000</v></c><c r="B4" s="2"><v>45000.5</v></c>'
        '<c r="C4" s="2"><v>0.25</v></c><c r="D4" s="3"><v>7</v></c>'
        '<c r="E4" t="s"><v>0</v></c></row></sheetData>'
        f'<hyperlinks xmlns:r="{LINKS}"><hyperlink ref="E4" r:id="rId9"/></hyperlinks>'
    )
    more = {
        "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}"><si><t>home</t></si><si><r>'
        '<t xml:space="preserve">A </t></r><r>'
        "<t>rich one</t></r><rPh><t>spoken</t></rPh></si></sst>",
        "xl/styles.xml": f'<styleSheet xmlns="{SHEET}"><numFmts><numFmt numFmtId="170"'
        ' formatCode="yyyy\\-mm\\-dd hh:mm"/><numFmt numFmtId="171" formatCode="[Red]0.0&quot;'
        'days&quot;"/></numFmts><cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs>'
        '<xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/><xf numFmtId="171"/></cellXfs>'
        "</styleSheet>",
        "xl/worksheets/_rels/sheet1.xml.rels": f'<Relationships xmlns="{PACKAGE_LINKS}">'
        '<Relationship Id="rId9" Target="https://example.org/" Type="x"/></Relationships>',
    }
    data = xlsx({"Sales & more": rows, ".hidden": rows, "Empty": "<sheetData/>"}, more)
    assert await text(tmp_path, "a.xlsx", data) == (
        "--- Sheet: Sales & more ---\nA rich one\t\tin\n"
        "1.5\tTRUE\t[Error: #N/A]\t3\t[Formula: A3/0]\ttwo lines\n"
        "2023-03-15\t2023-03-15 12:00:00\t06:00:00\t7\thome (https://example.org/)\n"
        "\n--- Sheet: Empty ---\n"
    )


@pytest.mark.contract("read:documents")
async def test_old_and_open_spreadsheets_are_read_as_well(tmp_path: Path) -> None:
    expected = "--- Sheet: Old ---\nname\t2.5\n2023-03-15\tTRUE\n"
    assert await text(tmp_path, "a.xls", xls()) == expected
    cells = (
        '<table:table-cell office:value-type="string"><text:p>a</text:p></table:table-cell>'
        '<table:table-cell office:value-type="float" office:value="2"/>'
    )
    data = ods(f"<table:table-row>{cells}</table:table-row>")
    assert await text(tmp_path, "a.ods", data) == "--- Sheet: One ---\na\t2\n"


async def test_formulas_links_and_errors_outside_of_all_values_are_shown(tmp_path: Path) -> None:
    rows = (
        '<sheetData><row r="2"><c r="B2"><f>SUM(1)</f></c></row><row r="3"><c r="A3" t="e">'
        "<v>#REF!</v></c></row></sheetData>"
    )
    assert await text(tmp_path, "a.xlsx", xlsx({"S": rows})) == (
        "--- Sheet: S ---\n\t[Formula: SUM(1)]\n[Error: #REF!]\n"
    )


@pytest.mark.contract("read:hostile")
@pytest.mark.parametrize(
    ("name", "data"),
    [
        (
            "a.ods",
            ods(
                '<table:table-row table:number-rows-repeated="1048576"><table:table-cell'
                ' table:number-columns-repeated="16384" office:value-type="float"'
                ' office:value="1"/></table:table-row>'
            ),
        ),
        (
            "a.xlsx",
            xlsx(
                {
                    "S": '<sheetData><row r="1"><c r="A1"><v>1</v></c></row><row r="1048576">'
                    '<c r="XFD1048576"><v>1</v></c></row></sheetData>'
                }
            ),
        ),
    ],
)
async def test_a_sheet_with_billions_of_cells_does_not_fill_the_memory(
    tmp_path: Path, name: str, data: bytes
) -> None:
    assert len(data) < 10_000
    assert "damaged" in await refusal(tmp_path, name, data)


async def test_of_very_many_rows_the_first_are_read(tmp_path: Path) -> None:
    rows = '<row><c t="str"><v>ab</v></c></row>' * 300_000
    read = await text(tmp_path, "a.xlsx", xlsx({"S": f"<sheetData>{rows}</sheetData>"}))
    assert read.count("\nab") == 50_000
    assert read.endswith("[The rows after 50000 are left out.]\n")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    code, answer = handle_request(
        lambda data: "".join(extract_lines("spreadsheet", data)).encode(), xls()
    )
    assert code != 0
    assert answer.endswith(b"Install it: pip install python-calamine")


async def test_the_rows_of_an_endless_sheet_end(tmp_path: Path) -> None:
    rows = (
        f'<row r="{row}"><c r="A{row}"><v>{row}</v></c></row>' for row in (49_999, 50_000, 50_001)
    )
    read = await text(tmp_path, "a.xlsx", xlsx({"S": f"<sheetData>{''.join(rows)}</sheetData>"}))
    assert read == "--- Sheet: S ---\n49999\n50000\n[The rows after 50000 are left out.]\n"


@pytest.mark.contract("read:documents")
async def test_a_notebook_is_its_cells_and_what_they_printed(tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "source": "print(1)\nplot()",
            "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA"}},
                {"output_type": "execute_result", "data": {"text/plain": ["2"], "text/html": "x"}},
                {"output_type": "error", "traceback": ["\x1b[31mValueError\x1b[0m", "at 1"]},
            ],
        },
        {"cell_type": "code", "source": [], "outputs": []},
    ]
    expected = (
        "--- Cell 1 (markdown) ---\n# Title\nwords\n--- Cell 2 (code) ---\nprint(1)\nplot()\n"
        "--- Output of cell 2 ---\n1\n[image/png]\n2\nValueError\nat 1\n--- Cell 3 (code) ---\n"
    )
    assert await text(tmp_path, "a.ipynb", json.dumps({"cells": cells}).encode()) == expected
    old = json.dumps({"worksheets": [{"cells": [{"cell_type": "code", "input": "x"}]}]})
    assert await text(tmp_path, "b.ipynb", old.encode()) == "--- Cell 1 (code) ---\nx\n"


# What is wrong with them


@pytest.mark.contract("read:documents")
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.pdf", locked_pdf("a word")),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600),
        ("a.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600),
    ],
)
async def test_a_document_with_a_password_says_so(tmp_path: Path, name: str, data: bytes) -> None:
    assert "encrypted" in await refusal(tmp_path, name, data)


@pytest.mark.contract("read:documents")
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.pdf", b"%PDF-1.7\n\0nothing"),
        ("b.pdf", b""),
        ("c.pdf", pdf("x")[:300]),
        ("a.docx", b"PK\x03\x04 not really"),
        ("b.docx", zipped({"other.xml": "<a/>"})),
        ("c.docx", docx(paragraph("x"))[:-40]),
        ("d.docx", zipped({"word/document.xml": "<a><b></a>"})),
        ("a.xlsx", zipped({"xl/workbook.xml": "<a>"})),
        ("b.xlsx", zipped({"xl/workbook.xml": "<w><sheet name='a'/></w>"})),
        ("c.xlsx", xlsx({"S": "<sheetData><row><c r='ZZZZZZZ1'><v>1</v></c></row></sheetData>"})),
        ("a.ipynb", b"{"),
        ("b.ipynb", b"[1]"),
        ("c.ipynb", b"[" * 100_000),
    ],
)
async def test_a_damaged_document_says_so(tmp_path: Path, name: str, data: bytes) -> None:
    message = await refusal(tmp_path, name, data)
    assert any(word in message for word in ("damaged", "no notebook", "too deeply nested"))


@pytest.mark.contract("read:hostile")
async def test_an_archive_that_unpacks_without_end_is_not_unpacked(tmp_path: Path) -> None:
    assert len(bomb()) < 200_000
    assert "unpacks to more than 100 MB" in await refusal(tmp_path, "a.docx", bomb())
    strings = {"xl/sharedStrings.xml": f"<sst><si><t>{'a' * 110_000_000}</t></si></sst>"}
    sheets = xlsx({"S": "<sheetData/>"}, strings)
    assert "unpacks to more than 100 MB" in await refusal(tmp_path, "a.xlsx", sheets)


@pytest.mark.contract("read:hostile")
async def test_what_an_archive_says_about_its_size_is_not_believed(tmp_path: Path) -> None:
    data = bytearray(bomb())
    directory = data.rindex(b"PK\x01\x02")
    for place in (22, directory + 24):
        data[place : place + 4] = (1000).to_bytes(4, "little")
    message = await refusal(tmp_path, "a.docx", bytes(data))
    assert "damaged" in message or "unpacks to more" in message


@pytest.mark.contract("read:hostile")
@pytest.mark.parametrize(
    "before",
    [
        '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE a SYSTEM "http://127.0.0.1/a.dtd">',
    ],
)
async def test_a_document_with_entities_of_its_own_is_refused(tmp_path: Path, before: str) -> None:
    data = docx("<w:p><w:r><w:t>&b;&a;</w:t></w:r></w:p>", before)
    assert "declares types or entities" in await refusal(tmp_path, "a.docx", data)


@pytest.mark.contract("read:hostile")
async def test_a_page_that_unpacks_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    data = pdf("PLACE", "fine", packed=False)
    page = stream(b"BT (PLACE) Tj ET" + b" " * 100_000_000, packed=True)
    start = data.index(b"<< /Length", data.index(b"4 0 obj"))
    data = data[:start] + page + data[data.index(b"\nendobj", start) :]
    read = await text(tmp_path, "a.pdf", data)
    assert "[This page cannot be read: " in read
    assert read.endswith("--- Page 2 ---\nfine\n")


@pytest.mark.contract("read:documents")
async def test_a_cell_without_end_is_cut(tmp_path: Path) -> None:
    cells = f"<c t='str'><v>{'9' * 60_000_000}</v></c><c><v>2</v></c>"
    data = xlsx({"One": f"<sheetData><row>{cells}</row></sheetData>"})
    read = await text(tmp_path, "a.xlsx", data)
    assert 32_000 < len(read) < 50_000
    assert read.endswith("\t2\n")


@pytest.mark.contract("read:documents")
async def test_a_text_without_end_is_cut(tmp_path: Path) -> None:
    data = docx(paragraph("some words of a long document " * 100) * 2_000)
    read = await text(tmp_path, "a.docx", data)
    assert MAX_TEXT_CHARS < len(read) < MAX_TEXT_CHARS + 200
    assert read.endswith("[The rest is left out: there are more than 4 MB.]\n")


@pytest.mark.contract("read:documents")
async def test_a_document_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.pdf").open("wb") as file:
        file.truncate(2 * 2**30)
    files = LocalFiles(tmp_path)
    with pytest.raises(ToolError, match="larger than 64 MB"):
        await IsolatedDocumentReader(files).extract_text(files.resolve("a.pdf"))


SHEET_PARTS = ("<row>", "</row>", '<row r="9">', "<c>", '<c t="s">', '<c s="1" r="B2">', "</c>")
WORD_PARTS = (
    "<w:p>",
    "</w:p>",
    "<w:r>",
    "</w:r>",
    "<w:t>x",
    "</w:t>",
    "<w:tc>",
    "</w:tc>",
    "<w:tr>",
)
CELL_PARTS = ("<v>1</v>", "<v>-7e999</v>", "<f>A1</f>", "<is><t>é</t></is>", "<w:tr>", "</w:tr>")


@pytest.mark.contract("read:documents")
@given(st.lists(st.sampled_from((*SHEET_PARTS, *WORD_PARTS, *CELL_PARTS)), max_size=12))
def test_whatever_is_in_a_document_gives_text_or_a_reason(parts: list[str]) -> None:
    inside = "".join(parts)
    for kind, data in (("word", docx(inside)), ("spreadsheet", xlsx({"S": inside}))):
        try:
            assert isinstance(collect_text(extract_lines(kind, data)), str)
        except ToolError as error:
            assert "damaged" in str(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ("cells", "cell_type", "source", "outputs", "text", "data", "traceback")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.contract("read:documents")
@given(json_values)
def test_whatever_is_in_a_notebook_gives_text_or_a_reason(value: Any) -> None:
    try:
        text = collect_text(extract_lines("notebook", json.dumps({"cells": value}).encode()))
        assert text.count("--- Cell ") <= json.dumps(value).count("{")
    except ToolError as error:
        assert "no notebook" in str(error)
