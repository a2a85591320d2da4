from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.core.modes import BUILT_IN_MODES, Grant, Mode, ToolGroup
from joey.core.permissions.policy import Access, Claim
from joey.core.settings import Settings
from joey.errors import ToolError
from joey.ports.tool_context import Capabilities
from joey.tools.base import AvailabilityContext
from joey.tools.registry import Registry, build_default_tools
from joey.workspace.files import LocalFiles
from tests.harness.tools.modes import MODEL, mode

registry = Registry(build_default_tools())

READ = ["read_file", "search_files", "list_files"]
EDIT = ["apply_diff", "write_to_file"]
COMMAND = ["execute_command", "read_command_output"]
ALWAYS = ["ask_followup_question", "attempt_completion", "switch_mode", "new_task"]
ALWAYS += ["update_todo_list"]


def offer(**settings: Any) -> AvailabilityContext:
    return AvailabilityContext(Settings(**settings), MODEL, Capabilities())


def offered(slug: str, **settings: Any) -> list[str]:
    return [spec.name for spec in registry.list_specs(mode(slug), offer(**settings))]


@pytest.mark.parametrize(
    ("slug", "names"),
    [
        ("code", READ + EDIT + COMMAND + ALWAYS),
        ("debug", READ + EDIT + COMMAND + ALWAYS),
        ("architect", READ + EDIT + ALWAYS),
        ("ask", READ + ALWAYS),
        ("orchestrator", ALWAYS),
    ],
)
def test_a_mode_offers_the_tools_of_its_groups_in_a_fixed_order(
    slug: str, names: list[str]
) -> None:
    assert offered(slug) == names


def test_the_todo_list_can_be_switched_off() -> None:
    assert "update_todo_list" not in offered("code", todo_list_enabled=False)


@pytest.mark.parametrize("name", registry.names)
def test_every_tool_is_described_and_has_a_strict_schema(name: str) -> None:
    spec = registry.find(name).spec
    assert 50 < len(spec.description) <= 1024  # the limit of Azure
    assert spec.parameters["type"] == "object"
    assert spec.parameters["additionalProperties"] is False
    assert spec.parameters["required"] == list(spec.parameters["properties"])
    for parameter, schema in spec.parameters["properties"].items():
        assert schema.get("description") or spec.xml_descriptions[parameter]


@pytest.mark.parametrize("name", registry.names)
def test_the_xml_usage_of_a_tool_speaks_of_its_own_tags(name: str) -> None:
    usage = registry.find(name).xml_usage
    if usage is not None:
        assert f"<{name}>" in usage
        assert f"</{name}>" in usage


def test_a_tool_is_found_by_its_alias() -> None:
    assert registry.find("write_file") is registry.find("write_to_file")
    assert "write_file" not in registry.names


@pytest.mark.contract("loop:calls")
def test_an_unknown_tool_is_answered_with_the_list() -> None:
    with pytest.raises(ToolError, match=r'"launch_rocket".*read_file, .*update_todo_list'):
        registry.find("launch_rocket")


def test_xml_tags_are_known_for_every_name_and_include_old_ones() -> None:
    known = registry.build_tool_names().by_name
    tags = {name: tool.parameters for name, tool in known.items()}
    assert set(registry.names) <= set(tags)
    assert tags["write_file"] == tags["write_to_file"]
    assert {"path", "content", "file_text", "line_count"} <= tags["write_to_file"]
    assert {"args", "path", "start_line", "end_line"} <= tags["read_file"]
    assert tags["execute_command"] == {"command", "cwd", "timeout"}
    assert tags["ask_followup_question"] == {"question", "follow_up"}
    assert tags["attempt_completion"] == {"result", "command"}


@pytest.mark.contract("loop:calls")
@pytest.mark.parametrize(
    ("slug", "name", "allowed"),
    [
        ("code", "execute_command", True),
        ("ask", "execute_command", False),
        ("ask", "write_to_file", False),
        ("ask", "read_file", True),
        ("orchestrator", "read_file", False),
        ("orchestrator", "attempt_completion", True),
        ("architect", "execute_command", False),
    ],
)
def test_a_tool_outside_the_groups_of_the_mode_is_refused(
    slug: str, name: str, allowed: bool
) -> None:
    tool = registry.find(name)
    if allowed:
        registry.check_allowed(tool, mode(slug), Settings(), {})
        return
    with pytest.raises(ToolError) as caught:
        registry.check_allowed(tool, mode(slug), Settings(), {})
    assert str(caught.value) == f'Tool "{name}" is not allowed in {slug} mode.'


@pytest.mark.contract("loop:calls")
@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "src/app.py", "content": "x"},
        {"file_path": "src/app.py"},
        {"args": "<file><path>src/app.py</path><diff>x</diff></file>"},
        {
            "args": "<file><path>plan.md</path><diff>x</diff></file>"
            "<file><path>src/app.py</path><diff>x</diff></file>"
        },
        {"files": [{"path": "plan.md"}, {"path": "src/app.py"}]},
    ],
)
def test_a_mode_that_may_edit_some_files_may_not_edit_others(arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as caught:
        registry.check_allowed(
            registry.find("apply_diff"), mode("architect"), Settings(), arguments
        )
    text = str(caught.value)
    for part in ("apply_diff", "🏗️ Architect", r"\.md$", "Markdown files only", "src/app.py"):
        assert part in text


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "docs/plan.md", "content": "see src/app.py"},
        {"args": "<file><path>plan.md</path></file>"},
        {},
    ],
)
def test_files_that_match_may_be_edited(arguments: dict[str, Any]) -> None:
    registry.check_allowed(registry.find("write_to_file"), mode("architect"), Settings(), arguments)


def test_reading_is_not_restricted_by_the_files_that_may_be_edited() -> None:
    registry.check_allowed(
        registry.find("read_file"), mode("architect"), Settings(), {"path": "src/app.py"}
    )


def test_an_invalid_pattern_allows_nothing() -> None:
    broken = Mode("x", "X", "role", grants=(Grant(ToolGroup.EDIT, file_regex="["),))
    with pytest.raises(ToolError, match="may only change"):
        registry.check_allowed(registry.find("write_to_file"), broken, Settings(), {"path": "a.md"})


def test_a_link_with_an_allowed_name_does_not_lead_to_a_forbidden_file(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("")
    (tmp_path / "notes.md").symlink_to(tmp_path / "app.py")
    files = LocalFiles(tmp_path)
    tool = registry.find("write_to_file")
    with pytest.raises(ToolError, match=r"not app\.py"):
        registry.check_claimed_paths(
            tool, mode("architect"), [Claim(Access.WRITE, files.resolve("notes.md"))]
        )
    registry.check_claimed_paths(
        tool, mode("architect"), [Claim(Access.WRITE, files.resolve("new.md"))]
    )
    registry.check_claimed_paths(
        tool, mode("architect"), [Claim(Access.READ, files.resolve("app.py"))]
    )


def test_every_built_in_mode_can_ask_and_finish() -> None:
    for built_in in BUILT_IN_MODES:
        assert {"ask_followup_question", "attempt_completion"} <= set(offered(built_in.slug))
