"""What the engine and the tools need from the world. Adapters live beside the engine, not under it.

Each port is small and is proven to fit by a static line in its adapter
(``_fits: type[Files] = LocalFiles``).
"""

from joey.core.file_changes import FileChange, FileDiff, LeftFile
from joey.core.mcp import McpAnswer, McpResource, McpServer, McpTool
from joey.core.places import Place
from joey.core.problems import Problem
from joey.ports.brought import Brought
from joey.ports.browser import Browser, BrowserLook, BrowserStep
from joey.ports.checkpoints import Checkpoints
from joey.ports.commands import CommandEnd, RunningCommand, Terminal
from joey.ports.custom_tools import CustomToolInfo, CustomTools
from joey.ports.customs import Customs
from joey.ports.environment import Environment
from joey.ports.files import Boundary, FileKind, Files, Listing, Search, SearchHit, SearchResult
from joey.ports.hooks import Hooks, ProjectHooks
from joey.ports.images import ImageMaker
from joey.ports.knowledge import (
    CodeAnswer,
    CodeHit,
    CodeIndex,
    Definition,
    Documents,
    Embedder,
    IndexState,
    Outlines,
    Problems,
)
from joey.ports.mcp import Mcp
from joey.ports.model import Clock, Provider
from joey.ports.pages import Pages
from joey.ports.repository import Repository
from joey.ports.rulebook import Rulebook
from joey.ports.sandbox import Leash, Level, Sandbox, SandboxReport
from joey.ports.shell import ShellGrammar
from joey.ports.tasks import Store, TaskLog, TaskMetadata
from joey.ports.tools import Extras, ToolContext
from joey.ports.worktrees import Worktrees

__all__ = [
    "Boundary",
    "Brought",
    "Browser",
    "BrowserLook",
    "BrowserStep",
    "Checkpoints",
    "Clock",
    "CodeAnswer",
    "CodeHit",
    "CodeIndex",
    "CommandEnd",
    "CustomToolInfo",
    "CustomTools",
    "Customs",
    "Definition",
    "Documents",
    "Embedder",
    "Environment",
    "Extras",
    "FileChange",
    "FileDiff",
    "FileKind",
    "Files",
    "Hooks",
    "ImageMaker",
    "IndexState",
    "Leash",
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
    "Problem",
    "Problems",
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
