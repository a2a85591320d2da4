"""Argument parsers of the commands, built from one table each.

They are separate from the commands, whose modules load the engine: `--help` must not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from joey.cli.arguments import (
    DEBUG,
    MODEL_FLAGS,
    REPEATABLE,
    Action,
    CliArgumentParser,
    Command,
    Row,
    TrailingCommandParser,
    build_parser,
    parse_count,
    parse_port,
    parse_time_ms,
)
from joey.cli.commands.proxy_parsers import PROXY

_CONFIG_EXAMPLES = """\
examples:
  joey config list --changed             settings that are not at their default
  joey config describe sandbox           what a setting means and may be
  joey config set alwaysAllowWrite true
  joey config set allowedCommands --add "npm test" --add "git status"
  joey config unset alwaysAllowWrite     back to its default

Your settings are in $JOEY_HOME/settings.json; .roo/settings.json of a project
can make some of them stricter. docs/settings.md lists them all."""
_PROFILES_EXAMPLES = """\
examples:
  joey profiles add work --provider anthropic          asks for the key unseen
  joey profiles add local --provider ollama --model qwen3-coder
  pass show openai | joey profiles set work apiKey     a key through a pipe
  joey profiles use local                              from now on

A key is never taken from the command line, which others can read. Without one
in the profile, the provider's variable is used."""
_IMPORT_EXAMPLES = """\
examples:
  joey import ~/Downloads/roo-code-settings.json
  joey import --roo --dry-run            what the newest export would change

Tasks of Roo Code are imported with joey tasks import --roo. Nothing is
replaced: a different profile of the same name is stored as NAME-roo."""
_COMPLETION_INSTRUCTIONS = """\
to install it:
  bash  joey completion bash > ~/.local/share/bash-completion/completions/joey
  zsh   joey completion zsh > "${fpath[1]}/_joey"    (of yours, before compinit)
  fish  joey completion fish > ~/.config/fish/completions/joey.fish

or for this shell alone: source <(joey completion bash)"""
_MCP_EXAMPLES = """\
examples:
  joey mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  joey mcp add --env API_KEY='${env:WEATHER_KEY}' weather -- python3 weather.py
  joey mcp add --url https://example.org/mcp --transport http example
  joey mcp test files"""
_EXPLAIN_DESCRIPTION = (
    "Explain whether a command would run, or a file be read or written, without asking you;"
    " by which rule; and if not, why. Nothing is run, and nothing is changed."
)
_EXPLAIN_EXAMPLES = """\
examples:
  joey permissions explain -- 'git status && npm test'
  joey permissions explain --allow 'npm test' --deny 'npm run' -- npm test
  joey permissions explain --read ../notes.txt
  joey permissions explain --stdin < questions.jsonl

With --stdin, each line is an object {"id": …, "command": …} with "read" or
"write" in place of "command"; the answers have the same ids, in the same
order."""
_TASKS_EXAMPLES = """\
examples:
  joey tasks list --all --since 7d       in all folders, of the last week
  joey tasks search "login page" fix*    by words of the conversation
  joey tasks show 0198 --rows            its messages, numbered for rewind
  joey tasks rewind 0198 3 --preview     what rewinding would change
  joey tasks import --roo --dry-run      what Roo Code has on this machine"""


_YES = ("-y --yes", "do not ask")
_JSON_ARRAY, _JSON_OBJECT = ("--json", "as a JSON array"), ("--json", "as a JSON object")
_OTHER_WORKSPACE = ("-w --workspace", "for this folder instead", "DIR")
_SETTING = ("key", "the name of a setting, such as sandbox", "KEY")
_PROFILE = ("name", "the name of a profile", "PROFILE")
_PROFILE_KEY = ("key", "such as model, temperature, apiKey", "PROFILE_KEY")
_SERVER = ("name", "its name", "SERVER")
_TASK_ID = ("id", "the id of a task, or the start of it", "ID")
_SINCE = ("--since", "changed since: 2026-01-31, 36h, 7d, 2w", "WHEN", {"type": parse_time_ms})
_BASE_URL = ("--base-url", "another address of the provider", "URL")

