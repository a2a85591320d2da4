"""What the person may choose for a session: its mode and its model."""

from __future__ import annotations

from collections.abc import Sequence

from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
    UnstructuredCommandInput,
)

from joey.acp.house import Choice
from joey.core.modes import Mode
from joey.presentation.text import one_line

MODE, MODEL = "mode", "model"
COMPACT = "compact"
_COMPACT = Choice(COMPACT, "Sum the conversation up, to make room", "what to mind")

Options = list[SessionConfigOptionSelect | SessionConfigOptionBoolean]


def mode_state(modes: Sequence[Mode], current: str) -> SessionModeState:
    listed = [
        SessionMode(id=mode.slug, name=one_line(mode.name, 80), description=_about(mode))
        for mode in modes
    ]
    return SessionModeState(available_modes=listed, current_mode_id=current)


def config_options(modes: Sequence[Mode], mode: str, models: Sequence[str], model: str) -> Options:
    """The same modes once more, for editors that know options only, and the models."""
    options: Options = [
        SessionConfigOptionSelect(
            type="select",
            id=MODE,
            name="Mode",
            category="mode",
            current_value=mode,
            options=[
                SessionConfigSelectOption(
                    value=one.slug, name=one_line(one.name, 80), description=_about(one)
                )
                for one in modes
            ],
        )
    ]
    if model:
        names = dict.fromkeys((model, *models))
        options.append(
            SessionConfigOptionSelect(
                type="select",
                id=MODEL,
                name="Model",
                category="model",
                current_value=model,
                options=[SessionConfigSelectOption(value=name, name=name) for name in names],
            )
        )
    return options


def commands_update(commands: Sequence[Choice]) -> AvailableCommandsUpdate:
    """Those of files, and our own where no file has one of that name."""
    named = {command.name: command for command in (_COMPACT, *commands)}
    return AvailableCommandsUpdate(
        session_update="available_commands_update",
        available_commands=[_command(command) for command in named.values()],
    )


def compact_wish(text: str) -> str | None:
    """What the summary that is asked for shall mind; None when none is."""
    name, _, wish = text.strip().partition(" ")
    return wish.strip() if name == f"/{COMPACT}" else None


def _command(command: Choice) -> AvailableCommand:
    hint = AvailableCommandInput(UnstructuredCommandInput(hint=one_line(command.hint, 80)))
    return AvailableCommand(
        name=command.name,
        description=one_line(command.about, 200) or command.name,
        input=hint if command.hint else None,
    )


def _about(mode: Mode) -> str:
    return one_line(mode.description or mode.purpose, 200)
