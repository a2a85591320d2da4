"""May this call run? Every claim is judged by the settings, and the strictest answer counts.

What no rule covers is asked. Paths that `.rooignore` hides and commands that a deny rule names
are refused whatever else is allowed. A rule that fails to judge has not allowed anything: its fault
is a reason to ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from joey.core.permissions.agreement import SecondReading, confirmed
from joey.core.permissions.claims import Access, Claim
from joey.core.permissions.decisions import ANYTHING, Allow, Ask, Beyond, Decision, Deny
from joey.core.places import Place
from joey.core.settings import Settings

__all__ = ["Allow", "Ask", "Decision", "Deny", "decide"]

EDITS_HERE = "edits in this workspace, for this task"
"""What a person may grant a task: changes of files that are neither outside nor protected."""
_FIELDS = {
    Beyond.READ_OUTSIDE: "always_allow_read_only_outside_workspace",
    Beyond.WRITE_OUTSIDE: "always_allow_write_outside_workspace",
    Beyond.WRITE_PROTECTED: "always_allow_write_protected",
}
UNCONFINED = "no sandbox works here, so each command is asked (see joey doctor, or --no-sandbox)"


def decide(
    claims: Sequence[Claim],
    settings: Settings,
    read: SecondReading | None = None,
    *,
    edits_granted: bool = False,
) -> Decision:
    """`read` is the second reading of command lines; without one, no rule allows a command."""
    if not claims:
        return Ask("the call does not say what it is going to do")
    decisions = [_judge_or_ask(claim, settings, read, edits_granted) for claim in claims]
    for decision in decisions:
        if isinstance(decision, Deny):
            return decision
    reasons = [decision.reason for decision in decisions if isinstance(decision, Ask)]
    if reasons:
        return Ask("; ".join(dict.fromkeys(reasons)))
    rules = [decision.rule for decision in decisions if isinstance(decision, Allow)]
    return Allow(", ".join(dict.fromkeys(rules)))


def missing_reach(
    claims: Sequence[Claim], settings: Settings, read: SecondReading | None = None
) -> tuple[Beyond, ...]:
    """The settings that would allow what lies beyond the boundary of the run; none where
    something else is in the way, too."""
    found = {each for claim in claims for each in _beyond(claim)}
    missing = [each for each in Beyond if each in found and not getattr(settings, _FIELDS[each])]
    if not missing:
        return ()
    wider = structs.replace(settings, **{_FIELDS[each]: True for each in missing})
    return tuple(missing) if isinstance(decide(claims, wider, read), Allow) else ()


def _judge_or_ask(
    claim: Claim, settings: Settings, read: SecondReading | None, edits_granted: bool
) -> Decision:
    try:
        return _judge(claim, settings, read, edits_granted)
    except Exception as fault:
        return Ask(f"the rules could not judge it ({type(fault).__name__}: {str(fault)[:200]})")


def _judge(
    claim: Claim, settings: Settings, read: SecondReading | None, edits_granted: bool
) -> Decision:
    match claim.access:
        case Access.NONE:
            return Allow("touches nothing outside the task")
        case Access.QUESTION:
            return Ask("the call is a question to you")
        case Access.READ:
            return _judge_read(claim, settings)
        case Access.WRITE:
            return _judge_write(claim, settings, edits_granted)
        case Access.EXECUTE:
            return _judge_execute(claim, settings, read)
        case Access.MCP:
            return _judge_mcp(claim, settings)
        case Access.SWITCH_MODE:
            switches = {"alwaysAllowModeSwitch": settings.always_allow_mode_switch}
            return _by_switches(switches, "switching the mode", settings)
        case Access.DELEGATE:
            switches = {"alwaysAllowSubtasks": settings.always_allow_subtasks}
            return _by_switches(switches, "working with a subtask", settings)
        case Access.BROWSER:
            switches = {"alwaysAllowBrowser": settings.always_allow_browser}
            return _by_switches(switches, f"opening {claim.subject}", settings)
        case Access.CUSTOM_TOOL:
            return _judge_custom_tool(claim, settings)
        case Access.GUIDANCE:
            return _by_switches({}, f"following {claim.subject}", settings)


def _judge_read(claim: Claim, settings: Settings) -> Decision:
    place = claim.place
    if place is None:
        return Ask("the call does not say what it reads")
    if place.ignored:
        return _hidden(place)
    switches = {"alwaysAllowReadOnly": settings.always_allow_read_only}
    switches |= _switches_beyond(claim, settings)
    return _by_switches(switches, f"reading {place.shown}", settings)


def _judge_write(claim: Claim, settings: Settings, edits_granted: bool) -> Decision:
    place = claim.place
    if place is None:
        return Ask("the call does not say what it writes")
    if place.ignored:
        return _hidden(place)
    beyond = _switches_beyond(claim, settings)
    switches = {"alwaysAllowWrite": settings.always_allow_write}
    if not edits_granted or settings.always_allow_write:
        switches |= beyond
    elif beyond:
        switches = beyond | switches  # what lies beyond the leave is what to tell
    else:
        switches = {EDITS_HERE: True}
    return _by_switches(switches, f"writing {place.shown}", settings)


def _switches_beyond(claim: Claim, settings: Settings) -> dict[str, bool]:
    return {each.value: getattr(settings, _FIELDS[each]) for each in _beyond(claim)}


def _beyond(claim: Claim) -> Iterator[Beyond]:
    place = claim.place
    if place is None:
        return
    if claim.access is Access.READ and not (place.inside or place.readable):
        yield Beyond.READ_OUTSIDE
    if claim.access is Access.WRITE and not (place.inside or place.writable):
        yield Beyond.WRITE_OUTSIDE
    if claim.access is Access.WRITE and place.protected:
        yield Beyond.WRITE_PROTECTED


def _judge_execute(claim: Claim, settings: Settings, read: SecondReading | None) -> Decision:
    command = claim.command
    if command is None:
        return Ask("the call does not say what it runs")
    # What it knows of programs takes long to load, and no request waits for it.
    from joey.core.permissions.commands import judge_command

    verdict = judge_command(command, settings.allowed_commands, settings.denied_commands)
    if isinstance(verdict, Deny):
        return verdict
    action = f"running `{command}`"
    switched = _by_switches({"alwaysAllowExecute": settings.always_allow_execute}, action, settings)
    if isinstance(switched, Ask):
        return switched
    if isinstance(verdict, Allow) and verdict.rule != ANYTHING:
        verdict = confirmed(command, verdict, read)
    if isinstance(verdict, Ask):
        return Ask(f"{action}: {verdict.reason}")
    if claim.sandbox == "none":
        return Ask(f"{action}: {UNCONFINED}")
    if claim.place is not None and not claim.place.inside and verdict.rule != ANYTHING:
        return Ask(f"{action}: {claim.place.shown} is outside the workspace")
    return verdict


def _judge_custom_tool(claim: Claim, settings: Settings) -> Decision:
    """Leave to run some commands is no leave to run a program of one's own."""
    action = f"running {claim.subject}"
    switched = _by_switches({"alwaysAllowExecute": settings.always_allow_execute}, action, settings)
    if isinstance(switched, Allow) and ANYTHING not in settings.allowed_commands:
        return Ask(f"{action}: allowedCommands does not hold `{ANYTHING}`")
    return switched


