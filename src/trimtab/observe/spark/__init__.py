"""Spark: sessions, tables as Spark reads and writes them, shared column expressions."""
