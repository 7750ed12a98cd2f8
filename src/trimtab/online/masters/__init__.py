"""Paxos groups whose masters hold leases and hand over to one another: facts in, orders out."""
