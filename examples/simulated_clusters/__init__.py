"""Simulated Pulsar in virtual time, and simulated recordings of load; `trimtab simulate` runs them."""
