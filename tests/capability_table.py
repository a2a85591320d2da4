"""What stands before everything that somebody other than the user could set in motion: each
tool, command, route, setting, flag and variable, with its gate.

`tests/test_gates.py` fails when one has none, checks what can be checked about them, and prints the
tables into docs/permissions.md.
"""

from __future__ import annotations

from enum import StrEnum

from tests.harness.tools.tool_examples import ALWAYS, ANY, EXECUTE, MCP, READ, WRITE


class Tool(StrEnum):
    """What decides about a call. The value is for the document; `TOOL_SWITCHES` for the test."""

    READS = f"`{READ}`, outside the workspace another switch; never what `.rooignore` hides"
    WRITES = f"`{WRITE}`, outside or protected another switch; never what `.rooignore` hides"
    RUNS = (
        f"`{EXECUTE}` and `allowedCommands`, unless `deniedCommands`; sandboxed, if it only reads,"
        " `alwaysAllowReadOnly`; then the sandbox"
    )
    OWN_CODE = f"`{EXECUTE}` with `*` in `allowedCommands`; of a project also trust"
    SERVERS = (
        f"`{MCP}`, and the server's `alwaysAllow` or `allowedMcpTools`; of a project also trust"
    )
    MODE = "`alwaysAllowModeSwitch`"
    SUBTASK = "`alwaysAllowSubtasks`; its own calls are decided one by one"
    PAGES = "`alwaysAllowBrowser`"
    GUIDANCE = f"`{READ}`"
    SKILL = f"`{ANY}`"
    USER = "a person answers, always"
    ITSELF = "touches nothing but the task"


TOOL_SWITCHES: dict[Tool, str | None] = {
    Tool.READS: READ,
    Tool.WRITES: WRITE,
    Tool.RUNS: EXECUTE,
    Tool.OWN_CODE: EXECUTE,
    Tool.SERVERS: MCP,
    Tool.MODE: "alwaysAllowModeSwitch",
    Tool.SUBTASK: "alwaysAllowSubtasks",
    Tool.PAGES: "alwaysAllowBrowser",
    Tool.GUIDANCE: READ,
    Tool.SKILL: ANY,
    Tool.USER: ALWAYS,
    Tool.ITSELF: None,
}

TOOLS: dict[str, Tool] = {
    "read_file": Tool.READS,
    "search_files": Tool.READS,
    "list_files": Tool.READS,
    "list_code_definition_names": Tool.READS,
    "codebase_search": Tool.READS,
    "fetch_instructions": Tool.GUIDANCE,
    "run_slash_command": Tool.GUIDANCE,
    "skill": Tool.SKILL,
    "apply_diff": Tool.WRITES,
    "apply_patch": Tool.WRITES,
    "edit": Tool.WRITES,
    "search_replace": Tool.WRITES,
    "edit_file": Tool.WRITES,
    "write_to_file": Tool.WRITES,
    "insert_content": Tool.WRITES,
    "generate_image": Tool.WRITES,
    "execute_command": Tool.RUNS,
    "read_command_output": Tool.ITSELF,
    "update_todo_list": Tool.ITSELF,
    "ask_followup_question": Tool.USER,
    "attempt_completion": Tool.USER,
    "switch_mode": Tool.MODE,
    "new_task": Tool.SUBTASK,
    "browser_action": Tool.PAGES,
    "use_mcp_tool": Tool.SERVERS,
    "access_mcp_resource": Tool.SERVERS,
    "mcp": Tool.SERVERS,
    "custom": Tool.OWN_CODE,
}
"""`mcp` and `custom` stand for tools that servers and people bring along."""


class Wire(StrEnum):
    """What a command that came with the token, or over the socket file, can do beyond it."""

    LOOKS = "only looks; keys and tokens are left out"
    STEERS = "steers a task; its calls are still decided by the rules"
    STARTS = "starts a task, with settings of its own where they are sent along"
    ANSWERS = "counts as your answer, once, to the question that it names or that is open"
    GRANTS = "counts as your leave, for the task and until it is closed"
    SETTINGS = "changes your settings, profiles or keys"
    FILES = "changes files of the workspace, and history, to what they were; others' changes stay"
    ENDS = "ends a process, or removes a task for good"


