"""How nodes of groups and masters write to disk and to one another."""
