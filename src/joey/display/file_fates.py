"""What becomes of files when a task goes back, in a word or two."""

from __future__ import annotations

FATES = {"removed": "deleted", "changed": "changed back", "added": "brought back"}
"""By how a file differs afterwards."""
