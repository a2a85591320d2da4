"""Scripts of a model: turns for tests, demos and script files.

    Turn(
        think("Let me look.", signature="sig"),
        say("I'll read it.", chunk=4),
        call("read_file", {"path": "a.py"}),
        usage(input=1200, output=34),
    )

The same turn plays through `ScriptedProvider` (no network) and `ModelServer` (either wire format).
Steps play in order. `pause`, `fail` and `disconnect` take effect where they are: before the first
text they precede the head of the response, after it they interrupt the stream.

`read_script` reads a script from a JSON file:

    {"turns": [
       [{"type": "say", "text": "I'll read it.", "chunk": 4},
        {"type": "call", "name": "read_file", "input": {"path": "a.py"}, "chunk": 20},
        {"type": "usage", "input": 1200, "output": 34}],
       {"steps": [{"type": "say", "text": "Done."}], "coalesce": true, "pace": 2000, "done": true}
     ],
     "each": true}

A turn is a list of steps, or an object when it needs more (see `Turn`). Steps are

    say         text, chunk?                      think     text?, signature?, chunk?
    call        name, input?, id?, chunk?         redacted  data
    usage       input?, output?, cache_writes?, cache_reads?
    stop        reason                            pause     seconds
    fail        status?, message?, code?, retry_after?, headers?, body?
    disconnect  clean?                            raw       text?, data? (base64)

`input` is an object, or text that is sent as it is. With `each`, every
conversation gets the script from its beginning: the turn is chosen by the number of replies that a
request holds.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, structs


class Say(Struct, frozen=True, omit_defaults=True, tag="say"):
    text: str
    chunk: int | None = None
    """Characters in each piece; all at once when left out."""


class Think(Struct, frozen=True, omit_defaults=True, tag="think"):
    text: str = ""
    signature: str | None = None
    chunk: int | None = None


class Redacted(Struct, frozen=True, tag="redacted"):
    """A thinking block that only the service can read."""

    data: str


class Call(Struct, frozen=True, omit_defaults=True, tag="call"):
    name: str
    input: dict[str, Any] | str = {}
    """The arguments; text is sent as it is, also when it is not JSON."""
    id: str | None = None
    chunk: int | None = None

    @property
    def arguments(self) -> str:
        if isinstance(self.input, str):
            return self.input
        return msgspec.json.encode(self.input).decode()


class Tokens(Struct, frozen=True, omit_defaults=True, tag="usage"):
    """Token counts; `input` excludes cached tokens, as with Anthropic."""

    input: int = 0
    output: int = 0
    cache_writes: int = 0
    cache_reads: int = 0


class Stop(Struct, frozen=True, tag="stop"):
    """Why the model stops, instead of the reason derived from its output."""

    reason: str


class Fail(Struct, frozen=True, omit_defaults=True, tag="fail"):
    status: int = 500
    message: str = "The scripted model fails here."
    code: str | None = None
    retry_after: float | None = None
    headers: dict[str, str] = {}
    body: str | None = None
    """Sent instead of the JSON that the wire would use."""


class Disconnect(Struct, frozen=True, omit_defaults=True, tag="disconnect"):
    clean: bool = False
    """End the body as HTTP wants it, and leave only the model's own ending out."""


class Pause(Struct, frozen=True, tag="pause"):
    seconds: float


class Raw(Struct, frozen=True, omit_defaults=True, tag="raw"):
    """Raw bytes for the body of the stream."""

    text: str = ""
    data: bytes = b""
    """Base64 in script files."""

    @property
    def content(self) -> bytes:
        return self.text.encode() + self.data


class Gate(Struct, frozen=True):
    """Waits until the test opens it. Not for script files."""

    event: asyncio.Event


FileStep = Say | Think | Redacted | Call | Tokens | Stop | Fail | Disconnect | Pause | Raw
Step = FileStep | Gate


class Turn:
    """One answer of the model. Calls without an id get one that no other turn uses."""

    _call_ids = itertools.count(1)

    def __init__(
        self, *steps: Step, coalesce: bool = False, pace: float | None = None, done: bool = True
    ) -> None:
        """`coalesce` lets a server write as much as possible at once, `pace` is a number of pieces
        per second; without `done` OpenAI's final mark is left out."""
        self.steps = tuple(
            structs.replace(step, id=f"toolu_{next(self._call_ids):06}")
            if isinstance(step, Call) and step.id is None
            else step
            for step in steps
        )
        self.coalesce = coalesce
        self.pace = pace
        self.done = done
        self.encoded_playback: dict[str, Any] = {}
        """What a server has encoded of it, by wire: a turn may be played thousands of times."""

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(step for step in self.steps if isinstance(step, Call))

    @property
    def tokens(self) -> Tokens:
        stated = [step for step in self.steps if isinstance(step, Tokens)]
        return stated[-1] if stated else Tokens(input=10, output=5)

    @property
    def stop(self) -> str | None:
        stated = [step.reason for step in self.steps if isinstance(step, Stop)]
        return stated[-1] if stated else None


say, think, redacted, usage = Say, Think, Redacted, Tokens
stop, fail, disconnect = Stop, Fail, Disconnect


def call(
    name: str,
    arguments: dict[str, Any] | str | None = None,
    *,
    id: str | None = None,
    chunk: int | None = None,
) -> Call:
    return Call(name, {} if arguments is None else arguments, id, chunk)


def pause(until: float | asyncio.Event) -> Pause | Gate:
    return Gate(until) if isinstance(until, asyncio.Event) else Pause(until)


def raw(content: bytes | str) -> Raw:
    return Raw(text=content) if isinstance(content, str) else Raw(data=content)


def split_text(text: str, size: int | None) -> list[str]:
    """Split the text as it is streamed, without empty pieces."""
    if size is None:
        return [text] if text else []
    return [text[start : start + size] for start in range(0, len(text), size)]


class _FileTurn(Struct, forbid_unknown_fields=True):
    steps: list[FileStep]
    coalesce: bool = False
    pace: float | None = None
    done: bool = True


class _FileScript(Struct, forbid_unknown_fields=True):
    turns: list[list[FileStep] | _FileTurn]
    plays_per_conversation: bool = field(default=False, name="each")


def read_script(path: Path) -> tuple[list[Turn], bool]:
    """Return the turns in a file, and whether each conversation gets all of them. Raises
    msgspec.ValidationError, which names the invalid part."""
    script = msgspec.json.decode(path.read_bytes(), type=_FileScript)
    given = [_FileTurn(turn) if isinstance(turn, list) else turn for turn in script.turns]
    turns = [
        Turn(*turn.steps, coalesce=turn.coalesce, pace=turn.pace, done=turn.done) for turn in given
    ]
    return turns, script.plays_per_conversation
