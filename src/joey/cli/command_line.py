"""The command line of `joey`: options of a run, help, misspelt commands.

A prompt may be any text, so only input that nobody would send to a model counts as a misspelt
command: one word that is nearly a command, or one followed by nearly an action.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence

from joey import __version__
from joey.cli.arguments import (
    MODEL_FLAGS,
    REPEATABLE,
    CliArgumentParser,
    Row,
    add_arguments,
    parse_count,
    parse_dollars,
    parse_duration,
    parse_limit,
    parse_uuid,
)
from joey.cli.commands.command_parsers import COMMAND_PARSERS
from joey.cli.exit_codes import UsageError
from joey.core.suggest import find_closest_name
from joey.core.text import compile_regex

COMMAND_NAMES = tuple(COMMAND_PARSERS)

_HELP_DESCRIPTION = """\
A coding agent that works in this folder: it reads, edits and runs what the
task needs, and asks before it does what you have not allowed. Without a prompt
it opens a conversation.

examples:
  joey "fix the failing test"            work here, asking where you must allow
  joey -p "why does make fail?"          only the answer on stdout, for scripts
  git diff | joey -p "review this"       a prompt and its context
  joey -c "now the same for Windows"     continue the latest task here
  joey -p -y --max-budget-usd 2 "port it"
                                         allow everything, up to two dollars
  joey -p --allow-writes --allow "npm test" "fix the tests"
                                         allow edits, and one command
  joey -- tasks                          a prompt that is the name of a command

commands (joey help COMMAND has the options of each):
  to begin
    demo          a whole task without key or network
    doctor        what is found, what is missing, what to do
    profiles      named model configurations, with their keys
    models        the models to choose from
    import        settings of Roo Code, Zoo Code or Kilo Code
    completion    commands, flags and values with the tab key of your shell
  earlier work
    tasks         list, search, show, export, import, rewind, fork, delete
  what it may do, and what it is told
    config        every setting: what it is, what it means, how to change it
    permissions   what the rules decide about a command, and have decided
    trust         let this folder run its own programs
    modes         the modes of this folder, and their instructions
    prompt        the system prompt and the tools, with their sizes
    mcp           MCP servers, which add tools
  in other places
    serve         tasks over WebSocket and in the browser
    attach        follow a task of a server, and answer it
    acp           tasks in an editor: the Agent Client Protocol
    proxy         record what any AI client sends, and what it gets back
  many tasks
    batch         run a list of tasks, with results, patches and budgets
    worker        drive tasks of a batch, in as many processes as you start
    store         keep tasks in a database that several hosts share"""

_HELP_EPILOG = """\
exit codes:
  0 done   1 failed   2 wrong usage, a bad value of a flag
  3 gave up, or a user was needed   53 limit of turns or tool calls
  55 limit of money, tokens or time   75 provider down, try again
  78 configuration: files, variables, keys, the model's name   130/143 signals

files and variables:
  JOEY_HOME (default ~/.roo) holds tasks, settings.json and profiles.json. Keys
  are taken from ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY and
  others (see joey doctor). NO_COLOR switches colours off."""


def parse_command_line(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; `command` is `run` if none was named. Raises UsageError, or
    SystemExit after `--help`, `help` and `--version` have printed their output."""
    if argv[:1] == ["help"] and (len(argv) == 1 or argv[1] in COMMAND_NAMES):
        argv = [*argv[1:], "--help"]  # followed by many words, it is a prompt
    match argv:
        case ["help", word] if not word.startswith("-") and len(word.split()) == 1:
            # No prompt looks like this.
            near = find_closest_name(word, COMMAND_NAMES)
            meant = (
                f"; did you mean `joey help {near}`?" if near else f": {', '.join(COMMAND_NAMES)}"
            )
            as_prompt = f"(as a prompt: joey -- help {shlex.quote(word)})"
            raise UsageError(f"there is no command {word!r}{meant} {as_prompt}")
    match argv:
        case ["mcp", "add", name, str(url), *_] if not name.startswith("-") and url.startswith(
            ("http://", "https://")
        ):
            raise UsageError(f"did you mean `joey mcp add {name} --url {url}`?")
    if argv and argv[0] in COMMAND_NAMES:
        arguments = COMMAND_PARSERS[argv[0]]().parse_args(argv[1:])
        arguments.command = argv[0]
        return arguments
    if hint := suggest_command(argv):
        raise UsageError(f"did you mean `{hint}`? (as a prompt: joey -- {shlex.join(argv)})")
    end = argv.index("--") if "--" in argv else len(argv)
    arguments = build_run_parser().parse_intermixed_args(argv[:end])
    arguments.command = "run"
    if arguments.stdin_prompt_stream:
        arguments.input_format = "stream-json"
        arguments.output_format = arguments.output_format or "stream-json"
    arguments.output_format = arguments.output_format or "text"
    _check_arguments(arguments)
    arguments.prompt += argv[end + 1 :]
    return arguments


