"""Scripts in files: what a scripted model says, as JSON.

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

`input` is an object, or text that is sent as it is. With `each`, every conversation gets the
script from its beginning: the turn is chosen by the number of answers that a request holds.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from joey.testing.script import FileStep, Turn


class _FileTurn(Struct, forbid_unknown_fields=True):
    steps: list[FileStep]
    coalesce: bool = False
    pace: float | None = None
    done: bool = True


class _FileScript(Struct, forbid_unknown_fields=True):
    turns: list[list[FileStep] | _FileTurn]
    each: bool = False


def read_script(path: Path) -> tuple[list[Turn], bool]:
    """The turns in a file, and whether each conversation gets them all.

    Raises:
        msgspec.ValidationError: naming the place that is not as it should be.
    """
    script = msgspec.json.decode(path.read_bytes(), type=_FileScript)
    return [_turn(turn) for turn in script.turns], script.each


def _turn(turn: list[FileStep] | _FileTurn) -> Turn:
    if isinstance(turn, list):
        return Turn(*turn)
    return Turn(*turn.steps, coalesce=turn.coalesce, pace=turn.pace, done=turn.done)
