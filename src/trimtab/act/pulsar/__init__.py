"""Pulsar's admin API as the port that executions of the balancer `bundles` act through."""
