"""The demo of keys: a hot key that is too much for its partition, spread while each key's order is kept."""
