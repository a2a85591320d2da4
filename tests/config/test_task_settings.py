"""Settings that a task was given, when it is opened again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from joey.config.settings import PRIVATE_KEYS, overlay_settings, resolve_reopened_settings
from joey.core.settings import Settings
from joey.errors import ConfigError

KEPT = frozenset(
    [
        "mode",
        "customInstructions",
        "language",
        "modeApiConfigs",
        "customModePrompts",
        "followupAutoApproveTimeoutMs",
        "consecutiveMistakeLimit",
        "preventCompletionWithOpenTodos",
        "confirmCompletion",
        "commandExecutionTimeout",
        "commandTimeoutAllowlist",
        "terminalOutputPreviewSize",
        "maxWorkspaceFiles",
        "maxConcurrentFileReads",
        "maxReadFileLine",
        "maxImageFileSize",
        "maxTotalImageSize",
        "includeCurrentTime",
        "includeCurrentCost",
        "todoListEnabled",
        "requestDelaySeconds",
        "maxRetries",
        "maxRetryWaitSeconds",
        "editTool",
        "codebaseIndexEnabled",
        "browserViewportSize",
        "embeddingProfile",
        "imageProfile",
        "useAgentRules",
        "enableSubfolderRules",
        "maxGitStatusFiles",
        "newTaskRequireTodos",
        "includeDiagnosticMessages",
        "maxDiagnosticMessages",
        "diagnosticsTimeoutSeconds",
        "enableCheckpoints",
        "checkpointTimeout",
        "autoCondenseContext",
        "autoCondenseContextPercent",
        "profileThresholds",
        "customCondensingPrompt",
        "condensingProfile",
        "modelCatalogUrl",
        "notifications",
        "recordRequests",
        "understandTextCalls",
    ]
)
"""What neither allows nor runs anything: the task keeps it as it was given."""
FIELDS = dict(zip(Settings.__struct_encode_fields__, Settings.__struct_fields__, strict=True))
SWITCHES = frozenset(
    name
    for name in Settings.__struct_encode_fields__
    if name.startswith("alwaysAllow")
    or name in ("autoApprovalEnabled", "mcpEnabled", "browserToolEnabled")
)
STRICTER: dict[str, tuple[Any, Any, Any]] = {
    **dict.fromkeys(SWITCHES, (False, True, False)),
    "allowedCommands": (("git", "npm test", "ls"), ("git status", "npm", "ls"), {"ls"}),
    "allowedMcpTools": (("a/one",), ("*",), {"a/one"}),
    "deniedCommands": (("rm",), ("dd",), {"rm", "dd"}),
    "disabledTools": (("one",), ("two",), {"one", "two"}),
    "allowedMaxRequests": (5, 50, 5),
    "allowedMaxCost": (None, 2.0, 2.0),
    "sandbox": ("auto", "off", "auto"),
    "sandboxNetwork": (("a.test",), "all", ("a.test",)),
    "sandboxReadable": (("/opt",), ("/opt", "/"), ("/opt",)),
    "sandboxWritable": ((), ("/",), ()),
    "sandboxMaxProcesses": (10, 0, 10),
    "sandboxMaxMemoryMb": (0, 5, 5),
    "sandboxMaxFileMb": (7, 9, 7),
    "sandboxMaxCpuSeconds": (3, 2, 2),
}
"""By the setting: what the user has, what the task was given, and what counts."""


def test_every_setting_is_either_kept_or_tightened_or_private() -> None:
    known = set(Settings.__struct_encode_fields__)
    groups = (KEPT, PRIVATE_KEYS, frozenset(STRICTER))
    assert known == frozenset().union(*groups)
    assert len(known) == sum(map(len, groups))


@pytest.mark.parametrize("name", sorted(STRICTER))
def test_the_stricter_of_both_counts(name: str) -> None:
    user, task, expected = STRICTER[name]
    for own, given in ((user, task), (task, user)):
        settings = resolve_reopened_settings(
            msgspec.convert({name: own}, Settings), {name: given}, {}
        )
        found = getattr(settings, FIELDS[name])
        assert (set(found) if isinstance(expected, set) else found) == expected


def test_programs_named_in_a_task_directory_are_not_run() -> None:
    user = Settings(diagnostic_checkers={"*.py": "mine"})
    given = {"diagnosticCheckers": {"*.py": "theirs"}, "language": "French"}
    settings = resolve_reopened_settings(user, given, {})
    assert (settings.diagnostic_checkers, settings.language) == ({"*.py": "mine"}, "French")
    own = resolve_reopened_settings(user, {}, {"diagnosticCheckers": {"*.py": "given here"}})
    assert own.diagnostic_checkers == {"*.py": "given here"}


def test_a_value_that_does_not_fit_is_named() -> None:
    with pytest.raises(ConfigError, match="alwaysAllowWrite"):
        resolve_reopened_settings(Settings(), {"alwaysAllowWrite": "perhaps"}, {})


@pytest.mark.parametrize(
    "rule", ["rm -f z", "sudo  rm -rf x", "/bin/rm -f z", "git push origin", "Git  push -f"]
)
def test_a_longer_rule_of_a_task_does_not_beat_a_denial_of_the_user(rule: str) -> None:
    user = Settings(allowed_commands=("*",), denied_commands=("rm", "git push"))
    given = {"allowedCommands": [rule, "npm run format"]}
    assert overlay_settings(user, given).allowed_commands == ("npm run format",)
    assert resolve_reopened_settings(user, given, {}).allowed_commands == ("npm run format",)
    own = Settings(allowed_commands=(rule,), denied_commands=("rm", "git push"))
    assert overlay_settings(own, given).allowed_commands == (rule, "npm run format")