WEBSOCKET: dict[str, Wire] = {
    "startNewTask": Wire.STARTS,
    "forkTask": Wire.STARTS,
    "getCurrentTaskStack": Wire.LOOKS,
    "clearCurrentTask": Wire.STEERS,
    "cancelCurrentTask": Wire.STEERS,
    "cancelTask": Wire.STEERS,
    "resumeTask": Wire.STEERS,
    "isTaskInHistory": Wire.LOOKS,
    "getConfiguration": Wire.LOOKS,
    "setConfiguration": Wire.SETTINGS,
    "getProfiles": Wire.LOOKS,
    "getActiveProfile": Wire.LOOKS,
    "getProfileEntry": Wire.LOOKS,
    "createProfile": Wire.SETTINGS,
    "updateProfile": Wire.SETTINGS,
    "upsertProfile": Wire.SETTINGS,
    "setActiveProfile": Wire.SETTINGS,
    "deleteProfile": Wire.SETTINGS,
    "sendMessage": Wire.ANSWERS,
    "respond": Wire.ANSWERS,
    "pressPrimaryButton": Wire.ANSWERS,
    "pressSecondaryButton": Wire.ANSWERS,
    "getMessages": Wire.LOOKS,
    "getEvents": Wire.LOOKS,
    "getTokenUsage": Wire.LOOKS,
    "isReady": Wire.LOOKS,
    "subscribe": Wire.LOOKS,
    "listTasks": Wire.LOOKS,
    "searchTasks": Wire.LOOKS,
    "getTask": Wire.LOOKS,
    "switchMode": Wire.STEERS,
    "getModes": Wire.LOOKS,
    "getModels": Wire.LOOKS,
    "getCommands": Wire.LOOKS,
    "getRecordings": Wire.LOOKS,
    "getRecording": Wire.LOOKS,
    "compareRecordedRequests": Wire.LOOKS,
    "getPermissions": Wire.LOOKS,
    "revokePermission": Wire.SETTINGS,
    "setApprovalLevel": Wire.GRANTS,
    "editQueue": Wire.STEERS,
    "condenseTask": Wire.STEERS,
    "getTodos": Wire.LOOKS,
    "getProcesses": Wire.LOOKS,
    "killProcess": Wire.ENDS,
    "deleteTask": Wire.ENDS,
    "ping": Wire.LOOKS,
    "rewindTask": Wire.FILES,
    "undoRewind": Wire.FILES,
    "editMessage": Wire.STEERS,
    "getCheckpoints": Wire.LOOKS,
    "diffCheckpoint": Wire.LOOKS,
    "restoreCheckpoint": Wire.FILES,
}

IPC: dict[str, Wire] = {
    "StartNewTask": Wire.STARTS,
    "CancelTask": Wire.STEERS,
    "CloseTask": Wire.STEERS,
    "ResumeTask": Wire.STEERS,
    "SendMessage": Wire.ANSWERS,
    "DeleteQueuedMessage": Wire.STEERS,
    "GetCommands": Wire.LOOKS,
    "GetModes": Wire.LOOKS,
    "GetModels": Wire.LOOKS,
}


class Web(StrEnum):
    OPEN = "expected `Host` and `Origin`; says nothing of tasks"
    TOKEN = "expected `Host` and `Origin`, and the token"


ROUTES: dict[str, Web] = {
    "GET /": Web.OPEN,
    "GET /assets/{path:path}": Web.OPEN,
    "GET /health": Web.OPEN,
    "GET /schema.json": Web.OPEN,
    "GET /metrics": Web.TOKEN,
    "WebSocket /": Web.TOKEN,
    "WebSocket /ws": Web.TOKEN,
}


