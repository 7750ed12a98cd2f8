"""The level `keys`: record keys over the partitions of a topic."""