def _check_arguments(arguments: argparse.Namespace) -> None:
    prompt = arguments.prompt
    if len(prompt) == 1 and prompt[0] in COMMAND_NAMES:
        raise UsageError(
            f"{prompt[0]!r} is a command, and commands come first: joey {prompt[0]} …"
            f" (as a prompt: joey -- {prompt[0]})"
        )
    if arguments.input_format == "stream-json":
        _check_stream_arguments(arguments)
    elif arguments.signal_only_exit:
        raise UsageError("--signal-only-exit needs --stdin-prompt-stream")
    if arguments.resume in REASONING_EFFORTS:
        raise UsageError(
            f"-r resumes a task; Roo's -r {arguments.resume} is --reasoning-effort"
            f" {arguments.resume}"
        )
    if arguments.output_dir == "":
        raise UsageError("--output-dir names no directory")
    if arguments.record and arguments.ephemeral:
        raise UsageError("--ephemeral stores nothing, so --record cannot be used")
    if not arguments.continue_ and arguments.resume is None:
        if arguments.fork:
            raise UsageError("--fork needs the task to copy: -c, or -r ID")
        return
    if arguments.ephemeral:
        raise UsageError("--ephemeral keeps no tasks, so there is none to continue")


def _check_stream_arguments(arguments: argparse.Namespace) -> None:
    if arguments.output_format != "stream-json":
        typed = "--stdin-prompt-stream"
        if not arguments.stdin_prompt_stream:
            typed = "--input-format stream-json"
        raise UsageError(f"{typed} needs --output-format stream-json")
    if arguments.prompt or arguments.prompt_file is not None or arguments.image:
        raise UsageError(
            "with --input-format stream-json, prompts and images come as commands on stdin:"
            """ {"command":"start","requestId":"1","prompt":"fix the failing test"}"""
        )
    if arguments.output_dir is not None:
        raise UsageError("--output-dir is for one run: --input-format stream-json may have many")
    if arguments.create_with_session_id:
        raise UsageError("with --input-format stream-json, the id of a new task is its `taskId`")


REASONING_EFFORTS = (
    *("unspecified", "disabled", "none", "minimal", "low", "medium", "high", "xhigh"),
)
_SANDBOX_NAMES = {
    "linux": "bubblewrap or Landlock",
    "darwin": "Seatbelt, not yet tried on hardware",
}


def describe_yes_flag(platform: str) -> str:
    """Describe `-y` for the help, with the sandbox of a system."""
    confined_by = _SANDBOX_NAMES.get(platform, "none on this system; needs --no-sandbox")
    return f"allow everything without asking, within the sandbox ({confined_by}) and --add-dir"


