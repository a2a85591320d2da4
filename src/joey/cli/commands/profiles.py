"""`joey profiles`: named ways to reach a model.

Keys are typed without echo or piped in, never given on the command line.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import Any

from joey.app.profiles import API_KEY_FIELD, ProfileAdmin, mask_key, mask_value, parse_pasted_key
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import (
    confirm,
    emit,
    encode_json,
    format_table,
    write_lines,
    write_stdout,
)
from joey.cli.prompt import find_piped_fd, wait_for_first_byte
from joey.core.settings import Profile
from joey.errors import ConfigError
from joey.presentation.text import get_terminal_width, to_one_line

MAX_API_KEY_CHARS = 8192


def run_profiles(arguments: Namespace) -> ExitCode:
    try:
        return _run_action(ProfileAdmin(), arguments)
    except ConfigError as error:
        if error.field:
            raise UsageError(str(error)) from error
        raise


def _run_action(admin: ProfileAdmin, arguments: Namespace) -> ExitCode:
    match arguments.action:
        case "list":
            _print_profiles(admin, as_json=arguments.json)
        case "show":
            facts = admin.describe_profile(arguments.name)
            rows = [[fact.name, _format_value(fact.value), f"({fact.origin})"] for fact in facts]
            emit(
                {fact.name: {"value": fact.value, "from": fact.origin} for fact in facts},
                format_table(rows, get_terminal_width(sys.stdout), fixed_columns={0}),
                arguments.json,
            )
        case "add":
            _add_profile(admin, arguments)
        case "set":
            _set_value(admin, arguments)
        case "unset":
            done = admin.unset_value(arguments.name, arguments.key)
            _print_message(
                f"{arguments.key} {'removed from' if done else 'was not in'} {arguments.name}"
            )
        case "use":
            admin.activate(arguments.name)
            _print_message(f"{arguments.name} is now the active profile")
        case "remove":
            return _remove_profile(admin, arguments)
    return ExitCode.DONE


def _print_profiles(admin: ProfileAdmin, *, as_json: bool) -> None:
    profiles, active = admin.list_profiles(), admin.active_name
    if admin.active_profile_warning:
        _print_message(admin.active_profile_warning)
    if as_json:
        objects = [
            {"name": name, "active": name == active, "provider": each.provider}
            | ({"model": each.model} if each.model else {})
            | ({"baseUrl": each.base_url} if each.base_url else {})
            for name, each in profiles.items()
        ]
        write_stdout(encode_json(objects))
        return
    if not profiles:
        _print_message("there are no profiles yet; joey profiles add creates one (see its --help)")
        return
    width = get_terminal_width(sys.stdout)
    rows = [
        [
            f"{'*' if name == active else ' '} {to_one_line(name)}" if width else to_one_line(name),
            each.provider,
            to_one_line(each.model) or "-",
            to_one_line(each.base_url or "") or "-",
        ]
        for name, each in profiles.items()
    ]
    if width is None:
        write_lines("\t".join([*row, "*" if row[0] == active else ""]) for row in rows)
    else:
        write_lines(format_table([["  name", "provider", "model", "address"], *rows], width))


def _add_profile(admin: ProfileAdmin, arguments: Namespace) -> None:
    admin.check_new_profile(arguments.name, arguments.provider)
    key = None if arguments.no_key else _obtain_api_key(admin, arguments)
    admin.add(
        arguments.name,
        arguments.provider,
        model=arguments.model,
        baseUrl=arguments.base_url,
        apiKey=key,
    )
    if arguments.use:
        admin.activate(arguments.name)
    used = ", now the active profile" if admin.active_name == arguments.name else ""
    with_key = f", with the key {mask_key(key)}" if key else ""
    _print_message(f"created the profile {arguments.name}{used}{with_key}")
    if price := _describe_price(arguments):
        _print_message(price)
    if admin.active_profile_warning:
        _print_message(admin.active_profile_warning)
    if key is None and admin.needs_api_key(arguments.provider) and arguments.base_url is None:
        _print_message(f"it has no key yet: joey profiles set {arguments.name} apiKey")


def _describe_price(arguments: Namespace) -> str:
    """Describe the price of a new profile's model; empty if it names none or the price is
    unknown."""
    if not arguments.model:
        return ""
    from joey.app.models import find_prices  # with the clients of all services
    from joey.cli.notices import describe_price

    profile = Profile(
        provider=arguments.provider, model=arguments.model, base_url=arguments.base_url
    )
    return describe_price(arguments.model, find_prices(profile))


def _obtain_api_key(admin: ProfileAdmin, arguments: Namespace) -> str | None:
    """Obtain an API key by prompt or pipe if the provider uses one; an empty pipe means none."""
    provider = arguments.provider
    if arguments.key:
        return _read_api_key(provider)
    if sys.stdin.isatty():
        wanted = arguments.base_url is None and admin.needs_api_key(provider)
        return _read_api_key(provider) if wanted else None
    fd = None if admin.is_local(provider) else find_piped_fd(sys.stdin)
    text = (
        sys.stdin.readline(MAX_API_KEY_CHARS) if fd is not None and wait_for_first_byte(fd) else ""
    )
    if not text.strip():
        return None
    try:
        return parse_pasted_key(text)
    except ConfigError as error:
        hint = "It was read from standard input, which --no-key ignores."
        raise UsageError(f"{error} {hint}") from error


def _set_value(admin: ProfileAdmin, arguments: Namespace) -> None:
    name, key = arguments.name, admin.find_config_key(arguments.key).name
    if key == API_KEY_FIELD and not arguments.value:
        admin.set_api_key(name, _read_api_key(name))
        _print_message(f"changed the key of {name}")
        return
    if not arguments.value:
        raise UsageError(f"give a value: joey profiles set {name} {key} VALUE")
    value = admin.set_value(name, key, arguments.value)
    _print_message(f"{key} of {name} is now {_format_value(mask_value(key, value))}")


def _remove_profile(admin: ProfileAdmin, arguments: Namespace) -> ExitCode:
    if arguments.name not in admin.list_profiles():
        admin.remove(arguments.name)  # lists those that exist
    question = f"Remove the profile {arguments.name}, with its key?"
    if not arguments.yes and not confirm(question, "add -y to remove it"):
        _print_message("nothing was removed")
        return ExitCode.DONE
    admin.remove(arguments.name)
    left = admin.list_profiles()
    active = f"{admin.active_name} is active"
    then = active if admin.active_name in left else admin.active_profile_warning
    then = then if left else "none is left"
    _print_message(f"removed the profile {arguments.name}; {then}")
    return ExitCode.DONE


def _read_api_key(whose: str) -> str:
    """Read a key from the terminal without echo, or the first line of stdin. Raises UsageError if
    it is empty."""
    if sys.stdin.isatty():
        import getpass

        try:
            text = getpass.getpass(f"Key for {whose} (it is not shown): ")
        except EOFError:
            text = ""
    else:
        text = sys.stdin.readline(MAX_API_KEY_CHARS)
    if not text.strip():
        raise UsageError("no key was entered: type it, or send it through a pipe")
    return parse_pasted_key(text)


def _format_value(value: Any) -> str:
    return to_one_line(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 200
    )


def _print_message(text: str) -> None:
    print(to_one_line(text, 1000), file=sys.stderr)
