"""Records by key in programs of our users: partitioners, and producers and consumers that keep order."""
