"""Nodes for conditioning."""
