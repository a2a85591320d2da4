"""What is loaded when `joey -p` sends its first request."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import homes
from tests.golden.program import Program, reach

EVERY_RUN = {"msgspec", "typing_extensions"}
"""Third-party packages that every run loads: msgspec, and what it imports where that is there."""
HEAVY_MODULES = (
    *("joey.engine", "joey.tools", "joey.providers", "joey.content", "joey.execution.terminal"),
    *("joey.mcp.connection", "asyncio", "ssl", "subprocess", "tempfile", "textual", "rich"),
    "joey.proxy",
)
"""What management commands do without: the engine and its adapters, and slow libraries."""
REACH = reach("http://127.0.0.1:9")
WATCHED = """\
import os, sys
before = set(sys.modules)
def look(event, _):
    if event == "socket.connect":
        for name in sorted(set(sys.modules) - before):
            module = sys.modules[name]
            print(name, getattr(module, "__file__", None) or "-", sep="\\t", flush=True)
        os._exit(0)
sys.addaudithook(look)
"""


@pytest.fixture(params=homes.MOST_MODULES)
def flags(request: pytest.FixtureRequest) -> str:
    """`-p`, alone or with a sandbox to prepare."""
    return str(request.param)


@pytest.fixture
def loaded(tmp_path: Path, flags: str) -> dict[str, str]:
    """The modules at the moment of the first connection, with their files."""
    return list_loaded(Program(tmp_path), flags)


def list_loaded(program: Program, flags: str, **env: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{WATCHED}{homes.PROGRAM}", *flags.split(), *REACH, "do it"],
        env=program.env | env,
        cwd=program.workspace,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split("\t", 1) for line in done.stdout.splitlines())


def test_the_first_request_loads_no_third_party_module_but_msgspec(loaded: dict[str, str]) -> None:
    def is_foreign(name: str) -> bool:
        package = name.partition(".")[0]
        return package not in sys.stdlib_module_names and package not in {"joey", *EVERY_RUN}

    assert "msgspec" in loaded
    assert [name for name in loaded if is_foreign(name)] == []


def test_the_first_request_loads_few_modules(loaded: dict[str, str], flags: str) -> None:
    own = [name for name in loaded if name.partition(".")[0] == "joey"]
    packages = [name for name in own if Path(loaded[name]).name == "__init__.py"]
    sys.stdout.write(f"joey modules loaded: {len(own)}, of these packages: {len(packages)}\n")
    assert "joey" in own
    assert len(own) <= homes.MOST_MODULES[flags], f"{len(own)} modules of joey are loaded"


def test_the_first_request_loads_nothing_of_the_recording_proxy(loaded: dict[str, str]) -> None:
    assert [name for name in loaded if name.startswith("joey.proxy")] == []


def test_checkpoints_are_loaded_after_the_first_request_however_long_it_takes(
    tmp_path: Path,
) -> None:
    program = Program(tmp_path)
    slow = tmp_path / "bin" / "rg"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nsleep 0.5\n")
    slow.chmod(0o755)
    loaded = list_loaded(program, "-p", PATH=f"{slow.parent}:{program.env['PATH']}")
    assert "joey.workspace.checkpoints.pool" in loaded
    assert "joey.workspace.checkpoints.store" not in loaded


@pytest.mark.parametrize("line", ["config get mode", "modes list", "mcp list", "tasks list"])
def test_management_commands_load_neither_engine_nor_tools(tmp_path: Path, line: str) -> None:
    program = Program(tmp_path)
    watch = "\n".join(
        (
            "import sys",
            "from joey.cli.main import main",
            "code = main(sys.argv[1:])",
            "print(*sys.modules, file=sys.stderr)",
            "sys.exit(code)",
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", watch, *line.split()],
        env=program.env,
        cwd=program.workspace,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "joey.cli.main" in loaded
    assert [name for name in HEAVY_MODULES if name in loaded] == []
