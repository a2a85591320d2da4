"""The Agent Client Protocol: joey as the agent of an editor."""
