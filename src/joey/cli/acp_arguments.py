"""What may be written after `joey acp`."""

from __future__ import annotations

from joey.cli.argument_values import Parser


def acp_parser() -> Parser:
    parser = Parser(
        prog="joey acp",
        description=(
            "Speak the Agent Client Protocol on stdin and stdout. Editors start this by"
            " themselves: Zed, JetBrains, Neovim, Emacs and others; docs/editors.md has their"
            " settings."
        ),
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-m", "--model", metavar="MODEL", help="which model new sessions begin with")
    add("--provider", metavar="PROVIDER", help="anthropic, openai, openrouter, ollama…")
    add("--base-url", metavar="URL", help="another address of the provider")
    add("--profile", metavar="PROFILE", help="a profile of profiles.json")
    add("--mode", metavar="MODE", help="code, architect, ask, debug…")
    add(
        "--setup",
        action="store_true",
        help="open joey at a terminal instead: editors do so for you to name a model and a key",
    )
    add("--debug", action="store_true", help="log to stderr")
    return parser
