"""Regular expressions that are compiled when they are first used.

Every run loads some two hundred of them and uses a few dozen; to compile them all takes longer
than anything else that a start does.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, AnyStr, cast


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` makes, for its methods; a mistake in it shows at the first use only."""
    return cast("re.Pattern[AnyStr]", _Regex(pattern, flags))


class _Regex:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._pattern, self._flags = pattern, flags

    @cached_property
    def _compiled(self) -> re.Pattern[Any]:
        return re.compile(self._pattern, self._flags)

    def __reduce__(self) -> tuple[Any, ...]:
        return regex, (self._pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        """Asked once for each method: what is found stays, and is found without us."""
        found = getattr(self._compiled, name)
        setattr(self, name, found)
        return found
