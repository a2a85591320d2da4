"""The name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    import difflib  # only who has mistyped something waits for it

    plain = {each.lower().replace("_", ""): each for each in known}
    near = difflib.get_close_matches(name.lower().replace("_", "").replace("-", ""), plain, n=1)
    return plain[near[0]] if near else None
