"""Permissions: whether a tool call runs, is asked about, or is refused."""
