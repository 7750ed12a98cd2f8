"""The pipeline of the level `keys`: the records of a topic themselves, and what its groups have committed."""
