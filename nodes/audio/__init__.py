"""Nodes for audio."""
