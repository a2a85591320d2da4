"""`web/README.md` lists the page's source files, and each of them says what it holds."""

from __future__ import annotations

import re
from pathlib import Path

from tests.harness.paths import ROOT

WEB = ROOT / "web"
SOURCE = WEB / "src"


def listed_files() -> list[str]:
    """The paths in the README's list: a directory per item, then the names of its files."""
    text = (WEB / "README.md").read_text(encoding="utf-8")
    items = re.findall(r"^- `(\S+)/`:(.*(?:\n  .*)*)", text, re.MULTILINE)
    return [
        (Path(directory) / name).as_posix()
        for directory, files in items
        for name in re.findall(r"`(\S+)`", files)
    ]


def source_files() -> list[str]:
    return [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if path.is_file()]


def test_readme_lists_every_source_file_once() -> None:
    assert sorted(listed_files()) == sorted(source_files())


def test_every_source_file_starts_with_a_comment() -> None:
    code = [name for name in source_files() if not name.endswith(".svg")]
    without = [name for name in code if (SOURCE / name).read_bytes()[:2] not in (b"//", b"/*")]
    assert without == []
