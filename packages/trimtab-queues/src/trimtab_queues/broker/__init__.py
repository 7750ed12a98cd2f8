"""A broker for taskiq and its back-ends, which carry out what `core` decides."""
