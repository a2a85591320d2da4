"""What the user and the mode add to all of the above."""

from __future__ import annotations


def custom_instructions(everywhere: str, in_mode: str) -> str:
    parts = [
        f"{title}:\n{text.strip()}"
        for title, text in (
            ("Global Instructions", everywhere),
            ("Mode-specific Instructions", in_mode),
        )
        if text.strip()
    ]
    if not parts:
        return ""
    introduction = (
        "These come from the user and the mode. Follow them wherever they do not contradict the"
        " rules of tool use; where they contradict other guidance above, they win."
    )
    return "\n\n".join(["USER'S CUSTOM INSTRUCTIONS", introduction, *parts])
