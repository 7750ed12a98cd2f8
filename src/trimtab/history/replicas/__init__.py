"""The level `replicas`: recorded loads of partitions, planned anew again and again."""
