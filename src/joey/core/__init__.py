"""Pure logic: values in, values out, without I/O."""
