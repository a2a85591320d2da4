"""`joey trust`: show the programs that a workspace would run, and ask the user to trust them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from joey.app.trust import WorkspaceTrust
from joey.cli.exit_codes import ExitCode
from joey.cli.output import confirm
from joey.cli.task_lookup import resolve_workspace_argument
from joey.errors import ConfigError
from joey.ports.extensions import TrustItem
from joey.presentation.phrases import lower_first
from joey.presentation.text import sanitize

_TRUST_QUESTION = ("Trust this, as it is now?", "review it with --show, and confirm with --yes")


def run_trust(arguments: Namespace) -> ExitCode:
    trust = WorkspaceTrust(resolve_workspace_argument(arguments))
    if arguments.revoke:
        done = trust.revoke()
        print("nothing in this folder is trusted any more" if done else "it was not trusted")
        return ExitCode.DONE
    if not trust.items:
        print("nothing in this folder needs your trust")
        return ExitCode.DONE
    missing = trust.untrusted_items
    print(f"{trust.workspace} would run:")
    print(_format_items(trust.items, missing))
    if arguments.show or not missing:
        print("not all of this is trusted" if missing else "all of this is trusted")
        return ExitCode.DONE
    if not arguments.yes and not confirm(*_TRUST_QUESTION):
        print("not trusted; none of this runs")
        return ExitCode.NEEDS_USER
    trust.grant()
    print("trusted, as it is now")
    return ExitCode.DONE


def offer_trust(workspace: Path) -> None:
    """Ask once, before a conversation begins; after a no, continue without them."""
    trust = _load_trust(workspace)
    missing = () if trust is None else trust.untrusted_items
    if trust is None or all(item.needs_trust_only_unattended for item in missing):
        return
    print("This folder contains something that would run on your machine:", file=sys.stderr)
    print(_format_items(missing, ()), file=sys.stderr)
    if confirm(*_TRUST_QUESTION):
        trust.grant()
    else:
        print("joey continues without it (joey trust asks again)", file=sys.stderr)


def describe_untrusted(workspace: Path) -> str:
    """Describe what is not trusted in one line, for runs without a user; empty if there is
    nothing."""
    try:
        trust = _load_trust(workspace)
        missing = () if trust is None else trust.untrusted_items
    except ConfigError as error:
        return lower_first(str(error))
    # Custom tools, hooks and modes are reported by the task itself.
    known = ("tool:", "hook:", "mode:")
    titles = ", ".join(sanitize(item.title) for item in missing if not item.name.startswith(known))
    said = f"not used, because you have not trusted this folder (joey trust): {titles}"
    return said if titles else ""


def _load_trust(workspace: Path) -> WorkspaceTrust | None:
    """Load the trust state; None if the directory would run nothing, as most."""
    try:
        trust = WorkspaceTrust(workspace)
    except OSError as error:
        raise ConfigError(f"{workspace} cannot be read: {error.strerror}.") from error
    return trust if trust.items else None


def _format_items(items: Iterable[TrustItem], missing: Iterable[TrustItem]) -> str:
    unknown = {item.name for item in missing}
    lines: list[str] = []
    for item in items:
        mark = " (not trusted)" if item.name in unknown else ""
        lines.append(f"  {sanitize(item.title)}{mark}")
        lines += (f"      {sanitize(line)}" for line in item.details)
    return "\n".join(lines)
