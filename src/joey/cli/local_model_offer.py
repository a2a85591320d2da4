"""A model for a run that names none: one of a local server, or of the server that the flags name.

In a first run at a terminal, a local server is offered with one key press; elsewhere the error
names it, with the flags that would use it.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import termios
import tty
from argparse import Namespace

from joey.app.model_choice import ModelFlags
from joey.app.models import LocalServer, ask_named_server, find_local_servers
from joey.app.profiles import is_first_run, save_server_profile
from joey.errors import (
    ConfigError,
    NoModelError,
    ProviderError,
    ProviderFailureKind,
    UserError,
)
from joey.presentation.text import get_terminal_width, to_one_line, wrap

_MAX_MODEL_CHOICES = 9
"""One digit chooses."""
_MAX_NAMED_MODELS = 3
_YES_KEYS = ("\r", "\n", "y", "Y")


def offer_local_server(arguments: Namespace) -> None:
    """Ask once, before a conversation begins; if the user declines, list the other ways."""
    named = (arguments.provider, arguments.base_url, arguments.profile)
    if any(named) or arguments.continue_ or arguments.resume or not _is_first_run():
        return
    found = [server for server in _find_local_servers() if server.models]
    if not found:
        return
    choices = [(server, model) for server in found for model in server.models][:_MAX_MODEL_CHOICES]
    lines = ["There is no key and no profile yet, but models run on this machine:"]
    for number, (server, model) in enumerate(choices, 1):
        lines.append(f"  {number}  {to_one_line(model)} ({server.provider} at {server.base_url})")
    lines.append("Press Enter to use the first, a number for another, n for none.")
    key = _read_keypress("\n".join(lines))
    number = int(key) if key.isdecimal() else 1 if key in _YES_KEYS else 0
    if not 1 <= number <= len(choices):
        return
    server, model = choices[number - 1]
    save_server_profile(server, model)
    _print_wrapped(f"{to_one_line(model)} is saved as a profile; joey profiles changes it.")


def choose_served_model(arguments: Namespace, error: NoModelError) -> str:
    """Return the model of the named server if it has just one. Raises NoModelError (`error`, with
    the models to choose from and the flags for them), or ProviderError if the key is rejected."""
    flags = ModelFlags(
        provider=arguments.provider, base_url=arguments.base_url, profile=arguments.profile
    )
    try:
        server = asyncio.run(ask_named_server(flags))
    except NoModelError:
        raise _add_local_server_hint(error) from error
    except UserError as failure:
        if isinstance(failure, ProviderError) and failure.failure is ProviderFailureKind.AUTH:
            raise  # naming a model would not help
        raise NoModelError(f"{failure} {error}") from error
    if len(server.models) == 1:
        (model,) = server.models
        note = f"joey: using {to_one_line(model)}, the only model that {server.provider} serves"
        print(note, file=sys.stderr)
        return model
    raise _name_models(error, server)


def _add_local_server_hint(error: NoModelError) -> NoModelError:
    """Add the local server that could be used, with the flags for it."""
    server = next((each for each in _find_local_servers() if each.models), None)
    return error if server is None else _name_models(error, server)


def _name_models(error: NoModelError, server: LocalServer) -> NoModelError:
    if server.missing_model_hint:
        return NoModelError(f"{error} {server.missing_model_hint}")
    names = to_one_line(", ".join(server.models[:_MAX_NAMED_MODELS]))
    if (more := len(server.models) - _MAX_NAMED_MODELS) > 0:
        names += f" and {more} more"
    where = "runs on this machine and offers" if server.is_local else "offers"
    flags = shlex.join(server.flags if server.is_local else server.flags[-2:])
    return NoModelError(f"{error}\n{server.provider} {where} {names}. To use it, add: {flags}")


def _find_local_servers() -> list[LocalServer]:
    return asyncio.run(find_local_servers(os.environ))


def _is_first_run() -> bool:
    try:
        return is_first_run()
    except ConfigError:
        return False  # code that needs the file reports the error


def _read_keypress(question: str) -> str:
    """Read one key, without Enter; keys typed before the question are discarded."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        _print_wrapped(question)
        return os.read(fd, 1).decode("ascii", "replace")
    except KeyboardInterrupt:
        return ""
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _print_wrapped(text: str) -> None:
    print(wrap(text, get_terminal_width(sys.stderr)), file=sys.stderr, flush=True)
