"""Names of tools and parameters as models write them, and the ones that are meant.

An existing name is used unchanged. Others are compared ignoring case, `-`, `_`, camelCase, the
prefixes of some templates and stray template tokens. Then synonyms used by other agents count, for
tools (`bash`, `Read`, `str_replace`) and for parameters (`cmd`, `file_path`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from msgspec import Struct

from joey.core.text import compile_regex


class KnownTool(Struct, frozen=True):
    """A tool, as far as parsers need to know it."""

    name: str
    parameters: frozenset[str]
    """Everything that its arguments may hold; empty when that is not known."""
    bare_parameter: str | None = None
    """The one parameter that it needs: text without a parameter is that."""
    is_callable: bool = True
    """The mode and the settings of the task let the model use it."""
    find_problem: Callable[[dict[str, Any]], str | None] = lambda arguments: None
    """Why these arguments cannot be used."""


_TEMPLATE_TOKEN_RE = compile_regex(r"<\|[^|<>]{0,40}\|>|<｜[^｜<>]{0,40}｜>|<\|[\w▁]*$")
_DECORATION_RE = compile_regex(r"^[\s\"'`*<\[(]+|[\s\"'`*>\]):;,.(]+$")
_PREFIX_RE = compile_regex(
    r"^(?:functions?|tools?|default_api|api|namespace|multi_tool_use|tool_name|assistant)\s*[.:/]+\s*"
)
_COUNTER_RE = compile_regex(r":\d{1,4}$")


def fold_name(name: str) -> str:
    """Fold a name: `ReadFile`, `read-file` and `READ_FILE` all become `readfile`."""
    return "".join(character for character in name if character.isalnum()).lower()


class ToolNames:
    """The tools of a task, found under any name that a model uses."""

    def __init__(self, tools: Iterable[KnownTool]) -> None:
        self.by_name = {tool.name: tool for tool in tools}
        self._by_folded_name: dict[str, list[KnownTool]] = {}
        for tool in self.by_name.values():
            self._by_folded_name.setdefault(fold_name(tool.name), []).append(tool)
        self._parameters = frozenset[str]().union(
            *(tool.parameters for tool in self.by_name.values())
        )

    def is_parameter(self, name: str) -> bool:
        """Whether any tool has a parameter of this name."""
        return find_parameter(self._parameters, name) is not None

    def find(self, name: str) -> KnownTool | None:
        """Find the tool that `name` clearly means; None if there is none, or more than one."""
        if name in self.by_name:
            return self.by_name[name]
        for written in _iter_cleaned_names(name):
            if written in self.by_name:
                return self.by_name[written]
            folded = fold_name(written)
            same = self._by_folded_name.get(folded, ())
            if same:
                return same[0] if len(same) == 1 else None
            meant = (self.by_name.get(known) for known in _get_tools_by_synonym().get(folded, ()))
            known = [tool for tool in meant if tool is not None]
            if known:
                return next((tool for tool in known if tool.is_callable), known[0])
        return None


def _iter_cleaned_names(name: str) -> Iterable[str]:
    name = _TEMPLATE_TOKEN_RE.sub("\0", name).strip("\0").partition("\0")[0]
    cleaned = _COUNTER_RE.sub("", _DECORATION_RE.sub("", name))
    yield cleaned
    while (shorter := _PREFIX_RE.sub("", cleaned)) != cleaned:
        cleaned = shorter
        yield cleaned


def is_markup_name(name: str) -> bool:
    """Whether a tag of this name is more likely to be markup than a call of the tool it may
    mean."""
    return fold_name(name) in _MARKUP_NAMES


def rename_parameters(tool: KnownTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the arguments to the tool's parameter names; unknown ones stay unchanged.

    A parameter that is given under its own name is never replaced.
    """
    renamed: dict[str, Any] = {}
    for written, value in arguments.items():
        meant = find_parameter(tool.parameters, written)
        if meant is None or (meant != written and (meant in arguments or meant in renamed)):
            meant = written
        renamed[meant] = value
    return renamed


@lru_cache(maxsize=1024)
def find_parameter(parameters: frozenset[str], written: str) -> str | None:
    """Find the parameter that `written` clearly means."""
    if written in parameters:
        return written
    folded = fold_name(written)
    same = [parameter for parameter in parameters if fold_name(parameter) == folded]
    if same:
        return min(same)
    meant = _get_parameters_by_synonym().get(folded, ())
    return next((parameter for parameter in meant if parameter in parameters), None)


@lru_cache(maxsize=128)
def list_parameter_spellings(parameters: frozenset[str]) -> frozenset[str]:
    """List every spelling of a parameter, for parsers that must know them in advance."""
    synonyms = {word for line in _PARAMETER_SYNONYMS.values() for word in line.split()}
    names = parameters | {word for word in synonyms if find_parameter(parameters, word) is not None}
    return names.union(*map(_list_spellings, names))


