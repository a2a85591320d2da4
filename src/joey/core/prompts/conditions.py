"""The conditions a model works under, as the system prompt states them.

They hold for a whole run, so that the prompt stays the same and can be cached.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from joey.core.permissions.hosts import REGISTRIES, list_entries
from joey.core.permissions.policy import SandboxStatus
from joey.core.settings import Settings

_MAX_COMMANDS = 12
_SEPARATE_PROCESSES = (
    " Each sees only its own processes: `kill` and `ps` do not reach those of an earlier command;"
    " read_command_output stops them."
)


class WorkingConditions(Struct, frozen=True):
    settings: Settings
    """As they were when the run began."""
    sandbox: SandboxStatus = "off"
    """How commands are confined."""
    is_unattended: bool = False
    """Nobody can approve or answer."""

    @property
    def fingerprint(self) -> str:
        """A value that is equal for conditions with the same text in the prompt."""
        return f"{self.is_unattended} {render_sandbox(self)} {render_approvals(self)}"


def render_sandbox(conditions: WorkingConditions) -> str:
    if conditions.sandbox in ("none", "off"):
        return ""
    match conditions.settings.sandbox_network:
        case "all":
            network = "they can use the network"
        case "off" if conditions.sandbox == "full":
            network = "their only network is 127.0.0.1, shared by all commands of this task"
        case "off":
            network = "they can open no sockets, not even on 127.0.0.1"
        case setting:
            hosts = [
                "the package registries and git remotes that this machine is configured with"
                if entry == REGISTRIES
                else entry
                for entry in list_entries(setting)
            ]
            network = f"of the network they reach only {', '.join(hosts)}, by HTTP proxy"
    return (
        "Commands run in a sandbox: they can write only to the workspace (but not to files marked"
        f" 🛡️, .git/hooks or .git/config) and $TMPDIR, and {network}. Outside the workspace they"
        " see nothing of /tmp but their own files, and nothing of the home directory but installed"
        " tools."
    ) + (_SEPARATE_PROCESSES if conditions.sandbox == "full" else "")


def render_approvals(conditions: WorkingConditions) -> str:
    """Render what runs without approval, and what happens to other calls."""
    settings = conditions.settings
    rest = "is refused" if conditions.is_unattended else "waits for the user's approval"
    allowed = list(_iter_unasked(settings)) if settings.auto_approval_enabled else []
    if "*" in settings.allowed_commands and settings.always_allow_execute:
        text = "File edits and commands run without asking."
    elif allowed:
        text = f"Without asking: {'; '.join(allowed)}. Everything else {rest}."
    else:
        return f"Every call {rest}."
    if settings.always_allow_write and not settings.always_allow_write_protected:
        text += (
            f" Changing files that listings mark with 🛡️ {rest}; so is creating such files:"
            " AGENTS.md, .github, .vscode, .gitattributes, .npmrc and other settings of agents, CI,"
            " editors, git and package managers."
        )
    return text


def _iter_unasked(settings: Settings) -> Iterator[str]:
    if settings.always_allow_read_only:
        yield "reading in the workspace and commands that only read"
    if settings.always_allow_write:
        yield "editing in the workspace"
    if settings.always_allow_execute and settings.allowed_commands:
        shown = settings.allowed_commands[:_MAX_COMMANDS]
        more = ", …" if len(settings.allowed_commands) > _MAX_COMMANDS else ""
        yield f"commands that start with {', '.join(f'`{each}`' for each in shown)}{more}"
