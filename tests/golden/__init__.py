"""Golden files that pin every stored and sent format. See `golden.py`, and `homes.py` for moves."""

RENEWING = "JOEY_GOLDEN_RENEW"
"""The environment variable that makes the tests write the golden files."""
