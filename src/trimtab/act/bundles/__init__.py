"""Executions of balancer `bundles` as values and pure functions: facts of Pulsar in, orders for it out."""
