"""The screen, started from the command line."""
