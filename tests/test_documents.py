"""Documents are true: their commands run, their programs run, their JSON parses, their links lead
somewhere. CONTRIBUTING.md says how blocks are marked."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import fields

from joey.core.settings import Settings
from joey.tools.registry import build_default_tools
from tests.harness.document_links import list_dead_links
from tests.harness.paths import ROOT

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
BLOCK = re.compile(
    r"^(?P<left_alone><!-- not run: .+ -->\n+)?```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
TARGET = re.compile(r"^([a-z0-9]+):", re.MULTILINE)
MODEL_SAYS = [
    {"type": "say", "text": "I had a look around."},
    {"type": "call", "name": "attempt_completion", "input": {"result": "All tests pass now."}},
]


class Block(NamedTuple):
    kind: str
    text: str
    line: int


def blocks(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    return [
        Block(found["kind"], found["text"], text.count("\n", 0, found.start()) + 1)
        for found in BLOCK.finditer(text)
        if not found["left_alone"]
    ]


pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a model that completes whatever it is asked."""
    script = tmp_path_factory.mktemp("model") / "script.json"
    script.write_text(json.dumps({"turns": [MODEL_SAYS] * 5, "each": True}), encoding="utf-8")
    command = [sys.executable, "-m", "joey.testing.server", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_block_of_a_document_works(document: Path, model: str, tmp_path: Path) -> None:
    programs = Path(sys.executable).parent
    env = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_BASE_URL": model,
    }
    make_project(tmp_path)
    for block in blocks(document):
        match block.kind:
            case "sh":
                _run(["bash", "-euo", "pipefail", "-c", block.text], block, tmp_path, env)
            case "python":
                _run([sys.executable, "-c", block.text], block, tmp_path, env)
            case "json":
                json.loads(block.text)
            case kind:
                assert kind == "text", f"{document.name}:{block.line}: what is a {kind!r} block?"


def make_project(directory: Path) -> None:
    """A repository with a change that is not committed, and the examples of this one."""
    shutil.copytree(ROOT / "examples", directory / "examples")
    notes = directory / "notes.txt"
    notes.write_text("one\n", encoding="utf-8")
    for command in (["init", "--quiet"], ["add", "notes.txt"]):
        subprocess.run(["git", *command], cwd=directory, check=True)
    notes.write_text("one\ntwo\n", encoding="utf-8")


def _run(command: list[str], block: Block, cwd: Path, env: dict[str, str]) -> None:
    run = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = f"{run.stdout}\n{run.stderr}"
    assert run.returncode == 0, f"line {block.line} exited with {run.returncode}:\n{said}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_and_make_targets_of_a_document_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert list_dead_links(document, text) == []
    targets = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    named = {word for line in re.findall(r"`make ([a-z0-9 ]+)`", text) for word in line.split()}
    assert named - targets == set()


def test_every_tool_is_documented_with_its_parameters() -> None:
    text = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    for tool in build_default_tools():
        names = [field.encode_name for field in fields(tool.params)]
        missing = [name for name in names if f"`{name}`" not in rows.get(tool.name, "")]
        assert not missing, f"docs/tools.md does not tell {missing} of {tool.name}"


def test_every_setting_about_permissions_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "permissions.md").read_text(encoding="utf-8")
    for field in fields(Settings):
        if field.encode_name.startswith(("alwaysAllow", "autoApproval")):
            default = "on" if field.default else "off"
            assert f"| `{field.encode_name}` | {default} |" in text
