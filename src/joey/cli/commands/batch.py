"""`joey batch`: run, follow and inspect lists of tasks.

`run` checks everything before anything starts; all other actions only need the output directory.
"""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from joey.app.engine_factory import STORE_VARIABLE
from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.fleet_extra import require_fleet
from joey.cli.output import encode_json, format_count, write_stdout
from joey.cli.signals import run_until_signal
from joey.errors import UserError

if TYPE_CHECKING:
    from joey.batch.coordinator import Coordinator
    from joey.batch.items import Item
    from joey.batch.orders import Order
    from joey.batch.results import ItemStatus
    from joey.batch.store import BatchStore
    from joey.batch.tables import BatchOptions

DEFAULT_ATTEMPTS, DEFAULT_WIDTH, DEFAULT_WORKERS = 2, 4, 1


def run_batch(arguments: Namespace) -> ExitCode:
    require_fleet()
    actions = {
        "run": _run_list,
        "status": _show_status,
        "results": _show_results,
        "show": _show_item,
        "retry": _retry_items,
        "cancel": _cancel_items,
        "export": _export_results,
    }
    return actions[arguments.action](arguments)


def _open(arguments: Namespace) -> BatchStore:
    from joey.batch.store import BatchNotFoundError, open_batch_store

    try:
        store = open_batch_store(Path(arguments.out))
    except BatchNotFoundError as error:
        raise UsageError(str(error)) from error
    if store.shared_tasks is not None:
        store.results.refresh()  # updates the copies in the output directory
    return store


# Run


def _run_list(arguments: Namespace) -> ExitCode:
    from joey.batch.items import ListError

    try:
        items, selected, order = _load_list(arguments)
    except ListError as error:
        raise UsageError(str(error)) from error
    options = _build_batch_options(arguments, order)
    if arguments.dry_run:
        asyncio.run(_check_model(arguments, options))
        return _print_plan(Path(arguments.output), selected, options)
    return asyncio.run(_run_and_follow(arguments, items, selected, options))


def _load_list(arguments: Namespace) -> tuple[list[Item], list[Item], Order]:
    from joey.batch.items import ItemDefaults, ListFormat, Selection, load_items

    order = _build_order(arguments)
    defaults = ItemDefaults(
        template=order.prompt,
        repo=order.repo,
        ref=order.ref,
        setup=order.setup,
        check=order.check,
    )
    items = load_items(Path(arguments.list), defaults, ListFormat(arguments.format))
    first, last = arguments.slice or (None, None)
    selection = Selection(
        pattern=arguments.filter,
        first=first,
        last=last,
        seed=arguments.shuffle,
        limit=arguments.limit,
    )
    return items, selection.apply(items), order


