"""One good call of every tool, what it is answered with, and calls that fail in all its ways.

`test_every_tool.py` makes each of them in both protocols; `tests/test_tool_table.py` prints what is
said here into docs/tools.md. The ids that a tool's examples show are its `contract_ids`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from joey.core.models import ToolProtocol
from joey.core.task_types import AskKind
from joey.testing.script import Call, call
from tests.harness.tools.tool_workspace import SHOP_SOURCE

ARTIFACT = "ARTIFACT"
"""Stands for the kept output of the command that ran last."""
ROOT = "ROOT"
"""Stands for the path of the workspace."""
BOTH = frozenset(ToolProtocol)
FACETS = ("schema", "native", "xml", "approval", "success", "failure")

READ = "alwaysAllowReadOnly"
WRITE = "alwaysAllowWrite"
EXECUTE = "alwaysAllowExecute"
MCP = "alwaysAllowMcp"
ANY = "autoApprovalEnabled"
ALWAYS = "always"
"""Asked whatever the settings say."""

Arguments = dict[str, Any]


class Failure(Struct, frozen=True):
    name: str
    arguments: Arguments
    expected_text: str
    """A part of what the model is told."""
    settings: dict[str, Any] = {}
    earlier_calls: tuple[Call, ...] = ()
    later_calls: tuple[Call, ...] = ()
    """Calls without which the task would not end."""
    change_workspace: Callable[[Path], object] | None = None
    """What somebody else does in the workspace before the call."""
    without_capabilities: bool = False
    """Without what the tool needs beside the workspace."""


class Example(Struct, frozen=True):
    kind: str
    """The tool, or the sort of tools that others bring along."""
    arguments: Arguments
    row: Arguments | str
    """A part of the row's JSON; or its text, when that is no JSON."""
    result: str
    """A part of what the model is told."""
    failures: tuple[Failure, ...]
    required_setting: str | None
    """The setting without which a user is asked; None: nobody ever is."""
    ask: AskKind = AskKind.TOOL
    xml: str | None = None
    """The call as it is written in XML, where that is more than a tag for each argument."""
    xml_result: str | None = None
    """What is told in XML, where that is something else."""
    name: str = ""
    settings: dict[str, Any] = {}
    """Without which it is not offered."""
    offered_protocols: frozenset[ToolProtocol] = BOTH
    earlier_calls: tuple[Call, ...] = ()
    later_calls: tuple[Call, ...] = ()
    expected_files: dict[str, bytes] = {}
    optional_parameters: tuple[str, ...] = ()
    """Required parameters whose absence has a meaning."""

    @property
    def tool_name(self) -> str:
        return self.name or self.kind

    @property
    def contract_ids(self) -> Iterator[str]:
        """`tool:NAME:FACET` for all that it is an example of."""
        for facet in FACETS[:-1]:
            yield f"tool:{self.kind}:{facet}"
        for failure in self.failures:
            yield f"tool:{self.kind}:failure:{failure.name}"


def as_xml(name: str, arguments: Arguments) -> str:
    """A tag for each argument that is not null, or for each text of a list; the rest is JSON."""
    tags = (
        f"<{key}>{item if isinstance(item, str) else json.dumps(item)}</{key}>\n"
        for key, value in arguments.items()
        for item in (value if _is_texts(value) else [value])
        if item is not None
    )
    return f"<{name}>\n{''.join(tags)}</{name}>"


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _missing_parameter(arguments: Arguments, parameter: str) -> Failure:
    left = {key: value for key, value in arguments.items() if key != parameter}
    return Failure("missing", left, f"Missing value for required parameter '{parameter}'")


def _hidden_file(arguments: Arguments, parameter: str = "path") -> Failure:
    """The same call for a file that `.rooignore` hides."""
    return Failure("hidden", {**arguments, parameter: "secret.txt"}, "secret.txt is hidden")


def _lines(first: int, last: int) -> Arguments:
    return {"files": [{"path": "shop.py", "line_ranges": [[first, last]]}]}


