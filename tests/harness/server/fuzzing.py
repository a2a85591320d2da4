"""Frames that no client would send, from a seed: almost right, wrong, mutilated, and noise."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Sequence
from typing import Any

from joey.core.settings import Profile, Settings
from joey.core.wire.commands import COMMANDS

NAMES = sorted(COMMANDS)
ARGUMENTS = sorted(
    {name for kind in COMMANDS.values() for name in kind.arguments_type.__struct_encode_fields__}
)
SETTINGS = sorted(
    {
        *Settings.__struct_encode_fields__,
        *Profile.__struct_encode_fields__,
        *("apiProvider", "apiModelId", "apiKey", "openAiHeaders", "currentApiConfigName"),
    }
)
TEXTS = (
    "", "x", "code", "default", "yesButtonClicked", "../../etc", "task_", "a\0b", "ä€😀", "\ud800",
    "anthropic", "data:image/png;base64,AAAA", "null", "%00", "$(id)", "{}", "\n", "x" * 300,
)  # fmt: skip
NUMBERS = (0, 1, -1, 7, 1000, 2**31, 2**53, 2**53 + 1, 2**63, 2**64, -(2**70), 1e308, 0.5, -0.0)
NOISE = string.printable + "äöü€\u2028😀"
MAX_DEPTH = 80


class Fuzzer:
    def __init__(self, seed: int, task_ids: Sequence[str] = ()) -> None:
        self._chance = random.Random(seed)
        self._task_ids = task_ids

    def frame(self) -> str | bytes:
        make = self._chance.choices(
            (self._command, self._mutilated, self._any_json, self._noise, self._binary),
            weights=(60, 20, 10, 8, 2),
        )[0]
        return make()

    def _command(self) -> str:
        """A command, most of which is as it should be."""
        pick = self._chance.random
        name = self._chance.choice(NAMES)
        frame: dict[str, Any] = {
            "type": "command",
            "commandName": name,
            "requestId": f"r{self._chance.randrange(10**6)}",
        }
        if pick() < 0.9:
            frame["arguments"] = self._arguments(name)
        if pick() < 0.5:
            frame["taskId"] = self._chance.choice((*self._task_ids, *TEXTS))
        if pick() < 0.2:
            frame[self._chance.choice(sorted(frame))] = self._value(3)
        if pick() < 0.05:
            del frame[self._chance.choice(sorted(frame))]
        return _text(frame)

    def _arguments(self, command: str) -> dict[str, Any]:
        """Mostly those that the command knows, mostly of the right kind."""
        known = COMMANDS[command].arguments_type.__struct_encode_fields__
        names = [name for name in known if self._chance.random() < 0.7]
        if self._chance.random() < 0.2:
            names.append(self._chance.choice(ARGUMENTS))
        return {name: self._argument(name) for name in names}

    def _argument(self, name: str) -> Any:
        if self._chance.random() < 0.3:
            return self._value(2)
        if name in ("configuration", "values", "profile"):
            chosen = self._chance.sample(SETTINGS, self._chance.randrange(4))
            return {setting: self._value(2) for setting in chosen}
        if name in ("since", "until", "limit", "offset", "askTs", "pid"):
            return self._chance.choice(NUMBERS)
        return self._chance.choice((*TEXTS, *self._task_ids))

    def _mutilated(self) -> str:
        """A frame with some characters lost, doubled, swapped or foreign."""
        text = list(self._command())
        for _ in range(self._chance.randrange(1, 5)):
            place = self._chance.randrange(len(text))
            match self._chance.randrange(4):
                case 0:
                    text[place] = ""
                case 1:
                    text[place] *= 2
                case 2:
                    text[place] = self._chance.choice(NOISE)
                case _:
                    text = text[: place + 1]
        return "".join(text)

    def _any_json(self) -> str:
        if self._chance.random() < 0.1:
            depth = self._chance.randrange(MAX_DEPTH)
            return '{"type":"command","arguments":' + "[" * depth + "]" * depth + "}"
        return _text(self._value(5))

    def _noise(self) -> str:
        return "".join(self._chance.choices(NOISE, k=self._chance.randrange(100)))

    def _binary(self) -> bytes:
        return self._chance.randbytes(self._chance.randrange(100))

    def _value(self, depth: int) -> Any:
        kinds = 6 if depth else 4
        match self._chance.randrange(kinds):
            case 0:
                return self._chance.choice((None, True, False))
            case 1:
                return self._chance.choice(NUMBERS)
            case 2 | 3:
                return self._chance.choice((*TEXTS, *self._task_ids))
            case 4:
                return [self._value(depth - 1) for _ in range(self._chance.randrange(4))]
            case _:
                keys = self._chance.choices((*ARGUMENTS, *TEXTS), k=self._chance.randrange(4))
                return {key: self._value(depth - 1) for key in keys}


def _text(value: Any) -> str:
    """As JSON; lone surrogates stay escaped, for they cannot travel otherwise."""
    return json.dumps(value)
