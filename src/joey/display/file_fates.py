"""What becomes of files when a task goes back, in a word or two."""

from __future__ import annotations

FATES = {"removed": "deleted", "changed": "restored", "added": "created"}
"""By how a file differs afterwards."""
STAYING = {
    "ignored": "ignored by git",
    "outside": "outside of the workspace",
    "large": "too large to be kept, or not readable",
}
"""Why a file is not taken back."""
