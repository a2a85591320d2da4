"""Runs without a screen: `joey -p`, and streams on stdin and stdout."""
