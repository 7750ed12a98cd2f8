"""The toy system: boxes with balls in them, in a file."""
