"""Running programs: commands, hooks, custom tools."""
