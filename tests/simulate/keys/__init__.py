"""Record keys under the order guard in virtual time: partitions, producers, consumers, faults, a checker."""
