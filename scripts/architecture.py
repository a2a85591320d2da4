"""The module tree of ARCHITECTURE.md, made from the first lines of the modules' docstrings.

    python -m scripts.architecture

rewrites the part of ARCHITECTURE.md between the two marks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "joey"
DOCUMENT = ROOT / "ARCHITECTURE.md"
BEGIN = "<!-- modules: made by `python -m scripts.architecture` -->"
END = "<!-- end of modules -->"
ORDER = (
    *("errors", "system", "core", "ports", "tools", "engine"),
    *("providers", "storage", "execution", "workspace", "content", "config", "mcp"),
    *("app", "client", "presentation", "batch", "cli", "tui", "server", "acp", "proxy", "testing"),
)
"""From what knows nothing else to what knows everything."""


def module_tree() -> str:
    """A section for each package, with a line for each of its modules."""
    found = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert found <= {*ORDER}, f"packages without a place in ORDER: {found - {*ORDER}}"
    lines = [*map(_line, _files(SOURCE))]
    for package in ORDER:
        if package in found:
            lines += ["", *_section(SOURCE / package)]
    return "\n".join(lines)


def _section(package: Path) -> Iterator[str]:
    name = package.relative_to(SOURCE).as_posix()
    level = "#" * (3 + name.count("/"))
    yield f"{level} `{name}/`: {_summary(package / '__init__.py')}"
    yield ""
    described = [path for path in _files(package) if path.with_suffix(".md").exists()]
    others = [path for path in _files(package) if path not in described]
    yield from map(_line, described)
    if described:
        yield from ("", "Shared by them:", "")
    yield from map(_line, others)
    for folder in sorted(path for path in package.iterdir() if (path / "__init__.py").exists()):
        yield ""
        yield from _section(folder)


def _files(package: Path) -> list[Path]:
    return sorted(path for path in package.glob("*.py") if path.name != "__init__.py")


def _line(path: Path) -> str:
    return f"- [`{path.name}`]({path.relative_to(ROOT).as_posix()}): {_summary(path)}"


def _summary(path: Path) -> str:
    """The first paragraph of a module's docstring, without its period."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.partition("\n\n")[0].split()).removesuffix(".")


def renewed(text: str) -> str:
    """The document with the tree as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{module_tree()}\n\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(renewed(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
