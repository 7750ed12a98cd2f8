"""The key policies, one class each."""
