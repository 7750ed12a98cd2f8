"""Bodies of commands, imported when one is called: the command line itself loads nothing heavy."""