_OPTION_GROUPS: Mapping[str, Sequence[Row]] = {
    "output": (
        (
            "-p --print",
            "no conversation: answer on stdout, progress on stderr (default without a terminal)",
        ),
        (
            "--output-format",
            "of -p: the result, one JSON object, or one JSON object per line (default: text)",
            None,
            {"choices": ("text", "json", "stream-json")},
        ),
        (
            "--input-format",
            "of stdin: the prompt, or a JSON command per line (needs --output-format stream-json)",
            None,
            {"choices": ("text", "stream-json"), "default": "text"},
        ),
        (
            "--stdin-prompt-stream",
            "as --input-format and --output-format stream-json: its name in Roo's command line",
        ),
        (
            "--json-schema",
            "the result is JSON that fits this schema; anything else is not accepted",
            "FILE|JSON",
        ),
        (
            "--output-dir",
            "also write result, events, patch, journal and usage into this directory",
            "DIR",
        ),
        (
            "--plain",
            "a conversation line by line instead of the screen (also JOEY_PLAIN=1, TERM=dumb)",
        ),
        ("-d --debug", "log to stderr, and show tracebacks"),
    ),
    "task": (
        [
            (
                "-c --continue",
                "continue the latest task of this folder",
                None,
                {"dest": "continue_"},
            ),
            (
                "-r --resume",
                "continue this task (the start of its id is enough); without an id, choose one",
                "ID",
                {"nargs": "?", "const": ""},
            ),
            ("--session-id", "the same: its name in Roo's command line", "ID", {"dest": "resume"}),
            ("--create-with-session-id", "a new task with this id", "UUID", {"type": parse_uuid}),
        ],
        ("--fork", "with -c or -r: continue in a copy; the task itself stays"),
        ("-w --workspace", "the folder to work in", "DIR"),
        ("--prompt-file", "read the prompt from a file", "FILE"),
        (
            "--image",
            "attach an image: PNG, JPEG, GIF or WebP (repeatable)",
            "FILE",
            REPEATABLE,
        ),
        ("--ephemeral", "keep nothing of this task"),
        ("--record", "record its requests and replies (see joey proxy list); keys are left out"),
    ),
    "model": (
        *MODEL_FLAGS,
        ("--mode", "code, architect, ask, debug…", "MODE"),
        (
            "--protocol",
            "how the model calls tools (default: what it can do)",
            None,
            {"choices": ("native", "xml")},
        ),
        ("--system-prompt-file", "use this system prompt instead of joey's", "FILE"),
        (
            "-k --api-key",
            "the provider's key; others can see it here, so prefer a variable or a profile",
            "KEY",
        ),
        (
            "--reasoning-effort",
            f"how much the model thinks: {', '.join(REASONING_EFFORTS)}; in Roo also -r, which here"
            " resumes a task",
            "EFFORT",
            {"choices": REASONING_EFFORTS},
        ),
    ),
    "permissions": (
        [
            ("-y --yes", describe_yes_flag(sys.platform)),
            ("-a --require-approval", "ask before everything, even reading"),
        ],
        (
            "--allow",
            "commands that begin like this may run without asking (repeatable)",
            "PATTERN",
            REPEATABLE,
        ),
        (
            "--allow-writes",
            "files of the workspace may be changed without asking (protected ones still ask)",
        ),
        (
            "--add-dir",
            "work in this directory too, as if it were part of the workspace (repeatable)",
            "DIR",
            REPEATABLE,
        ),
        ("--deny", "commands that begin like this never run (repeatable)", "PATTERN", REPEATABLE),
        (
            "--network",
            "what sandboxed commands reach: off, registries (those that this machine's package"
            " managers and git remotes are configured with) or all",
            "off|registries|all",
            {"choices": ("off", "registries", "all")},
        ),
        ("--no-sandbox", "do not sandbox commands: they can do everything that you can do"),
    ),
    "limits": (
        ("--max-turns", "stop after N replies of the model", "N", {"type": parse_count}),
        ("--max-budget-usd", "stop when this amount is spent", "USD", {"type": parse_dollars}),
        ("--max-wall-time", "stop after 90, 90s, 10m or 1h", "TIME", {"type": parse_duration}),
        ("--max-tokens", "stop after N tokens, sent and received", "N", {"type": parse_count}),
        ("--max-tool-calls", "stop after N tool calls", "N", {"type": parse_count}),
        (
            "--consecutive-mistake-limit",
            "as the setting consecutiveMistakeLimit, for this run; 0 switches it off",
            "N",
            {"type": parse_limit},
        ),
        ("--exit-on-error", "stop at the first failed request instead of trying again"),
    ),
    "Roo's command line": (
        (
            "--oneshot",
            "at a terminal: as --plain, and leave when the task is done, as -p always does",
        ),
        (
            "--signal-only-exit",
            "after the end of stdin, stay until SIGINT or SIGTERM (needs --stdin-prompt-stream)",
        ),
        ("--terminal-shell", "accepted and ignored: commands run in bash", "PATH"),
        ("-e --extension", "accepted and ignored: there is no extension", "PATH"),
    ),
}


