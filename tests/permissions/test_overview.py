"""What may be done unasked, and which rule of which file says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from joey.app.options import PermissionFlags
from joey.app.permission_overview import PermissionLine, PermissionOverview, SettingSources
from joey.core.modes import BUILT_IN_MODES, find_mode
from joey.core.permissions.policy import (
    WORKSPACE_EDITS_TEXT,
    PersistentRule,
    SandboxStatus,
    add_rule,
)

NO_FLAGS = PermissionFlags()


class SettingsDirectories:
    def __init__(self, root: Path) -> None:
        self.home = root / "person" / ".roo"
        self.workspace = root / "work"
        self.home.mkdir(parents=True)
        (self.workspace / ".roo").mkdir(parents=True)

    def write(self, directory: Path, **settings: Any) -> None:
        (directory / "settings.json").write_text(json.dumps(settings), encoding="utf-8")

    def write_user_settings(self, **settings: Any) -> None:
        self.write(self.home, **settings)

    def write_project_settings(self, **settings: Any) -> None:
        self.write(self.workspace / ".roo", **settings)

    def load_sources(self, flags: PermissionFlags = NO_FLAGS) -> SettingSources:
        env = {"HOME": str(self.home.parent)}
        return SettingSources(self.workspace, flags, self.home, env)

    def judge_all(
        self,
        flags: PermissionFlags = NO_FLAGS,
        *,
        mode: str = "code",
        sandbox: SandboxStatus = "full",
        edits_granted: bool = False,
        rule: PersistentRule | None = None,
    ) -> dict[str, PermissionLine]:
        sources = self.load_sources(flags)
        settings = sources.settings if rule is None else add_rule(sources.settings, rule)
        known = find_mode(mode, BUILT_IN_MODES)
        assert known is not None
        overview = PermissionOverview(
            sources, settings, known, sandbox, self.workspace, edits_granted=edits_granted
        )
        return {each.subject: each for each in overview.build_lines()}


@pytest.fixture
def settings_directories(tmp_path: Path) -> SettingsDirectories:
    return SettingsDirectories(tmp_path)


def summarize(judged: PermissionLine) -> tuple[str, str, str]:
    return judged.decision, judged.rule, judged.source


def test_defaults_are_called_defaults(settings_directories: SettingsDirectories) -> None:
    found = settings_directories.judge_all()
    assert summarize(found["reading files here"]) == ("allow", "alwaysAllowReadOnly", "default")
    assert summarize(found["changing files here"]) == ("ask", "alwaysAllowWrite is off", "default")
    assert summarize(found["commands"]) == ("ask", "alwaysAllowExecute is off", "default")
    assert summarize(found["MCP tools"]) == ("ask", "alwaysAllowMcp is off", "default")


def test_only_the_commands_that_a_rule_names_run_unasked(
    settings_directories: SettingsDirectories,
) -> None:
    settings_directories.write_user_settings(
        alwaysAllowExecute=True, allowedCommands=["git status", "npm test"]
    )
    settings_directories.write_project_settings(deniedCommands=["npm publish"])
    found = settings_directories.judge_all(PermissionFlags(allow=("make",), deny=("rm",)))
    own = ("allow", "allowedCommands", "~/.roo/settings.json")
    assert summarize(found["commands `git status`, `npm test`"]) == own
    assert summarize(found["commands `make`"]) == ("allow", "allowedCommands", "--allow")
    assert found["other commands"].decision == "ask"
    assert summarize(found["commands `rm`"]) == ("deny", "deniedCommands", "--deny")
    project = ("deny", "deniedCommands", ".roo/settings.json of the project")
    assert summarize(found["commands `npm publish`"]) == project


def test_rules_that_sleep_are_not_shown_as_rules(settings_directories: SettingsDirectories) -> None:
    settings_directories.write_user_settings(
        allowedCommands=["git status"], allowedMcpTools=["a/*"]
    )
    found = settings_directories.judge_all()
    assert summarize(found["commands"]) == ("ask", "alwaysAllowExecute is off", "default")
    assert summarize(found["MCP tools"]) == ("ask", "alwaysAllowMcp is off", "default")
    assert not any("`" in about for about in found)


def test_what_a_project_switches_off_is_its_doing(
    settings_directories: SettingsDirectories,
) -> None:
    settings_directories.write_user_settings(alwaysAllowWrite=True)
    settings_directories.write_project_settings(alwaysAllowWrite=False)
    asked = ("ask", "alwaysAllowWrite is off", ".roo/settings.json of the project")
    assert summarize(settings_directories.judge_all()["changing files here"]) == asked
    assert (
        summarize(settings_directories.judge_all(PermissionFlags(yes=True))["changing files here"])
        == asked
    )


@pytest.mark.parametrize(
    ("flags", "decision", "source"),
    [
        (PermissionFlags(yes=True), "allow", "-y"),
        (PermissionFlags(allow_writes=True), "allow", "--allow-writes"),
        (PermissionFlags(require_approval=True), "ask", "-a"),
        (PermissionFlags(require_approval=True, yes=True), "ask", "-a"),
    ],
)
def test_flags_are_named(
    settings_directories: SettingsDirectories, flags: PermissionFlags, decision: str, source: str
) -> None:
    judged = settings_directories.judge_all(flags)["changing files here"]
    assert (judged.decision, judged.source) == (decision, source)


@pytest.mark.contract("permissions:always")
def test_leave_to_edit_is_shown_as_what_it_is(settings_directories: SettingsDirectories) -> None:
    settings_directories.write_user_settings(alwaysAllowWriteProtected=True)
    found = settings_directories.judge_all(edits_granted=True)
    assert summarize(found["changing files here"]) == ("allow", WORKSPACE_EDITS_TEXT, "")
    assert found["changing protected files"].decision == "ask"
    assert found["changing files elsewhere"].decision == "ask"


def test_a_rule_that_could_not_be_kept_is_one_of_the_task(
    settings_directories: SettingsDirectories,
) -> None:
    found = settings_directories.judge_all(rule=PersistentRule("allowedCommands", "npm test"))
    assert summarize(found["commands `npm test`"]) == (
        "allow",
        "allowedCommands, for this task",
        "",
    )


def test_without_a_sandbox_no_rule_lets_a_command_run(
    settings_directories: SettingsDirectories,
) -> None:
    settings_directories.write_user_settings(alwaysAllowExecute=True, allowedCommands=["git"])
    assert settings_directories.judge_all(sandbox="none")["commands"].decision == "ask"
    assert settings_directories.judge_all(sandbox="off")["commands `git`"].decision == "allow"
    settings_directories.write_project_settings(sandbox="required")
    assert settings_directories.judge_all(sandbox="none")["commands"].decision == "deny"


def test_what_the_mode_keeps_from_the_model_is_refused(
    settings_directories: SettingsDirectories,
) -> None:
    (settings_directories.workspace / ".rooignore").write_text("secret\n", encoding="utf-8")
    found = settings_directories.judge_all(mode="architect")
    assert found["commands"].rule == "the mode architect does not have it"
    assert found["changing files here (Markdown files only)"].decision == "ask"
    assert summarize(found["hidden files"]) == ("deny", ".rooignore", "")


def test_tools_of_servers_run_unasked_where_a_list_names_them(
    settings_directories: SettingsDirectories,
) -> None:
    settings_directories.write_user_settings(alwaysAllowMcp=True, allowedMcpTools=["weather/*"])
    found = settings_directories.judge_all()
    own = "~/.roo/settings.json"
    assert summarize(found["MCP tools `weather/*`"]) == ("allow", "allowedMcpTools", own)
    listed = found["MCP tools in alwaysAllow of their server"]
    assert summarize(listed) == ("allow", "alwaysAllowMcp", own)
    assert found["other MCP tools"].decision == "ask"


@given(
    st.dictionaries(
        st.sampled_from(["autoApprovalEnabled", "alwaysAllowWrite", "alwaysAllowExecute"]),
        st.booleans(),
    ),
    st.dictionaries(st.sampled_from(["autoApprovalEnabled", "alwaysAllowWrite"]), st.just(False)),
    st.builds(
        PermissionFlags,
        yes=st.booleans(),
        require_approval=st.booleans(),
        allow_writes=st.booleans(),
    ),
)
@examples(max_examples=60)
def test_every_answer_names_where_it_comes_from(
    tmp_path_factory: pytest.TempPathFactory,
    own: dict[str, bool],
    project: dict[str, bool],
    flags: PermissionFlags,
) -> None:
    house = SettingsDirectories(tmp_path_factory.mktemp("house"))
    house.write_user_settings(**own)
    house.write_project_settings(**project)
    judged = house.judge_all(flags)["changing files here"]
    assert judged.source and judged.source != "for this task"
    if judged.source.startswith(".roo"):
        assert project
    if judged.source.startswith("~"):
        assert own
