"""One module per command, and their arguments."""
