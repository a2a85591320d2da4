"""The sandbox of commands."""
