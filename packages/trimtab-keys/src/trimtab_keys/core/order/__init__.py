"""The order guard: a key's records take effect in their producer's order wherever they were put."""