_TASK_STATUSES = ("completed", "failed", "interrupted", "running", "waiting", "delegated")
_TASK_FILTER: Sequence[Row] = (
    ("-n --number", "how many (20)", "N", {"type": parse_count, "default": 20}),
    [_OTHER_WORKSPACE, ("--all", "of all folders")],
    ("--status", ", ".join(_TASK_STATUSES), "S", {"choices": _TASK_STATUSES}),
    _SINCE,
    ("--refresh", "check every task folder, however many there are"),
    _JSON_ARRAY,
)
_TASKS = Command(
    "List, show and rewind earlier tasks, and import those of other programs.",
    epilog=_TASKS_EXAMPLES,
    actions={
        "list": Action("the tasks of this folder, the latest first", _TASK_FILTER),
        "search": Action(
            "tasks of this folder that contain these words, the latest first",
            (
                (
                    "query",
                    'all must occur; "a phrase" and prefix* work',
                    "WORDS",
                    {"nargs": "+"},
                ),
                *_TASK_FILTER,
            ),
        ),
        "show": Action(
            "one task: facts and conversation",
            (_TASK_ID, _JSON_OBJECT, ("--rows", "its messages in a table, numbered")),
        ),
        "export": Action(
            "the conversation as a document, or for Roo Code",
            (
                _TASK_ID,
                (
                    "--format",
                    "a document to read, facts and rows for programs, or a folder for Roo Code"
                    " (default: markdown)",
                    None,
                    {"choices": ("markdown", "json", "roo"), "default": "markdown"},
                ),
                ("-o --output", "the file, or for roo the folder to put <id>/ into", "PATH"),
                ("--force", "replace existing files"),
            ),
        ),
        "import": Action(
            "import tasks of Roo Code, Zoo Code and Cline",
            (
                ("paths", "a task, a folder of tasks, or a parent folder", "PATH", {"nargs": "*"}),
                ("--roo", "all of Roo Code, Zoo Code and Cline on this machine"),
                ("--dry-run", "list what is found, and import nothing"),
                (
                    "--only",
                    "these tasks, by the start of the id",
                    "ID",
                    {"nargs": "+", "default": []},
                ),
                _SINCE,
                _JSON_ARRAY,
            ),
        ),
        "rewind": Action(
            "go back to an earlier message of a task",
            (
                _TASK_ID,
                (
                    "message",
                    "the last message that stays: a number that joey tasks show --rows lists"
                    " (default: the one before your latest message)",
                    "MESSAGE",
                    {"nargs": "?"},
                ),
                ("--before", "drop this message too"),
                ("--with-files", "restore the files of that moment"),
                ("--undo", "undo the latest rewind"),
                ("--preview", "only show what would change"),
                ("--force", "discard changes that others made to the files since"),
                _YES,
                _JSON_OBJECT,
            ),
        ),
        "fork": Action(
            "a new task with the history of another",
            (
                _TASK_ID,
                (
                    "message",
                    "the last message that is copied: a number that joey tasks show --rows lists"
                    " (default: all)",
                    "MESSAGE",
                    {"nargs": "?"},
                ),
                ("--before", "leave this message out too"),
                _JSON_OBJECT,
            ),
        ),
        "delete": Action(
            "remove a task for good",
            (_TASK_ID, ("--with-subtasks", "and the subtasks below it"), _YES),
        ),
    },
)
_CONFIG = Command(
    "Show and change your settings.",
    epilog=_CONFIG_EXAMPLES,
    actions={
        "list": Action(
            "every setting with its value and origin",
            (("--changed", "only those that are set"), _JSON_ARRAY, _OTHER_WORKSPACE),
        ),
        "get": Action(
            "the value of a setting in this folder",
            (_SETTING, ("--json", "as JSON, texts too"), _OTHER_WORKSPACE),
        ),
        "set": Action(
            "give a setting a value",
            (
                _SETTING,
                ("value", "JSON, or plain words", "VALUE", {"nargs": "*"}),
                ("--add", "add to a list (repeatable)", "ITEM", REPEATABLE),
                ("--remove", "remove from a list", "ITEM", REPEATABLE),
                _OTHER_WORKSPACE,
            ),
        ),
        "unset": Action("reset a setting to its default", (_SETTING, _OTHER_WORKSPACE)),
        "describe": Action(
            "what a setting means, and what it may be",
            (_SETTING, _JSON_OBJECT, _OTHER_WORKSPACE),
        ),
        "path": Action("where the settings are", (_OTHER_WORKSPACE,)),
    },
)
_PROFILES = Command(
    "Manage profiles: named ways to reach a model, with their keys.",
    epilog=_PROFILES_EXAMPLES,
    actions={
        "list": Action(
            "all profiles; * marks the active one",
            (("--json", "as a JSON array, without keys"),),
        ),
        "show": Action(
            "one profile, and where each value comes from",
            (
                ("name", "default: the one that would be used now", "PROFILE", {"nargs": "?"}),
                ("--json", "as a JSON object, without keys"),
            ),
        ),
        "add": Action(
            "make a profile",
            (
                ("name", "its name", "NEW"),
                ("--provider", "the provider, such as anthropic", "PROVIDER", {"required": True}),
                ("-m --model", "which model", "MODEL"),
                _BASE_URL,
                [
                    ("--key", "ask for a key, or read it from stdin, or fail"),
                    ("--no-key", "do not ask for a key or read stdin"),
                ],
                ("--use", "make it the active profile"),
            ),
        ),
        "set": Action(
            "change a value of a profile",
            (
                _PROFILE,
                _PROFILE_KEY,
                ("value", "not for apiKey, which joey asks for", "VALUE", {"nargs": "*"}),
            ),
        ),
        "unset": Action("remove a value from a profile", (_PROFILE, _PROFILE_KEY)),
        "use": Action("make this the active profile", (_PROFILE,)),
        "remove": Action("remove a profile, and its key", (_PROFILE, _YES)),
    },
)
_MCP = Command(
    "Manage MCP servers: programs and services that provide tools.",
    epilog=_MCP_EXAMPLES,
    parser_class=TrailingCommandParser,
    action_class=CliArgumentParser,
    actions={
        "list": Action("the servers of this folder and yours", (_OTHER_WORKSPACE, _JSON_ARRAY)),
        "add": Action(
            "add a server: … NAME -- COMMAND ARGUMENTS",
            (
                _OTHER_WORKSPACE,
                ("name", "its name", "NAME"),
                (
                    "--env",
                    "set a variable for the program; '${env:OTHER}' takes it from yours"
                    " (repeatable)",
                    "NAME=VALUE",
                    REPEATABLE,
                ),
                (
                    "--cwd",
                    "where the program runs (default: $JOEY_HOME/mcp; '${workspaceFolder}' is the"
                    " workspace)",
                    "DIR",
                ),
                ("--url", "the address of a server, instead of a program", "URL"),
                (
                    "--transport",
                    "of --url (default: http)",
                    None,
                    {"choices": ("http", "sse"), "default": "http"},
                ),
                ("--header", "send a header to --url (repeatable)", "NAME: VALUE", REPEATABLE),
                ("--timeout", "how long a call may take (default: 60)", "SECONDS", {"type": float}),
                ("--project", "to .roo/mcp.json of the workspace, not to your own file"),
            ),
        ),
        "remove": Action(
            "remove a server from your file, or the project's",
            (_OTHER_WORKSPACE, _SERVER, ("--project", "from .roo/mcp.json of the workspace")),
        ),
        "test": Action(
            "start a server, and show what it offers or what is wrong",
            (_OTHER_WORKSPACE, _SERVER, _JSON_OBJECT),
        ),
        "login": Action("log in at a server, in your browser", (_OTHER_WORKSPACE, _SERVER)),
        "logout": Action("forget the login at a server", (_OTHER_WORKSPACE, _SERVER)),
    },
)
_HYPOTHETICAL_RULES: Sequence[Row] = (
    [
        ("-y --yes", "as if everything were allowed"),
        ("-a --require-approval", "as if everything needed approval"),
    ],
    ("--allow", "with this rule too", "PATTERN", REPEATABLE),
    ("--allow-writes", "as if files may be changed"),
    ("--add-dir", "with this directory too", "DIR", REPEATABLE),
    ("--deny", "with this rule too", "PATTERN", REPEATABLE),
    (
        "--network",
        "as if commands reached these",
        "off|registries|all",
        {"choices": ("off", "registries", "all")},
    ),
    ("--no-sandbox", "as if commands were not sandboxed"),
)
"""As a run would have them."""
_PERMISSIONS = Command(
    "Show what the rules allow.",
    parser_class=TrailingCommandParser,
    action_class=CliArgumentParser,
    actions={
        "explain": Action(
            "what would happen with a command or a file, and why",
            (
                (
                    "command_line",
                    "a command line, best quoted and after --",
                    "COMMAND",
                    {"nargs": "*"},
                ),
                ("--read", "a file that would be read", "PATH"),
                ("--write", "a file that would be written", "PATH"),
                ("--stdin", "many questions and answers, one JSON object per line"),
                *_HYPOTHETICAL_RULES,
                ("-w --workspace", "in this folder instead", "DIR"),
                _JSON_OBJECT,
            ),
            _EXPLAIN_DESCRIPTION,
            _EXPLAIN_EXAMPLES,
        ),
        "report": Action(
            "decisions of earlier tasks, or what other rules would decide",
            (
                ("--last", "of the latest N tasks (10)", "N", {"type": parse_count, "default": 10}),
                ("--task", "of one task, by the start of its id", "ID"),
                ("-w --workspace", "only of tasks in this folder", "DIR"),
                _JSON_OBJECT,
                *_HYPOTHETICAL_RULES,
            ),
            "Show what ran in earlier tasks, by which rule or whose answer, and what was refused."
            " With rules, show what they would decide differently. Nothing is run or changed.",
            """\
examples:
  joey permissions report
  joey permissions report --task 1733 --json
  joey permissions report --last 50 --allow 'npm test' --deny 'git push'""",
        ),
    },
)
_MODE_FLAGS = (_OTHER_WORKSPACE, ("--json", "as JSON"))
_MODES = Command(
    "Look at the modes of this folder: built-in, the project's and yours.",
    action_class=CliArgumentParser,
    actions={
        "list": Action("all modes, and problems in your files", _MODE_FLAGS),
        "show": Action(
            "one mode: what it may do, and what it is told",
            (("slug", "its short name, such as code", "MODE"), *_MODE_FLAGS),
        ),
    },
)
_PROMPT = Command(
    "Print the system prompt and the tools that a new task in this folder would be sent.",
    (
        *MODEL_FLAGS,
        ("--mode", "in this mode (default: the one of your settings)", "MODE"),
        (
            "--protocol",
            "how tools are called (default: the model's protocol)",
            None,
            {"choices": ("native", "xml")},
        ),
        ("--tokens", "only the size of each section and tool, in tokens (characters / 4)"),
        _JSON_OBJECT,
        _OTHER_WORKSPACE,
        DEBUG,
    ),
)
_SERVE = Command(
    "Serve tasks to programs (WebSocket at /ws) and to browsers (a web page at /). Anyone with"
    " the token can run commands here; it is printed once, as part of a link.",
    (
        ("--host", "listen here (127.0.0.1)", "ADDRESS", {"default": "127.0.0.1"}),
        ("--port", "and on this port (7800; 0: any)", "N", {"type": parse_port, "default": 7800}),
        ("--allow-remote", "listen on this address"),
        ("--token-file", "a file with the token, readable only by you", "FILE"),
        ("--max-connections", "clients at once (256)", "N", {"type": parse_count, "default": 256}),
        (
            "--allow-origin",
            "let pages of another site connect, such as https://joey.example.org (repeatable)",
            "ORIGIN",
            REPEATABLE,
        ),
        ("--tls-cert", "certificate, for https and wss", "FILE"),
        ("--tls-key", "its private key", "FILE"),
        ("-w --workspace", "the folder that tasks work in by default", "DIR"),
        ("--ipc", "also serve Roo Code's IPC protocol on this Unix socket", "PATH"),
        ("--debug", "log every command"),
    ),
    epilog="The token is taken from JOEY_TOKEN, else from --token-file; else one is created and"
    " kept in $JOEY_HOME/server.token.",
)
_ATTACH = Command(
    "Follow a task of a running `joey serve`. What you write answers its questions, or is read"
    " before its next step. Ctrl-C leaves the view; the task continues.",
    (
        ("id", "a task, or the start of its id (default: the latest)", "ID", {"nargs": "?"}),
        ("--url", "the server, without the token of the link", "URL"),
        ("--list", "the tasks that are open there, the latest first"),
        DEBUG,
    ),
    epilog="Without --url it is the server of this machine; its token is found in JOEY_TOKEN or"
    " in $JOEY_HOME/server.token.",
)
_ACP = Command(
    "Speak the Agent Client Protocol on stdin and stdout. Editors start this"
    " themselves: Zed, JetBrains, Neovim, Emacs and others; docs/editors.md has their"
    " settings.",
    (
        ("-m --model", "the model of new sessions", "MODEL"),
        ("--provider", "anthropic, openai, openrouter, ollama…", "PROVIDER"),
        _BASE_URL,
        ("--profile", "a profile (see joey profiles)", "PROFILE"),
        ("--mode", "code, architect, ask, debug…", "MODE"),
        (
            "--setup",
            "open joey in a terminal instead: editors do so to let you set up a model",
        ),
        ("--debug", "log to stderr"),
    ),
)
_DEMO = Command(
    "Watch a whole task without a key or network: a scripted model on this machine plays"
    " one conversation through the real client, tools, files and histories.",
    (
        ("--fast", "do not imitate typing"),
        (
            "--protocol",
            "how the model calls tools: by the API, or in its text (default: native)",
            None,
            {"choices": ("native", "xml"), "default": "native"},
        ),
        (
            "--wire",
            "whose API to speak",
            None,
            {"choices": ("anthropic", "openai"), "default": "anthropic"},
        ),
        ("--keep", "work in DIR, and keep it", "DIR"),
        DEBUG,
    ),
)
_COMMANDS = {
    "acp": _ACP,
    "attach": _ATTACH,
    "completion": Command(
        "Print a script that completes commands, flags and their values in your shell.",
        (("shell", "for which shell", None, {"choices": ("bash", "zsh", "fish")}), DEBUG),
        epilog=_COMPLETION_INSTRUCTIONS,
    ),
    "config": _CONFIG,
    "demo": _DEMO,
    "doctor": Command(
        "Check the installation, the settings and the models: what is found, what to do.",
        (
            ("--offline", "open no connections, not even on this machine"),
            (
                "--fix",
                "repair what is safe: file modes, stale locks, leftovers, a damaged index",
            ),
            _JSON_OBJECT,
            DEBUG,
        ),
    ),
    "import": Command(
        "Take over settings that Roo Code, Zoo Code or Kilo Code has exported: profiles with their"
        " keys, permissions, modes and more. Shows what would change, and asks.",
        (
            ("file", "the exported roo-code-settings.json", "FILE", {"nargs": "?"}),
            ("--roo", "the newest export in your home directory, Downloads, Documents or Desktop"),
            ("--no-keys", "leave out API keys and other secrets"),
            ("--dry-run", "show what would change, and store nothing"),
            _YES,
            _JSON_OBJECT,
            DEBUG,
        ),
        epilog=_IMPORT_EXAMPLES,
    ),
    "mcp": _MCP,
    "models": Command(
        "List models: those the catalogue knows and those the server offers.",
        (
            ("--provider", "of this provider (default: the one that is used)", "PROVIDER"),
            ("--offline", "do not ask the server"),
            ("--refresh", "renew windows, abilities and prices from modelCatalogUrl instead"),
            ("--from", "from this address, with --refresh", "URL", {"dest": "url"}),
            _JSON_ARRAY,
            DEBUG,
        ),
    ),
    "modes": _MODES,
    "permissions": _PERMISSIONS,
    "profiles": _PROFILES,
    "prompt": _PROMPT,
    "proxy": PROXY,
    "serve": _SERVE,
    "tasks": _TASKS,
    "trust": Command(
        "Review what this folder would run (its MCP servers), and allow it. That covers exactly"
        " what is shown: changes are asked about again.",
        (
            _OTHER_WORKSPACE,
            [
                ("--yes", "allow it without asking"),
                ("--revoke", "no longer allow any of it"),
                ("--show", "only show it, and whether it is allowed"),
            ],
            DEBUG,
        ),
    ),
}


def _build_batch_parser(name: str) -> CliArgumentParser:
    from joey.cli.commands.batch_parsers import BATCH_COMMANDS  # few runs need it

    return build_parser(name, BATCH_COMMANDS[name])


_BATCH_PARSERS = {name: partial(_build_batch_parser, name) for name in ("batch", "worker", "store")}
_PARSERS = {name: partial(build_parser, name, command) for name, command in _COMMANDS.items()}
COMMAND_PARSERS: dict[str, Callable[[], CliArgumentParser]] = {**_PARSERS, **_BATCH_PARSERS}
