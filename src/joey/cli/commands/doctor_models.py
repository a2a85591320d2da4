"""Checks of `joey doctor` about models: local servers, the model of a task, its connection."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Iterator

from joey.app.local_models import MEASURE_TIMEOUT_S, ServerReport, inspect_local_servers
from joey.app.models import (
    HTTP_NOT_FOUND,
    LOCAL_PROVIDERS,
    find_missing_endpoint,
    request_models,
)
from joey.app.provider_setup import describe_small_window
from joey.cli.commands.doctor_checks import (
    Finding,
    load_current_options,
    report_failure,
    report_none,
    report_ok,
    report_warning,
)
from joey.cli.output import format_count
from joey.core.models import MIN_WINDOW_TOKENS, SMALL_WINDOW_TOKENS, ModelFacts, ServedModel
from joey.core.redaction import remove_secrets
from joey.errors import ConfigError, NoModelError, UserError
from joey.presentation.text import to_one_line

_MAX_LISTED_MODELS = 5
CONNECTION_TIMEOUT_S = 3.0
_PROXY_VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_AUTH_ERROR_STATUSES = (401, 403)


def check_local_servers() -> Finding:
    """Find servers at their default addresses and at those of profiles, with their facts."""
    reports = asyncio.run(inspect_local_servers(measure=True))
    if not reports:
        looked = ", ".join(kind.name for kind in LOCAL_PROVIDERS)
        return report_none(f"none running (looked for {looked})")
    listed = "\n".join(line for report in reports for line in _describe_server(report))
    count = format_count(len(reports), "server")
    remarks = [remark for report in reports for remark in _collect_remarks(report)]
    make = report_ok if all(map(_has_usable_window, reports)) else report_warning
    return make(f"{count}\n{listed}", "\n".join(remarks))


def _describe_server(report: ServerReport) -> Iterator[str]:
    server, models = report.server, report.models
    profile = f" (profile {server.profile})" if server.profile else ""
    yield f"{report.kind or server.provider} at {remove_secrets(server.base_url)}{profile}"
    if server.is_loading:
        yield "  loading its model"
    elif not models:
        yield "  no model yet"
    else:
        for model in models[:_MAX_LISTED_MODELS]:
            yield f"  {to_one_line(model.id)}: {'; '.join(_describe_model(model))}"
        if len(models) > _MAX_LISTED_MODELS:
            yield f"  and {len(models) - _MAX_LISTED_MODELS} more"
        if _has_usable_window(report):
            yield f"  To use it: joey {shlex.join(report.flags)}"


def _describe_model(model: ModelFacts) -> Iterator[str]:
    served = model.served or ServedModel()
    if model.is_loaded is False:
        yield "not loaded"
    window, largest = served.context_window, served.max_context_window
    if window is None:
        yield "window unknown" if largest is None else f"window up to {largest:,} tokens"
    else:
        most = f" of at most {largest:,}" if largest is not None and largest > window else ""
        yield f"window {window:,}{most} tokens"
    if served.native_tools is False:
        yield "no tools: joey uses XML calls"
    abilities = {"tools": served.native_tools, "images": served.images, "thinking": served.thinking}
    if found := [name for name, has in abilities.items() if has]:
        yield ", ".join(found)
    if (speed := model.speed) is None:
        return
    if speed.is_timeout:
        yield f"too slow to measure (no reply in {MEASURE_TIMEOUT_S:g} seconds)"
    if speed.prompt is not None:
        yield f"prompt {speed.prompt:,.0f} tokens/s"
    if speed.output is not None:
        yield f"output {speed.output:,.1f} tokens/s"


def _has_usable_window(report: ServerReport) -> bool:
    return report.window is None or report.window >= MIN_WINDOW_TOKENS


def _collect_remarks(report: ServerReport) -> Iterator[str]:
    window = report.window
    if window is not None and window < SMALL_WINDOW_TOKENS:
        effect = (
            "is too small for joey"
            if window < MIN_WINDOW_TOKENS
            else "is small: joey sends a short prompt and few tools"
        )
        advice = f"; for a larger one, {report.window_advice}" if report.window_advice else ""
        yield f"The window of {report.models[0].id} ({window:,} tokens) {effect}{advice}."
    if report.tools_advice:
        yield report.tools_advice


def check_model(*, is_online: bool = True) -> Finding:
    """Check the model as a task would choose it; if none is chosen, suggest one of a local
    server."""
    try:
        options = load_current_options()
        profile = options.profile
        problem = ""
        if is_online:
            problem = asyncio.run(describe_small_window(profile, options.route))
    except NoModelError as error:
        reports = asyncio.run(inspect_local_servers()) if is_online else []
        usable = [each for each in reports if each.models and _has_usable_window(each)]
        if usable:
            return _offer_server(usable[0])
        if reports:
            found = "none can be used: the local server that runs is not ready for joey"
            return report_failure(found, "\n".join(map(_explain_unusable, reports)))
        return report_failure("none can be used", str(error))
    except ConfigError as error:
        return report_failure("none can be used", str(error))
    except UserError as error:
        return report_warning("cannot be determined", str(error))
    where = f" at {remove_secrets(profile.base_url)}" if profile.base_url else ""
    found = f"{profile.model} of {profile.provider}{where}"
    return report_failure(found, problem) if problem else report_ok(found)


def _explain_unusable(report: ServerReport) -> str:
    server = report.server
    if server.is_loading:
        return f"{server.provider} is loading its model: try again when it is done."
    if not report.models:
        return server.missing_model_hint
    return " ".join(_collect_remarks(report))


def _offer_server(report: ServerReport) -> Finding:
    flags, profile = shlex.join(report.flags), report.server.profile
    command = f"joey profiles add local {flags} --use"
    if profile:
        command = shlex.join(("joey", "profiles", "set", profile, "model", report.models[0].id))
    advice = f"Type joey {flags}, or make it the default: {command}"
    return report_warning("none is chosen yet, but a local server has one", advice)


def check_connection() -> Finding:
    """Check name resolution, connection, certificate, and the answer to the cheapest request."""
    try:
        profile = load_current_options().profile
    except NoModelError:
        return report_none("not tried: no model is chosen yet")
    except UserError:
        return report_none("not tried: see Model")
    started = time.monotonic()
    try:
        answer = asyncio.run(request_models(profile, os.environ, CONNECTION_TIMEOUT_S))
        silent = None
        if answer.status == HTTP_NOT_FOUND:
            silent = asyncio.run(find_missing_endpoint(profile, os.environ, CONNECTION_TIMEOUT_S))
    except ConfigError as error:
        return report_failure("cannot be opened", str(error))
    except UserError as error:
        advice = f"{error}{_describe_proxies()} joey doctor --offline skips this check."
        return report_failure(f"{profile.provider} cannot be reached", advice)
    took = f"in {(time.monotonic() - started) * 1000:.0f} ms{_describe_proxies()}"
    if silent is None:
        return _build_connection_finding(profile.provider, answer.status, took)
    # Some servers only support the requests of a task; others are at another address.
    found = f"{profile.provider} answers, but does not list its models ({HTTP_NOT_FOUND}) {took}"
    advice = (
        f"It may still work: a task sends its requests to {remove_secrets(silent)}. If that fails,"
        " check the address and its path; joey profiles show says where it comes from."
    )
    return report_warning(found, advice)


def _build_connection_finding(name: str, status: int, took: str) -> Finding:
    found = f"{name} answers {status} {took}"
    if status in _AUTH_ERROR_STATUSES:
        advice = "The service rejects the key. joey profiles show says where it comes from."
        return report_failure(found, advice)
    if status >= 500 or status == 429:
        return report_warning(found, "The service is busy or has problems; try again later.")
    if 300 <= status < 400:
        return report_warning(found, "It redirects; set the base URL to the final address.")
    # Some have no list of models; any answer shows that they are reachable.
    return report_ok(f"{name} answers ({status}) {took}")


def _describe_proxies() -> str:
    named = [
        name for name in _PROXY_VARIABLES if os.environ.get(name) or os.environ.get(name.lower())
    ]
    return f" ({', '.join(named)} is set)" if named else ""
