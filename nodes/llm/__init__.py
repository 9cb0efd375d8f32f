"""Nodes for language models."""
