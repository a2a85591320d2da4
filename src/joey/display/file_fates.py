"""What becomes of files when a task goes back, in a word or two."""

from __future__ import annotations

FATES = {"removed": "deleted", "changed": "restored", "added": "created"}
"""By how a file differs afterwards."""
