"""Blocks of the conversation: messages, calls, diffs, drawn as lines."""
