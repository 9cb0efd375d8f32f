"""Training recipes of the shipped models."""
