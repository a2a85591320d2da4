"""What was decided in earlier tasks, and what other rules would decide now.

Journals are read. Nothing is run, and nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.app.opening import open_store
from joey.app.permissions import Explainer, Explanation, Flags, refused
from joey.core.permissions.audit import Judged, Recorded, recorded
from joey.core.permissions.policy import Access, Claim
from joey.errors import StoreError, ToolError, UserError
from joey.ports import Store, TaskMetadata
from joey.tools.registry import Registry, default_tools, paths_in

_PLAIN = {
    "switch_mode": Access.SWITCH_MODE,
    "new_task": Access.DELEGATE,
    "attempt_completion": Access.DELEGATE,
    "browser_action": Access.BROWSER,
    "fetch_instructions": Access.GUIDANCE,
    "run_slash_command": Access.GUIDANCE,
    "skill": Access.GUIDANCE,
}
"""Tools about which the switches alone decide."""
_READS = frozenset({"read_file", "list_files", "search_files", "list_code_definition_names"})
_READS |= {"codebase_search"}
_EDITS = frozenset({"apply_diff", "apply_patch", "edit", "edit_file", "generate_image"})
_EDITS |= {"insert_content", "search_replace", "write_to_file"}


class TaskReport(Struct, frozen=True):
    id: str
    title: str
    workspace: str
    calls: tuple[Judged, ...] = ()
    problem: str = ""
    """Why its journal could not be read."""


class Difference(Struct, frozen=True):
    task: str
    call: Judged
    now: Explanation


class Comparison(Struct, frozen=True):
    """What other rules would decide about the calls of some tasks."""

    judged: int
    differences: tuple[Difference, ...]
    left_out: int
    """Calls that cannot be decided about without making them."""


class Audit:
    def __init__(self, home: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._env = os.environ if env is None else env
        self._home = home
        self._store: Store = open_store(home, self._env)
        self._names = Registry(default_tools())
        self._explainers: dict[tuple[str, str], Explainer | None] = {}

    def latest(self, count: int, workspace: Path | None = None) -> list[TaskMetadata]:
        tasks = self._store.list()
        place = None if workspace is None else str(workspace)
        return [task for task in tasks if place in (None, task.workspace)][:count]

    def starting(self, start: str) -> list[TaskMetadata]:
        """Tasks whose id begins like this."""
        start = start.removeprefix("task_")
        return [task for task in self._store.list() if start and task.id.startswith(start)]

    def ids(self) -> Sequence[str]:
        return self._store.ids()

    def report(self, tasks: Sequence[TaskMetadata]) -> Iterator[TaskReport]:
        for task in tasks:
            calls, problem = self._calls(task)
            judged = tuple(each.judged for each in calls)
            yield TaskReport(task.id, task.title, task.workspace, judged, problem)

    async def compare(self, tasks: Sequence[TaskMetadata], flags: Flags) -> Comparison:
        differences: list[Difference] = []
        judged = left_out = 0
        for task in tasks:
            for each in self._calls(task)[0]:
                now = await self._decide(each, task.workspace, flags)
                if now is None:
                    left_out += 1
                    continue
                judged += 1
                if now.decision != each.judged.decision:
                    differences.append(Difference(task.id, each.judged, now))
        return Comparison(judged, tuple(differences), left_out)

    def _calls(self, task: TaskMetadata) -> tuple[list[Recorded], str]:
        try:
            return recorded(self._store.read(task.id)), ""
        except StoreError as error:
            return [], str(error)

    async def _decide(self, each: Recorded, workspace: str, flags: Flags) -> Explanation | None:
        explainer = self._explainer(workspace, each.judged.mode, flags)
        if explainer is None:
            return None
        if each.judged.tool == "execute_command":
            return await explainer.command(each.judged.about, _folder(each))
        try:
            claims = self._claims(each, explainer)
        except ToolError as error:
            return refused(error)
        return explainer.judge(claims) if claims else None

    def _claims(self, each: Recorded, explainer: Explainer) -> tuple[Claim, ...]:
        """Raises ToolError."""
        name, subject = self._tool(each.judged.tool), each.judged.about
        if name in _PLAIN:
            return (Claim(_PLAIN[name], subject=subject),)
        if name in _READS or name in _EDITS:
            access = Access.READ if name in _READS else Access.WRITE
            paths = dict.fromkeys(paths_in(each.call.input)) or {each.judged.path or ".": None}
            return tuple(Claim(access, place=explainer.place(path)) for path in paths)
        return _foreign(each)

    def _tool(self, name: str) -> str:
        try:
            return self._names.find(name).name
        except ToolError:
            return name  # of a server, or the person's own

    def _explainer(self, workspace: str, mode: str, flags: Flags) -> Explainer | None:
        """None where the folder is gone, or cannot be looked at."""
        key = (workspace, mode)
        if key not in self._explainers:
            try:
                made = Explainer(Path(workspace), flags, self._home, self._env, mode or None)
                self._explainers[key] = made
            except UserError:
                self._explainers[key] = None
        return self._explainers[key]


def _foreign(each: Recorded) -> tuple[Claim, ...]:
    """Tools of servers, and of the person's own."""
    try:
        row = msgspec.json.decode(each.row or "{}")
    except msgspec.DecodeError:
        return ()
    kind = (row.get("type") or row.get("tool")) if isinstance(row, dict) else None
    if kind in ("use_mcp_tool", "access_mcp_resource"):
        # Whether its server had it on a list is not recorded; what ran by a rule had leave.
        listed = kind == "access_mcp_resource" or each.judged.decision == "allow"
        return (Claim(Access.MCP, subject=each.judged.about, listed=listed),)
    if kind == "customTool":
        return (Claim(Access.CUSTOM_TOOL, subject=f"the custom tool {each.judged.tool}"),)
    return ()


def _folder(each: Recorded) -> str | None:
    folder = each.call.input.get("cwd")
    return folder if isinstance(folder, str) else None
