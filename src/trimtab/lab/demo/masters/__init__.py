"""The demo of masters: one node is killed, masters pile up, and are spread again under load."""
