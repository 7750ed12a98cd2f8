"""Clients of a store of Paxos groups, for observing it and acting on it."""
