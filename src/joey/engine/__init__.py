"""The engine: tasks, and the loop that runs them."""
