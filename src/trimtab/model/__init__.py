"""Values that cross rooms: no I/O, no clock, no chance."""
