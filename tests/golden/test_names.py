"""Names that programs import from joey keep working, wherever the code is moved."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tests.golden import homes
from tests.golden.golden import ADVICE, DATA, RENEW, ROOT, check_json

GOLDEN = "names/documented.json"
DOCUMENTS = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_RUN = re.compile(r"python -m (joey[\w.]*)")

Names = dict[str, list[str]]


def documented() -> tuple[Names, list[str]]:
    """The names that the documents import, by module, and the modules that they run."""
    names: dict[str, set[str]] = {}
    run: set[str] = set()
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        run.update(_RUN.findall(text))
        for block in _BLOCK.findall(text):
            for module, name in imported(block):
                names.setdefault(module, set()).add(name)
    return {module: sorted(found) for module, found in sorted(names.items())}, sorted(run)


def imported(block: str) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(block)
    except SyntaxError:
        return  # another language
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "joey":
                yield from ((module, alias.name) for alias in node.names)
            case ast.Attribute(value=ast.Name(id="joey"), attr=name):
                yield "joey", name


def pinned() -> tuple[Names, list[str]]:
    """The golden file. When it is renewed, the names that the documents use now are added: a name
    stays, even if the documents use a new one instead."""
    names, run = documented()
    if (DATA / GOLDEN).exists():
        stored: dict[str, Any] = json.loads((DATA / GOLDEN).read_text(encoding="utf-8"))
        if not RENEW:
            return stored["imported"], stored["run as programs"]
        for module, known in stored["imported"].items():
            names[module] = sorted({*names.get(module, ()), *known})
        run = sorted({*run, *stored["run as programs"]})
    check_json(GOLDEN, {"imported": names, "run as programs": run})
    return names, run


def test_every_documented_name_can_be_imported() -> None:
    missing = []
    for names in (pinned()[0], documented()[0]):
        for module, found in names.items():
            missing += [f"from {module} import {name}" for name in found if not has(module, name)]
    assert missing == [], ADVICE


def has(module: str, name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return hasattr(import_module(module), name)
        except ImportError:
            return False


def test_every_documented_module_can_be_run() -> None:
    run = {*pinned()[1], *documented()[1]}
    assert run, "the documents name no module to run"
    assert [name for name in sorted(run) if find_spec(name) is None] == []


def test_the_public_names_are_the_same() -> None:
    check_json("names/public.json", sorted(homes.PUBLIC_NAMES))
