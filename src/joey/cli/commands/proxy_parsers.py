"""Arguments of `joey proxy` and its actions."""

from __future__ import annotations

from joey.cli.arguments import (
    Action,
    Argument,
    CliArgumentParser,
    Command,
    TrailingCommandParser,
    parse_age,
    parse_count,
    parse_port,
    parse_time_ms,
)

PROXY_CLIENTS = ("claude", "codex", "opencode", "qwen", "pi", "cline", "roo", "aider", "joey")
_EXAMPLES = """\
examples:
  joey proxy                             record what clients send, until Ctrl-C
  joey proxy run -- claude               the same for one program
  joey proxy env codex                   how to point a client here
  joey proxy list                        recorded conversations
  joey proxy show 3.2 --system           the system prompt of a request
  joey proxy diff 3.2                    why the cache missed, and what it cost
  joey proxy report --format html > report.html
  joey proxy export 3 --as fixture -o login.json
  joey proxy serve login.json            replay it to the same program

What is passed on is not changed. docs/proxy.md has the details."""
_BOOK: Argument = (
    "--db",
    "the file with the recordings (default: $JOEY_HOME/proxy/book.sqlite)",
    "FILE",
)
_SINCE: Argument = (
    "--since",
    "active since: 2026-01-31, 36h, 7d",
    "WHEN",
    {"type": parse_time_ms},
)
_PROXY_OPTIONS: tuple[Argument, ...] = (
    ("--port", "listen on this port (default: 7801; 0: any)", "PORT", {"type": parse_port}),
    (
        "--anthropic",
        "where requests of the Anthropic API go (default: the active profile's address, else"
        " Anthropic; for run, $ANTHROPIC_BASE_URL comes first)",
        "URL",
    ),
    ("--openai", "the same for the OpenAI API and all other requests", "URL"),
    _BOOK,
    ("--keep", "remove recordings after this long: 36h, 30d, 4w", "TIME", {"type": parse_age}),
    (
        "--max-mb",
        "remove the oldest recordings when they take more (default: 2048)",
        "N",
        {"type": parse_count, "default": 2048},
    ),
    ("--no-bodies", "record only headers, sizes and times"),
    ("--keep-encoding", "let services compress responses, which may then be unreadable here"),
    ("--key-from", "send the key of this profile instead of the client's", "PROFILE"),
    ("--allow-remote", "listen on all addresses, not only on this machine's own; needs a token"),
)
PROXY = Command(
    "Record what AI clients send to models and what they get back, and explain it.",
    epilog=_EXAMPLES,
    parser_class=TrailingCommandParser,
    action_class=CliArgumentParser,
    default_action="start",
    actions={
        "start": Action(
            "listen, pass requests on and record them",
            (*_PROXY_OPTIONS, ("--json", 'print the address as {"url": …}')),
        ),
        "run": Action(
            "record one program: … -- COMMAND ARGUMENTS",
            _PROXY_OPTIONS,
        ),
        "env": Action(
            "how to point a client at the proxy",
            (
                ("client", "which client", None, {"choices": PROXY_CLIENTS}),
                ("--port", "of the proxy (default: 7801)", "PORT", {"type": parse_port}),
                _BOOK,
            ),
        ),
        "list": Action(
            "recorded conversations, without those of test programs",
            (
                ("--client", "only of this client", "NAME"),
                _SINCE,
                ("--all", "test traffic too: axios, curl, httpx and the like"),
                _BOOK,
                ("--json", "as a JSON array"),
            ),
        ),
        "show": Action(
            "a conversation, or one of its requests",
            (
                ("name", "a session (3) or one of its requests (3.2)", "SESSION"),
                ("--system", "the system prompt"),
                ("--tools", "the tools, as JSON"),
                ("--blocks", "all blocks with their sizes: tools, system, messages"),
                ("--request", "headers, system prompt and messages"),
                ("--response", "the reply"),
                ("--timing", "when each piece of the response arrived"),
                (
                    "--raw",
                    "exactly the bytes of a body",
                    None,
                    {"choices": ("request", "response")},
                ),
                _BOOK,
                ("--json", "as a JSON object"),
            ),
        ),
        "diff": Action(
            "where a request first differs from an earlier one, and what that cost",
            (
                ("name", "a request, such as 3.2", "REQUEST"),
                (
                    "other",
                    "the one to compare it with (default: the one whose cache it could use)",
                    "REQUEST",
                    {"nargs": "?"},
                ),
                _BOOK,
                ("--json", "as a JSON object"),
            ),
        ),
        "report": Action(
            "clients, request format, prompt, tools, failures, cache misses, time and money",
            (
                ("sessions", "of these sessions (default: all)", "SESSION", {"nargs": "*"}),
                (
                    "--format",
                    "text, markdown, html or json (default: text)",
                    None,
                    {"choices": ("text", "markdown", "html", "json"), "default": "text"},
                ),
                _SINCE,
                _BOOK,
            ),
        ),
        "export": Action(
            "write a session as a fixture, a script of the scripted model, or a task of Roo Code",
            (
                ("name", "which session (3)", "SESSION"),
                (
                    "--as",
                    "fixture (for joey proxy serve), script (for python -m joey.testing.server)"
                    " or roo (a folder of Roo Code's, which joey tasks import takes)",
                    None,
                    {"choices": ("fixture", "script", "roo"), "dest": "form", "default": "fixture"},
                ),
                ("-o --output", "where to write it (default: standard output)", "FILE"),
                ("--force", "replace existing files"),
                ("--redact", "remove text that looks like a key or a password"),
                _BOOK,
            ),
        ),
        "serve": Action(
            "play a session or a fixture to a client, in place of the model's service",
            (
                ("name", "a session (3), or the file of a fixture", "SESSION|FIXTURE"),
                ("--port", "listen on this port (default: any)", "PORT", {"type": parse_port}),
                ("--loose", "answer in the order of the recording, whatever is asked"),
                (
                    "--pace",
                    "when pieces of responses come: recorded (as they came) or none (at once)",
                    None,
                    {"choices": ("recorded", "none"), "default": "none"},
                ),
                _BOOK,
                ("--json", 'print the address as {"url": …}'),
            ),
        ),
        "forget": Action(
            "remove recordings for good",
            (
                ("sessions", "sessions to remove", "SESSION", {"nargs": "*"}),
                (
                    "--before",
                    "all older than this: 2026-01-31, 7d",
                    "WHEN",
                    {"type": parse_time_ms},
                ),
                _BOOK,
            ),
        ),
    },
)
