"""Modes and the other customizations of the agent: rule files, slash commands, skills.

A mode is the role of the agent and the groups of tools that it may use. `BUILT_IN_MODES` lists
joey's own modes; users and projects define further ones in files.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from msgspec import Struct, structs

from joey.core.js_regex_engine import PatternError, compile_path_pattern


class ToolGroup(StrEnum):
    """A family of tools that a mode grants as a whole."""

    READ = "read"
    EDIT = "edit"
    BROWSER = "browser"
    COMMAND = "command"
    MCP = "mcp"
    ALWAYS = "always"
    """Not granted by modes: available in all of them."""


class Grant(Struct, frozen=True, omit_defaults=True):
    group: ToolGroup
    file_regex: str | None = None
    """Edits only: the paths this mode may change, in JavaScript's syntax."""
    description: str | None = None

    def covers(self, path: str) -> bool:
        """Whether a path is covered; an invalid pattern covers nothing."""
        if self.file_regex is None:
            return True
        try:
            return compile_path_pattern(self.file_regex).matches(path)
        except PatternError:
            return False


class Mode(Struct, frozen=True, omit_defaults=True):
    slug: str
    name: str
    role: str
    when_to_use: str = ""
    grants: tuple[Grant, ...] = ()
    custom_instructions: str = ""
    description: str = ""
    """For people who choose a mode."""
    source: CustomizationSource = "built-in"

    @property
    def purpose(self) -> str:
        """Its purpose in one line: its author's, or the beginning of its role."""
        if self.when_to_use.strip():
            return " ".join(self.when_to_use.split())
        sentence, _, rest = " ".join(self.role.split()).partition(". ")
        return f"{sentence}." if rest else sentence

    @property
    def can_edit_or_run(self) -> bool:
        """Whether it grants edits, even of only some files, or commands."""
        return any(grant.group in (ToolGroup.EDIT, ToolGroup.COMMAND) for grant in self.grants)

    def find_grant(self, group: ToolGroup) -> Grant | None:
        if group is ToolGroup.ALWAYS:
            return Grant(ToolGroup.ALWAYS)
        return next((grant for grant in self.grants if grant.group is group), None)


def grants_more_than(mode: Mode, other: Mode) -> bool:
    """Whether the mode grants anything that the other one does not."""
    pairs = ((grant, other.find_grant(grant.group)) for grant in mode.grants)
    return any(
        same is None or same.file_regex not in (None, grant.file_regex) for grant, same in pairs
    )


