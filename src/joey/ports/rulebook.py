"""Where the person's own rules are written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the whole policy comes along with it
    from joey.core.permissions.standing import StandingRule


class Rulebook(Protocol):
    """It reads and writes files: call it in a thread."""

    def takes(self, rule: StandingRule) -> bool:
        """Whether adding the rule would allow what it says and nothing else."""
        ...

    def add(self, rule: StandingRule) -> None:
        """Raises ConfigError: it could not be written, or would allow more than it says."""
        ...
