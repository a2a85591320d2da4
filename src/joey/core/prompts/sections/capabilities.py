"""What can be done with the tools at hand; says nothing of tools that are not offered."""

from __future__ import annotations

from collections.abc import Iterator

_EDITING = frozenset(
    {
        "apply_diff",
        "apply_patch",
        "edit",
        "edit_file",
        "insert_content",
        "search_and_replace",
        "search_replace",
        "write_to_file",
    }
)


def can_edit(names: frozenset[str]) -> bool:
    return bool(names & _EDITING)


def capabilities(names: frozenset[str]) -> str:
    return "\n".join(["CAPABILITIES", "", *_abilities(names)])


def _abilities(names: frozenset[str]) -> Iterator[str]:
    yield (
        "- The first message of a task lists the files of the workspace, cut off when there are"
        " many. The names alone tell much about how a project is built; use them to choose where"
        " to look first."
    )
    if "list_files" in names:
        yield (
            "- list_files shows what is in a folder, recursively if you ask for it: for folders"
            " that the first list does not show."
        )
    if "codebase_search" in names:
        yield (
            "- codebase_search finds the places that are about something, from an index of the"
            " whole workspace: begin there when you do not know yet which names to look for."
        )
    if "search_files" in names:
        yield (
            "- search_files finds a regular expression across many files and shows the lines"
            " around each match: the quickest way to definitions, uses and similar code."
        )
    if can_edit(names):
        yield (
            "- You can change files. For a change in an existing file use a targeted edit; write"
            " a whole file only when it is new or changes nearly everywhere."
        )
    if "execute_command" in names:
        yield (
            "- execute_command runs anything the shell can: builds, tests, linters, version"
            " control, scripts. Commands cannot be given input once they run, so use flags that"
            " keep them from asking. What keeps running, such as a server, stays in the"
            " background and reports in environment_details."
        )
    if "update_todo_list" in names:
        yield (
            "- update_todo_list keeps a plan that the user sees. Use it when the work has several"
            " steps, and mark each step as you begin and end it."
        )
    if "new_task" in names:
        yield (
            "- new_task hands a piece of the work to a task of its own, which knows only what you"
            " write into its message."
        )
    if any(name.startswith("mcp--") for name in names):
        yield (
            "- Tools named mcp--server--tool come from servers that the user connected; each"
            " server says itself what its tools do."
        )
