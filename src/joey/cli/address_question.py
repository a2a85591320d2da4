"""A question before a task goes on: is the address that its folder names meant?"""

from __future__ import annotations

import sys
from argparse import Namespace

from joey.cli.launch import earlier_task, options_for
from joey.core.settings import TaskSecrets
from joey.engine.engine import Engine
from joey.errors import UntiedAddressError
from joey.presentation.text import one_line

_YES = ("y", "yes")


def check_model(engine: Engine, arguments: Namespace) -> None:
    """See that the flags and files name a model, before a screen or a conversation opens. An
    address that only the task folder names is asked about once.

    Raises:
        UserError
    """
    earlier = earlier_task(engine, arguments)
    try:
        options_for(arguments, earlier, None)
    except UntiedAddressError as error:
        if earlier is None or not sys.stdin.isatty() or not _agreed(error):
            raise
        tie = TaskSecrets(provider=error.provider, base_url=error.address)
        engine.keep_secrets(earlier.id, tie)


def _agreed(error: UntiedAddressError) -> bool:
    print(f"This task talks to {one_line(error.address, 400)}, as to {error.provider}.")
    print("The address comes from the task folder; it is in none of your profiles.")
    question = f"Send the conversation and your key for {error.provider}, if any, there? [y/N] "
    try:
        answer = input(question)
    except EOFError:
        print()
        return False
    return answer.strip().lower() in _YES
