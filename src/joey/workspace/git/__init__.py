"""Git, run as a program."""
