"""Sessions with tasks, in this process or on a server."""
