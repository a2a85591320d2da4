"""`joey models`: the models to choose from, with context windows and prices."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from typing import Any

from joey.app.local_models import list_served_models
from joey.app.models import ListedModel
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import emit, format_columns, print_warning
from joey.errors import ConfigError
from joey.presentation.text import get_terminal_width, to_one_line


def run_models(arguments: Namespace) -> ExitCode:
    try:
        found = asyncio.run(list_served_models(arguments.provider, offline=arguments.offline))
    except ConfigError as error:
        if arguments.provider and error.field:
            raise UsageError(str(error)) from error
        raise
    if found.models or arguments.json:
        objects = [_to_json_fields(found.provider, model) for model in found.models]
        emit(objects, _format_models(found.models), arguments.json)
    else:
        print(f"no models of {found.provider} are known here", file=sys.stderr)
    if found.server_error:
        print_warning(f"the server was not heard: {to_one_line(found.server_error, 400)}")
    return ExitCode.DONE


def _format_models(models: tuple[ListedModel, ...]) -> list[str]:
    width = get_terminal_width(sys.stdout)
    rows = []
    for model in models:
        mark = ("* " if model.is_default else "  ") if width else ""
        window = f"{model.info.context_window // 1000:,}k" if model.info.is_known else "-"
        prices = model.info.prices if model.info.is_known else None
        price = f"{prices.input:g}/{prices.output:g}" if prices else "-"
        source = model.provider or "+".join(model.sources)
        rows.append([mark + to_one_line(model.id), window, price, source])
    return format_columns(["  model", "window", "$ in/out per million", "from"], rows, {0, 1, 3})


def _to_json_fields(provider: str, model: ListedModel) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": model.id,
        "provider": model.provider or provider,
        "from": model.sources,
    }
    if model.is_default:
        fields["chosen"] = True
    if model.info.is_known:
        info = model.info
        fields |= {"contextWindow": info.context_window, "maxOutput": info.max_output_tokens}
        if info.prices is not None:
            fields["prices"] = {"input": info.prices.input, "output": info.prices.output}
    return fields
