"""Ports: the interfaces through which the engine and the tools use files, programs and services.

Each port is small. A static line in its adapter proves that the adapter fits
(``_fits: type[Files] = LocalFiles``).
"""

from joey.core.diagnostics import Diagnostic
from joey.core.file_state import FileChange, FileDiff, LeftFile
from joey.core.mcp import McpResource, McpResult, McpServer, McpTool
from joey.core.path_access import ResolvedPath
from joey.ports.content import (
    Browser,
    BrowserObservation,
    BrowserStep,
    CodeIndex,
    CodeIndexState,
    CodeSearchHit,
    CodeSearchResult,
    Definition,
    Diagnostics,
    Documents,
    Outlines,
    PageFetcher,
    SchemaValidator,
)
from joey.ports.execution import (
    CommandExit,
    ConfinedProcess,
    RunningCommand,
    Sandbox,
    SandboxLevel,
    SandboxReport,
    ShellGrammar,
    Terminal,
)
from joey.ports.extensions import (
    Customizations,
    CustomToolInfo,
    CustomTools,
    FrontEndResources,
    Hooks,
    Mcp,
    ProjectHooks,
    RuleStore,
)
from joey.ports.model import Embedder, ImageGenerator, Provider
from joey.ports.storage import Store, TaskLog, TaskMetadata
from joey.ports.tool_context import Capabilities, ToolContext
from joey.ports.workspace import (
    Boundary,
    Checkpoints,
    Clock,
    Environment,
    Files,
    FileStat,
    Listing,
    Repository,
    Search,
    SearchHit,
    SearchResult,
    Worktrees,
)

__all__ = [
    "Boundary",
    "Browser",
    "BrowserObservation",
    "BrowserStep",
    "Capabilities",
    "Checkpoints",
    "Clock",
    "CodeIndex",
    "CodeIndexState",
    "CodeSearchHit",
    "CodeSearchResult",
    "CommandExit",
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
    "FileStat",
    "Files",
    "FrontEndResources",
    "Hooks",
    "ImageGenerator",
    "LeftFile",
    "Listing",
    "Mcp",
    "McpResource",
    "McpResult",
    "McpServer",
    "McpTool",
    "Outlines",
    "PageFetcher",
    "ProjectHooks",
    "Provider",
    "Repository",
    "ResolvedPath",
    "RuleStore",
    "RunningCommand",
    "Sandbox",
    "SandboxLevel",
    "SandboxReport",
    "SchemaValidator",
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
