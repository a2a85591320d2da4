"""The course of a task from the first look to the result."""

from __future__ import annotations

from joey.core.prompts.sections.capabilities import can_edit


def objective(names: frozenset[str]) -> str:
    act = (
        "Make the change in steps that leave the project whole, and check each one."
        if can_edit(names)
        else "Follow the question through the code until you can answer it from evidence."
    )
    steps = [
        "Understand what the user wants and how they will know that it is done.",
        "Find what matters for it in the workspace, and settle on an approach. Break larger work"
        " into steps and take them in a sensible order.",
        act,
        "When something does not work out, go back to what you know, change the approach and try"
        " again. Do not give up early, and do not go round in circles.",
        "When everything asked for is done and checked, call attempt_completion with the result."
        " If the user answers with feedback, go on from there.",
    ]
    return "\n".join(
        ["OBJECTIVE", "", *(f"{number}. {step}" for number, step in enumerate(steps, start=1))]
    )