class Shell(StrEnum):
    """You type these yourself; what they do that lasts, and what still stands before it."""

    LOOKS = "only looks"
    TASK = "runs a task: the rules decide about each call"
    TOKEN = "needs the token of the server, and then does what you answer"
    EDITOR = "does what the editor that started it says; the rules decide about each call"
    LISTENS = "listens on loopback; beyond it only with `--allow-remote`, and never without a token"
    PLAYS = "listens on loopback only, and answers with recorded responses"
    ASKS = "asks first, unless `-y`"
    COPIES = "adds a task, and changes none"
    WRITES = "writes a file that you name, and replaces one only with `--force`"
    SERVERS = "changes your list of servers, or with `--project` the project's"
    STARTS_SERVER = "starts a server of yours, or one of the project's that you have trusted"
    PREVIEWS = "starts the MCP servers that a task would start; asks no model"
    LOGIN = "keeps or forgets a login in a private file"
    REPAIRS = "only looks, and asks the service unless `--offline`; `--fix` tidies your own folder"
    GRANTS = "counts as your leave, for the task and until it is closed"
    SETTINGS = "changes your own settings, profiles or keys; a key is typed unseen, or piped"
    ASKS_SERVER = (
        "only looks; asks the model's server too, unless `--offline`; `--refresh` stores a"
        " catalogue in your own folder"
    )
    BATCH = "runs tasks of your list: the rules and your flags decide about each call"
    WORKER = "runs tasks of a batch, with no more permissions than `--may`"
    STORES = "makes or reads tables of a database that you name"
    BATCH_EXPORTS = "writes a file or directory that you name"
    BATCH_MARKS = "changes which items of a batch run next"
    RECORDS = (
        "listens on this machine's own addresses (beyond: `--allow-remote` and a token), passes"
        " requests on with the client's key, and records them in a private file without keys"
    )
    IMPORTS = "shows what it would change in your own settings, profiles and modes, and asks"
    FORGETS = "removes recordings of yours for good"
    TRUSTS = "shows what this folder would run, and asks; `--yes` is your answer"


COMMANDS: dict[str, Shell] = {
    "(a prompt)": Shell.TASK,
    "acp": Shell.EDITOR,
    "attach": Shell.TOKEN,
    "batch run": Shell.BATCH,
    "batch status": Shell.LOOKS,
    "batch results": Shell.LOOKS,
    "batch show": Shell.LOOKS,
    "batch retry": Shell.BATCH_MARKS,
    "batch cancel": Shell.BATCH_MARKS,
    "batch export": Shell.BATCH_EXPORTS,
    "completion": Shell.LOOKS,
    "config list": Shell.LOOKS,
    "config get": Shell.LOOKS,
    "config set": Shell.SETTINGS,
    "config unset": Shell.SETTINGS,
    "config describe": Shell.LOOKS,
    "config path": Shell.LOOKS,
    "demo": Shell.TASK,
    "doctor": Shell.REPAIRS,
    "mcp list": Shell.LOOKS,
    "import": Shell.IMPORTS,
    "mcp add": Shell.SERVERS,
    "mcp remove": Shell.SERVERS,
    "mcp test": Shell.STARTS_SERVER,
    "mcp login": Shell.LOGIN,
    "mcp logout": Shell.LOGIN,
    "models": Shell.ASKS_SERVER,
    "modes list": Shell.LOOKS,
    "modes show": Shell.LOOKS,
    "permissions explain": Shell.LOOKS,
    "permissions report": Shell.LOOKS,
    "profiles list": Shell.LOOKS,
    "profiles show": Shell.LOOKS,
    "profiles add": Shell.SETTINGS,
    "profiles set": Shell.SETTINGS,
    "profiles unset": Shell.SETTINGS,
    "profiles use": Shell.SETTINGS,
    "profiles remove": Shell.ASKS,
    "prompt": Shell.PREVIEWS,
    "proxy start": Shell.RECORDS,
    "proxy run": Shell.RECORDS,
    "proxy env": Shell.LOOKS,
    "proxy list": Shell.LOOKS,
    "proxy show": Shell.LOOKS,
    "proxy diff": Shell.LOOKS,
    "proxy report": Shell.LOOKS,
    "proxy export": Shell.WRITES,
    "proxy serve": Shell.PLAYS,
    "proxy forget": Shell.FORGETS,
    "serve": Shell.LISTENS,
    "tasks list": Shell.LOOKS,
    "tasks search": Shell.LOOKS,
    "tasks show": Shell.LOOKS,
    "tasks export": Shell.WRITES,
    "tasks import": Shell.COPIES,
    "tasks rewind": Shell.ASKS,
    "tasks fork": Shell.COPIES,
    "tasks delete": Shell.ASKS,
    "trust": Shell.TRUSTS,
    "store init": Shell.STORES,
    "store check": Shell.STORES,
    "worker": Shell.WORKER,
}


