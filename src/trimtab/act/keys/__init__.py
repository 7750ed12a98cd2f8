"""Acting on the level `keys`: routing tables are published, partitions added."""
