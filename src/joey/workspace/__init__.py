"""The user's files: reading, searching, git."""
