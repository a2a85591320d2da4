"""Batches: lists of tasks, driven by worker processes over one queue."""
