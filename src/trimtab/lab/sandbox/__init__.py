"""Real local clusters for trying and testing, with a load generator that records its actual traffic."""
