"""The kit of executions of all balancers: facts in, one order at a time out; no I/O, clock or chance."""
