"""The trimtab command, one module for each group of commands."""