def _patch(*lines: str) -> Arguments:
    return {"patch": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


def _remove(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).unlink()


def _change(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text("other words\n")


READ_SHOP = call("read_file", {"files": [{"path": "shop.py"}]})
VERBOSE_COMMAND = call("execute_command", {"command": "seq 1 20000"})
NEW_SHOP = SHOP_SOURCE.replace("prices = [1, 2]", "prices = [3]").encode()
DIFF = "<<<<<<< SEARCH\n        prices = [1, 2]\n=======\n        prices = [3]\n>>>>>>> REPLACE"
PATCH = """\
*** Begin Patch
*** Update File: shop.py
@@ class Shop:
     def total(self):
-        prices = [1, 2]
+        prices = [3]
*** End Patch"""
MOVE = ("*** Update File: shop.py", "*** Move to: twice.txt")
OLD_PRICES, NEW_PRICES = "prices = [1, 2]", "prices = [3]"
QUOTE = {"file_path": "shop.py", "old_string": OLD_PRICES, "new_string": NEW_PRICES}
TWICE = {"file_path": "twice.txt", "old_string": "same", "new_string": "other"}
MODIFIED = "Changed "
EDITED = {"tool": "appliedDiff", "path": "shop.py", "diffStats": {"added": 1, "removed": 1}}


def _edit_example(kind: str, *more: Failure) -> Example:
    """A tool that replaces a quoted text."""
    return Example(
        kind,
        QUOTE,
        EDITED,
        MODIFIED,
        (
            _missing_parameter(QUOTE, "new_string"),
            _hidden_file(QUOTE, "file_path"),
            Failure("no-match", {**QUOTE, "old_string": "nowhere"}, "No match found"),
            Failure("no-file", {**QUOTE, "file_path": "none.py"}, "none.py"),
            Failure("binary", {**QUOTE, "file_path": "photo.png"}, "photo.png is a binary file"),
            Failure("folder", {**QUOTE, "file_path": "docs"}, "docs is a directory"),
            Failure("identical", {**QUOTE, "new_string": OLD_PRICES}, "are identical"),
            *more,
        ),
        WRITE,
        settings={"edit_tool": kind},
        expected_files={"shop.py": NEW_SHOP},
        optional_parameters=("old_string",) if kind == "edit_file" else (),
    )


def _reading_examples() -> Iterator[Example]:
    no_block = {"anchor_line": None, "max_levels": None}
    files = {"files": [{"path": "shop.py", "line_ranges": [[1, 2]], **no_block}]}
    around = {"path": "shop.py", "indentation": {"anchor_line": 0}}
    unclear = {"path": ["shop.py", "twice.txt"], "start_line": 1, "end_line": 2}
    yield Example(
        "read_file",
        files,
        {"tool": "readFile", "path": "shop.py", "reason": "lines 1-2"},
        "File: shop.py\nLines 1-2:\n1 | class Shop:",
        (
            Failure("missing", {}, "Missing value for required parameter"),
            Failure("hidden", {"files": [{"path": "secret.txt"}]}, "secret.txt is hidden"),
            Failure("no-file", {"files": [{"path": "none.py"}]}, "File not found"),
            Failure("folder", {"files": [{"path": "docs"}]}, "docs is a directory"),
            Failure("wrong-kind", {"files": [5]}, "must be a list in which each item is an object"),
            Failure("bad-lines", {"files": [around]}, "Lines are 1-indexed"),
            Failure("bad-range", _lines(4, 2), "Invalid line range 4-2"),
            Failure("past-the-end", _lines(8, 9), "begins after the end of the file"),
            Failure("unclear-lines", unclear, "It is not clear to which of several paths"),
        ),
        READ,
        xml="<read_file>\n<args>\n<file>\n<path>shop.py</path>\n<line_range>1-2</line_range>\n"
        "</file>\n</args>\n</read_file>",
        xml_result='<file><path>shop.py</path>\n<content lines="1-2">\n1 | class Shop:',
    )
    search = {"path": ".", "regex": "def (total)", "file_pattern": "*.py"}
    yield Example(
        "search_files",
        search,
        {"tool": "searchFiles", "path": ".", "regex": "def (total)", "filePattern": "*.py"},
        "Found 1 matching line.\n\n# shop.py\n   1 | class Shop:\n>  2 |     def total(self):",
        (
            _missing_parameter(search, "regex"),
            _hidden_file(search),
            Failure("no-folder", {**search, "path": "none"}, "none"),
            Failure("bad-regex", {**search, "regex": "("}, "regex"),
        ),
        READ,
    )
    directory = {"path": "docs", "recursive": False, "glob": None}
    yield Example(
        "list_files",
        directory,
        {"tool": "listFilesTopLevel", "path": "docs", "content": "plan.md"},
        "plan.md",
        (
            _missing_parameter(directory, "path"),
            _hidden_file(directory),
            Failure("no-folder", {"path": "none"}, "none"),
        ),
        READ,
    )
    code = {"path": "shop.py"}
    yield Example(
        "list_code_definition_names",
        code,
        {"tool": "listCodeDefinitionNames", "path": "shop.py"},
        "# shop.py\n1--4 | class Shop:",
        (
            _missing_parameter(code, "path"),
            _hidden_file(code),
            Failure("no-file", {"path": "none.py"}, "does not exist"),
            Failure("no-parser", code, "cannot be listed here", without_capabilities=True),
        ),
        READ,
    )
    about = {"query": "total prices", "path": None}
    yield Example(
        "codebase_search",
        about,
        {"tool": "codebaseSearch", "query": "total prices"},
        "Query: total prices\nResults:\n\nFile path: shop.py\n",
        (
            _missing_parameter(about, "query"),
            _hidden_file(about),
            Failure("outside", {**about, "path": ".."}, "outside of the workspace"),
            Failure("no-index", about, "There is no code index here", without_capabilities=True),
        ),
        READ,
    )
    mode = {"task": "create_mode"}
    yield Example(
        "fetch_instructions",
        mode,
        {"tool": "fetchInstructions", "content": "create_mode"},
        ".roomodes",
        (
            _missing_parameter(mode, "task"),
            Failure("unknown", {"task": "create_joy"}, "not 'create_joy'"),
        ),
        READ,
    )


def _editing_examples() -> Iterator[Example]:
    diff = {"path": "shop.py", "diff": DIFF}
    yield Example(
        "apply_diff",
        diff,
        {**EDITED, "diff": DIFF},
        MODIFIED,
        (
            _missing_parameter(diff, "diff"),
            _hidden_file(diff),
            Failure("no-file", {**diff, "path": "none.py"}, "File does not exist at path"),
            Failure("binary", {**diff, "path": "photo.png"}, "photo.png is a binary file"),
            Failure("folder", {**diff, "path": "docs"}, "docs is a directory"),
            Failure("no-match", {**diff, "path": "twice.txt"}, "Unable to apply diff to file"),
            Failure("format", {**diff, "diff": "prices = [3]"}, "Unable to apply diff to file"),
        ),
        WRITE,
        expected_files={"shop.py": NEW_SHOP},
    )
    patch = {"patch": PATCH}
    yield Example(
        "apply_patch",
        patch,
        EDITED,
        MODIFIED,
        (
            _missing_parameter(patch, "patch"),
            Failure("hidden", {"patch": PATCH.replace("shop.py", "secret.txt")}, "is hidden"),
            Failure("bad-format", {"patch": "prices = [3]"}, "Invalid patch format"),
            Failure("no-file", {"patch": PATCH.replace("shop", "none")}, "nothing was written"),
            Failure("miss", {"patch": PATCH.replace("total", "count")}, "nothing was written"),
            Failure("empty", _patch(), "No file operations found"),
            Failure("exists", _patch("*** Add File: shop.py", "+x"), "the file exists already"),
            Failure("taken", _patch(*MOVE), "where there is a file"),
            Failure("binary", {"patch": PATCH.replace("shop.py", "photo.png")}, "a binary file"),
            Failure("folder", {"patch": PATCH.replace("shop.py", "docs")}, "docs is a directory"),
            Failure(
                "changed-by-others",
                _patch("*** Delete File: shop.py"),
                "was changed by the user or by a command",
                earlier_calls=(READ_SHOP,),
                change_workspace=_change("shop.py"),
            ),
        ),
        WRITE,
        settings={"edit_tool": "apply_patch"},
        expected_files={"shop.py": NEW_SHOP},
    )
    empty = {"path": "shop.py", "operations": [{"search": "", "replace": "x"}]}
    nowhere = {"path": "shop.py", "operations": [{"search": "nowhere", "replace": "x"}]}
    expression = {"path": "shop.py", "search": "(", "replace": "", "use_regex": "true"}
    yield _edit_example(
        "edit",
        Failure("several-matches", TWICE, "Found 2 matches for old_string"),
        Failure("bad-operation", empty, "Operation 1 of edit has an empty 'search'"),
        Failure("no-operation-fits", nowhere, "Operation 1: No match found for search"),
        Failure("bad-expression", expression, "is not a regular expression"),
    )
    yield _edit_example(
        "search_replace", Failure("several-matches", TWICE, "Found 2 matches for old_string")
    )
    yield _edit_example(
        "edit_file",
        Failure("count", TWICE, "Occurrence count mismatch"),
        Failure("bad-count", {**QUOTE, "expected_replacements": 0}, "expected_replacements"),
        Failure("exists", {**QUOTE, "old_string": ""}, "File already exists"),
    )
    write = {"path": "new/notes.txt", "content": "one\n"}
    over = {"path": "shop.py", "content": "pass\n"}
    yield Example(
        "write_to_file",
        write,
        {"tool": "newFileCreated", "path": "new/notes.txt"},
        "Created ",
        (
            _missing_parameter(write, "content"),
            _hidden_file(write),
            Failure("folder", {**write, "path": "docs"}, "docs is a directory"),
            Failure(
                "changed-by-others",
                over,
                "was changed by the user or by a command",
                earlier_calls=(READ_SHOP,),
                change_workspace=_change("shop.py"),
            ),
        ),
        WRITE,
        xml="<write_to_file>\n<path>new/notes.txt</path>\n<content>\none\n\n</content>\n"
        "</write_to_file>",
        expected_files={"new/notes.txt": b"one\n"},
    )
    paint = {"prompt": "a ship", "path": "ship.png", "image": "photo.png"}
    yield Example(
        "generate_image",
        paint,
        {"tool": "generateImage", "path": "ship.png", "inputImage": "photo.png"},
        "The picture is in ship.png.",
        (
            _missing_parameter(paint, "prompt"),
            _hidden_file(paint),
            Failure(
                "no-model", paint, "No model for pictures is configured", without_capabilities=True
            ),
            Failure("not-a-picture", {**paint, "image": "shop.py"}, "not a picture"),
            Failure("unknown-kind", {**paint, "image": "fake.png"}, "of a kind that is known"),
            Failure("too-big", paint, "too large", {"max_image_file_size": 0}),
            Failure("no-picture", {**paint, "image": "none.png"}, "There is no picture none.png"),
            Failure("refused", {**paint, "prompt": "a dragon"}, "no dragons"),
        ),
        WRITE,
    )
    insert = {"path": "twice.txt", "line": 2, "content": "between"}
    yield Example(
        "insert_content",
        insert,
        {"tool": "insertContent", "path": "twice.txt", "lineNumber": 2},
        MODIFIED,
        (
            _missing_parameter(insert, "line"),
            _hidden_file(insert),
            Failure("bad-line", {**insert, "line": -1}, "-1 is no line"),
            Failure("past-the-end", {**insert, "line": 9}, "twice.txt has 2 lines"),
            Failure("no-file", {**insert, "path": "none.txt"}, "none.txt does not exist"),
            Failure("binary", {**insert, "path": "photo.png"}, "photo.png is a binary file"),
            Failure("folder", {**insert, "path": "docs"}, "docs is a directory"),
            Failure(
                "changed-by-others",
                {**insert, "path": "shop.py"},
                "was changed by the user or by a command",
                earlier_calls=(READ_SHOP,),
                change_workspace=_change("shop.py"),
            ),
        ),
        WRITE,
        offered_protocols=frozenset(),
        expected_files={"twice.txt": b"same\nbetween\nsame\n"},
    )


def _command_examples() -> Iterator[Example]:
    command = {"command": "echo hello; exit 3", "cwd": "docs", "timeout": 60}
    yield Example(
        "execute_command",
        command,
        "echo hello; exit 3",
        "Output:\nhello",
        (
            _missing_parameter(command, "command"),
            Failure("no-folder", {**command, "cwd": "nowhere"}, "does not exist"),
            Failure("hidden", {"command": "cat secret.txt"}, "secret.txt is hidden"),
            Failure("denied", {"command": "rm x"}, "rm", {"denied_commands": ("rm",)}),
        ),
        EXECUTE,
        ask=AskKind.COMMAND,
    )
    output = {"artifact_id": ARTIFACT, "search": "^1234$"}
    yield Example(
        "read_command_output",
        output,
        {"tool": "readCommandOutput", "searchPattern": "^1234$", "matchCount": 1},
        "Total matches: 1 | Showing first 1\n 1234 | 1234",
        (
            _missing_parameter(output, "artifact_id"),
            Failure("bad-id", {"artifact_id": "../x"}, "is not an artifact ID"),
            Failure("unknown", {"artifact_id": "cmd-1.txt"}, "there is no artifact cmd-1.txt"),
            Failure(
                "bad-offset",
                {"artifact_id": ARTIFACT, "offset": 10**9},
                "is not in the output",
                earlier_calls=(VERBOSE_COMMAND,),
            ),
            Failure(
                "bad-limit",
                {"artifact_id": ARTIFACT, "limit": -1},
                "must be a positive number of bytes",
                earlier_calls=(VERBOSE_COMMAND,),
            ),
        ),
        None,
        earlier_calls=(VERBOSE_COMMAND,),
    )


def _task_control_examples() -> Iterator[Example]:
    question = {"question": "Which colour?", "follow_up": [{"text": "red", "mode": None}]}
    yield Example(
        "ask_followup_question",
        question,
        '{"question":"Which colour?","suggest":[{"answer":"red"}]}',
        "<user_message>\nred\n</user_message>",
        (
            _missing_parameter(question, "question"),
            Failure("bad-suggestions", {**question, "follow_up": [1]}, "'follow_up'"),
        ),
        ALWAYS,
        ask=AskKind.FOLLOWUP,
        xml="<ask_followup_question>\n<question>Which colour?</question>\n<follow_up>\n"
        "<suggest>red</suggest>\n</follow_up>\n</ask_followup_question>",
        xml_result="<answer>\nred\n</answer>",
        optional_parameters=("follow_up",),
    )
    result = {"result": "It works."}
    yield Example(
        "attempt_completion",
        result,
        "It works.",
        "The user accepted this result.",
        (
            _missing_parameter(result, "result"),
            Failure(
                "open-todos",
                result,
                "The todo list still has open items",
                {"prevent_completion_with_open_todos": True},
                earlier_calls=(call("update_todo_list", {"todos": "[ ] a"}),),
                later_calls=(call("update_todo_list", {"todos": "[x] a"}),),
            ),
        ),
        ALWAYS,
        ask=AskKind.COMPLETION_RESULT,
    )
    architect = {"mode_slug": "architect", "reason": "to plan"}
    yield Example(
        "switch_mode",
        architect,
        {"tool": "switchMode", "mode": "architect", "reason": "to plan"},
        "Successfully switched from",
        (
            _missing_parameter(architect, "mode_slug"),
            Failure("unknown", {"mode_slug": "x"}, "Invalid mode: x. Available modes: "),
            Failure("already", {"mode_slug": "code"}, "Already in"),
        ),
        "alwaysAllowModeSwitch",
    )
    part = {"mode": "ask", "message": "What is here?", "todos": None}
    yield Example(
        "new_task",
        part,
        {"tool": "newTask", "content": "What is here?", "todos": []},
        " completed.\n\nResult:\nall done",
        (
            _missing_parameter(part, "message"),
            Failure("unknown-mode", {**part, "mode": "x"}, "Invalid mode: x."),
            Failure(
                "no-todos",
                part,
                "Missing value for required parameter 'todos'",
                {"new_task_require_todos": True},
            ),
        ),
        "alwaysAllowSubtasks",
    )
    todos = {"todos": "[x] look\n[-] build"}
    yield Example(
        "update_todo_list",
        todos,
        {"tool": "updateTodoList"},
        "The todo list is updated.",
        (
            _missing_parameter(todos, "todos"),
            Failure("no-steps", {"todos": "nothing"}, "update_todo_list found no steps"),
            Failure("bad-status", {"todos": [{"status": "odd", "content": "a"}]}, '"odd" is not'),
        ),
        None,
    )


def _external_tool_examples() -> Iterator[Example]:
    """Tools that reach beyond the workspace, or bring in what people have written."""
    launch = {"action": "launch", "url": f"file://{ROOT}/page.html"}
    yield Example(
        "browser_action",
        launch,
        "page.html",
        "Browser viewport: 900x600",
        (
            _missing_parameter(launch, "action"),
            Failure("no-url", {"action": "launch"}, "required parameter 'url'"),
            Failure("unknown", {"action": "dance"}, "not 'dance'"),
            Failure("not-open", {"action": "scroll_down"}, "No page is open"),
            Failure("address", {"action": "launch", "url": "ftp://x/"}, "not ftp"),
            Failure("no-browser", launch, "There is no browser here", without_capabilities=True),
        ),
        "alwaysAllowBrowser",
        ask=AskKind.BROWSER_ACTION_LAUNCH,
    )
    days = {"city": "Perth", "days": 2}
    forecast = {"server_name": "weather", "tool_name": "forecast", "arguments": json.dumps(days)}
    asked = {"type": "use_mcp_tool", "serverName": "weather", "toolName": "forecast"}
    yield Example(
        "use_mcp_tool",
        forecast,
        asked,
        "Perth: sun for 2 days",
        (
            _missing_parameter(forecast, "tool_name"),
            Failure("unknown-server", {**forecast, "server_name": "x"}, "no MCP server 'x'"),
            Failure("unknown-tool", {**forecast, "tool_name": "x"}, "has no tool 'x'"),
            Failure("bad-arguments", {**forecast, "arguments": "[1]"}, "are not a JSON object"),
            Failure("tool-error", {**forecast, "arguments": '{"city": "Atlantis"}'}, "It sank."),
            Failure(
                "switched-off", forecast, "MCP servers are switched off", without_capabilities=True
            ),
        ),
        MCP,
        ask=AskKind.USE_MCP_SERVER,
        offered_protocols=frozenset({ToolProtocol.XML}),
    )
    stations = {"server_name": "weather", "uri": "weather://stations"}
    yield Example(
        "access_mcp_resource",
        stations,
        {"type": "access_mcp_resource", "serverName": "weather", "uri": "weather://stations"},
        "Perth, Hobart",
        (
            _missing_parameter(stations, "uri"),
            Failure("unknown-server", {**stations, "server_name": "x"}, "no MCP server 'x'"),
            Failure("unknown", {**stations, "uri": "weather://x"}, "resources/read has no answer"),
            Failure(
                "switched-off", stations, "MCP servers are switched off", without_capabilities=True
            ),
        ),
        MCP,
        ask=AskKind.USE_MCP_SERVER,
    )
    yield Example(
        "mcp",
        days,
        asked,
        "Perth: sun for 2 days",
        (Failure("tool-error", {"city": "Atlantis"}, "It sank."),),
        MCP,
        ask=AskKind.USE_MCP_SERVER,
        name="mcp--weather--forecast",
        offered_protocols=frozenset({ToolProtocol.NATIVE}),
    )
    release = {"command": "release", "args": "1.2"}
    yield Example(
        "run_slash_command",
        release,
        {"tool": "runSlashCommand", "command": "release", "args": "1.2", "source": "project"},
        "Provided arguments: 1.2\nSource: project\n\n--- Command Content ---\n\nTag it.",
        (
            _missing_parameter(release, "command"),
            Failure("unknown", {"command": "dance"}, "There is no command 'dance'. Available: "),
        ),
        READ,
    )
    poems = {"skill": "poems", "args": "spring"}
    yield Example(
        "skill",
        poems,
        {"tool": "skill", "skill": "poems", "args": "spring", "description": "Verse"},
        "Provided arguments: spring\nSource: project\n\n--- Skill Instructions ---\n\nRhyme.",
        (
            _missing_parameter(poems, "skill"),
            Failure("unknown", {"skill": "dance"}, "There is no skill 'dance'"),
            Failure("gone", poems, "poems", change_workspace=_remove(".roo/skills/poems/SKILL.md")),
        ),
        ANY,
    )
    shout = {"word": "hey", "times": 2}
    yield Example(
        "custom",
        shout,
        {"tool": "customTool", "name": "shout", "path": ".roo/tools/shout.py"},
        "HEYHEY",
        (
            _missing_parameter(shout, "word"),
            Failure("error", {"word": "1"}, "1 is no word"),
            Failure("gone", shout, "shout", change_workspace=_remove(".roo/tools/shout.py")),
        ),
        EXECUTE,
        name="shout",
    )


EXAMPLES = {
    example.kind: example
    for part in (
        _reading_examples,
        _editing_examples,
        _command_examples,
        _task_control_examples,
        _external_tool_examples,
    )
    for example in part()
}
IDS = frozenset(id for example in EXAMPLES.values() for id in example.contract_ids)
