"""Loads models by name: which networks a file holds, and which files complete them."""
