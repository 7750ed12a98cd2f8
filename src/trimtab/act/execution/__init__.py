"""The kit of executions of all levels: facts in, one order at a time out; no I/O, clock or chance."""
