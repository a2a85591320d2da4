"""The tools of the model, each with a module and a description of the same name."""
