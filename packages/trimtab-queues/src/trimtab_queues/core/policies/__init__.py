"""Dispatch policies, one class each."""
