"""Producers, consumers and partitioners for clients of Kafka, which carry out what `core` decides."""
