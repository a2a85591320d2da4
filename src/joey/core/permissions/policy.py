"""The permission policy: claims of tool calls, decisions about them, rules of "always" answers.

Every claim of a call is judged by the settings, and the strictest decision counts. A claim that no
rule covers needs approval. Paths hidden by `.rooignore` and commands named by a deny rule are
refused whatever else is allowed. A rule that fails with an error allows nothing: the error is a
reason to ask.

A command line that the rules would allow is also parsed by an independent parser with a full shell
grammar. If the two differ in a single word, or the second one finds anything but plain words,
fails, or is not available, the user decides: a bug in one parser is not enough to allow a command.

The rule that an "always" answer adds is made from the claims of the call, never from any message;
it is the narrowest possible, and is offered only if it allows that call and nothing else. For a
pipeline whose other commands are allowed already, it is the rule for the one that is not. For files
it is the permission to edit those of the workspace, and it ends with the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Literal

from msgspec import Struct, structs

from joey.core.path_access import ResolvedPath
from joey.core.permissions.reasons import Access, Reason, ReasonKind, build_ignored_path_reason
from joey.core.permissions.shell import CommandChain, parse_plain_chain
from joey.core.settings import Settings

SandboxStatus = Literal["full", "landlock", "seatbelt", "none", "off"]
"""How far the operating system holds a command: a level of the sandbox, `none` where no sandbox
works, `off` where the user has switched it off."""
CONFINING_LEVELS: frozenset[SandboxStatus] = frozenset(("full", "landlock", "seatbelt"))
FILTERING_LEVELS: frozenset[SandboxStatus] = frozenset(("full",))
"""Those that can let a command reach some hosts and not others."""


class Claim(Struct, frozen=True):
    """One effect of a call, stated before it runs."""

    access: Access
    path: ResolvedPath | None = None
    command: str | None = None
    subject: str = ""
    """What it is about, in words for a user: `weather/forecast`, an address."""
    is_always_allowed: bool = False
    """The user has listed exactly this as always allowed (an MCP server's `alwaysAllow`)."""
    has_changed_description: bool = False
    """It is described otherwise than when it was last used, so that earlier leave says little."""
    sandbox: SandboxStatus | None = None
    """Of a command: what would hold it."""
    inside_paths: frozenset[str] | None = None
    """Of a command: words with `..` and absolute paths that were found to stay inside; None unless
    the claims with this one say where else its words and the links below them lead."""
    has_hidden_files: bool = False
    """Of a command: `.rooignore` may hide files in its workspace."""


GrammarParser = Callable[[str], CommandChain | None]
"""The commands of a line that is plain by the full grammar; None for any other."""


ALLOW_ALL_RULE = "*"
READING_RULE = "alwaysAllowReadOnly"
"""The setting by which sandboxed commands that only read run unasked."""


class BoundarySetting(StrEnum):
    """The settings that allow access beyond the boundary of a run everywhere."""

    READ_OUTSIDE = "alwaysAllowReadOnlyOutsideWorkspace"
    WRITE_OUTSIDE = "alwaysAllowWriteOutsideWorkspace"
    WRITE_PROTECTED = "alwaysAllowWriteProtected"


class Allow(Struct, frozen=True):
    rule: str
    """The setting or command rule that allows it, as the user wrote it."""


class Ask(Struct, frozen=True):
    reasons: tuple[Reason, ...]

    @staticmethod
    def because(
        kind: ReasonKind, *, setting: str = "", rule: str = "", excerpt: str = "", detail: str = ""
    ) -> Ask:
        return Ask((Reason(kind, setting=setting, rule=rule, excerpt=excerpt, detail=detail),))


class Deny(Struct, frozen=True):
    reason: Reason


Decision = Allow | Ask | Deny

__all__ = ["Access", "Allow", "Ask", "Decision", "Deny", "decide"]

WORKSPACE_EDITS_TEXT = "edits in this workspace, for this task"
"""What a user may grant a task: changes of files that are neither outside nor protected."""
_FIELD_NAMES_BY_BOUNDARY_SETTING = {
    BoundarySetting.READ_OUTSIDE: "always_allow_read_only_outside_workspace",
    BoundarySetting.WRITE_OUTSIDE: "always_allow_write_outside_workspace",
    BoundarySetting.WRITE_PROTECTED: "always_allow_write_protected",
}


def decide(
    claims: Sequence[Claim],
    settings: Settings,
    grammar: GrammarParser | None = None,
    *,
    edits_granted: bool = False,
) -> Decision:
    """Decide about claims; `grammar` is the second parser of command lines; without one, no rule
    allows a command."""
    if not claims:
        return Ask.because(ReasonKind.UNSTATED, detail="what it is going to do")
    decisions = [_judge_or_ask(claim, settings, grammar, edits_granted) for claim in claims]
    for decision in decisions:
        if isinstance(decision, Deny):
            return decision
    reasons = [
        reason for decision in decisions if isinstance(decision, Ask) for reason in decision.reasons
    ]
    if reasons:
        return Ask(tuple(dict.fromkeys(reasons)))
    rules = [decision.rule for decision in decisions if isinstance(decision, Allow)]
    return Allow(", ".join(dict.fromkeys(rules)))


def list_protected_subjects(reasons: Iterable[Reason]) -> tuple[str, ...]:
    """List the protected files because of which a call needs approval."""
    setting = BoundarySetting.WRITE_PROTECTED
    return tuple(dict.fromkeys(each.subject for each in reasons if each.setting == setting))


def find_missing_boundary_settings(
    claims: Sequence[Claim], settings: Settings, grammar: GrammarParser | None = None
) -> tuple[BoundarySetting, ...]:
    """Find the settings that would allow access beyond the boundary of the run; empty if something
    else forbids it too."""
    found = {each for claim in claims for each in _iter_boundary_settings(claim)}
    missing = [
        each
        for each in BoundarySetting
        if each in found and not getattr(settings, _FIELD_NAMES_BY_BOUNDARY_SETTING[each])
    ]
    if not missing:
        return ()
    wider = structs.replace(
        settings, **{_FIELD_NAMES_BY_BOUNDARY_SETTING[each]: True for each in missing}
    )
    return tuple(missing) if isinstance(decide(claims, wider, grammar), Allow) else ()


def _judge_or_ask(
    claim: Claim, settings: Settings, grammar: GrammarParser | None, edits_granted: bool
) -> Decision:
    try:
        decision = _judge_claim(claim, settings, grammar, edits_granted)
    except Exception as fault:
        detail = f"{type(fault).__name__}: {str(fault)[:200]}"
        decision = Ask.because(ReasonKind.RULES_FAILED, detail=detail)
    match decision:
        case Ask(reasons):
            return Ask(tuple(_add_action(reason, claim) for reason in reasons))
        case Deny(reason):
            return Deny(_add_action(reason, claim))
    return decision


def _add_action(reason: Reason, claim: Claim) -> Reason:
    subject = claim.subject
    if claim.access is Access.EXECUTE:
        subject = claim.command or ""
    elif claim.path is not None:
        subject = claim.path.display_path
    return structs.replace(
        reason,
        access=claim.access,
        subject=subject,
        has_changed_description=claim.has_changed_description,
    )


def _judge_claim(
    claim: Claim, settings: Settings, grammar: GrammarParser | None, edits_granted: bool
) -> Decision:
    match claim.access:
        case Access.NONE:
            return Allow("touches nothing outside the task")
        case Access.QUESTION:
            return Ask.because(ReasonKind.QUESTION)
        case Access.READ | Access.WRITE:
            return _judge_file(claim, settings, edits_granted)
        case Access.EXECUTE:
            return _judge_execute(claim, settings, grammar)
        case Access.MCP:
            return _judge_mcp(claim, settings)
        case Access.CUSTOM_TOOL:
            return _judge_custom_tool(settings)
        case Access.SWITCH_MODE:
            switches = {"alwaysAllowModeSwitch": settings.always_allow_mode_switch}
        case Access.DELEGATE:
            switches = {"alwaysAllowSubtasks": settings.always_allow_subtasks}
        case Access.BROWSER:
            switches = {"alwaysAllowBrowser": settings.always_allow_browser}
        case Access.FETCH_INSTRUCTIONS:
            switches = {"alwaysAllowReadOnly": settings.always_allow_read_only}
        case Access.SKILL:
            switches = {}
    return _decide_by_switches(switches, settings)


def _judge_file(claim: Claim, settings: Settings, edits_granted: bool) -> Decision:
    path, is_read = claim.path, claim.access is Access.READ
    if path is None:
        verb = "reads" if is_read else "writes"
        return Ask.because(ReasonKind.UNSTATED, detail=f"what it {verb}")
    if path.is_ignored:
        return Deny(build_ignored_path_reason(path.display_path, path.ignore_error))
    beyond = {
        each.value: getattr(settings, _FIELD_NAMES_BY_BOUNDARY_SETTING[each])
        for each in _iter_boundary_settings(claim)
    }
    if is_read:
        switches = {"alwaysAllowReadOnly": settings.always_allow_read_only, **beyond}
    elif not edits_granted or settings.always_allow_write:
        switches = {"alwaysAllowWrite": settings.always_allow_write, **beyond}
    elif beyond:  # report the part that is not granted
        switches = {**beyond, "alwaysAllowWrite": False}
    else:
        switches = {WORKSPACE_EDITS_TEXT: True}
    return _decide_by_switches(switches, settings)


def _iter_boundary_settings(claim: Claim) -> Iterator[BoundarySetting]:
    if (path := claim.path) is None:
        return
    if claim.access is Access.READ and not (path.is_inside or path.can_read_without_approval):
        yield BoundarySetting.READ_OUTSIDE
    if claim.access is Access.WRITE and not (path.is_inside or path.can_write_without_approval):
        yield BoundarySetting.WRITE_OUTSIDE
    if claim.access is Access.WRITE and path.is_protected:
        yield BoundarySetting.WRITE_PROTECTED


def _judge_execute(claim: Claim, settings: Settings, grammar: GrammarParser | None) -> Decision:
    command = claim.command
    if command is None:
        return Ask.because(ReasonKind.UNSTATED, detail="what it runs")
    # Its tables of programs are slow to load, and no request waits for them.
    from joey.core.permissions.commands import judge_command

    verdict = judge_command(
        command, settings.allowed_commands, settings.denied_commands, claim.inside_paths
    )
    if isinstance(verdict, Deny):
        return verdict
    switched = _decide_by_switches({"alwaysAllowExecute": settings.always_allow_execute}, settings)
    if isinstance(switched, Ask):
        verdict = switched
    if isinstance(verdict, Ask):
        verdict = _judge_reading(claim, settings) or verdict
    if isinstance(verdict, Allow) and verdict.rule != ALLOW_ALL_RULE:
        verdict = confirm_with_grammar(command, verdict, grammar)
    if isinstance(verdict, Ask):
        return verdict
    if claim.sandbox == "none":
        return Ask.because(ReasonKind.NO_SANDBOX)
    if claim.path is not None and not claim.path.is_inside and verdict.rule != ALLOW_ALL_RULE:
        return Ask.because(ReasonKind.OUTSIDE_WORKSPACE, excerpt=claim.path.display_path)
    return verdict


def _judge_reading(claim: Claim, settings: Settings) -> Allow | None:
    """Allow a line that only reads, with or without commands that the user's rules name."""
    if is_read_unasked(claim, settings):
        return Allow(READING_RULE)
    is_enabled = is_reading_enabled(claim, settings) and settings.always_allow_execute
    if claim.command is None or not is_enabled:
        return None
    from joey.core.permissions.reading_commands import find_rules_with_readers

    rules = find_rules_with_readers(
        claim.command,
        settings.allowed_commands,
        settings.denied_commands,
        claim.inside_paths,
        has_hidden_files=claim.has_hidden_files,
    )
    return None if rules is None else Allow(", ".join((*rules, READING_RULE)))


def is_read_unasked(claim: Claim, settings: Settings) -> bool:
    """Whether a command line only reads, in a sandbox, where reading needs no approval."""
    if claim.command is None or not is_reading_enabled(claim, settings):
        return False
    # Loaded when there is a command to judge, as in `_judge_execute`.
    from joey.core.permissions.reading_commands import is_reading_line

    return is_reading_line(
        claim.command,
        settings.denied_commands,
        claim.inside_paths,
        has_hidden_files=claim.has_hidden_files,
    )


def is_reading_enabled(claim: Claim, settings: Settings) -> bool:
    is_confined = claim.sandbox in CONFINING_LEVELS
    return is_confined and settings.auto_approval_enabled and settings.always_allow_read_only


def _judge_custom_tool(settings: Settings) -> Decision:
    """Judge a custom tool: permission to run some commands does not cover a custom program."""
    switched = _decide_by_switches({"alwaysAllowExecute": settings.always_allow_execute}, settings)
    if isinstance(switched, Allow) and ALLOW_ALL_RULE not in settings.allowed_commands:
        return Ask.because(ReasonKind.CUSTOM_TOOL, setting="allowedCommands")
    return switched


def _judge_mcp(claim: Claim, settings: Settings) -> Decision:
    switched = _decide_by_switches({"alwaysAllowMcp": settings.always_allow_mcp}, settings)
    if isinstance(switched, Ask) or ALLOW_ALL_RULE in settings.allowed_mcp_tools:
        return switched
    if claim.has_changed_description:
        return Ask.because(ReasonKind.CHANGED_DESCRIPTION)
    server, _, tool = claim.subject.partition("/")
    # A server `a/b` is not covered by rules about the server `a`.
    listed = {claim.subject, claim.subject if "/" in tool else f"{server}/*"}
    if claim.is_always_allowed or listed.intersection(settings.allowed_mcp_tools):
        return switched
    return Ask.because(ReasonKind.UNLISTED_MCP_TOOL)


def _decide_by_switches(switches: dict[str, bool], settings: Settings) -> Allow | Ask:
    """Allow if every switch that the call needs is on; otherwise name the first that is off."""
    needed = {"autoApprovalEnabled": settings.auto_approval_enabled, **switches}
    missing = next((name for name, is_on in needed.items() if not is_on), None)
    if missing is not None:
        return Ask.because(ReasonKind.SETTING_OFF, setting=missing)
    return Allow(" + ".join(switches) or "autoApprovalEnabled")


class PersistentRule(Struct, frozen=True):
    setting: Literal["allowedCommands", "allowedMcpTools"]
    text: str


_FIELD_NAMES_BY_RULE_SETTING = {
    "allowedCommands": ("always_allow_execute", "allowed_commands"),
    "allowedMcpTools": ("always_allow_mcp", "allowed_mcp_tools"),
}


class TaskRule(Struct, frozen=True):
    """A rule for a task and its subtasks, which is not stored."""

    text: str


WORKSPACE_EDITS_RULE = TaskRule(WORKSPACE_EDITS_TEXT)


def propose_task_rule(claims: Sequence[Claim], settings: Settings) -> TaskRule | None:
    """Propose the task rule to offer for these claims; None unless they are edits, and it covers
    all of them."""
    kinds = {claim.access for claim in claims}
    if Access.WRITE not in kinds or not kinds <= {Access.READ, Access.WRITE}:
        return None
    covers_all = isinstance(decide(claims, settings, edits_granted=True), Allow)
    return WORKSPACE_EDITS_RULE if covers_all else None


def propose_persistent_rule(
    claims: Sequence[Claim], settings: Settings, grammar: GrammarParser | None
) -> PersistentRule | None:
    """Propose the persistent rule to offer for these claims, if any."""
    rule = _build_persistent_rule(claims, settings)
    if rule is None or not settings.auto_approval_enabled:
        return None
    spared = isinstance(decide(claims, apply_rules(settings, (rule,)), grammar), Allow)
    return rule if spared else None


def would_enable_only_this_rule(rule: PersistentRule, settings: Settings) -> bool:
    """Whether switching a list on enables only this rule, and none that was switched off."""
    switch, rules = _FIELD_NAMES_BY_RULE_SETTING[rule.setting]
    is_awake = getattr(settings, switch) or not getattr(settings, rules)
    return settings.auto_approval_enabled and bool(is_awake)


def add_rule(settings: Settings, rule: PersistentRule) -> Settings:
    switch, rules = _FIELD_NAMES_BY_RULE_SETTING[rule.setting]
    texts = dict.fromkeys((*getattr(settings, rules), rule.text))
    return structs.replace(settings, **{switch: True, rules: tuple(texts)})


def apply_rules(settings: Settings, rules: Iterable[PersistentRule]) -> Settings:
    """Apply rules to the settings without activating rules that are switched off: if the switch of
    their list is off, only the new rules apply."""
    added: dict[str, list[str]] = {}
    for rule in rules:
        added.setdefault(rule.setting, []).append(rule.text)
    changes: dict[str, object] = {}
    for setting, texts in added.items():
        switch, field = _FIELD_NAMES_BY_RULE_SETTING[setting]
        known = getattr(settings, field) if getattr(settings, switch) else ()
        changes |= {switch: True, field: tuple(dict.fromkeys((*known, *texts)))}
    return structs.replace(settings, **changes) if changes else settings


def allow_everything(settings: Settings) -> Settings:
    """Return the settings of `-y`; access beyond the workspace and to protected files depends on
    other settings."""
    return structs.replace(
        settings,
        always_allow_read_only=True,
        always_allow_write=True,
        always_allow_execute=True,
        allowed_commands=(ALLOW_ALL_RULE,),
        always_allow_mode_switch=True,
        always_allow_subtasks=True,
        always_allow_mcp=True,
        allowed_mcp_tools=(ALLOW_ALL_RULE,),
        always_allow_browser=True,
    )


def _build_persistent_rule(claims: Sequence[Claim], settings: Settings) -> PersistentRule | None:
    match claims:
        case [
            Claim(
                access=Access.MCP,
                is_always_allowed=False,
                has_changed_description=False,
                subject=subject,
            )
        ]:
            # A server may give its tools any name, even one that would match others.
            return None if ALLOW_ALL_RULE in subject else PersistentRule("allowedMcpTools", subject)
    commands = {claim.command for claim in claims if claim.access is Access.EXECUTE}
    if len(commands) != 1 or (command := commands.pop()) is None:
        return None
    # Loaded when there is a command to judge, as in `_judge_execute`.
    from joey.core.permissions.commands import build_narrowest_rule, judge_command
    from joey.core.permissions.reading_commands import build_pipeline_rule

    if not isinstance(judge_command(command, (ALLOW_ALL_RULE,), settings.denied_commands), Allow):
        return None  # a longer rule must not get around one that refuses
    allowed = settings.allowed_commands if settings.always_allow_execute else ()
    text = build_narrowest_rule(command) or build_pipeline_rule(command, allowed)
    return None if text is None else PersistentRule("allowedCommands", text)


MAX_COMMANDS_PER_LINE = 256


def confirm_with_grammar(line: str, verdict: Allow, grammar: GrammarParser | None) -> Allow | Ask:
    """Return the verdict if the second parser confirms it."""
    if grammar is None:
        return Ask.because(ReasonKind.NO_GRAMMAR)
    chain = parse_plain_chain(line)
    if chain is None or len(chain) > MAX_COMMANDS_PER_LINE:
        return Ask.because(ReasonKind.COMPLEX_COMMAND)
    if grammar(line) != chain:
        return Ask.because(ReasonKind.AMBIGUOUS_COMMAND)
    return verdict
