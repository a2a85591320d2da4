"""Histories of a task, folded from its events."""