def build_run_parser() -> CliArgumentParser:
    parser = CliArgumentParser(
        prog="joey",
        usage="joey [OPTIONS] [PROMPT]\n       joey -p [OPTIONS] PROMPT\n       joey COMMAND …",
        description=_HELP_DESCRIPTION,
        epilog=_HELP_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("prompt", nargs="*", metavar="PROMPT", help="what to do; - reads a pipe")
    parser.add_argument("--version", action="version", version=f"joey {__version__}")
    for title, rows in _OPTION_GROUPS.items():
        add_arguments(parser.add_argument_group(title), rows)
    return parser


_SUGGESTED_COMMANDS = {
    "tasks": "joey tasks list",
    "modes": "joey modes list",
    "doctor": "joey doctor",
    "demo": "joey demo",
    "config": "joey config list",
    "profiles": "joey profiles list",
    "models": "joey models",
    "completion": "joey completion --help",
    "permissions": "joey permissions --help",
    "serve": "joey serve",
    "proxy": "joey proxy",
    "help": "joey --help",
    "version": "joey --version",
}
_PEER_COMMANDS = {
    "agent": "joey modes list",
    "agents": "joey modes list",
    "auth": "joey profiles add NAME --provider PROVIDER",
    "chat": "joey",
    "continue": "joey -c",
    "export": "joey tasks export ID",
    "init": 'joey "write an AGENTS.md for this project"',
    "list": "joey tasks list",
    "login": "joey profiles add NAME --provider PROVIDER",
    "logout": "joey profiles remove NAME",
    "resume": "joey -r",
    "providers": "joey profiles list",
    "review": "joey -p /review",
    "session": "joey tasks list",
    "sessions": "joey tasks list",
    "setup-token": "joey profiles add NAME --provider PROVIDER",
    "status": "joey doctor",
    "uninstall": "uv tool uninstall joey",
    "update": "uv tool upgrade joey",
    "upgrade": "uv tool upgrade joey",
    "web": "joey serve",
}
"""Commands of other agents, and what does the same here."""
_PEER_ACTIONS = {
    ("agent", "list"): "joey modes list",
    ("auth", "login"): "joey profiles add NAME --provider PROVIDER",
    ("auth", "logout"): "joey profiles unset NAME apiKey",
    ("auth", "status"): "joey doctor",
    ("list", "commands"): "joey --help",
    ("list", "models"): "joey models",
    ("list", "modes"): "joey modes list",
    ("list", "sessions"): "joey tasks list",
    ("providers", "list"): "joey profiles list",
    ("session", "list"): "joey tasks list",
}
_TASK_ACTIONS = ("list", "show", "export")
_TASK_ID_RE = compile_regex(r"[0-9a-f-]{4,}")


def suggest_command(argv: Sequence[str]) -> str | None:
    """Suggest the command that these arguments probably mean; None for a prompt."""
    match argv:
        case [word] if word in _PEER_COMMANDS:
            return _PEER_COMMANDS[word]
        case ["exec" | "run", *rest] if any(word.startswith("-") for word in rest):
            return "joey -p PROMPT"  # flags of another agent mean something else here, or nothing
        case ["exec" | "run", *prompt]:
            return f"joey -p {shlex.quote(' '.join(prompt) or 'PROMPT')}"
        case ["resume", "--last"]:
            return "joey -c"
        case [command, action, *rest] if (command, action) in _PEER_ACTIONS and (
            not rest or rest[0].startswith("-")
        ):
            return _PEER_ACTIONS[command, action]
        case ["resume", task] if _TASK_ID_RE.fullmatch(task):
            return f"joey -r {task}"
    if not 1 <= len(argv) <= 3 or any(" " in word or word.startswith("-") for word in argv):
        return None
    name = find_closest_name(argv[0], _SUGGESTED_COMMANDS)
    if name is None:
        return None
    match argv[1:]:
        case []:
            return _SUGGESTED_COMMANDS[name]
        case [action] if name == "tasks" and (near := find_closest_name(action, _TASK_ACTIONS)):
            return f"joey tasks {near}" if near == "list" else f"joey tasks {near} ID"
        case [("show" | "export") as action, task] if name == "tasks" and _TASK_ID_RE.fullmatch(
            task
        ):
            return f"joey tasks {action} {task}"
        case [command] if name == "help" and command in _SUGGESTED_COMMANDS:
            return f"joey {command} --help"
    return None