class Key(StrEnum):
    """Who may set a setting. All are read from your own files, flags and clients; the question
    is what a project can do about them."""

    YOURS = "yours alone"
    OFF = "yours; a project may turn it off"
    ADDED = "yours; a project may add to it"
    LOWERED = "yours; a project may lower it"
    STRICTEST = "yours; a project may ask for the strictest"
    FEWER = "yours; a project may turn it off, or name fewer hosts"


SETTINGS: dict[str, Key] = {
    "mode": Key.YOURS,
    "customInstructions": Key.YOURS,
    "language": Key.YOURS,
    "modeApiConfigs": Key.YOURS,
    "customModePrompts": Key.YOURS,
    "autoApprovalEnabled": Key.OFF,
    "alwaysAllowReadOnly": Key.OFF,
    "alwaysAllowReadOnlyOutsideWorkspace": Key.OFF,
    "alwaysAllowWrite": Key.OFF,
    "alwaysAllowWriteOutsideWorkspace": Key.OFF,
    "alwaysAllowWriteProtected": Key.OFF,
    "alwaysAllowExecute": Key.OFF,
    "alwaysAllowModeSwitch": Key.OFF,
    "alwaysAllowSubtasks": Key.OFF,
    "alwaysAllowMcp": Key.OFF,
    "alwaysAllowBrowser": Key.OFF,
    "alwaysAllowFollowupQuestions": Key.OFF,
    "allowedMcpTools": Key.YOURS,
    "followupAutoApproveTimeoutMs": Key.YOURS,
    "allowedCommands": Key.YOURS,
    "deniedCommands": Key.ADDED,
    "hooks": Key.YOURS,
    "allowedMaxRequests": Key.LOWERED,
    "allowedMaxCost": Key.LOWERED,
    "consecutiveMistakeLimit": Key.YOURS,
    "preventCompletionWithOpenTodos": Key.YOURS,
    "confirmCompletion": Key.YOURS,
    "commandExecutionTimeout": Key.YOURS,
    "commandTimeoutAllowlist": Key.YOURS,
    "terminalOutputPreviewSize": Key.YOURS,
    "sandbox": Key.STRICTEST,
    "sandboxNetwork": Key.FEWER,
    "sandboxReadable": Key.YOURS,
    "sandboxWritable": Key.YOURS,
    "sandboxMaxProcesses": Key.YOURS,
    "sandboxMaxMemoryMb": Key.YOURS,
    "sandboxMaxFileMb": Key.YOURS,
    "sandboxMaxCpuSeconds": Key.YOURS,
    "maxWorkspaceFiles": Key.YOURS,
    "maxConcurrentFileReads": Key.YOURS,
    "modelCatalogUrl": Key.YOURS,
    "maxReadFileLine": Key.YOURS,
    "maxImageFileSize": Key.YOURS,
    "maxTotalImageSize": Key.YOURS,
    "includeCurrentTime": Key.YOURS,
    "includeCurrentCost": Key.YOURS,
    "todoListEnabled": Key.YOURS,
    "requestDelaySeconds": Key.YOURS,
    "maxRetries": Key.YOURS,
    "maxRetryWaitSeconds": Key.YOURS,
    "editTool": Key.YOURS,
    "disabledTools": Key.ADDED,
    "mcpEnabled": Key.OFF,
    "browserToolEnabled": Key.OFF,
    "browserViewportSize": Key.YOURS,
    "codebaseIndexEnabled": Key.YOURS,
    "embeddingProfile": Key.YOURS,
    "imageProfile": Key.YOURS,
    "useAgentRules": Key.YOURS,
    "enableSubfolderRules": Key.YOURS,
    "maxGitStatusFiles": Key.YOURS,
    "newTaskRequireTodos": Key.YOURS,
    "includeDiagnosticMessages": Key.YOURS,
    "maxDiagnosticMessages": Key.YOURS,
    "diagnosticsTimeoutSeconds": Key.YOURS,
    "diagnosticCheckers": Key.YOURS,
    "enableCheckpoints": Key.YOURS,
    "checkpointTimeout": Key.YOURS,
    "checkpointMaxAgeDays": Key.YOURS,
    "checkpointMaxMegabytes": Key.YOURS,
    "autoCondenseContext": Key.YOURS,
    "autoCondenseContextPercent": Key.YOURS,
    "profileThresholds": Key.YOURS,
    "customCondensingPrompt": Key.YOURS,
    "condensingProfile": Key.YOURS,
    "notifications": Key.YOURS,
    "recordRequests": Key.YOURS,
    "understandTextCalls": Key.YOURS,
}

