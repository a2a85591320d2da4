"""The machine, as far as it stays the same during a task."""

from __future__ import annotations

from collections.abc import Mapping

_LABELS = {
    "os": "Operating System",
    "shell": "Default Shell",
    "home": "Home Directory",
    "workspace": "Current Workspace Directory",
}


def system_information(facts: Mapping[str, str]) -> str:
    """Only the facts named here: what varies with time does not belong in a cached prompt."""
    lines = [f"{label}: {facts[key]}" for key, label in _LABELS.items() if key in facts]
    return "\n".join(
        [
            "SYSTEM INFORMATION",
            "",
            *lines,
            "",
            "The workspace is the project that the user has opened; tools work there unless a"
            " path says otherwise. What lies outside of it may need the user's approval.",
        ]
    )
