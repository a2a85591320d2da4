"""`joey models`: the models to choose from, with context windows and prices."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from joey.app.local_models import list_served_models
from joey.app.models import ListedModel
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.output import emit, format_columns, format_count, print_warning, show_progress
from joey.core.models import Prices, Rates
from joey.errors import ConfigError
from joey.presentation.text import get_terminal_width, to_one_line

if TYPE_CHECKING:
    from joey.app.model_refresh import RefreshReport

MAX_LISTED_CHANGES = 20


def run_models(arguments: Namespace) -> ExitCode:
    if arguments.refresh:
        return _refresh(arguments)
    if arguments.url is not None:
        raise UsageError("--from needs --refresh")
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
        print(f"no models of {found.provider} are known", file=sys.stderr)
    if found.server_error:
        print_warning(f"the server did not list its models: {to_one_line(found.server_error, 400)}")
    return ExitCode.DONE


def _refresh(arguments: Namespace) -> ExitCode:
    from joey.app.model_refresh import refresh_models

    if arguments.offline or arguments.provider is not None:
        raise UsageError("--refresh fetches all models: leave out --offline and --provider")

    def report_progress(size: int) -> None:
        show_progress(f"fetching the catalogue: {size / 1024**2:.1f} MB")

    try:
        report = asyncio.run(refresh_models(arguments.url, report_progress))
    finally:
        show_progress("")
    lines = [
        f"{format_count(report.models, 'model')} of {format_count(report.providers, 'provider')}"
        f" from {report.source}, prices of {report.read}",
        f"{len(report.added):,} added, {len(report.price_changes):,} with another price,"
        f" {len(report.removed):,} removed",
    ]
    changed = report.price_changes[:MAX_LISTED_CHANGES]
    lines += [
        f"  {to_one_line(each.model)}: {_format_price(each.before)} → {_format_price(each.after)}"
        for each in changed
    ]
    if len(report.price_changes) > len(changed):
        lines.append(f"  … {len(report.price_changes) - len(changed):,} more")
    emit(_encode_report(report), lines, arguments.json)
    return ExitCode.DONE


def _format_models(models: tuple[ListedModel, ...]) -> list[str]:
    width = get_terminal_width(sys.stdout)
    rows = []
    for model in models:
        mark = ("* " if model.is_default else "  ") if width else ""
        window = f"{model.info.context_window // 1000:,}k" if model.info.is_known else "-"
        prices = model.info.prices if model.info.is_known else None
        price = _format_price(prices, is_brief=not width)
        source = model.provider or "+".join(model.sources)
        date = (prices and prices.as_of) or "-"
        rows.append([mark + to_one_line(model.id), window, price, source, date])
    headings = ["  model", "window", "$ in/out per million", "from", "as of"]
    return format_columns(headings, rows, {0, 1, 3, 4})


def _format_price(prices: Prices | None, *, is_brief: bool = False) -> str:
    if prices is None:
        return "-"
    rates = f"{prices.input:g}/{prices.output:g}"
    for longer in () if is_brief else prices.long_context:
        rates += f", over {longer.above // 1000:,}k {longer.input:g}/{longer.output:g}"
    return rates


def _encode_report(report: RefreshReport) -> dict[str, Any]:
    return {
        "source": report.source,
        "asOf": report.read,
        "models": report.models,
        "providers": report.providers,
        "added": report.added,
        "priceChanges": [
            {
                "model": each.model,
                "before": each.before and _encode_prices(each.before),
                "after": each.after and _encode_prices(each.after),
            }
            for each in report.price_changes
        ],
        "removed": report.removed,
    }


def _encode_prices(prices: Prices) -> dict[str, Any]:
    fields: dict[str, Any] = _encode_rates(prices)
    if prices.long_context:
        fields["longContext"] = [
            {"above": each.above} | _encode_rates(each) for each in prices.long_context
        ]
    return fields | ({"asOf": prices.as_of} if prices.as_of else {})


def _encode_rates(rates: Rates) -> dict[str, float]:
    return {
        "input": rates.input,
        "output": rates.output,
        "cacheReads": rates.cache_reads,
        "cacheWrites": rates.cache_writes,
    }


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
            fields["prices"] = _encode_prices(info.prices)
    return fields
