"""Helpers for files and programs, used by every adapter."""
