"""Network access of a command: what an approval says about it, and the offer to run it again.

A command that failed because its sandbox has no network can be run again with it, if the user
agrees. If no user can be asked, a row says why it failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from joey.core.permissions.hosts import (
    REGISTRIES,
    CommandNetwork,
    format_network,
    intersect_hosts,
    list_entries,
)
from joey.core.permissions.network import (
    expand_registries,
    find_command_hosts,
    is_registry_command,
    select_offered_hosts,
)
from joey.core.permissions.policy import ALLOW_ALL_RULE, FILTERING_LEVELS, SandboxStatus
from joey.core.task_types import Answer, RowKind
from joey.core.tool_calls import summarize_call
from joey.engine.asks import publish_feedback
from joey.engine.hooks import check_hook_refusal
from joey.engine.offers import Offer, apply_answer, select_offered
from joey.engine.outcomes import ApprovedCall, OutputRow, RowCall
from joey.engine.runtime import build_tool_context
from joey.tools.base import Outcome

if TYPE_CHECKING:
    from joey.engine.task import Task


class RejectedRetry(Struct, frozen=True):
    """The user rejected running the command again."""

    answer: Answer


async def describe_network(task: Task, command: str, sandbox: SandboxStatus) -> CommandNetwork:
    """Describe what a sandboxed command would reach, and what a user may add."""
    setting, policy = task.settings.sandbox_network, task.runtime.network
    ceiling = "all" if policy is None else policy.ceiling
    if setting == "all":
        return CommandNetwork("all")
    if sandbox not in FILTERING_LEVELS:
        limitation = f"the sandbox level {sandbox} cannot tell hosts apart: only off and all work"
        return CommandNetwork(setting, can_open=ceiling == "all", limitation=limitation)
    uses_registries = is_registry_command(command) or REGISTRIES in list_entries(setting)
    registries = await task.runtime.terminal.find_registries() if uses_registries else ()
    known = expand_registries(setting, registries)
    hosts = select_offered_hosts(known, find_command_hosts(command, registries))
    limitation = "" if policy is None else policy.explain_fixed()
    if hosts and not limitation:
        hosts = tuple(each for each in hosts if intersect_hosts((each,), ceiling) == (each,))
        limitation = "" if hosts else "the project allows fewer hosts"
    return CommandNetwork(
        known,
        can_open=ceiling == "all",
        offered_hosts=() if limitation else hosts,
        limitation=limitation,
    )


async def offer_retry(
    task: Task, row_call: RowCall, approved: ApprovedCall, outcome: Outcome
) -> ApprovedCall | RejectedRetry | None:
    """Offer to run a command again that had no network. Return the call to run again, or the user's
    rejection; None if there is nothing to ask, in which case a row says why it failed."""
    command = approved.prepared.row_text or ""
    sandbox = next((each.sandbox for each in approved.prepared.claims if each.sandbox), None)
    if sandbox is None:
        return None
    network = await describe_network(task, command, sandbox)
    can_help = network.can_open or bool(network.offered_hosts)
    if not can_help or task.asks.is_unattended or approved.rule == ALLOW_ALL_RULE:
        task.add_row(RowKind.ERROR, render_offline_row(network))
        return None
    # The output of the first attempt is shown above the question.
    approved.output_row.add_rows_and_close(outcome.rows)
    offer = Offer(network=structs.replace(network, is_retry=True))
    ask_ts = task.next_ts()
    answer = await task.ask(
        approved.prepared.ask_kind,
        command,
        ts=ask_ts,
        call_id=row_call.call.id,
        tool=approved.tool.name,
        path=approved.prepared.path,
        sandbox=sandbox,
        network=offer.network,
        summary=summarize_call(
            approved.tool.name, {}, text=command, path=approved.prepared.path, sandbox=sandbox
        ),
    )
    check_hook_refusal(answer)
    answer = select_offered(answer, offer)
    await apply_answer(task, offer, answer, ask_ts)
    publish_feedback(task, answer)
    if not answer.approves:
        return RejectedRetry(answer)
    if not answer.hosts:
        answer = structs.replace(answer, network=network.can_open)
    output_row = OutputRow(task)
    context = build_tool_context(task, row_call.call.id, ask_ts, output_row)
    first = approved.answer
    if first is not None and first.has_content:
        answer = structs.replace(
            answer,
            text="\n".join(filter(None, (first.text, answer.text))),
            images=(*first.images, *answer.images),
        )
    return structs.replace(approved, answer=answer, context=context, output_row=output_row)


def render_offline_row(network: CommandNetwork) -> str:
    """Render the row for a user who is not asked."""
    reached = format_network(network.setting)
    return (
        f"The command failed for lack of network: in the sandbox it is {reached}. To change that,"
        " use --network all, or set sandboxNetwork to the hosts that commands may reach."
    )
