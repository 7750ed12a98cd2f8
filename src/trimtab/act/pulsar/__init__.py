"""Pulsar's admin API as the port that executions of the level `bundles` act through."""
