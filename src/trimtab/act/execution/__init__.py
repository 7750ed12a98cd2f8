"""What executions of all levels share: facts in, one order at a time out; no I/O, no clock, no chance."""
