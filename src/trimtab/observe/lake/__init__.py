"""The lake: its folders, files, manifest and writer lock, housekeeping, and readers without Spark."""
