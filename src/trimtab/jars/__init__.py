"""Java and its jars: found on this machine, or downloaded once by coordinates into the cache."""