class ModePromptOverride(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The user's replacement for texts of a built-in mode."""

    role_definition: str | None = None
    when_to_use: str | None = None
    description: str | None = None
    custom_instructions: str | None = None

    def apply_to(self, mode: Mode) -> Mode:
        return structs.replace(
            mode,
            role=self.role_definition or mode.role,
            when_to_use=self.when_to_use or mode.when_to_use,
            description=self.description or mode.description,
            custom_instructions=self.custom_instructions or mode.custom_instructions,
        )


_STANDARD_GRANTS = (
    Grant(ToolGroup.READ),
    Grant(ToolGroup.EDIT),
    Grant(ToolGroup.BROWSER),
    Grant(ToolGroup.COMMAND),
)
_MCP_GRANT = Grant(ToolGroup.MCP)

_ARCHITECT_INSTRUCTIONS = """\
1. Read the code that the work touches: how it is built, tested and used, and what constrains it.
2. Settle open points that would change the plan. Ask the user only what the code can't tell you.
3. Write the plan as a todo list. Each item is one concrete step that another mode could execute \
without you: what to change, where, and how to check it. Put the items in the order in which they \
have to be done. No time estimates.
4. If the plan needs more than a list, save it as a Markdown file: where the user or the project \
keeps plans, otherwise in `plans/`. Write down decisions with their reasons, and what is out of \
scope. Use a Mermaid diagram only where it explains structure or flow better than text, and avoid \
double quotes and parentheses inside its square brackets.
5. Present the plan and, unless you work alone, change it until the user agrees. Then propose the \
mode that should carry it out with switch_mode. Don't implement it yourself."""

_DEBUG_INSTRUCTIONS = """\
1. Reproduce the problem with the smallest command or test that shows it. If you can't, say so and \
work from the evidence there is.
2. List the plausible causes, usually three to five, and pick the one or two most likely.
3. Gather evidence that tells them apart: read the code path, run it with other input, add a \
temporary log line or assertion, look at recent changes. Don't fix anything on suspicion.
4. State the cause and the evidence for it. If the user only asked what is wrong, stop here.
5. Fix the cause where it arises, with the smallest change, and look for the same mistake elsewhere.
6. Verify: the reproduction passes now, and so do the tests around it. Keep it as a test where the \
project has tests, and remove temporary output."""

_ORCHESTRATOR_INSTRUCTIONS = """\
1. Break the work into subtasks with clear boundaries, and delegate each with new_task to the mode \
that suits it. Don't do the work yourself.
2. A subtask knows only your message. Include the goal, the context and decisions it needs, the \
files concerned, what is out of scope, and the instruction to do only this. Tell it to finish with \
attempt_completion, and what the result must contain: what was changed, how it was checked, what \
is open. That result is your record of the work.
3. Start independent subtasks together in one reply, in worktrees if they may touch the same \
files. Otherwise start them one after another, each building on the results before it.
4. Compare each result with the goal, and delegate again what is missing.
5. At the end, combine the results into one report for the user. Ask only if the split itself is \
unclear."""

BUILT_IN_MODES: tuple[Mode, ...] = (
    Mode(
        slug="architect",
        name="🏗️ Architect",
        role=(
            "You are Roo, an experienced technical lead. You gather context, clarify what is"
            " unclear and write a plan that others can carry out."
        ),
        when_to_use="Planning and designing before anything is built.",
        description="Plan and design before building",
        grants=(
            Grant(ToolGroup.READ),
            Grant(ToolGroup.EDIT, file_regex=r"\.md$", description="Markdown files only"),
            Grant(ToolGroup.BROWSER),
            _MCP_GRANT,
        ),
        custom_instructions=_ARCHITECT_INSTRUCTIONS,
    ),
    Mode(
        slug="code",
        name="💻 Code",
        role=(
            "You are Roo, a highly skilled software engineer with deep knowledge of many"
            " languages, frameworks, design patterns and best practices."
        ),
        when_to_use="Writing, changing and refactoring code.",
        description="Write, change and refactor code",
        grants=(*_STANDARD_GRANTS, _MCP_GRANT),
    ),
    Mode(
        slug="ask",
        name="❓ Ask",
        role=(
            "You are Roo, a knowledgeable technical assistant who answers questions about"
            " software and explains code, concepts and trade-offs."
        ),
        when_to_use="Explanations and answers, without changing anything.",
        description="Get answers and explanations",
        grants=(Grant(ToolGroup.READ), Grant(ToolGroup.BROWSER), _MCP_GRANT),
        custom_instructions=(
            "Answer thoroughly and point to the code you mean. Don't change files; suggest another"
            " mode if the user wants something built. Use a Mermaid diagram where it is clearer"
            " than text."
        ),
    ),
    Mode(
        slug="debug",
        name="🪲 Debug",
        role=(
            "You are Roo, an expert debugger who finds the cause of a problem systematically"
            " before touching the code."
        ),
        when_to_use="Tracking down errors and unexpected behaviour.",
        description="Find and fix the cause of a problem",
        grants=(*_STANDARD_GRANTS, _MCP_GRANT),
        custom_instructions=_DEBUG_INSTRUCTIONS,
    ),
    Mode(
        slug="orchestrator",
        name="🪃 Orchestrator",
        role=(
            "You are Roo, a coordinator who splits large work into subtasks and delegates each to"
            " the mode best suited for it."
        ),
        when_to_use="Large work that spans several kinds of expertise.",
        description="Split large work and delegate the parts",
        custom_instructions=_ORCHESTRATOR_INSTRUCTIONS,
    ),
)

DEFAULT_MODE = "code"


def find_mode(slug: str, modes: tuple[Mode, ...] = BUILT_IN_MODES) -> Mode | None:
    return next((mode for mode in modes if mode.slug == slug), None)


def choose_fallback_mode(preferred: str, modes: tuple[Mode, ...]) -> Mode:
    """Choose the mode of a task whose own does not exist: the user's default one, if it exists."""
    return find_mode(preferred, modes) or find_mode(DEFAULT_MODE, modes) or modes[0]


def merge_modes(
    custom: tuple[Mode, ...], prompts: Mapping[str, ModePromptOverride | None] | None = None
) -> tuple[Mode, ...]:
    """Return built-in modes, then custom ones; a custom mode replaces a whole built-in one.
    `prompts` change texts of built-in modes. Of several custom modes with the same slug, the first
    counts."""
    found = {mode.slug: mode for mode in BUILT_IN_MODES}
    for slug, prompt in (prompts or {}).items():
        if prompt is not None and slug in found:
            found[slug] = prompt.apply_to(found[slug])
    own = {mode.slug: mode for mode in reversed(custom)}
    found.update((mode.slug, own[mode.slug]) for mode in custom)
    return tuple(found.values())


CustomizationSource = Literal["project", "global", "built-in"]


class SlashCommand(Struct, frozen=True, omit_defaults=True):
    """`/name` in a message is replaced by this text."""

    name: str
    content: str
    description: str = ""
    argument_hint: str = ""
    mode: str | None = None
    source: CustomizationSource = "project"


class Skill(Struct, frozen=True, omit_defaults=True):
    """Instructions that the model loads when needed."""

    name: str
    description: str
    location: str
    modes: tuple[str, ...] = ()
    """Empty: every mode."""
    source: CustomizationSource = "project"


class RuleFile(Struct, frozen=True):
    label: str
    """How the prompt names it: `.roo/rules/style.md`."""
    text: str
    """Without white space around it, and with a note at its end where it was cut."""


FOREIGN_RULE_FILES = frozenset({"CLAUDE.md", "CLAUDE.local.md", ".cursorrules"})


class Instructions(Struct, frozen=True, omit_defaults=True):
    """Everything that files add to the system prompt of one mode, in order."""

    mode_rules: tuple[RuleFile, ...] = ()
    ignore_rules: str = ""
    agent_rules: tuple[RuleFile, ...] = ()
    rules: tuple[RuleFile, ...] = ()
    system_prompt_override: str | None = None
    """`.roo/system-prompt-<mode>`: takes the place of our own sections, between the role and these
    instructions."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The files that they come from."""
        files = (*self.mode_rules, *self.agent_rules, *self.rules)
        return tuple(dict.fromkeys(file.label for file in files))

    @property
    def foreign_labels(self) -> tuple[str, ...]:
        """The files of other agents, which users may not expect to be read."""
        return tuple(
            label for label in self.labels if label.rpartition("/")[2] in FOREIGN_RULE_FILES
        )
