"""Pulsar: client of the admin API, collector, and the port of `bundles`."""
