"""Commands of the lab, `trimtab sandbox`, `demo` and `simulate`, which the command line knows by name."""
