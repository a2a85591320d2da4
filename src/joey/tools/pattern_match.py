"""Whether expressions are found in texts, decided in a process that can be killed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from joey.errors import ToolError
from joey.tools.script_process import ask_script

SECONDS = 5.0
_SCRIPT = Path(__file__).with_name("pattern_matches.py")


async def match_patterns(
    pairs: Iterable[tuple[str, str]], seconds: float = SECONDS
) -> dict[tuple[str, str], bool]:
    """For each expression and text, whether it is found there.

    Raises:
        ToolError: it takes too long.
    """
    asked = list(dict.fromkeys(pairs))
    if not asked:
        return {}
    try:
        printed = await ask_script(_SCRIPT, json.dumps(asked).encode(), seconds)
    except TimeoutError as error:
        raise ToolError(f"Matching a `pattern` took longer than {seconds:g} s.") from error
    if printed is None:
        raise ToolError("Matching a `pattern` failed.")
    return dict(zip(asked, json.loads(printed), strict=True))
