"""Pulsar's placement strategies, a file each, and the way to a broker by one of them."""
