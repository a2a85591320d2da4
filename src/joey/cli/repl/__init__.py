"""The conversation line by line (`--plain`)."""
