"""The context window: what fits, and what is condensed."""
