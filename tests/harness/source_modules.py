"""The modules of joey and their imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.harness.paths import SOURCE


class Module(NamedTuple):
    name: str
    """Dotted, below `joey`."""
    path: Path
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.name.split(".")[0]

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree) or ""


@cache
def all_modules() -> tuple[Module, ...]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        found.append(Module(name, path, text, ast.parse(text)))
    return tuple(found)


def imported_modules(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The modules of joey that import statements name."""
    for node in nodes:
        match node:
            case ast.ImportFrom(module=str(origin)) if origin in _import_names():
                for alias in node.names:
                    found = _import_names().get(f"{origin}.{alias.name}")
                    yield found or _import_names()[origin]


@cache
def _import_names() -> dict[str, str]:
    """Names of modules by what an import statement calls them."""
    return {f"joey.{each.name}".removesuffix(".__init__"): each.name for each in all_modules()}
