"""Edits of text files, as models write them."""
