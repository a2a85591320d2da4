"""Documents made by hand, whole and hostile ones."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile

from pypdf import PdfReader, PdfWriter

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
CONTENT_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE_LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    data = BytesIO()
    with ZipFile(data, "w", ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def docx(body: str, before: str = "") -> bytes:
    xml = (
        f'<?xml version="1.0" encoding="UTF-8"?>{before}<w:document xmlns:w="{WORD}"'
        ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f"<w:body>{body}</w:body></w:document>"
    )
    return zipped({"word/document.xml": xml})


def paragraph(text: str) -> str:
    return f'<w:p><w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


@cache
def bomb() -> bytes:
    """A small DOCX that unpacks to 105 MB."""
    return docx(f"<w:p><w:r><w:t>{' ' * 110_000_000}</w:t></w:r></w:p>")


def xlsx(sheets: Mapping[str, str], more: Mapping[str, str] | None = None) -> bytes:
    """Sheets by name; one whose name begins with `.` is hidden. `more` adds parts."""
    files: dict[str, str | bytes] = {"[Content_Types].xml": f'<Types xmlns="{CONTENT_TYPES}"/>'}
    listed, relations = "", ""
    for number, (name, rows) in enumerate(sheets.items(), 1):
        state = ' state="hidden"' if name.startswith(".") else ""
        listed += f'<sheet name="{escape(name)}" sheetId="{number}" r:id="rId{number}"{state}/>'
        relations += (
            f'<Relationship Id="rId{number}" Target="worksheets/sheet{number}.xml"'
            f' Type="{LINKS}/worksheet"/>'
        )
        files[f"xl/worksheets/sheet{number}.xml"] = f'<worksheet xmlns="{SHEET}">{rows}</worksheet>'
    files["_rels/.rels"] = (
        f'<Relationships xmlns="{PACKAGE_LINKS}"><Relationship Id="rId1" Target="xl/workbook.xml"'
        f' Type="{LINKS}/officeDocument"/></Relationships>'
    )
    files["xl/workbook.xml"] = (
        f'<workbook xmlns="{SHEET}" xmlns:r="{LINKS}"><sheets>{listed}</sheets></workbook>'
    )
    files["xl/_rels/workbook.xml.rels"] = (
        f'<Relationships xmlns="{PACKAGE_LINKS}">{relations}</Relationships>'
    )
    return zipped({**files, **(more or {})})


def ods(rows: str) -> bytes:
    """A spreadsheet of LibreOffice with one sheet."""
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text", "manifest")
    )
    return zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
            "META-INF/manifest.xml": f"<manifest:manifest {spaces}/>",
            "content.xml": f"<office:document-content {spaces}><office:body><office:spreadsheet>"
            f'<table:table table:name="One">{rows}</table:table></office:spreadsheet>'
            "</office:body></office:document-content>",
        }
    )


PACKED_XLS = (
    "c-rk)O=uHA6#iy5X*RJ<c55oMLJ0w@*7hJ?ytG>d?a5lbC?aU;<{)iS30~?!t2IYK@T7Pt)Pt9*7k^MtZytn-9t1"
    "&1^w^VN!9$z%&D&i`BSHfjsLZ#_H!pAAn|Yg=H@ma%mh8&>qn;`nFbo4VFOIf4ouCpAe^{V)&r@Ppn^ZiFO@+8g6"
    "WJEU^NzPMHHT`xtB`mYc})y_p>i4*Fg9JxXIhAZ979g17>0-i?vf^nZjP#x`5g0B<_B!~f_a2BH<*XWwjxep$r<b"
    "4AFSe&GRtjAsD7WY&nMRGMHk+vRea^9@NJ_wP&%KR+GGvAk#;PACUi7k%$L;f6z(Ab%n$|(g+bS?AWf6KfE6zTd="
    "InwRYvPus}~^skM;W4AM_?oVx#_+i~zIn&T^8Ju>~uJYB6wh%3Vc@cWqV3te7k06KWIZq_@^3eFrB)JF!bnO13#A"
    "EE;w7{<rr>CdQpJteNGF-tTmW8XX?4Di3l_a*O=M{mgrquW_&2S?*y@(|V=4Z@eoI4$ra8b#CpWarQAjI6Ld)T_l"
    "&6k3H=ze|2_~yf|9DlwSPk%p*&WCzt%yHHQH)Anx2&c;<w)2)2&T%-z3jBc`;1*uCJHm%^G#9D>b!Stj`2Z7dtUy"
    "=bsk7J@ga>`RHLG&vrd%CPLjWBzkS>K>~JXlQ6?XlQ6?XlS$uB6v|Z{1XDbhx^BYSnyqEjY>^_Ci!o19Mg1Nq(kK"
    ")6say@rm6L_4N(#HB{t|2elJuwL8F&2i3yHlvg!3p$2n1dKO1(m{$2_-JASR1IREkZKLI>M$^8"
)


def xls() -> bytes:
    """A spreadsheet as Excel 97 wrote them: two rows with a text, a number, a date, a boolean."""
    return zlib.decompress(base64.b85decode(PACKED_XLS))


def pdf(*pages: str, packed: bool = False) -> bytes:
    """A page for each text, a line for each of its lines."""
    numbers = [3 + 2 * at for at in range(len(pages))]
    kids = " ".join(f"{number} 0 R" for number in numbers)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
    ]
    for number, text in zip(numbers, pages, strict=True):
        shown = b" T* ".join(b"(" + line.encode() + b") Tj" for line in text.split("\n"))
        content = b"BT /F1 12 Tf 14 TL 72 720 Td " + shown + b" ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {number + 1} 0 R"
            " /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica"
            " >> >> >> >>".encode()
        )
        objects.append(stream(content, packed))
    return assembled(objects)


def stream(content: bytes, packed: bool) -> bytes:
    how = b" /Filter /FlateDecode" if packed else b""
    content = zlib.compress(content) if packed else content
    head = b"<< /Length %d%s >>" % (len(content), how)
    return head + b"\nstream\n" + content + b"\nendstream"


def assembled(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for place in places:
        out += b"%010d 00000 n \n" % place
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\n" % (len(objects) + 1)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % start)


def locked_pdf(password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(BytesIO(pdf("secret words"))))
    writer.encrypt(password, "owner's own", algorithm="RC4-128")
    data = BytesIO()
    writer.write(data)
    return data.getvalue()
