"""Parsers of streamed replies, without I/O."""
