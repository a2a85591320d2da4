"""Who else the agent can be."""

from __future__ import annotations

from collections.abc import Sequence

from joey.core.modes import Mode


def modes_list(modes: Sequence[Mode], names: frozenset[str]) -> str:
    if not modes:
        return ""
    lines = [f'- "{mode.name}" mode ({mode.slug}) - {mode.purpose}' for mode in modes]
    text = "\n".join(["MODES", "", "These modes exist:", *lines])
    if "switch_mode" in names:
        text += (
            "\n\nA mode decides which tools you have and which files you may change. If the work"
            " belongs in another one, propose it with switch_mode."
        )
    return text
