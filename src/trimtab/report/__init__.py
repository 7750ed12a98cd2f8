"""Texts, tables and charts for people."""
