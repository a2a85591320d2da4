"""The parts of the system prompt, one function each; an empty text leaves its part out."""
