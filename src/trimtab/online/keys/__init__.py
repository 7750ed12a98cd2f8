"""Record keys over the partitions of a topic: where the next record goes, how each key's order is kept."""
