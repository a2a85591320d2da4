"""How full the model's window is, and what is told in place of what no longer fits."""
