"""A simulated Pulsar in virtual time, and made-up recordings of its load reports."""
