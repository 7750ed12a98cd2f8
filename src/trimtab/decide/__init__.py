"""Decisions of a service that balances a cluster: pure code without clock, I/O and random numbers."""