def _build_order(arguments: Namespace) -> Order:
    from joey.batch.items import ListError, WorkspaceKind
    from joey.batch.orders import Order
    from joey.cli.task_launch import build_permission_flags, load_schema_flag
    from joey.core.settings import Limits

    template = arguments.prompt
    if arguments.prompt_file is not None:
        try:
            template = Path(arguments.prompt_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ListError(f"{arguments.prompt_file} cannot be read: {error}") from error
    schema = None if arguments.json_schema is None else load_schema_flag(arguments.json_schema)
    if schema is not None and not isinstance(schema, dict):
        raise UsageError("--json-schema must be a JSON object")
    permissions = msgspec.structs.asdict(build_permission_flags(arguments))
    permissions["add_dirs"] = tuple(str(Path(each).absolute()) for each in arguments.add_dir)
    return Order(
        prompt=template,
        repo=arguments.repo,
        ref=arguments.ref,
        setup=arguments.setup,
        check=arguments.check,
        workspace=WorkspaceKind(arguments.workspace),
        limits=Limits(
            max_turns=arguments.max_turns,
            max_cost=arguments.max_budget_usd,
            max_seconds=arguments.max_wall_time,
            max_tokens=arguments.max_tokens,
            max_tool_calls=arguments.max_tool_calls,
        ),
        provider=arguments.provider,
        model=arguments.model,
        base_url=arguments.base_url,
        profile=arguments.profile,
        mode=arguments.mode,
        protocol=arguments.protocol,
        schema=schema,
        **permissions,
    )


def _build_batch_options(arguments: Namespace, order: Order) -> BatchOptions:
    from joey.batch.tables import BatchOptions

    return BatchOptions(
        order=order,
        attempts=arguments.attempts or DEFAULT_ATTEMPTS,
        width=arguments.width or DEFAULT_WIDTH,
        at_once=arguments.at_once,
        group_at_once=arguments.group_at_once,
        total_cost=arguments.total_budget_usd,
        total_seconds=arguments.total_wall_time,
    )


def _print_plan(out: Path, selected: list[Item], options: BatchOptions) -> ExitCode:
    from joey.batch.lists import find_needed
    from joey.batch.orders import merge_limits
    from joey.batch.store import BatchNotFoundError, open_batch_store

    try:
        store = open_batch_store(out)
        needed, spent = find_needed(store, selected), store.load_batch().spent
    except BatchNotFoundError:
        needed, spent = selected, 0.0
    costs = [merge_limits(options.order.limits, item.limits).max_cost for item in needed]
    most = None if None in costs else sum(each or 0.0 for each in costs) * options.attempts
    if options.total_cost is not None:
        left = max(options.total_cost - spent, 0.0)
        most = left if most is None else min(most, left)
    for item in needed:
        print(item.id)
    count = len(needed)
    summary = f"{count} {'item' if count == 1 else 'items'} would run"
    if len(selected) > count:
        summary += f", {len(selected) - count} have a result or are queued"
    cost = "the cost is not limited" if most is None else f"at most ${most:.2f}"
    print(f"joey: {summary} · {cost}", file=sys.stderr)
    return ExitCode.DONE


def _find_database(arguments: Namespace) -> str | None:
    """Return the database's address; None for a file in the output directory."""
    if arguments.store is not None or Path(arguments.output, "batch.sqlite").exists():
        return arguments.store  # type: ignore[no-any-return]
    return os.environ.get(STORE_VARIABLE)


async def _run_and_follow(
    arguments: Namespace, items: list[Item], selected: list[Item], options: BatchOptions
) -> ExitCode:
    from joey.batch.coordinator import Coordinator
    from joey.batch.lists import queue_list
    from joey.batch.store import open_batch_store
    from joey.cli.batch_views import print_results, print_summary, show_batch_progress

    await _check_model(arguments, options)
    out, url = Path(arguments.output), _find_database(arguments)
    store = await asyncio.to_thread(open_batch_store, out, create=True, url=url)
    store.results.refresh()
    line_count = len(store.results.lines)
    queued = await asyncio.to_thread(queue_list, store, items, selected, options)
    _print_differences(queued.missing, queued.changed)
    if arguments.no_wait:
        print(f"{format_count(queued.queued, 'item')} queued", file=sys.stderr)
        return ExitCode.DONE
    workers = DEFAULT_WORKERS if arguments.workers is None else arguments.workers
    coordinator = Coordinator(store, queued.batch_id, workers=workers, since=line_count)
    with run_until_signal() as interruption:
        await show_batch_progress(coordinator.follow())
    if interruption.exit_code is not None:
        print("joey: stopped; run the same command to continue", file=sys.stderr)
        return interruption.exit_code
    rows = store.tables.load_items(queued.batch_id)
    has_worked = queued.queued > 0 or len(store.results.lines) > line_count
    if has_worked or sys.stdout.isatty():
        print_results(rows)
    print_summary(rows, store.load_batch().spent, has_worked=has_worked)
    wanted = set(queued.selected)
    code = choose_exit_code([row.status for row in rows if row.id in wanted])
    store.close()
    return code


async def _check_model(arguments: Namespace, options: BatchOptions) -> None:
    """Check for problems that would affect every item before anything starts. Raises UserError."""
    from joey.app.sandbox import check_unattended_sandbox
    from joey.batch.items import Item
    from joey.batch.orders import Ceiling, build_task_options
    from joey.engine.asks import Unattended

    if arguments.workers == 0 or arguments.no_wait:
        return  # other workers have other profiles
    item = Item(id="check", prompt="check")
    resolved = build_task_options(
        options.order, item, Path.cwd(), Ceiling(), Unattended(), dict(os.environ)
    )
    if options.order.yes:
        await check_unattended_sandbox(resolved.settings)


def _print_differences(missing: tuple[str, ...], changed: tuple[str, ...]) -> None:
    for ids, what in (
        (missing, "no longer in the list; results are kept"),
        (changed, "changed in the list; `joey batch retry OUT ITEM --anew` takes the change"),
    ):
        if ids:
            shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
            print(f"joey: {format_count(len(ids), 'item')} {what}: {shown}", file=sys.stderr)


def choose_exit_code(statuses: list[ItemStatus]) -> ExitCode:
    """Choose the first of 55, 75, 1 and 0 that applies."""
    from joey.batch.results import ItemStatus

    found = set(statuses)
    if ItemStatus.BUDGET in found:
        return ExitCode.BUDGET_LIMIT
    if ItemStatus.ERROR in found:
        return ExitCode.TRY_AGAIN
    return ExitCode.FAILED if found - {ItemStatus.DONE} else ExitCode.DONE


# Everything else


def _show_status(arguments: Namespace) -> ExitCode:
    from joey.batch.coordinator import Coordinator
    from joey.batch.status import build_status, find_rate_limits
    from joey.cli.batch_views import print_status

    store = _open(arguments)
    if arguments.watch:
        coordinator = Coordinator(store, store.load_batch().id, workers=0)
        if (code := asyncio.run(_watch(coordinator))) is not None:
            return code
    status = build_status(store)
    if arguments.json:
        write_stdout(encode_json(status))
    else:
        print_status(status, find_rate_limits(store))
    return ExitCode.DONE


async def _watch(coordinator: Coordinator) -> ExitCode | None:
    """Watch the batch; return the exit code if a signal ended it."""
    from joey.cli.batch_views import show_batch_progress

    with run_until_signal() as interruption:
        await show_batch_progress(coordinator.follow())
    return interruption.exit_code


def _show_results(arguments: Namespace) -> ExitCode:
    from joey.cli.batch_views import write_results

    store = _open(arguments)
    rows = store.tables.load_items(store.load_batch().id)
    statuses = _parse_statuses(arguments.status)
    if statuses:
        rows = [row for row in rows if row.status in statuses]
    write_results(rows, arguments.format, arguments.sort)
    return ExitCode.DONE


def _show_item(arguments: Namespace) -> ExitCode:
    from joey.batch.lists import select_rows
    from joey.cli.batch_views import print_item

    store = _open(arguments)
    row = select_rows(store, store.load_batch().id, [arguments.item])[0]
    store.results.refresh()
    attempt = arguments.attempt or row.attempt
    lines = [
        line for line in store.results.lines if line.item == row.id and line.attempt == attempt
    ]
    if arguments.attempt is not None and not lines and attempt != row.attempt:
        raise UsageError(f"item {row.id} has no attempt {attempt}; the latest is {row.attempt}")
    print_item(store, row, attempt, lines[-1] if lines else None)
    return ExitCode.DONE


def _retry_items(arguments: Namespace) -> ExitCode:
    from joey.batch.lists import mark_for_retry
    from joey.batch.results import ItemStatus

    statuses = _parse_statuses(arguments.status) or {ItemStatus.ERROR}
    marked = mark_for_retry(_open(arguments), arguments.items, statuses, anew=arguments.anew)
    print(f"{format_count(len(marked), 'item')} marked for the next `joey batch run`")
    return ExitCode.DONE


def _cancel_items(arguments: Namespace) -> ExitCode:
    from joey.batch.lists import cancel_items

    store = _open(arguments)
    ended = cancel_items(store, arguments.items, stop_running=arguments.now)
    print(f"{format_count(len(ended), 'item')} cancelled")
    return ExitCode.DONE


def _export_results(arguments: Namespace) -> ExitCode:
    from joey.batch.export import export_results

    store = _open(arguments)
    try:
        count = export_results(store, arguments.format, Path(arguments.output))
    except OSError as error:
        raise UserError(f"{arguments.output} cannot be written: {error.strerror}.") from error
    print(f"{format_count(count, 'item')} written to {arguments.output}")
    return ExitCode.DONE


def _parse_statuses(text: str | None) -> set[ItemStatus]:
    from joey.batch.results import ItemStatus

    names = [] if text is None else [name.strip() for name in text.split(",")]
    known = {status.value for status in ItemStatus}
    for name in names:
        if name not in known:
            raise UsageError(f"--status {name!r}: it can be {', '.join(sorted(known))}")
    return {ItemStatus(name) for name in names}
