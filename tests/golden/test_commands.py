"""Files that commands write in joey's home, and the keys of the JSON that commands print."""

from __future__ import annotations

import json
from pathlib import Path

from tests.golden.corpus import in_corpus
from tests.golden.golden import check_json
from tests.golden.masks import masked, shape

CHANGES: tuple[tuple[str, ...], ...] = (
    ("config", "set", "alwaysAllowWrite", "true"),
    ("config", "set", "allowedCommands", "--add", "npm test", "--add", "git status"),
    ("config", "set", "sandboxNetwork", "all"),
    ("profiles", "add", "local", "--provider", "ollama", "--model", "tiny"),
    ("profiles", "add", "big", "--provider", "ollama", "--model", "huge"),
    ("profiles", "set", "big", "contextWindow", "100000"),
    ("profiles", "use", "big"),
    ("mcp", "add", "--env", "LEVEL=2", "tools", "--", "python3", "tools.py", "-v"),
    ("mcp", "add", "--url", "https://mcp.test/mcp", "--transport", "http", "remote"),
)
PRINTING = {
    "config_list": ("config", "list", "--json"),
    "config_describe": ("config", "describe", "sandboxNetwork", "--json"),
    "mcp_list": ("mcp", "list", "--json"),
    "models": ("models", "--json"),
    "modes_list": ("modes", "list", "--json"),
    "modes_show": ("modes", "show", "architect", "--json"),
    "permissions_explain": ("permissions", "explain", "--json", "--", "git status && rm -r x"),
    "permissions_report": ("permissions", "report", "--task", "work-native", "--json"),
    "profiles_list": ("profiles", "list", "--json"),
    "profiles_show": ("profiles", "show", "big", "--json"),
    "tasks_rows": ("tasks", "show", "work-native", "--rows", "--json"),
    "tasks_search": ("tasks", "search", "--all", "hello", "--json"),
}


async def test_files_and_printed_json_are_the_same(tmp_path: Path) -> None:
    program = in_corpus(tmp_path)
    for arguments in CHANGES:
        done = await program.run(*arguments)
        assert done.code == 0, (arguments, done.err)
    written = {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(program.home.glob("*.json"))
    }
    check_json("commands/files.json", masked(written, program.paths))
    for name, arguments in PRINTING.items():
        done = await program.run(*arguments)
        check_json(f"commands/{name}.json", {"exit code": done.code, "keys": shape(done.json)})
