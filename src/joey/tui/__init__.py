"""The screen: a conversation in the terminal."""
