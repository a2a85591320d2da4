"""Wording and formatting shared by all front ends."""
