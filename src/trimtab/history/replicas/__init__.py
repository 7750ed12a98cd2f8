"""The balancer `replicas`: recorded loads of partitions, planned anew again and again."""