def _judge_mcp(claim: Claim, settings: Settings) -> Decision:
    note = " (which its server describes otherwise than before)" if claim.changed else ""
    action = f"using {claim.subject}{note}"
    switched = _by_switches({"alwaysAllowMcp": settings.always_allow_mcp}, action, settings)
    if isinstance(switched, Ask) or ANYTHING in settings.allowed_mcp_tools:
        return switched
    if claim.changed:
        return Ask(action)
    if not claim.listed and not _is_named(claim.subject, settings.allowed_mcp_tools):
        return Ask(f"{action}: it is not on the alwaysAllow list of its server")
    return switched


def _is_named(subject: str, patterns: Sequence[str]) -> bool:
    """A server `a/b` is not covered by what was said of the server `a`."""
    server, _, tool = subject.partition("/")
    return subject in patterns or ("/" not in tool and f"{server}/*" in patterns)


def _by_switches(switches: dict[str, bool], action: str, settings: Settings) -> Decision:
    """Allow when every switch that the action needs is on; else name the first that is off."""
    needed = {"autoApprovalEnabled": settings.auto_approval_enabled, **switches}
    missing = next((name for name, is_on in needed.items() if not is_on), None)
    if missing is not None:
        return Ask(f"{action}: {missing} is off")
    return Allow(" + ".join(switches) or "autoApprovalEnabled")


def _hidden(place: Place) -> Deny:
    return Deny(".rooignore", place.because or f"{place.shown} is hidden by .rooignore")
