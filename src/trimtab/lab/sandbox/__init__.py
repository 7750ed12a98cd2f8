"""Real local clusters for trying and testing, with a load that knows its own truth."""
