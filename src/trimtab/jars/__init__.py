"""Java, and the jars that it runs: found on this machine, or fetched once by coordinates into the cache."""
