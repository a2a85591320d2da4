from __future__ import annotations

from pathlib import Path

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.terminal import terminal

MODES = """\
customModes:
  - slug: docs
    name: 📝 Docs
    description: Write the manual
    roleDefinition: You are Roo, a writer.
    customInstructions: Short sentences.
    groups: [read, [edit, {fileRegex: '\\.md$', description: Markdown only}]]
  - slug: bad mode
    name: Bad
    roleDefinition: x
    groups: []
  - slug: worse
    groups: []
"""
DONE = Turn(call("attempt_completion", {"result": "All done."}))


@pytest.fixture
def project(joey: Joey) -> Joey:
    (joey.workspace / ".roomodes").write_text(MODES, encoding="utf-8")
    rules = joey.workspace / ".roo" / "rules-docs"
    rules.mkdir(parents=True)
    (rules / "a.md").write_text("a rule", encoding="utf-8")
    return joey


@pytest.mark.contract("modes:fields")
async def test_modes_are_listed_for_a_pipe_with_tabs_and_warnings_beside(project: Joey) -> None:
    listed = await project.run("modes", "list")
    assert listed.code == 0
    rows = [line.split("\t") for line in listed.out.splitlines()]
    assert [row[0] for row in rows] == [
        *("architect", "code", "ask", "debug", "orchestrator", "docs")
    ]
    assert rows[-1] == ["docs", "📝 Docs", "project", "read edit*", "Write the manual"]
    assert listed.err.splitlines() == [
        "joey: .roomodes: mode 'bad mode' is not used: `slug` may have letters, digits and"
        " dashes, at most 100.",
        "joey: .roomodes: mode 'worse' is not used: `name` is missing.",
    ]


@pytest.mark.contract("modes:fields")
async def test_modes_are_listed_for_programs(project: Joey) -> None:
    listed = await project.run("modes", "list", "--json")
    assert listed.json[-1] == {
        "slug": "docs",
        "name": "📝 Docs",
        "roleDefinition": "You are Roo, a writer.",
        "description": "Write the manual",
        "customInstructions": "Short sentences.",
        "groups": ["read", ["edit", {"fileRegex": "\\.md$", "description": "Markdown only"}]],
        "source": "project",
    }


@pytest.mark.contract("modes:fields")
async def test_one_mode_is_shown_with_its_instructions(project: Joey) -> None:
    shown = await project.run("modes", "show", "docs")
    assert shown.code == 0
    assert shown.out.splitlines() == [
        "docs · 📝 Docs",
        "from:    project",
        "may:     read, edit (\\.md$, Markdown only)",
        "for:     Write the manual",
        "rules:   .roo/rules-docs/a.md",
        "",
        "You are Roo, a writer.",
        "",
        "Short sentences.",
    ]
    as_json = (await project.run("modes", "show", "docs", "--json")).json
    assert (as_json["rules"], as_json["skills"]) == ([".roo/rules-docs/a.md"], [])


async def test_modes_of_another_directory_are_shown(project: Joey, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    elsewhere = await project.run("modes", "show", "docs", "-w", str(tmp_path / "other"))
    assert elsewhere.code == 2
    assert "There is no mode 'docs'".lower() in elsewhere.err.lower()


@pytest.mark.contract("modes:fields")
async def test_a_misspelt_mode_is_answered_with_the_one_that_was_meant(project: Joey) -> None:
    for arguments in (("modes", "show", "dcos"), ("-p", "--mode", "dcos", *reach("http://x"), "x")):
        run = await project.run(*arguments)
        assert run.code == 2
        assert "there is no mode 'dcos'. Did you mean 'docs'? Known ones: architect," in run.err


@pytest.mark.contract("modes:fields")
async def test_a_run_says_in_one_line_what_it_could_not_use(project: Joey) -> None:
    async with ModelServer([DONE]) as server:
        run = await project.run("-p", "--mode", "docs", *reach(server.url), "go")
    assert run.code == 0
    assert server.requests[0].body["system"][0]["text"].startswith("You are Roo, a writer.")
    (line,) = (line for line in run.err.splitlines() if ".roomodes" in line)
    assert line.startswith("joey: .roomodes: mode 'bad mode' is not used: ")
    assert line.endswith(" (and 1 more, see joey doctor)")
    looked = await project.run("doctor", "--offline", "--json")
    [found] = [each for each in looked.json["findings"] if each["name"] == "Modes and rules"]
    assert found["status"] == "warn"
    assert found["found"].count(" is not used: ") == 2


async def test_on_a_terminal_modes_are_a_table(project: Joey) -> None:
    async with terminal(project, "modes", "list", columns=80) as screen:
        assert await screen.ended() == 0
        heading, *rows = screen.lines[:7]
    assert heading.split() == ["mode", "name", "from", "may", "use", "it", "for"]
    assert rows[-1].split()[:4] == ["docs", "📝", "Docs", "project"]
    assert rows[-1].endswith("Write the manual")
    assert rows[0].endswith("…")
