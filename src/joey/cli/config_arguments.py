"""The command lines of `joey config`, `joey profiles` and `joey models`."""

from __future__ import annotations

import argparse
from typing import Any

from joey.cli.argument_values import ActionParser, Parser, sentence

_CONFIG = """\
examples:
  joey config list --changed             what is not as it comes
  joey config describe sandbox           what a setting means and may be
  joey config set alwaysAllowWrite true
  joey config set allowedCommands --add "npm test" --add "git status"
  joey config unset alwaysAllowWrite     back to its default

Your settings are in $JOEY_HOME/settings.json; .roo/settings.json of a project
can make some of them stricter. docs/settings.md lists them all."""
_PROFILES = """\
examples:
  joey profiles add work --provider anthropic          asks for the key unseen
  joey profiles add local --provider ollama --model qwen3-coder
  pass show openai | joey profiles set work apiKey     a key through a pipe
  joey profiles use local                              from now on

A key is never taken from the command line, which others can read. Without one
in the profile, the provider's variable is used."""


_COMPLETION = "Print a script that completes commands, flags and their values in your shell."
_COMPLETION_HOW = """\
to install it:
  bash  joey completion bash > ~/.local/share/bash-completion/completions/joey
  zsh   joey completion zsh > "${fpath[1]}/_joey"    (of yours, before compinit)
  fish  joey completion fish > ~/.config/fish/completions/joey.fish

or for this shell alone: source <(joey completion bash)"""


def config_parser() -> Parser:
    parser = _parser("config", "Look at your settings, and change them.", _CONFIG)
    actions = _actions(parser, "list|get|set|unset|describe|path|edit")
    listed = _action(actions, "list", "every setting: its value, and where that comes from")
    listed.add_argument("--changed", action="store_true", help="only those that are set somewhere")
    listed.add_argument("--json", action="store_true", help="as a JSON array")
    got = _action(actions, "get", "the value of a setting, as it counts here")
    _add_key(got)
    got.add_argument("--json", action="store_true", help="as JSON, also a text")
    given = _action(actions, "set", "give a setting a value")
    _add_key(given)
    given.add_argument("value", metavar="VALUE", nargs="*", help="JSON, or plain words")
    given.add_argument(
        "--add", metavar="ITEM", action="append", default=[], help="add to a list (repeatable)"
    )
    given.add_argument(
        "--remove", metavar="ITEM", action="append", default=[], help="take from a list"
    )
    _add_key(_action(actions, "unset", "take a setting back to its default"))
    described = _action(actions, "describe", "what a setting means, and what it may be")
    _add_key(described)
    described.add_argument("--json", action="store_true", help="as a JSON object")
    _action(actions, "path", "where the settings are")
    _action(actions, "edit", "open them in $VISUAL or $EDITOR, and check them afterwards")
    for action in actions.choices.values():
        action.add_argument("-w", "--workspace", metavar="DIR", help="as it counts in this folder")
    return parser


def profiles_parser() -> Parser:
    parser = _parser(
        "profiles", "Look after profiles: named ways to reach a model, with their keys.", _PROFILES
    )
    actions = _actions(parser, "list|show|add|set|unset|use|remove")
    listed = _action(actions, "list", "all profiles; * marks the one that is used")
    listed.add_argument("--json", action="store_true", help="as a JSON array, without keys")
    shown = _action(actions, "show", "one profile, and where each value comes from")
    shown.add_argument(
        "name", metavar="PROFILE", nargs="?", help="default: whatever would be used now"
    )
    shown.add_argument("--json", action="store_true", help="as a JSON object, without keys")
    added = _action(actions, "add", "make a profile")
    added.add_argument("name", metavar="NEW", help="its name")
    added.add_argument("--provider", metavar="PROVIDER", required=True, help="whose API is spoken")
    added.add_argument("-m", "--model", metavar="MODEL", help="which model")
    added.add_argument("--base-url", metavar="URL", help="another address of the provider")
    key = added.add_mutually_exclusive_group()
    key.add_argument(
        "--key", action="store_true", help="ask for a key, or read it from stdin, or fail"
    )
    key.add_argument("--no-key", action="store_true", help="neither ask for one nor read stdin")
    added.add_argument("--use", action="store_true", help="use it from now on")
    changed = _action(actions, "set", "change a value of a profile")
    _add_profile(changed)
    changed.add_argument("key", metavar="PROFILE_KEY", help="such as model, temperature, apiKey")
    changed.add_argument(
        "value", metavar="VALUE", nargs="*", help="left out for apiKey, which is asked for"
    )
    unset = _action(actions, "unset", "take a value out of a profile")
    _add_profile(unset)
    unset.add_argument("key", metavar="PROFILE_KEY", help="such as model, temperature, apiKey")
    _add_profile(_action(actions, "use", "use this profile from now on"))
    removed = _action(actions, "remove", "remove a profile, and its key")
    _add_profile(removed)
    removed.add_argument("-y", "--yes", action="store_true", help="do not ask")
    return parser


def models_parser() -> Parser:
    parser = _parser(
        "models",
        "List models to choose from: what the catalogue knows, and what the server offers.",
        None,
    )
    add = parser.add_argument
    add("--provider", metavar="PROVIDER", help="of this one (default: the one that is used)")
    add("--offline", action="store_true", help="do not ask the server")
    add("--json", action="store_true", help="as a JSON array")
    add("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def completion_parser() -> Parser:
    parser = _parser("completion", _COMPLETION, _COMPLETION_HOW)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="for which shell")
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def _add_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help="the name of a setting, such as sandbox")


def _add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="PROFILE", help="the name of a profile")


def _parser(name: str, about: str, epilog: str | None) -> Parser:
    return Parser(
        prog=f"joey {name}",
        description=about,
        epilog=epilog,
        allow_abbrev=False,
    )


def _actions(parser: Parser, names: str) -> argparse._SubParsersAction[Any]:
    return parser.add_subparsers(
        dest="action", required=True, metavar=names, parser_class=ActionParser
    )


def _action(
    actions: argparse._SubParsersAction[Any], name: str, about: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=about, description=sentence(about), allow_abbrev=False
    )
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser
