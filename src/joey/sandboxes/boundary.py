"""The reach of file tools with `-y`: what the sandbox shows to commands, and `$TMPDIR`.

The sandbox's own layout is asked, so that a tool never reads what a command cannot. This holds
where no sandbox works, or where it is switched off for commands, too.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from joey.core.places import Reach
from joey.ports import Boundary
from joey.sandboxes.session import Session

if TYPE_CHECKING:
    from joey.sandboxes.layout import View

_OWN_PREFIX = "joey-"
"""How the names of joey's own temporary directories begin."""


class SandboxBoundary:
    def __init__(self, session: Session, *, reads_all: bool = False) -> None:
        """`reads_all`: the user's settings allow reading everywhere."""
        self.roots = (Path(os.path.realpath(session.workspace)), *session.added)
        self._starts = [(root, f"{str(root).rstrip('/')}/") for root in self.roots]
        self._session = session
        self._reads_all = reads_all
        self._temp = _temporary_directory(session)
        self._views: dict[str, View] | None = None
        self._views_expire = 0.0

    def reach(self, path: Path) -> Reach:
        from joey.sandboxes.layout import SEEN, View  # loaded on need, as in `local`

        # By text, since searches ask this of each file: see `layout.view_at`.
        views, place = self._current_views(), str(path)
        while (view := views.get(place)) is None:
            place = place.rpartition("/")[0] or "/"
        is_seen = view in SEEN
        whole = f"{path}/"
        root = next((root for root, start in self._starts if whole.startswith(start)), None)
        in_temp = self._is_temporary(path)
        return Reach(
            base=root or (self._temp if in_temp else None),
            inside=is_seen and root is not None,
            readable=is_seen or self._reads_all,
            writable=view is View.WRITE or in_temp,
        )

    def _current_views(self) -> dict[str, View]:
        from joey.sandboxes.layout import FRESH_SECONDS, MADE_ANEW, View, find_views

        if self._views is None or time.monotonic() > self._views_expire:
            found = {str(path): view for path, view in find_views(self._session).items()}
            self._views = dict.fromkeys(MADE_ANEW, View.HIDDEN) | found
            self._views_expire = time.monotonic() + FRESH_SECONDS
        return self._views

    def _is_temporary(self, path: Path) -> bool:
        """In `$TMPDIR`, except joey's own files: they decide what is put back after a command."""
        temp = self._temp
        if temp is None or temp not in path.parents:
            return False
        if path.is_relative_to(os.path.realpath(self._session.joey_home)):
            return False
        return not path.parts[len(temp.parts)].startswith(_OWN_PREFIX)


def _temporary_directory(session: Session) -> Path | None:
    """`$TMPDIR` of joey's own environment, unless it is missing or contains the home."""
    named = session.env.get("TMPDIR", "")
    if not named.startswith("/"):
        return None
    temp, home = Path(os.path.realpath(named)), session.home
    is_wide = temp == Path("/") or (home is not None and home.is_relative_to(temp))
    return temp if temp.is_dir() and not is_wide else None


_fits: type[Boundary] = SandboxBoundary
