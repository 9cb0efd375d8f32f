"""Nodes for video."""
