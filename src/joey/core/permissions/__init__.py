"""Permissions: whether a tool call is allowed, needs approval, or is refused."""
