"""Collectors of a store of Paxos groups: what its nodes report, tick after tick."""