def _list_spellings(name: str) -> set[str]:
    """List spellings: `file_path`, `filePath`, `FilePath`, `File_Path`, `file-path`,
    `FILE_PATH`."""
    pascal = name.title().replace("_", "")
    return {
        *(pascal, pascal[:1].lower() + pascal[1:], name.title(), name.upper()),
        name.replace("_", "-"),
    }


_MARKUP_NAMES: Collection[str] = {
    *("ask", "complete", "completion", "create", "dir", "done", "exec", "execute", "find"),
    *("finish", "list", "open", "patch", "replace", "run", "search", "shell", "submit", "task"),
    *("terminal", "todo", "view"),
}
_TOOL_SYNONYMS: Mapping[str, str] = {
    "execute_command": "bash shell sh run exec terminal run_command run_shell_command run_bash"
    " run_terminal_cmd run_terminal_command run_in_terminal execute_bash execute_shell execute"
    " bash_command shell_command local_shell shell_exec execute_shell_command run_cmd exec_command"
    " run_bash_command",
    "read_file": "read view view_file cat open_file open read_files get_file_content file_read"
    " read_file_content show_file",
    "write_to_file": "write create create_file write_file save_file new_file create_new_file"
    " file_write write_file_content",
    "search_files": "grep search rg ripgrep grep_search search_file search_code find_in_files"
    " search_text file_search search_file_content grep_files search_in_files",
    "list_files": "ls list_dir list_directory list dir list_file glob find_files find glob_files"
    " list_files_recursive find_by_name glob_search",
    "edit": "str_replace str_replace_editor str_replace_based_edit_tool replace_in_file replace"
    " string_replace replace_string_in_file replace_text modify_file",
    "apply_patch": "patch",
    "attempt_completion": "finish done complete completion final_answer task_complete submit"
    " complete_task task_done attempt_complete finish_task",
    "ask_followup_question": "ask ask_user ask_question ask_followup ask_user_question",
    "update_todo_list": "todo_write update_todos todo todo_list update_plan set_todos write_todos",
    "new_task": "task delegate subtask spawn_task",
    "codebase_search": "semantic_search search_codebase",
    "switch_mode": "change_mode set_mode",
    "list_code_definition_names": "list_symbols list_definitions list_code_definitions",
    "use_mcp_tool": "mcp_tool call_mcp_tool",
}
_PARAMETER_SYNONYMS: Mapping[str, str] = {
    "path": "file_path filepath filename file_name file target_file absolute_path relative_path"
    " target directory dir folder directory_path dir_path folder_path relative_workspace_path"
    " target_path target_directory",
    "file_path": "path filepath filename file_name file target_file absolute_path relative_path"
    " target",
    "files": "paths file_paths filepaths filenames",
    "command": "cmd script shell_command bash_command command_line",
    "cwd": "workdir working_directory work_dir directory dir working_dir",
    "regex": "pattern query search regexp expression search_pattern search_term search_query text",
    "glob": "pattern glob_pattern file_pattern",
    "file_pattern": "include glob file_glob includes include_pattern glob_pattern file_type",
    "content": "contents file_text text file_content code data body new_content",
    "old_string": "old_str old_text search old find old_content search_string original",
    "new_string": "new_str new_text replace replacement new new_content replace_string"
    " replace_with",
    "result": "answer summary message text output final_answer response completion content",
    "question": "query text message prompt",
    "follow_up": "suggestions options choices suggest answers",
    "query": "q question search text search_query pattern",
    "message": "prompt task instructions description content",
    "mode_slug": "mode slug target_mode",
    "mode": "mode_slug slug agent subagent_type",
    "recursive": "recurse recursively",
    "todos": "todo items list plan tasks todo_list",
    "patch": "diff input patch_text",
    "diff": "patch changes edits",
    "timeout": "timeout_seconds timeout_s seconds",
    "artifact_id": "id artifact command_id",
}


@cache
def _get_tools_by_synonym() -> Mapping[str, tuple[str, ...]]:
    return _invert(_TOOL_SYNONYMS)


@cache
def _get_parameters_by_synonym() -> Mapping[str, tuple[str, ...]]:
    return _invert(_PARAMETER_SYNONYMS)


def _invert(synonyms: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Map each folded synonym to the names that it may mean, in table order."""
    names: dict[str, tuple[str, ...]] = {}
    for name, line in synonyms.items():
        for word in line.split():
            names[fold_name(word)] = (*names.get(fold_name(word), ()), name)
    return names
