"""Our messages in the words of each wire."""
