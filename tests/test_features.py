"""Optional features: each is imported from one place, and so can be removed there."""

from __future__ import annotations

import ast

import pytest

from tests.harness.source_modules import all_modules, imported_modules

FEATURES: dict[str, dict[str, str | None]] = {
    "browser": {
        "content.browser": "app.features",
        "tools.browser_action": "tools.registry",
    },
    "image generation": {
        "providers.image_generation": "app.features",
        "tools.generate_image": "tools.registry",
    },
    "custom tools": {
        "execution.custom_tools": "app.features",
        "execution.custom_tool_runner": None,
        "tools.custom_tool": "tools.registry",
    },
    "worktrees": {"workspace.git.worktrees": "app.features"},
    "code index": {
        "content.code_index": "app.task_runtime_factory",
        "content.blocking_code_index": None,
        "content.code_index_chunks": None,
        "content.code_index_embeddings": None,
        "content.code_index_store": None,
        "providers.embeddings": "app.features",
        "tools.codebase_search": "tools.registry",
    },
    "embeddings in the code index": {
        "content.code_index_embeddings": "content.code_index",
        "providers.embeddings": "app.features",
    },
    "egress proxy": {"execution.sandbox.network_proxy": "execution.sandbox.sandbox"},
    "permission report": {"cli.commands.permission_audit_report": "cli.commands.permissions"},
    "Roo's IPC": {
        "server.ipc": "cli.commands.serve",
        "server.ipc_protocol": None,
        "cli.headless.run_ipc": "cli.headless.run",
    },
}
"""The modules of each feature, and the one module outside of it that imports each; None where no
other does. Settings, rows and names on the wire are declared with all others."""


@pytest.mark.parametrize("feature", FEATURES)
def test_a_module_of_a_feature_is_imported_from_one_place(feature: str) -> None:
    modules = FEATURES[feature]
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for module in all_modules():
        for target in imported_modules(ast.walk(module.tree)):
            if target in modules and module.name not in modules:
                importers[target].add(module.name)
    assert importers == {name: {one} if one else set() for name, one in modules.items()}
