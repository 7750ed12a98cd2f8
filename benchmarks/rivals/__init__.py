"""The same two tasks as programs of other task queues and of ours, for `queues_rivals.py`."""