PROFILE: dict[str, Key] = dict.fromkeys(
    """
    name provider model baseUrl apiKey maxTokens contextWindow temperature topP topK minP
    presencePenalty extraBody chatTemplateKwargs thinkingBudget
    reasoningEffort legacyHeaders protocol nativeTools requestTimeout
    rateLimitSeconds images prices headers credentials region project apiVersion
    """.split(),  # noqa: SIM905 (easier to read than a literal)
    Key.YOURS,
)
"""From `profiles.json` of yours, flags, variables of the process, and clients with the token."""

LIMITS: dict[str, Key] = dict.fromkeys(
    ("maxTurns", "maxCost", "maxSeconds", "maxTokens", "maxToolCalls"), Key.YOURS
)
"""From flags, Python and `startNewTask`."""

SERVE_FLAGS: dict[str, str] = {
    "--host": "the command line; beyond loopback also `--allow-remote`",
    "--port": "the command line",
    "--allow-remote": "the command line",
    "--token-file": "the command line; a file that others may read is refused",
    "--max-connections": "the command line",
    "--allow-origin": "the command line, by exact origin",
    "--tls-cert": "the command line",
    "--tls-key": "the command line",
    "--workspace": "the command line",
    "--ipc": "the command line; the socket is 0600",
    "--debug": "the command line; the log says no more of what was said",
}

VARIABLES: dict[str, str] = {
    "JOEY_ITEM": "set for the commands of a batch's item: its id",
    "JOEY_ATTEMPT": "set for the commands of a batch's item: its attempt",
    "JOEY_STORE": "of the process: the database of your tasks, never passed on",
    "JOEY_HOME": "of the process: where everything of yours lies",
    "JOEY_PLAIN": "of the process: a conversation line by line instead of the screen",
    "JOEY_TOKEN": "of the process: the server's token, never passed on",
    "JOEY_CHROMIUM": "of the process: the browser to start",
    "ROO_API_KEY": "of the process: the key for the provider `roo`",
    "ROO_CODE_IPC_SOCKET_PATH": "of the process: as `--ipc`",
    "JOEY_COMMAND": "set for commands: by it their processes are found again",
    "JOEY_ACTIVE": "set to `1` for commands, hooks, MCP servers and tools of your own; not read",
    "ROO_ACTIVE": "set to `true` for the same; not read",
}
