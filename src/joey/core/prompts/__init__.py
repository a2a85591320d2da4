"""Texts that the model reads: the system prompt, environment details, tool results."""
