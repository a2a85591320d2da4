"""Ports: the interfaces through which the engine and the tools use files, programs and services.

Each port is small. A static line in its adapter proves that the adapter fits
(``_fits: type[Files] = LocalFiles``).
"""

from joey.core.diagnostics import Diagnostic
from joey.core.file_state import FileChange, FileDiff, LeftFile
from joey.core.mcp import McpAnswer, McpResource, McpServer, McpTool
from joey.core.paths import Place
from joey.ports.content import (
    Browser,
    BrowserLook,
    BrowserStep,
    CodeAnswer,
    CodeHit,
    CodeIndex,
    Definition,
    Diagnostics,
    Documents,
    IndexState,
    Outlines,
    Pages,
)
from joey.ports.execution import (
    CommandEnd,
    ConfinedProcess,
    Level,
    RunningCommand,
    Sandbox,
    SandboxReport,
    ShellGrammar,
    Terminal,
)
from joey.ports.extensions import (
    Brought,
    Customizations,
    CustomToolInfo,
    CustomTools,
    Hooks,
    Mcp,
    ProjectHooks,
    Rulebook,
)
from joey.ports.model import Embedder, ImageMaker, Provider
from joey.ports.storage import Store, TaskLog, TaskMetadata
from joey.ports.tools import Capabilities, ToolContext
from joey.ports.workspace import (
    Boundary,
    Checkpoints,
    Clock,
    Environment,
    FileKind,
    Files,
    Listing,
    Repository,
    Search,
    SearchHit,
    SearchResult,
    Worktrees,
)

__all__ = [
    "Boundary",
    "Brought",
    "Browser",
    "BrowserLook",
    "BrowserStep",
    "Capabilities",
    "Checkpoints",
    "Clock",
    "CodeAnswer",
    "CodeHit",
    "CodeIndex",
    "CommandEnd",
    "ConfinedProcess",
    "CustomToolInfo",
    "CustomTools",
    "Customizations",
    "Definition",
    "Diagnostic",
    "Diagnostics",
    "Documents",
    "Embedder",
    "Environment",
    "FileChange",
    "FileDiff",
    "FileKind",
    "Files",
    "Hooks",
    "ImageMaker",
    "IndexState",
    "LeftFile",
    "Level",
    "Listing",
    "Mcp",
    "McpAnswer",
    "McpResource",
    "McpServer",
    "McpTool",
    "Outlines",
    "Pages",
    "Place",
    "ProjectHooks",
    "Provider",
    "Repository",
    "Rulebook",
    "RunningCommand",
    "Sandbox",
    "SandboxReport",
    "Search",
    "SearchHit",
    "SearchResult",
    "ShellGrammar",
    "Store",
    "TaskLog",
    "TaskMetadata",
    "Terminal",
    "ToolContext",
    "Worktrees",
]
