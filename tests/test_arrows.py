"""Who may import whom, what modules may be called, and how long things may get.

The table is the drawing of the house; an arrow that is not in it is worth a talk.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "joey"

CORE = {"core"}
ADAPTER = {"core", "ports", "system"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "system": set(),
    "private_folders": set(),
    "file_digests": set(),
    "program_ends": set(),
    "single_writer": set(),
    "core": set(),
    "ports": CORE,
    "tools": ADAPTER,
    "engine": {"core", "ports", "tools"},
    "storage": ADAPTER,
    "execution": ADAPTER,
    "content": ADAPTER,
    "presentation": CORE,
    "providers": ADAPTER,
    "stores": ADAPTER,
    "terminals": ADAPTER,
    "sandboxes": ADAPTER,
    "workspace": ADAPTER,
    "config": ADAPTER,
    "mcp": ADAPTER | {"__version__"},
    "knowledge": ADAPTER,
    "browsers": ADAPTER,
    "extensions": ADAPTER,
    "shells": ADAPTER,
    "hooks": ADAPTER,
    "testing": ADAPTER,
    "client": {"core", "engine"},
    "server": {"__version__", "core", "engine", "ports", "system"},
    "app": {"core", "ports", "engine", "tools", "providers", "stores", "terminals", "workspace"}
    | {"system", "storage", "execution", "content"}
    | {"config", "client", "mcp", "knowledge", "browsers", "extensions", "sandboxes", "shells"}
    | {"hooks"},
    "display": CORE,
    "tui": {"__version__", "core", "client", "display", "presentation", "system"},
    "acp": {"__version__", "core", "client", "display", "ports", "presentation"},
    "cli": {"__version__", "core", "ports", "client", "server", "app", "testing"}
    | {"display", "tui", "acp", "engine", "presentation", "system"},
    "__init__": {"app", "client", "core", "engine"},
    "__main__": {"cli"},
}
"""Within `joey`; every package may also use itself and `errors`, and all but `core` the leaves."""

LEAVES = {"file_digests", "private_folders", "program_ends", "single_writer"}
"""What several adapters, which do not know each other, do with files and programs in the same
way."""

LIBRARIES: dict[str, set[str]] = {
    "tools": {"rapidfuzz"},
    "config": {"yaml"},
    "mcp": {"anyio", "httpx2", "mcp", "pydantic"},
    "knowledge": {"pypdf", "tree_sitter", "watchfiles"}
    | {f"tree_sitter_{name}" for name in ("bash", "c", "c_sharp", "cpp", "go", "java", "php")}
    | {f"tree_sitter_{name}" for name in ("javascript", "python", "ruby", "rust", "typescript")},
    "browsers": {"playwright"},
    "execution": {"tree_sitter", "tree_sitter_bash"},
    "presentation": {"rich"},
    "shells": {"tree_sitter", "tree_sitter_bash"},
    "display": {"rich"},
    "tui": {"rich", "textual"},
    "acp": {"acp", "pydantic"},
    "cli": {"rich"},
    "client": {"websockets"},
    "server": {"starlette", "uvicorn", "websockets"},
}
LIBRARIES["content"] = LIBRARIES["knowledge"] | LIBRARIES["browsers"]
"""Third-party packages beside msgspec, which is the house's own."""

IMPURE = {"asyncio", "logging", "multiprocessing", "os", "random", "secrets", "select", "shutil"}
IMPURE |= {"socket", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "uuid"}
"""What `core` leaves to others: files, network, processes, the clock, chance."""

POINTS = {"start_point", "end_point", "included_ranges", "changed_ranges", "set_point_range"}
POINTS |= {"descendant_for_point_range", "named_descendant_for_point_range"}
POINTS |= {"set_containing_point_range", "goto_first_child_for_point"}
"""Makes points in tree-sitter, whose fields corrupt memory when they are read (0.26.0)."""
POINTS_OF_NODES = POINTS | {"Point", "Range", "range", "edit"}
"""The same, with names that mean something else in modules without tree-sitter."""

VAGUE = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc"}
LONGEST_FILE = 700
LONGEST_FUNCTION = 60


def modules() -> Iterator[tuple[str, Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        yield package, path, ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[list[str]]:
    """Dotted names of all imports, also those for types only and inside functions."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name.split(".") for alias in node.names)
            case ast.ImportFrom(module="joey"):
                yield from (["joey", alias.name] for alias in node.names)
            case ast.ImportFrom(module=str(name), level=0):
                yield name.split(".")
            case ast.ImportFrom():
                yield ["a relative import"]


def test_every_import_follows_an_arrow() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)} imports {'.'.join(name)}"
        for package, path, tree in modules()
        for name in imported(tree)
        if not _allowed(package, name)
    ]
    assert wrong == []


def _allowed(package: str, name: list[str]) -> bool:
    if name[0] != "joey":
        if package == "core" and name[0] in IMPURE:
            return False
        libraries = {"msgspec"} | LIBRARIES.get(package, set())
        return name[0] in sys.stdlib_module_names or name[0] in libraries
    target = name[1] if len(name) > 1 else "__init__"
    if target in LEAVES:
        return package != "core"
    return target in {package, "errors"} or target in MAY_IMPORT[package]


def test_no_point_of_tree_sitter_is_read() -> None:
    found = []
    for _, path, tree in modules():
        uses_trees = any(name[0] == "tree_sitter" for name in imported(tree))
        names = POINTS_OF_NODES if uses_trees else POINTS
        found += [f"{path.relative_to(SOURCE)}: {name}" for name in _names(tree) if name in names]
    assert found == []


def _names(tree: ast.Module) -> Iterator[str]:
    """Attributes, imported names, and texts, with which `getattr` could be called."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.alias(name=name) | ast.Constant(value=str(name)):
                yield name


def test_modules_are_named_after_what_they_hold() -> None:
    assert [str(path) for _, path, _ in modules() if VAGUE & {*path.stem.split("_")}] == []


def test_files_and_functions_stay_short() -> None:
    long = []
    for _, path, tree in modules():
        length = len(path.read_text(encoding="utf-8").splitlines())
        if length > LONGEST_FILE:
            long.append(f"{path.relative_to(SOURCE)}: {length} lines")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    long.append(f"{path.relative_to(SOURCE)}: {node.name} has {length} lines")
    assert long == []
