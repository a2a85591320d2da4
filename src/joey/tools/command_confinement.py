"""Telling the model that a sandbox, and not the command, may be why something failed."""

from __future__ import annotations

from msgspec import structs

from joey.core.settings import Settings
from joey.core.text import regex
from joey.ports import Level, SandboxReport
from joey.tools.base import Outcome

_BARRIERS = regex(
    "Read-only file system|Permission denied|Operation not permitted|resource busy|EROFS|EACCES"
    "|EPERM|ENETUNREACH|EAI_AGAIN|ECONNREFUSED|Network is unreachable|name resolution"
    "|resolve host|Connection refused|Failed to connect|No such file or directory"
)

_SHOWN_HOSTS = 20


def explained(outcome: Outcome, report: SandboxReport | None, settings: Settings) -> Outcome:
    """A failure that looks like a barrier of the sandbox, with what the sandbox bars."""
    is_confined = report is not None and report.level is not Level.NONE
    if not is_confined or not outcome.exit_code or not _BARRIERS.search(outcome.text):
        return outcome
    match settings.sandbox_network:
        case "all":
            network = ""
        case "off":
            network = ", and it reaches no network"
        case hosts:
            shown = ", ".join(hosts[:_SHOWN_HOSTS]) + (", …" if len(hosts) > _SHOWN_HOSTS else "")
            network = f", and by HTTP proxy it reaches only {shown or 'nobody'}"
    note = (
        "\n\nThe command ran in a sandbox. There it can write only in the workspace and in $TMPDIR,"
        " though not in protected places such as .git/config, .git/hooks, .vscode or .roo; of the"
        f" home folder it sees only installed tools{network}. If that is why it failed, do not try"
        " to get around it: find another way, or tell the user what is needed."
    )
    return structs.replace(outcome, text=outcome.text + note)
