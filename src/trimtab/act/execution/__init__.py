"""An execution as values and pure functions: facts in, orders out; no I/O, no clock, no chance."""
