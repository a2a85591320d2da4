"""The gates of one run: its flags, what a program sends it on stdin, and hooks."""

from __future__ import annotations

from enum import StrEnum

from tests.capability_table import Wire

STDIN: dict[str, Wire] = {
    "start": Wire.STARTS,
    "message": Wire.ANSWERS,
    "cancel": Wire.STEERS,
    "ping": Wire.LOOKS,
    "shutdown": Wire.STEERS,
}
"""With `--input-format stream-json`; whoever writes there has started the run."""


class HookEffect(StrEnum):
    """What a hook can do. It is yours, or a project's that you trust by its content."""

    STOPS = "can stop the call, with a reason; never allows one"
    OBSERVES = "hears of it, and can add words for the model"
    REFUSES = "can answer no; nobody but you says yes"
    SENDS_BACK = "can send the result back to the model, with a reason"


HOOKS: dict[str, HookEffect] = {
    "beforeTool": HookEffect.STOPS,
    "afterTool": HookEffect.OBSERVES,
    "onAsk": HookEffect.REFUSES,
    "onCompletion": HookEffect.SENDS_BACK,
}


class FlagEffect(StrEnum):
    """What a flag of a run does to what is allowed in it."""

    ALLOWS = "allows more, for this run; a denied command stays denied"
    UNCONFINES = "takes the sandbox away, for this run"
    CONNECTS = "sets what sandboxed commands reach, for this run; a project may restrict it"
    TIGHTENS = "allows less, for this run"
    CHOOSES = "chooses the model and where its words go, by your profiles or by name"
    BOUNDS = "sets a limit, after which the run ends"
    SPEAKS = "says what the task is, or goes on with one of yours"
    SHOWS = "changes what is shown or kept, and nothing that is allowed"
    IGNORED = "is accepted for programs that give it, and changes nothing"


RUN_FLAGS: dict[str, FlagEffect] = {
    "--yes": FlagEffect.ALLOWS,
    "--allow": FlagEffect.ALLOWS,
    "--allow-writes": FlagEffect.ALLOWS,
    "--add-dir": FlagEffect.ALLOWS,
    "--no-sandbox": FlagEffect.UNCONFINES,
    "--network": FlagEffect.CONNECTS,
    "--deny": FlagEffect.TIGHTENS,
    "--require-approval": FlagEffect.TIGHTENS,
    "--mode": FlagEffect.TIGHTENS,
    **dict.fromkeys(("--provider", "--model", "--base-url", "--profile"), FlagEffect.CHOOSES),
    **dict.fromkeys(("--protocol", "--api-key", "--reasoning-effort"), FlagEffect.CHOOSES),
    **dict.fromkeys(("--max-turns", "--max-tokens", "--max-tool-calls"), FlagEffect.BOUNDS),
    **dict.fromkeys(("--max-budget-usd", "--max-wall-time"), FlagEffect.BOUNDS),
    **dict.fromkeys(("--consecutive-mistake-limit", "--exit-on-error"), FlagEffect.BOUNDS),
    **dict.fromkeys(("--prompt-file", "--image", "--system-prompt-file"), FlagEffect.SPEAKS),
    **dict.fromkeys(("--json-schema", "--workspace", "--continue", "--resume"), FlagEffect.SPEAKS),
    **dict.fromkeys(("--fork", "--input-format", "--stdin-prompt-stream"), FlagEffect.SPEAKS),
    **dict.fromkeys(("--session-id", "--create-with-session-id"), FlagEffect.SPEAKS),
    **dict.fromkeys(
        ("--print", "--output-format", "--plain", "--ephemeral", "--record"), FlagEffect.SHOWS
    ),
    **dict.fromkeys(
        ("--debug", "--version", "--output-dir", "--oneshot", "--signal-only-exit"),
        FlagEffect.SHOWS,
    ),
    **dict.fromkeys(("--terminal-shell", "--extension"), FlagEffect.IGNORED),
}
